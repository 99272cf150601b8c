#include "apps/pulse/graph/result_output.h"

#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "apps/pulse/util/terminal_text.h"
#include "apps/pulse/util/text_table.h"
#include "base/json.h"
#include "services/graph/model/point.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"

namespace pulse {
namespace {

using cypher::Concat;
using cypher::EdgeRef;
using cypher::GraphView;
using cypher::NodeId;
using cypher::Type;
using cypher::Value;
using nlohmann::ordered_json;

// Rows of one table, of fewer where they are long; a long result is several.
constexpr size_t kTableRows = 1000;
// What is kept before anything is printed, so that a transaction can be run again.
constexpr size_t kKeptBytes = size_t{1} << 20;

ordered_json ToJson(const Value& value, const GraphView* view);

// Keys come once each; operator[] would look for each among all before it.
ordered_json PropertiesOf(const cypher::Properties& properties, const GraphView& view) {
  ordered_json::object_t map;
  for (const auto& [key, value] : properties) {
    map.emplace_back(view.KeyName(key), ToJson(value, &view));
  }
  return map;
}

// What was deleted meanwhile has nothing but its id.
ordered_json NodeJson(NodeId node, const GraphView& view) {
  std::vector<cypher::Token> labels;
  cypher::Properties properties;
  const auto exists = view.NodeExists(node);
  const bool readable = exists.ok() && *exists && view.ReadLabels(node, &labels).ok() &&
                        view.ReadNodeProperties(node, &properties).ok();
  ordered_json names = ordered_json::array();
  for (const cypher::Token label : labels) names.push_back(view.LabelName(label));
  ordered_json out = {{"id", node}, {"labels", names}};
  if (readable) out["properties"] = PropertiesOf(properties, view);
  return out;
}

ordered_json EdgeJson(const EdgeRef& edge, const GraphView& view) {
  cypher::Properties properties;
  const auto exists = view.EdgeExists(edge);
  const bool readable = exists.ok() && *exists && view.ReadEdgeProperties(edge, &properties).ok();
  ordered_json out = {{"id", edge.id},
                      {"type", view.TypeName(edge.type)},
                      {"start", edge.source},
                      {"end", edge.target}};
  if (readable) out["properties"] = PropertiesOf(properties, view);
  return out;
}

ordered_json PointJson(const cypher::Point& point) {
  ordered_json out = {{"srid", cypher::SridOf(point.crs)}, {"x", point.x}, {"y", point.y}};
  if (cypher::DimensionsOf(point.crs) > 2) out["z"] = point.z;
  return out;
}

// `view` null: of a value that no node or relationship is in.
ordered_json ToJson(const Value& value, const GraphView* view) {
  switch (value.type()) {
    case Type::kNull:
      return nullptr;
    case Type::kBool:
      return value.as_bool();
    case Type::kInt:
      return value.as_int();
    case Type::kFloat:
      if (!std::isfinite(value.as_float())) return cypher::FloatText(value.as_float());
      return value.as_float();
    case Type::kString:
      return value.as_string();
    case Type::kBytes:
      return absl::Base64Escape(value.as_bytes());
    case Type::kPoint:
      return PointJson(value.as_point());
    case Type::kList: {
      ordered_json list = ordered_json::array();
      for (const Value& item : value.as_list()) list.push_back(ToJson(item, view));
      return list;
    }
    case Type::kMap: {
      ordered_json::object_t map;
      for (const auto& [key, item] : value.as_map()) map.emplace_back(key, ToJson(item, view));
      return map;
    }
    case Type::kNode:
      return NodeJson(value.as_node(), *view);
    case Type::kEdge:
      return EdgeJson(value.as_edge(), *view);
    case Type::kPath: {
      ordered_json nodes = ordered_json::array(), edges = ordered_json::array();
      for (const NodeId node : value.as_path().nodes) nodes.push_back(NodeJson(node, *view));
      for (const EdgeRef& edge : value.as_path().edges) edges.push_back(EdgeJson(edge, *view));
      return {{"nodes", nodes}, {"relationships", edges}};
    }
    default:
      return cypher::TemporalText(value);
  }
}

// On one line: the whitespace that would move what follows as Cypher writes it.
std::string CellText(std::string_view text) {
  std::string line;
  for (const char c : text) {
    switch (c) {
      case '\t':
        line += "\\t";
        break;
      case '\n':
        line += "\\n";
        break;
      case '\r':
        line += "\\r";
        break;
      default:
        line += c;
    }
  }
  return CleanText(line);
}

}  // namespace

std::string Dump(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string ChangesText(const cypher::Outcome& outcome) {
  const cypher::Counters& c = outcome.counters;
  const std::pair<uint64_t, const char*> counts[] = {
      {c.nodes_created, "nodes created"},
      {c.nodes_deleted, "nodes deleted"},
      {c.edges_created, "relationships created"},
      {c.edges_deleted, "relationships deleted"},
      {c.properties_set, "properties set"},
      {c.labels_added, "labels added"},
      {c.labels_removed, "labels removed"},
      {outcome.indexes_added, "indexes added"},
      {outcome.indexes_removed, "indexes removed"},
      {outcome.constraints_added, "constraints added"},
      {outcome.constraints_removed, "constraints removed"}};
  std::string text;
  for (const auto& [count, what] : counts) {
    if (count > 0) text += Concat(text.empty() ? "" : ", ", count, " ", what);
  }
  return text;
}

ordered_json ToJson(const Value& value, const GraphView& view) { return ToJson(value, &view); }

std::string JsonText(const Value& value, const GraphView& view) {
  return Dump(ToJson(value, &view));
}

std::string StoredJsonText(const Value& value) { return Dump(ToJson(value, nullptr)); }

bool ResultOutput::OnRows(const GraphView& view, const Value* rows, size_t stride, size_t count,
                          std::span<const cypher::Slot> columns) {
  for (size_t i = 0; i < count; ++i) {
    if (error_ != 0) return writes_;
    const Value* row = rows + i * stride;
    if (json_) {
      ordered_json object = ordered_json::object();
      for (size_t c = 0; c < columns.size(); ++c) {
        object[columns_[c]] = ToJson(row[columns[c]], &view);
      }
      lines_ += Dump(object) + "\n";
      if (lines_.size() < kKeptBytes) continue;
      printed_ = true;
      Print(lines_);
      lines_.clear();
      continue;
    }
    if (numbers_.empty()) numbers_.assign(columns.size(), true);
    std::vector<std::string> cells;
    for (size_t c = 0; c < columns.size(); ++c) {
      const Value& value = row[columns[c]];
      numbers_[c] = numbers_[c] && (value.is_number() || value.is_null());
      // Text as it is, and not as Cypher writes it; never what a terminal obeys.
      cells.push_back(CellText(value.is_string() ? value.as_string() : ValueText(value, view)));
      kept_bytes_ += sizeof(std::string) + cells.back().size();
    }
    rows_.push_back(std::move(cells));
    if (rows_.size() >= kTableRows || kept_bytes_ >= kKeptBytes) PrintTable();
  }
  return true;
}

bool ResultOutput::Restart() {
  if (printed_) return false;
  rows_.clear();
  kept_bytes_ = 0;
  lines_.clear();
  return true;
}

void ResultOutput::Print(std::string_view text) {
  if (error_ != 0) return;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), out_) < text.size()) {
    error_ = errno != 0 ? errno : EIO;
  }
}

