#include "services/graph/library/c_values.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/errors.h"
#include "services/graph/model/point.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;
using cypher::Type;
using cypher::ValueList;
using cypher::ValueMap;

// A few plain rows. From 1 KiB on, glibc joins all small free pieces at each allocation.
constexpr size_t kBlockBytes = 960;
constexpr int64_t kMostOffset = 18 * 3600;

// The numbers of the header are those of the engine.
static_assert(PULSE_GRAPH_NULL == static_cast<int>(Type::kNull));
static_assert(PULSE_GRAPH_STRING == static_cast<int>(Type::kString));
static_assert(PULSE_GRAPH_MAP == static_cast<int>(Type::kMap));
static_assert(PULSE_GRAPH_PATH == static_cast<int>(Type::kPath));
static_assert(PULSE_GRAPH_DATETIME == static_cast<int>(Type::kDateTime));
static_assert(PULSE_GRAPH_DURATION == static_cast<int>(Type::kDuration));
static_assert(PULSE_GRAPH_BYTES == static_cast<int>(Type::kBytes));
static_assert(PULSE_GRAPH_POINT == static_cast<int>(Type::kPoint));

bool Within(int64_t value, int64_t most) { return value >= -most && value <= most; }
bool IsNanos(int64_t value) { return value >= 0 && value < cypher::kNanosPerSecond; }
bool IsOfDay(int64_t nanos) { return nanos >= 0 && nanos < cypher::kNanosPerDay; }

class Importer {
 public:
  explicit Importer(const std::string& what) : what_(what) {}

  absl::StatusOr<Value> Import(const pulse_graph_value& value, int depth) {
    if (depth > cypher::kMaxValueDepth) return Wrong("nests too deeply");
    switch (value.type) {
      case PULSE_GRAPH_NULL:
        return Value();
      case PULSE_GRAPH_BOOLEAN:
        return Value::Bool(value.as.integer != 0);
      case PULSE_GRAPH_INTEGER:
        return Value::Int(value.as.integer);
      case PULSE_GRAPH_FLOAT:
        return Value::Float(value.as.real);
      case PULSE_GRAPH_STRING: {
        PULSE_ASSIGN_OR_RETURN(const std::string_view text, Text(value.as.text, value.size));
        return Value::String(text);
      }
      case PULSE_GRAPH_BYTES:
        if (value.as.bytes == nullptr && value.size > 0) return Wrong("has bytes of NULL");
        return Value::MakeBytes({reinterpret_cast<const char*>(value.as.bytes), value.size});
      case PULSE_GRAPH_POINT:
        return ImportPoint(value.as.point);
      case PULSE_GRAPH_LIST:
        return ImportList(value, depth);
      case PULSE_GRAPH_MAP:
        return ImportMap(value, depth);
      case PULSE_GRAPH_NODE:
      case PULSE_GRAPH_RELATIONSHIP:
      case PULSE_GRAPH_PATH:
        return Wrong("holds a node, relationship or path: give its id");
      default:
        return ImportTemporal(value);
    }
  }

  absl::StatusOr<ValueMap> Entries(const pulse_graph_entry* entries, size_t count, int depth) {
    ValueMap map;
    if (entries == nullptr && count > 0) return Wrong("has no entries, and a count of them");
    for (size_t i = 0; i < count; ++i) {
      PULSE_ASSIGN_OR_RETURN(const std::string_view key, Text(entries[i].key, entries[i].key_size));
      PULSE_ASSIGN_OR_RETURN(Value item, Import(entries[i].value, depth + 1));
      map.emplace_back(key, std::move(item));
    }
    return map;
  }

 private:
  absl::Status Wrong(std::string_view why) const {
    return absl::InvalidArgumentError(Concat(what_, " ", why));
  }

  absl::StatusOr<std::string_view> Text(const char* data, size_t size) const {
    if (data == nullptr && size > 0) return Wrong("has a text of NULL");
    const std::string_view text(data, data == nullptr    ? 0
                                      : size == SIZE_MAX ? std::strlen(data)
                                                         : size);
    if (!cypher::IsUtf8(text)) return Wrong("holds a text that is not UTF-8");
    return text;
  }

  absl::StatusOr<Value> ImportList(const pulse_graph_value& value, int depth) {
    if (value.as.items == nullptr && value.size > 0) return Wrong("has a list of NULL");
    ValueList list;
    list.reserve(value.size);
    for (size_t i = 0; i < value.size; ++i) {
      PULSE_ASSIGN_OR_RETURN(Value item, Import(value.as.items[i], depth + 1));
      list.push_back(std::move(item));
    }
    return Value::List(std::move(list));
  }

