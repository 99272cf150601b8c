// db.schema.*: which properties the nodes of each set of labels and the relationships of each type
// have, found by a look at all of them.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "services/graph/functions/functions.h"
#include "services/graph/model/text.h"
#include "services/graph/session/procedures.h"

namespace pulse::cypher {
namespace {

constexpr size_t kBatch = 1024;
// Of what is kept of one property of a set of labels: about.
constexpr int64_t kKeptBytes = 256;

// As Neo4j names the types of stored values.
std::string StoredType(const Value& value) {
  switch (value.type()) {
    case Type::kBool:
      return "Boolean";
    case Type::kInt:
      return "Long";
    case Type::kFloat:
      return "Double";
    case Type::kString:
      return "String";
    case Type::kDate:
      return "Date";
    case Type::kLocalTime:
      return "LocalTime";
    case Type::kTime:
      return "Time";
    case Type::kLocalDateTime:
      return "LocalDateTime";
    case Type::kDateTime:
      return "DateTime";
    case Type::kDuration:
      return "Duration";
    case Type::kBytes:
      return "ByteArray";
    case Type::kPoint:
      return "Point";
    case Type::kList:
      return (value.as_list().empty() ? "Any" : StoredType(value.as_list()[0])) + "Array";
    default:
      return "Any";
  }
}

class Survey {
 public:
  explicit Survey(EvalContext* context) : context_(*context), graph_(*context->graph) {}
  ~Survey() { context_.Charge(-charged_); }

  absl::Status LookAtNodes() {
    std::array<NodeId, kBatch> nodes;
    std::vector<Token> labels;
    for (uint64_t position = 0;;) {
      PULSE_ASSIGN_OR_RETURN(const size_t n, graph_.ScanNodes(kNoToken, &position, nodes));
      if (n == 0) return absl::OkStatus();
      for (size_t i = 0; i < n; ++i) {
        PULSE_RETURN_IF_ERROR(graph_.ReadLabels(nodes[i], &labels));
        std::sort(labels.begin(), labels.end());
        properties_.clear();
        PULSE_RETURN_IF_ERROR(graph_.ReadNodeProperties(nodes[i], &properties_));
        PULSE_RETURN_IF_ERROR(Note(labels));
      }
    }
  }
  absl::Status LookAtEdges() {
    std::array<EdgeRef, kBatch> edges;
    for (uint64_t position = 0;;) {
      PULSE_ASSIGN_OR_RETURN(const size_t n, graph_.ScanEdges({}, &position, edges));
      if (n == 0) return absl::OkStatus();
      for (size_t i = 0; i < n; ++i) {
        properties_.clear();
        PULSE_RETURN_IF_ERROR(graph_.ReadEdgeProperties(edges[i], &properties_));
        PULSE_RETURN_IF_ERROR(Note({edges[i].type}));
      }
    }
  }

  void Rows(bool nodes, ValueList* out) const {
    for (const auto& [tokens, kind] : kinds_) {
      std::string type;
      ValueList labels;
      for (const Token token : tokens) {
        const std::string name = nodes ? graph_.LabelName(token) : graph_.TypeName(token);
        type += Concat(":`", name, "`");
        labels.push_back(Value::String(name));
      }
      const auto row = [&](Value name, Value types, bool mandatory) {
        out->push_back(Value::String(type));
        if (nodes) out->push_back(Value::List(labels));
        out->push_back(std::move(name));
        out->push_back(std::move(types));
        out->push_back(Value::Bool(mandatory));
      };
      for (const auto& [key, seen] : kind.keys) {
        ValueList types;
        for (const std::string& one : seen.types) types.push_back(Value::String(one));
        row(Value::String(graph_.KeyName(key)), Value::List(std::move(types)),
            seen.count == kind.count);
      }
      if (kind.keys.empty()) row(Value(), Value(), false);
    }
  }

 private:
  struct Seen {
    uint64_t count = 0;
    std::set<std::string> types;
  };
  struct Kind {
    uint64_t count = 0;
    std::map<Token, Seen> keys;
  };

  absl::Status Note(const std::vector<Token>& tokens) {
    if (!context_.Tick(1 + properties_.size())) return context_.status();
    const auto [it, fresh] = kinds_.try_emplace(tokens);
    size_t added = fresh ? 1 : 0;
    ++it->second.count;
    for (const auto& [key, value] : properties_) {
      Seen& seen = it->second.keys[key];
      if (seen.count++ == 0) ++added;
      seen.types.insert(StoredType(value));
    }
    const auto bytes = static_cast<int64_t>(added) * kKeptBytes;
    if (bytes > 0 && !context_.Charge(bytes)) return context_.status();
    charged_ += bytes;
    return absl::OkStatus();
  }

  EvalContext& context_;
  const GraphView& graph_;
  Properties properties_;
  std::map<std::vector<Token>, Kind> kinds_;  // by labels, or by type
  int64_t charged_ = 0;
};

}  // namespace

void ServiceProcedures::AddSchemaSurvey() {
  constexpr uint32_t kText = Bit(Type::kString) | kNullType;
  const Procedure::Field name = {"propertyName", kText},
                         types = {"propertyTypes", Bit(Type::kList) | kNullType},
                         mandatory = {"mandatory", kBoolType};
  const auto survey = [](bool nodes) {
    return [nodes](EvalContext& context, const ValueList&, ValueList* out) -> absl::Status {
      Survey of(&context);
      PULSE_RETURN_IF_ERROR(nodes ? of.LookAtNodes() : of.LookAtEdges());
      of.Rows(nodes, out);
      return absl::OkStatus();
    };
  };
  Add("db.schema.nodeTypeProperties", {},
      {{"nodeType", kText}, {"nodeLabels", Bit(Type::kList)}, name, types, mandatory},
      "The properties of the nodes of each set of labels.", survey(true));
  Add("db.schema.relTypeProperties", {}, {{"relType", kText}, name, types, mandatory},
      "The properties of the relationships of each type.", survey(false));
}

}  // namespace pulse::cypher
