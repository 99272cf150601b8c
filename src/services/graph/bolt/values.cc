#include "services/graph/bolt/values.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/errors.h"
#include "services/graph/model/point.h"
#include "services/graph/syntax/error.h"

namespace pulse::bolt {
namespace {

using cypher::EdgeRef;
using cypher::GraphView;
using cypher::NodeId;
using cypher::Type;

// As elementId() has it.
std::string ElementId(uint64_t id) { return std::to_string(id); }

void PackId(uint64_t id, PackWriter* out) { out->Int(static_cast<int64_t>(id)); }

// A row refers to nodes and relationships, as often as it likes, and the client gets each whole.
absl::Status TooLarge() {
  return cypher::LimitError(absl::StatusCode::kResourceExhausted,
                            "a row takes more memory, as it is sent, than a query may have");
}

absl::Status PackProperties(const cypher::Properties& properties, const GraphView& graph,
                            PackWriter* out) {
  out->MapHeader(properties.size());
  for (const auto& [key, value] : properties) {
    out->String(graph.KeyName(key));
    PULSE_RETURN_IF_ERROR(PackValue(value, &graph, out));
  }
  return absl::OkStatus();
}

absl::Status PackNode(NodeId node, const GraphView& graph, PackWriter* out) {
  std::vector<cypher::Token> labels;
  cypher::Properties properties;
  PULSE_ASSIGN_OR_RETURN(const bool exists, graph.NodeExists(node));
  if (exists) {
    PULSE_RETURN_IF_ERROR(graph.ReadLabels(node, &labels));
    PULSE_RETURN_IF_ERROR(graph.ReadNodeProperties(node, &properties));
  }
  if (out->is_over()) return TooLarge();
  out->StructHeader(static_cast<uint8_t>(Tag::kNode), 4);
  PackId(node, out);
  out->ListHeader(labels.size());
  for (const cypher::Token label : labels) out->String(graph.LabelName(label));
  PULSE_RETURN_IF_ERROR(PackProperties(properties, graph, out));
  out->String(ElementId(node));
  return absl::OkStatus();
}

// `bound`: with its ends, as it stands alone; without, as paths have it.
absl::Status PackEdge(const EdgeRef& edge, bool bound, const GraphView& graph, PackWriter* out) {
  cypher::Properties properties;
  PULSE_ASSIGN_OR_RETURN(const bool exists, graph.EdgeExists(edge));
  if (exists) PULSE_RETURN_IF_ERROR(graph.ReadEdgeProperties(edge, &properties));
  if (out->is_over()) return TooLarge();
  out->StructHeader(static_cast<uint8_t>(bound ? Tag::kRelationship : Tag::kUnboundRelationship),
                    bound ? 8 : 4);
  PackId(edge.id, out);
  if (bound) {
    PackId(edge.source, out);
    PackId(edge.target, out);
  }
  out->String(graph.TypeName(edge.type));
  PULSE_RETURN_IF_ERROR(PackProperties(properties, graph, out));
  out->String(ElementId(edge.id));
  if (bound) {
    out->String(ElementId(edge.source));
    out->String(ElementId(edge.target));
  }
  return absl::OkStatus();
}

// Nodes and relationships once each, and the walk over them: for each step the relationship from 1,
// negative against its direction, and the node from 0.
absl::Status PackPath(const cypher::Path& path, const GraphView& graph, PackWriter* out) {
  std::vector<NodeId> nodes;
  std::vector<EdgeRef> edges;
  std::vector<int64_t> walk;
  absl::flat_hash_map<NodeId, int64_t> node_at;
  absl::flat_hash_map<cypher::EdgeId, int64_t> edge_at;
  const auto index_of = [](auto* list, auto* places, const auto& item, uint64_t id) {
    const auto [it, fresh] = places->try_emplace(id, static_cast<int64_t>(list->size()));
    if (fresh) list->push_back(item);
    return it->second;
  };
  index_of(&nodes, &node_at, path.nodes.at(0), path.nodes[0]);
  for (size_t i = 0; i < path.edges.size(); ++i) {
    const EdgeRef& edge = path.edges[i];
    const bool forward = edge.source == path.nodes[i] && edge.target == path.nodes[i + 1];
    const int64_t number = index_of(&edges, &edge_at, edge, edge.id) + 1;
    walk.push_back(forward ? number : -number);
    walk.push_back(index_of(&nodes, &node_at, path.nodes[i + 1], path.nodes[i + 1]));
  }
  out->StructHeader(static_cast<uint8_t>(Tag::kPath), 3);
  out->ListHeader(nodes.size());
  for (const NodeId node : nodes) PULSE_RETURN_IF_ERROR(PackNode(node, graph, out));
  out->ListHeader(edges.size());
  for (const EdgeRef& edge : edges) PULSE_RETURN_IF_ERROR(PackEdge(edge, false, graph, out));
  out->ListHeader(walk.size());
  for (const int64_t step : walk) out->Int(step);
  return absl::OkStatus();
}

void PackTemporal(const Value& value, PackWriter* out) {
  const auto open = [out](Tag tag, size_t fields) {
    out->StructHeader(static_cast<uint8_t>(tag), fields);
  };
  switch (value.type()) {
    case Type::kDate:
      open(Tag::kDate, 1);
      return out->Int(value.as_days());
    case Type::kLocalTime:
      open(Tag::kLocalTime, 1);
      return out->Int(value.as_nanos_of_day());
    case Type::kTime:
      open(Tag::kTime, 2);
      out->Int(value.as_nanos_of_day());
      return out->Int(value.as_offset_or_nanos());
    case Type::kLocalDateTime:
      open(Tag::kLocalDateTime, 2);
      out->Int(value.as_local_seconds());
      return out->Int(value.as_offset_or_nanos());
    case Type::kDateTime: {
      const cypher::DateTime& time = value.as_datetime();
      open(time.zone.empty() ? Tag::kDateTime : Tag::kDateTimeZoneId, 3);
      out->Int(time.seconds);
      out->Int(time.nanos);
      return time.zone.empty() ? out->Int(time.offset) : out->String(time.zone);
    }
    default: {
      const cypher::Duration& duration = value.as_duration();
      open(Tag::kDuration, 4);
      out->Int(duration.months);
      out->Int(duration.days);
      out->Int(duration.seconds);
      return out->Int(duration.nanos);
    }
  }
}

void PackPoint(const cypher::Point& point, PackWriter* out) {
  const bool flat = cypher::DimensionsOf(point.crs) == 2;
  out->StructHeader(static_cast<uint8_t>(flat ? Tag::kPoint2d : Tag::kPoint3d), flat ? 3 : 4);
  out->Int(cypher::SridOf(point.crs));
  out->Float(point.x);
  out->Float(point.y);
  if (!flat) out->Float(point.z);
}

}  // namespace

absl::Status PackValue(const Value& value, const GraphView* graph, PackWriter* out) {
  switch (value.type()) {
    case Type::kNull:
      out->Null();
      break;
    case Type::kBool:
      out->Bool(value.as_bool());
      break;
    case Type::kInt:
      out->Int(value.as_int());
      break;
    case Type::kFloat:
      out->Float(value.as_float());
      break;
    case Type::kString:
      out->String(value.as_string());
      break;
    case Type::kBytes:
      out->ByteArray(value.as_bytes());
      break;
    case Type::kPoint:
      PackPoint(value.as_point(), out);
      break;
    case Type::kList:
      out->ListHeader(value.as_list().size());
      for (const Value& item : value.as_list()) {
        PULSE_RETURN_IF_ERROR(PackValue(item, graph, out));
      }
      break;
    case Type::kMap:
      out->MapHeader(value.as_map().size());
      for (const auto& [key, item] : value.as_map()) {
        out->String(key);
        PULSE_RETURN_IF_ERROR(PackValue(item, graph, out));
      }
      break;
    case Type::kNode:
      return PackNode(value.as_node(), *graph, out);
    case Type::kEdge:
      return PackEdge(value.as_edge(), true, *graph, out);
    case Type::kPath:
      return PackPath(value.as_path(), *graph, out);
    default:
      PackTemporal(value, out);
  }
  return absl::OkStatus();
}

}  // namespace pulse::bolt