  absl::StatusOr<Value> ImportMap(const pulse_graph_value& value, int depth) {
    PULSE_ASSIGN_OR_RETURN(ValueMap map, Entries(value.as.entries, value.size, depth));
    std::vector<std::string_view> keys;
    for (const auto& entry : map) keys.push_back(entry.first);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) return Wrong(Concat("has the key ", *twice, " twice"));
    return Value::Map(std::move(map));
  }

  absl::StatusOr<Value> ImportPoint(const pulse_graph_point* given) const {
    if (given == nullptr) return Wrong("has a point of NULL");
    const double coordinates[] = {given->x, given->y, given->z};
    std::string why;
    const auto crs = cypher::CrsOfSrid(given->srid, &why);
    auto point =
        crs ? cypher::PointOf(*crs, {coordinates, cypher::DimensionsOf(*crs)}, &why) : std::nullopt;
    if (!point) return Wrong(Concat("has a point that is none: ", why));
    return *std::move(point);
  }

  absl::StatusOr<Value> ImportTemporal(const pulse_graph_value& value) const {
    const int64_t number = value.as.integer;
    switch (value.type) {
      case PULSE_GRAPH_DATE:
        if (!cypher::IsDay(number)) return OutOfRange();
        return Value::Date(number);
      case PULSE_GRAPH_LOCAL_TIME:
        if (!IsOfDay(number)) return OutOfRange();
        return Value::LocalTime(number);
      case PULSE_GRAPH_TIME:
        if (!IsOfDay(number) || !Within(value.extra, kMostOffset)) return OutOfRange();
        return Value::Time(number, value.extra);
      case PULSE_GRAPH_LOCAL_DATETIME:
        if (!cypher::IsSecond(number) || !IsNanos(value.extra)) return OutOfRange();
        return Value::LocalDateTime(number, value.extra);
      case PULSE_GRAPH_DATETIME:
        return ImportDateTime(value.as.datetime);
      case PULSE_GRAPH_DURATION: {
        const pulse_graph_duration* duration = value.as.duration;
        if (duration == nullptr) return Wrong("has a duration of NULL");
        if (!IsNanos(duration->nanos) || !Within(duration->months, cypher::kMostOfDuration) ||
            !Within(duration->days, cypher::kMostOfDuration) ||
            !Within(duration->seconds, cypher::kMostOfDuration)) {
          return OutOfRange();
        }
        return Value::MakeDuration(
            {duration->months, duration->days, duration->seconds, duration->nanos});
      }
      default:
        return Wrong(Concat("has a type that is not known, ", value.type));
    }
  }

  absl::StatusOr<Value> ImportDateTime(const pulse_graph_datetime* given) const {
    if (given == nullptr) return Wrong("has a date-time of NULL");
    if (!IsNanos(given->nanos) || !Within(given->offset, kMostOffset) ||
        !cypher::IsSecond(given->seconds, given->zone != nullptr ? 0 : given->offset)) {
      return OutOfRange();
    }
    cypher::DateTime time{given->seconds, given->nanos, given->offset, {}};
    if (given->zone != nullptr) {
      const auto zone = cypher::ParseZone(given->zone);
      if (!zone) return Wrong(Concat("has a time zone that is not known here, ", given->zone));
      time.zone = zone->name;
      time.offset = cypher::OffsetAt(time.seconds, *zone);
    }
    return Value::MakeDateTime(std::move(time));
  }

  absl::Status OutOfRange() const {
    return Wrong("has a date, time or duration that is out of range");
  }

  const std::string& what_;
};

}  // namespace

absl::StatusOr<Value> ValueFromC(const pulse_graph_value& value, const std::string& what) {
  return Importer(what).Import(value, 0);
}