void ResultOutput::PrintTable() {
  std::vector<std::string> titles;
  for (const std::string& column : columns_) titles.push_back(CellText(column));
  TextTable table(std::move(titles));
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (numbers_.empty() || !numbers_[c]) table.AlignLeft(c);
  }
  for (auto& row : rows_) table.AddRow(std::move(row));
  Print(table.Render(0));
  rows_.clear();
  kept_bytes_ = 0;
  printed_ = true;
}

int ResultOutput::Finish(const cypher::Outcome& outcome) {
  if (json_) {
    Print(lines_);
    lines_.clear();
    if (!outcome.plan.empty()) {
      const ordered_json plan = {{"plan", outcome.plan}};
      Print(Dump(plan) + "\n");
    }
  } else {
    Print(CleanLines(outcome.plan));
    if (!columns_.empty()) {
      if (!rows_.empty() || !printed_) PrintTable();
      Print(Concat(outcome.rows, outcome.rows == 1 ? " row\n" : " rows\n"));
    }
    const std::string changes = ChangesText(outcome);
    if (!changes.empty()) Print(changes + "\n");
    if (!outcome.notice.empty())
      Print(Concat("nothing changed: ", CleanText(outcome.notice), "\n"));
  }
  errno = 0;
  if (std::fflush(out_) != 0 && error_ == 0) error_ = errno != 0 ? errno : EIO;
  return error_;
}

}  // namespace pulse
