// Values as text.
#include <algorithm>

#include "services/graph/model/graph.h"
#include "services/graph/model/point.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

class Writer {
 public:
  explicit Writer(const GraphView& graph) : graph_(graph) {}

  std::string Text(const Value& v) {
    switch (v.type()) {
      case Type::kNull:
        return "null";
      case Type::kBool:
        return v.as_bool() ? "true" : "false";
      case Type::kInt:
        return std::to_string(v.as_int());
      case Type::kFloat:
        return FloatText(v.as_float());
      case Type::kString:
        return QuotedText(v.as_string());
      case Type::kBytes:
        return BytesText(v.as_bytes());
      case Type::kPoint:
        return PointText(v.as_point());
      case Type::kList: {
        std::string out = "[";
        for (const Value& item : v.as_list()) out += (out.size() > 1 ? ", " : "") + Text(item);
        return out + "]";
      }
      case Type::kMap: {
        std::string out = "{";
        for (const auto& [key, item] : v.as_map()) {
          out += (out.size() > 1 ? ", " : "") + NameText(key) + ": " + Text(item);
        }
        return out + "}";
      }
      case Type::kNode:
        return NodeText(v.as_node());
      case Type::kEdge:
        return EdgeText(v.as_edge());
      case Type::kPath: {
        const Path& path = v.as_path();
        std::string out = "<" + NodeText(path.nodes[0]);
        for (size_t i = 0; i < path.edges.size(); ++i) {
          const bool forward = path.edges[i].source == path.nodes[i];
          out += (forward ? "-" : "<-") + EdgeText(path.edges[i]) + (forward ? "->" : "-") +
                 NodeText(path.nodes[i + 1]);
        }
        return out + ">";
      }
      default:
        return QuotedText(TemporalText(v));
    }
  }

 private:
  std::string PropertiesText(Properties properties) {
    std::vector<std::pair<std::string, std::string>> entries;
    for (const auto& [key, value] : properties)
      entries.emplace_back(graph_.KeyName(key), Text(value));
    std::sort(entries.begin(), entries.end());
    std::string out;
    for (const auto& [key, value] : entries)
      out += (out.empty() ? "{" : ", ") + NameText(key) + ": " + value;
    return out.empty() ? out : out + "}";
  }
  std::string NodeText(NodeId node) {
    std::vector<Token> labels;
    Properties properties;
    // What cannot be read is shown as nothing: this is for people.
    graph_.ReadLabels(node, &labels).IgnoreError();
    graph_.ReadNodeProperties(node, &properties).IgnoreError();
    std::vector<std::string> names;
    for (const Token label : labels) names.push_back(graph_.LabelName(label));
    std::sort(names.begin(), names.end());
    std::string out;
    for (const std::string& name : names) out += ":" + NameText(name);
    const std::string rest = PropertiesText(std::move(properties));
    return "(" + out + (out.empty() || rest.empty() ? "" : " ") + rest + ")";
  }
  std::string EdgeText(const EdgeRef& edge) {
    Properties properties;
    graph_.ReadEdgeProperties(edge, &properties).IgnoreError();
    const std::string rest = PropertiesText(std::move(properties));
    return "[:" + NameText(graph_.TypeName(edge.type)) + (rest.empty() ? "" : " ") + rest + "]";
  }

  const GraphView& graph_;
};

}  // namespace

std::string ValueText(const Value& value, const GraphView& graph) {
  return Writer(graph).Text(value);
}

}  // namespace pulse::cypher