absl::StatusOr<ValueMap> ParametersFromC(const pulse_graph_entry* entries, size_t count) {
  ValueMap map;
  if (entries == nullptr && count > 0) {
    return absl::InvalidArgumentError("parameters is NULL, and parameter_count is not 0");
  }
  for (size_t i = 0; i < count; ++i) {
    std::string what = "a parameter";
    // One at a time, so that a message can name it.
    PULSE_ASSIGN_OR_RETURN(ValueMap one, [&]() -> absl::StatusOr<ValueMap> {
      if (entries[i].key != nullptr) {
        const size_t size =
            entries[i].key_size == SIZE_MAX ? std::strlen(entries[i].key) : entries[i].key_size;
        what =
            Concat("the parameter ", std::string_view(entries[i].key, std::min<size_t>(size, 80)));
      }
      return Importer(what).Entries(entries + i, 1, 0);
    }());
    map.push_back(std::move(one[0]));
  }
  std::sort(map.begin(), map.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 1; i < map.size(); ++i) {
    if (map[i].first != map[i - 1].first) continue;
    return absl::InvalidArgumentError(Concat("the parameter ", map[i].first, " comes twice"));
  }
  return map;
}

absl::StatusOr<cypher::Column> ColumnFromC(const pulse_graph_column& column, uint64_t rows) {
  cypher::Column out;
  const std::string what = Concat("column ", column.name == nullptr ? "(NULL)" : column.name);
  if (column.name == nullptr) return absl::InvalidArgumentError("a column without a name");
  if (column.data == nullptr && rows > 0) {
    return absl::InvalidArgumentError(Concat(what, " has no data"));
  }
  const auto numbers = [&](auto* to, cypher::Column::Kind kind) {
    using Number = typename std::remove_pointer_t<decltype(to)>::value_type;
    const auto* data = static_cast<const Number*>(column.data);
    out.kind = kind;
    if (rows > 0) to->assign(data, data + rows);
    if (column.valid == nullptr) {
      out.valid.assign(rows, 1);
    } else {
      out.valid.assign(column.valid, column.valid + rows);
    }
  };
  switch (column.type) {
    case PULSE_GRAPH_INTEGER:
      numbers(&out.ints, cypher::Column::Kind::kInts);
      return out;
    case PULSE_GRAPH_FLOAT:
      numbers(&out.floats, cypher::Column::Kind::kFloats);
      return out;
    case PULSE_GRAPH_NULL: {
      if (column.valid != nullptr) {
        return absl::InvalidArgumentError(
            Concat(what, " has values of any type and `valid`, which is for numbers"));
      }
      const auto* values = static_cast<const pulse_graph_value*>(column.data);
      out.values.reserve(rows);
      for (uint64_t row = 0; row < rows; ++row) {
        PULSE_ASSIGN_OR_RETURN(Value value, ValueFromC(values[row], what));
        out.values.push_back(std::move(value));
      }
      return out;
    }
    default:
      return absl::InvalidArgumentError(
          Concat(what, " has the type ", column.type, ", which is none of a column"));
  }
}

void* RowView::Allocate(size_t bytes) {
  bytes = (bytes + 7) / 8 * 8;
  if (size_ - used_ < bytes) {
    // Its size counts when it is there: the next row goes on with what is, if memory is refused.
    const size_t size = std::max(kBlockBytes, bytes);
    blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
    size_ = size;
    used_ = 0;
  }
  void* const at = blocks_.back().get() + used_;
  used_ += bytes;
  return at;
}

const pulse_graph_value* RowView::Show(const ResultTable& table, size_t row) {
  // What a huge row took is given back.
  if (blocks_.size() > 1 || size_ > kBlockBytes) {
    blocks_.clear();
    size_ = 0;
  }
  used_ = 0;
  entities_ = table.entities();
  // Statements without columns have rows of nothing; a row is not NULL, however.
  auto* values = Make<pulse_graph_value>(std::max<size_t>(table.width(), 1));
  values[0] = {};
  for (size_t i = 0; i < table.width(); ++i) Fill(table.At(row, i), &values[i]);
  return values;
}

