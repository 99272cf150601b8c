#include "services/graph/library/column_types.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "services/graph/model/point.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;
using cypher::Type;
using cypher::Value;

constexpr int64_t kMicrosPerSecond = 1'000'000;
// What fits into 64 bits of nanoseconds, years 1678 to 2261.
constexpr int64_t kNanoSeconds = 9'223'372'035;

FrameKind KindOf(Type type) {
  switch (type) {
    case Type::kNull:
      return FrameKind::kNull;
    case Type::kBool:
      return FrameKind::kBool;
    case Type::kInt:
      return FrameKind::kInt;
    case Type::kFloat:
      return FrameKind::kFloat;
    case Type::kString:
    case Type::kTime:  // Arrow has no time with an offset
      return FrameKind::kString;
    case Type::kBytes:
      return FrameKind::kBytes;
    case Type::kDate:
      return FrameKind::kDate;
    case Type::kLocalTime:
      return FrameKind::kLocalTime;
    case Type::kLocalDateTime:
      return FrameKind::kLocalDateTime;
    case Type::kDateTime:
      return FrameKind::kInstant;
    case Type::kDuration:
      return FrameKind::kDuration;
    case Type::kList:
      return FrameKind::kList;
    default:
      return FrameKind::kStruct;
  }
}

std::string_view KindText(FrameKind kind) {
  static constexpr std::string_view kTexts[] = {
      "NULL",       "BOOLEAN",        "INTEGER",  "FLOAT",    "STRING", "BYTES", "DATE",
      "LOCAL TIME", "LOCAL DATETIME", "DATETIME", "DURATION", "LIST",   "MAP",   "several types"};
  return kTexts[static_cast<size_t>(kind)];
}

bool IsNumber(FrameKind kind) { return kind == FrameKind::kInt || kind == FrameKind::kFloat; }

void BeMixed(FrameKind with, FrameType* type) {
  FrameType mixed;
  mixed.kind = FrameKind::kMixed;
  mixed.zone = Concat(KindText(type->kind), " and ", KindText(with));
  *type = std::move(mixed);
}

Value PropertyMap(const cypher::Properties& properties, const EntityRecords& entities) {
  cypher::ValueMap map;
  for (const auto& [key, value] : properties) map.emplace_back(entities.keys.at(key), value);
  return Value::Map(std::move(map));
}

Value PlainNode(cypher::NodeId id, const EntityRecords& entities) {
  cypher::ValueList labels;
  cypher::ValueMap map;
  map.emplace_back("id", Value::Int(static_cast<int64_t>(id)));
  const auto found = entities.nodes.find(id);
  static const NodeRecord kNone;
  const NodeRecord& record = found == entities.nodes.end() ? kNone : found->second;
  for (const cypher::Token label : record.labels) {
    labels.push_back(Value::String(entities.labels.at(label)));
  }
  map.emplace_back("labels", Value::List(std::move(labels)));
  map.emplace_back("properties", PropertyMap(record.properties, entities));
  return Value::Map(std::move(map));
}

Value PlainPoint(const cypher::Point& point) {
  cypher::ValueMap map = {{"srid", Value::Int(cypher::SridOf(point.crs))},
                          {"x", Value::Float(point.x)},
                          {"y", Value::Float(point.y)}};
  if (cypher::DimensionsOf(point.crs) > 2) map.emplace_back("z", Value::Float(point.z));
  return Value::Map(std::move(map));
}

Value PlainEdge(const cypher::EdgeRef& edge, const EntityRecords& entities) {
  cypher::ValueMap map;
  map.emplace_back("end", Value::Int(static_cast<int64_t>(edge.target)));
  map.emplace_back("id", Value::Int(static_cast<int64_t>(edge.id)));
  const auto found = entities.edges.find(edge.id);
  static const EdgeRecord kNone;
  map.emplace_back(
      "properties",
      PropertyMap(found == entities.edges.end() ? kNone.properties : found->second.properties,
                  entities));
  map.emplace_back("start", Value::Int(static_cast<int64_t>(edge.source)));
  map.emplace_back("type", Value::String(entities.types.at(edge.type)));
  return Value::Map(std::move(map));
}

void WidenStruct(const cypher::ValueMap& map, const EntityRecords* entities, FrameType* type) {
  for (const auto& [key, item] : map) {
    const auto at = std::lower_bound(type->names.begin(), type->names.end(), key);
    const auto place = at - type->names.begin();
    if (at == type->names.end() || *at != key) {
      type->names.insert(at, key);
      type->children.emplace(type->children.begin() + place);
    }
    Widen(item, entities, &type->children[static_cast<size_t>(place)]);
  }
}