void RowView::Fill(const Value& value, pulse_graph_value* out) {
  *out = {};
  out->type = static_cast<int32_t>(value.type());
  switch (value.type()) {
    case Type::kNull:
      break;
    case Type::kBool:
      out->as.integer = value.as_bool() ? 1 : 0;
      break;
    case Type::kInt:
      out->as.integer = value.as_int();
      break;
    case Type::kFloat:
      out->as.real = value.as_float();
      break;
    case Type::kString:
      out->as.text = value.as_string().c_str();
      out->size = value.as_string().size();
      break;
    case Type::kBytes:
      out->as.bytes = reinterpret_cast<const uint8_t*>(value.as_bytes().data());
      out->size = value.as_bytes().size();
      break;
    case Type::kList: {
      const ValueList& list = value.as_list();
      auto* items = Make<pulse_graph_value>(list.size());
      for (size_t i = 0; i < list.size(); ++i) Fill(list[i], &items[i]);
      out->as.items = items;
      out->size = list.size();
      break;
    }
    case Type::kMap: {
      const ValueMap& map = value.as_map();
      auto* entries = Make<pulse_graph_entry>(map.size());
      for (size_t i = 0; i < map.size(); ++i) {
        entries[i].key = map[i].first.c_str();
        entries[i].key_size = map[i].first.size();
        Fill(map[i].second, &entries[i].value);
      }
      out->as.entries = entries;
      out->size = map.size();
      break;
    }
    case Type::kNode: {
      auto* node = Make<pulse_graph_node>(1);
      FillNode(value.as_node(), node);
      out->as.node = node;
      break;
    }
    case Type::kEdge: {
      auto* edge = Make<pulse_graph_relationship>(1);
      FillEdge(value.as_edge(), edge);
      out->as.relationship = edge;
      break;
    }
    case Type::kPath: {
      const cypher::Path& path = value.as_path();
      auto* nodes = Make<pulse_graph_node>(path.nodes.size());
      for (size_t i = 0; i < path.nodes.size(); ++i) FillNode(path.nodes[i], &nodes[i]);
      auto* edges = Make<pulse_graph_relationship>(path.edges.size());
      for (size_t i = 0; i < path.edges.size(); ++i) FillEdge(path.edges[i], &edges[i]);
      out->as.path = new (Allocate(sizeof(pulse_graph_path)))
          pulse_graph_path{path.edges.size(), nodes, edges};
      break;
    }
    case Type::kDate:
      out->as.integer = value.as_days();
      break;
    case Type::kLocalTime:
      out->as.integer = value.as_nanos_of_day();
      break;
    case Type::kTime:
      out->as.integer = value.as_nanos_of_day();
      out->extra = value.as_offset_or_nanos();
      break;
    case Type::kLocalDateTime:
      out->as.integer = value.as_local_seconds();
      out->extra = value.as_offset_or_nanos();
      break;
    case Type::kDateTime: {
      const cypher::DateTime& time = value.as_datetime();
      out->as.datetime = new (Allocate(sizeof(pulse_graph_datetime))) pulse_graph_datetime{
          time.seconds, time.nanos, time.offset, time.zone.empty() ? nullptr : time.zone.c_str()};
      break;
    }
    case Type::kPoint: {
      const cypher::Point& point = value.as_point();
      out->as.point = new (Allocate(sizeof(pulse_graph_point)))
          pulse_graph_point{point.x, point.y, point.z, cypher::SridOf(point.crs), 0};
      break;
    }
    case Type::kDuration: {
      const cypher::Duration& duration = value.as_duration();
      out->as.duration = new (Allocate(sizeof(pulse_graph_duration)))
          pulse_graph_duration{duration.months, duration.days, duration.seconds, duration.nanos, 0};
      break;
    }
  }
}

const pulse_graph_entry* RowView::Entries(const cypher::Properties& properties) {
  auto* entries = Make<pulse_graph_entry>(properties.size());
  for (size_t i = 0; i < properties.size(); ++i) {
    const std::string& key = entities_->keys.at(properties[i].first);
    entries[i].key = key.c_str();
    entries[i].key_size = key.size();
    Fill(properties[i].second, &entries[i].value);
  }
  return entries;
}

void RowView::FillNode(cypher::NodeId id, pulse_graph_node* out) {
  *out = {};
  out->id = static_cast<int64_t>(id);
  const auto found = entities_->nodes.find(id);
  if (found == entities_->nodes.end()) return;
  const NodeRecord& record = found->second;
  auto* labels = Make<const char*>(record.labels.size());
  for (size_t i = 0; i < record.labels.size(); ++i) {
    labels[i] = entities_->labels.at(record.labels[i]).c_str();
  }
  out->labels = labels;
  out->label_count = record.labels.size();
  out->properties = Entries(record.properties);
  out->property_count = record.properties.size();
}

void RowView::FillEdge(const cypher::EdgeRef& edge, pulse_graph_relationship* out) {
  *out = {};
  out->id = static_cast<int64_t>(edge.id);
  out->start = static_cast<int64_t>(edge.source);
  out->end = static_cast<int64_t>(edge.target);
  out->type = entities_->types.at(edge.type).c_str();
  const auto found = entities_->edges.find(edge.id);
  if (found == entities_->edges.end()) return;
  out->properties = Entries(found->second.properties);
  out->property_count = found->second.properties.size();
}

}  // namespace pulse::graph