bool IsExactAsFloat(int64_t value) {
  constexpr int64_t kAll = int64_t{1} << std::numeric_limits<double>::digits;
  if (-kAll <= value && value <= kAll) return true;
  const auto as_float = static_cast<double>(value);
  return as_float < 0x1p63 && static_cast<int64_t>(as_float) == value;
}

int64_t SecondsOf(const Value& value, int32_t* nanos) {
  if (value.type() == Type::kDateTime) {
    *nanos = value.as_datetime().nanos;
    return value.as_datetime().seconds;
  }
  *nanos = value.as_offset_or_nanos();
  return value.as_local_seconds();
}

}  // namespace

Value Plain(const Value& value, const EntityRecords* entities) {
  if (value.is_node()) return PlainNode(value.as_node(), *entities);
  if (value.is_edge()) return PlainEdge(value.as_edge(), *entities);
  if (value.is_point()) return PlainPoint(value.as_point());
  if (!value.is_path()) return value;
  cypher::ValueList nodes, edges;
  for (const cypher::NodeId node : value.as_path().nodes) {
    nodes.push_back(PlainNode(node, *entities));
  }
  for (const cypher::EdgeRef& edge : value.as_path().edges) {
    edges.push_back(PlainEdge(edge, *entities));
  }
  cypher::ValueMap map;
  map.emplace_back("nodes", Value::List(std::move(nodes)));
  map.emplace_back("relationships", Value::List(std::move(edges)));
  return Value::Map(std::move(map));
}

void Widen(const Value& value, const EntityRecords* entities, FrameType* type) {
  const FrameKind kind = KindOf(value.type());
  if (kind == FrameKind::kNull || type->kind == FrameKind::kMixed) return;
  if (kind == FrameKind::kInt && !IsExactAsFloat(value.as_int())) type->exact = true;
  const bool first = type->kind == FrameKind::kNull;
  if (first) {
    type->kind = kind;
    if (kind == FrameKind::kList) type->children.emplace_back();
  } else if (type->kind != kind) {
    if (!IsNumber(type->kind) || !IsNumber(kind)) return BeMixed(kind, type);
    type->kind = FrameKind::kFloat;
  }
  if (type->exact && type->kind == FrameKind::kFloat) return BeMixed(FrameKind::kInt, type);
  if (kind == FrameKind::kLocalDateTime || kind == FrameKind::kInstant) {
    int32_t nanos = 0;
    SecondsOf(value, &nanos);
    type->nanos = type->nanos || nanos % 1000 != 0;
    if (kind == FrameKind::kInstant) {
      const std::string& zone = value.as_datetime().zone;
      if (first) {
        type->zone = zone.empty() ? "UTC" : zone;
      } else if (type->zone != zone) {
        type->zone = "UTC";
      }
    }
  } else if (kind == FrameKind::kList) {
    for (const Value& item : value.as_list()) Widen(item, entities, type->children.data());
  } else if (value.is_map()) {
    WidenStruct(value.as_map(), entities, type);
  } else if (kind == FrameKind::kStruct) {
    WidenStruct(Plain(value, entities).as_map(), entities, type);
  }
}

FrameType TypeOf(const ResultTable& table, size_t column) {
  FrameType type;
  for (size_t row = 0; row < table.rows(); ++row) {
    Widen(table.At(row, column), table.entities(), &type);
  }
  return type;
}

FrameType FlatTypeOf(const ResultTable& table, size_t column) {
  FrameType type, mixed;
  mixed.kind = FrameKind::kMixed;
  for (size_t row = 0; row < table.rows(); ++row) {
    const Value& value = table.At(row, column);
    const FrameKind kind = KindOf(value.type());
    if (kind == FrameKind::kList || kind == FrameKind::kStruct) return mixed;
    Widen(value, nullptr, &type);
    // Nanoseconds of such years do not fit.
    if (kind == FrameKind::kLocalDateTime || kind == FrameKind::kInstant) {
      int32_t nanos = 0;
      const int64_t seconds = SecondsOf(value, &nanos);
      if (seconds > kNanoSeconds || seconds < -kNanoSeconds) return mixed;
    }
  }
  return type;
}

int64_t FixedInt(const FrameType& type, const Value& value) {
  if (value.is_null()) return 0;
  if (type.kind == FrameKind::kInt) return value.as_int();
  if (type.kind == FrameKind::kDate) return value.as_days();
  if (type.kind == FrameKind::kLocalTime) return value.as_nanos_of_day();
  int32_t nanos = 0;
  const int64_t seconds = SecondsOf(value, &nanos);
  return type.nanos ? seconds * cypher::kNanosPerSecond + nanos
                    : seconds * kMicrosPerSecond + nanos / 1000;
}

}  // namespace pulse::graph
