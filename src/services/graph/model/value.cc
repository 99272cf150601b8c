#include "services/graph/model/value.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>

#include "base/hash.h"
#include "services/graph/model/point.h"

namespace pulse::cypher {

struct Value::StringObject : Object {
  std::string text;
};
struct Value::ListObject : Object {
  ValueList list;
  size_t bytes = 16 + 40;
};
struct Value::MapObject : Object {
  ValueMap map;
  size_t bytes = 16 + 40;
};
struct Value::EdgeObject : Object {
  EdgeRef edge;
};
struct Value::PathObject : Object {
  Path path;
};
struct Value::DateTimeObject : Object {
  DateTime value;
};
struct Value::DurationObject : Object {
  Duration value;
};
struct Value::PointObject : Object {
  Point value;
};

std::string_view TypeName(Type type) {
  static constexpr std::string_view kNames[] = {
      "NULL", "BOOLEAN",        "INTEGER",      "FLOAT",    "STRING", "LIST",
      "MAP",  "NODE",           "RELATIONSHIP", "PATH",     "DATE",   "LOCAL TIME",
      "TIME", "LOCAL DATETIME", "DATETIME",     "DURATION", "BYTES",  "POINT"};
  static_assert(std::size(kNames) == static_cast<size_t>(kLastType) + 1);
  return kNames[static_cast<int>(type)];
}

Value Value::Float(double value) {
  Value v(Type::kFloat, int64_t{0});
  v.float_ = value;
  return v;
}

Value Value::String(std::string_view text) {
  auto* object = new StringObject;
  object->text = text;
  return Value(Type::kString, object);
}

Value Value::TakeString(std::string text) {
  auto* object = new StringObject;
  object->text = std::move(text);
  return Value(Type::kString, object);
}

Value Value::List(ValueList list) {
  auto* object = new ListObject;
  for (const Value& v : list) {
    object->depth = std::max(object->depth, v.depth());
    object->bytes += v.OwnedBytes();
  }
  ++object->depth;
  object->list = std::move(list);
  return Value(Type::kList, object);
}

Value Value::ListOf(ValueList list, size_t bytes) {
  Value value = List(std::move(list));
  static_cast<ListObject*>(const_cast<Object*>(value.object_))->bytes = bytes;
  return value;
}

Value Value::Map(ValueMap map) {
  auto* object = new MapObject;
  for (const auto& [key, v] : map) {
    object->depth = std::max(object->depth, v.depth());
    object->bytes += 32 + v.OwnedBytes();
  }
  ++object->depth;
  std::stable_sort(map.begin(), map.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  size_t kept = 0;
  for (size_t i = 0; i < map.size(); ++i) {
    if (i + 1 < map.size() && map[i].first == map[i + 1].first) continue;
    if (kept != i) map[kept] = std::move(map[i]);
    ++kept;
  }
  map.resize(kept);
  object->map = std::move(map);
  return Value(Type::kMap, object);
}

Value Value::Edge(const EdgeRef& edge) {
  auto* object = new EdgeObject;
  object->edge = edge;
  return Value(Type::kEdge, object);
}

Value Value::MakePath(Path path) {
  auto* object = new PathObject;
  object->path = std::move(path);
  return Value(Type::kPath, object);
}

Value Value::MakeDateTime(DateTime value) {
  auto* object = new DateTimeObject;
  object->value = std::move(value);
  return Value(Type::kDateTime, object);
}

Value Value::MakeDuration(const Duration& value) {
  auto* object = new DurationObject;
  object->value = value;
  return Value(Type::kDuration, object);
}

Value Value::MakeBytes(std::string_view bytes) {
  auto* object = new StringObject;
  object->text = bytes;
  return Value(Type::kBytes, object);
}

Value Value::MakePoint(const Point& point) {
  auto* object = new PointObject;
  object->value = point;
  // A point is the same whatever the sign of its zeros, in every index, too.
  for (double* c : {&object->value.x, &object->value.y, &object->value.z}) *c += 0.0;
  return Value(Type::kPoint, object);
}

void Value::Release() {
  if (object_->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  switch (type_) {
    case Type::kString:
    case Type::kBytes:
      delete static_cast<const StringObject*>(object_);
      break;
    case Type::kList:
      delete static_cast<const ListObject*>(object_);
      break;
    case Type::kMap:
      delete static_cast<const MapObject*>(object_);
      break;
    case Type::kEdge:
      delete static_cast<const EdgeObject*>(object_);
      break;
    case Type::kPath:
      delete static_cast<const PathObject*>(object_);
      break;
    case Type::kDateTime:
      delete static_cast<const DateTimeObject*>(object_);
      break;
    case Type::kDuration:
      delete static_cast<const DurationObject*>(object_);
      break;
    case Type::kPoint:
      delete static_cast<const PointObject*>(object_);
      break;
    default:
      break;
  }
}

const std::string& Value::as_string() const {
  return static_cast<const StringObject*>(object_)->text;
}
const ValueList& Value::as_list() const { return static_cast<const ListObject*>(object_)->list; }
const ValueMap& Value::as_map() const { return static_cast<const MapObject*>(object_)->map; }
const EdgeRef& Value::as_edge() const { return static_cast<const EdgeObject*>(object_)->edge; }
const Path& Value::as_path() const { return static_cast<const PathObject*>(object_)->path; }
const DateTime& Value::as_datetime() const {
  return static_cast<const DateTimeObject*>(object_)->value;
}
const Duration& Value::as_duration() const {
  return static_cast<const DurationObject*>(object_)->value;
}
const Point& Value::as_point() const { return static_cast<const PointObject*>(object_)->value; }
const std::string& Value::as_bytes() const {
  return static_cast<const StringObject*>(object_)->text;
}

const Value* Value::Find(std::string_view key) const {
  const ValueMap& map = as_map();
  const auto it =
      std::lower_bound(map.begin(), map.end(), key,
                       [](const auto& entry, std::string_view k) { return entry.first < k; });
  return it != map.end() && it->first == key ? &it->second : nullptr;
}

int Value::depth() const {
  return type_ == Type::kList || type_ == Type::kMap ? object_->depth : 0;
}

size_t Value::OwnedBytes() const {
  const bool owned = IsObject(type_) && object_->refs.load(std::memory_order_relaxed) == 1;
  return owned ? DeepBytes() : sizeof(Value);
}

size_t Value::DeepBytes() const {
  if (is_list()) return static_cast<const ListObject*>(object_)->bytes;
  if (is_map()) return static_cast<const MapObject*>(object_)->bytes;
  return Bytes();
}

size_t Value::Bytes() const {
  switch (type_) {
    case Type::kString:
      return 16 + 48 + as_string().size();
    case Type::kBytes:
      return 16 + 48 + as_bytes().size();
    case Type::kList:
      return 16 + 40 + 16 * as_list().size();
    case Type::kMap:
      return 16 + 40 + 48 * as_map().size();
    case Type::kEdge:
      return 16 + 48;
    case Type::kPath:
      return 16 + 64 + 8 * as_path().nodes.size() + 32 * as_path().edges.size();
    case Type::kDateTime:
    case Type::kDuration:
    case Type::kPoint:
      return 16 + 64;
    default:
      return 16;
  }
}

namespace {

template <typename T>
int Sign(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

// Exact, other than a comparison after a conversion to double. `b` is no NaN.
int CompareIntFloat(int64_t a, double b) {
  if (b >= 9223372036854775808.0) return -1;
  if (b < -9223372036854775808.0) return 1;
  const auto whole = static_cast<int64_t>(b);
  if (a != whole) return a < whole ? -1 : 1;
  return Sign(0.0, b - static_cast<double>(whole));
}

// Neither is NaN.
int CompareNumbers(const Value& a, const Value& b) {
  if (a.is_int() && b.is_int()) return Sign(a.as_int(), b.as_int());
  if (a.is_int()) return CompareIntFloat(a.as_int(), b.as_float());
  if (b.is_int()) return -CompareIntFloat(b.as_int(), a.as_float());
  return Sign(a.as_float(), b.as_float());
}

bool IsNan(const Value& v) { return v.is_float() && std::isnan(v.as_float()); }

int ComparePaths(const Path& a, const Path& b) {
  const size_t n = std::min(a.edges.size(), b.edges.size());
  if (const int c = Sign(a.nodes[0], b.nodes[0]); c != 0) return c;
  for (size_t i = 0; i < n; ++i) {
    if (const int c = Sign(a.edges[i].id, b.edges[i].id); c != 0) return c;
    if (const int c = Sign(a.nodes[i + 1], b.nodes[i + 1]); c != 0) return c;
  }
  return Sign(a.edges.size(), b.edges.size());
}

// Durations have no order of their own; ORDER BY takes averages (30.4368… days, 24 hours).
int OrderDurations(const Duration& a, const Duration& b) {
  const auto seconds = [](const Duration& d) {
    return static_cast<__int128>(d.months) * 2629746 + static_cast<__int128>(d.days) * 86400 +
           d.seconds;
  };
  if (const int c = Sign(seconds(a), seconds(b)); c != 0) return c;
  if (const int c = Sign(a.nanos, b.nanos); c != 0) return c;
  if (const int c = Sign(a.months, b.months); c != 0) return c;
  return Sign(a.days, b.days);
}

// By system, and within one by x, y and z.
int OrderPoints(const Point& a, const Point& b) {
  if (const int c = Sign(SridOf(a.crs), SridOf(b.crs)); c != 0) return c;
  if (const int c = Sign(a.x, b.x); c != 0) return c;
  if (const int c = Sign(a.y, b.y); c != 0) return c;
  return Sign(a.z, b.z);
}

// Of one temporal type: by the instant, then by what else tells them apart.
int OrderTemporals(const Value& a, const Value& b) {
  switch (a.type()) {
    case Type::kTime: {
      const auto utc = [](const Value& v) {
        return v.as_nanos_of_day() - int64_t{v.as_offset_or_nanos()} * 1'000'000'000;
      };
      if (const int c = Sign(utc(a), utc(b)); c != 0) return c;
      return Sign(a.as_offset_or_nanos(), b.as_offset_or_nanos());
    }
    case Type::kLocalDateTime:
      if (const int c = Sign(a.as_local_seconds(), b.as_local_seconds()); c != 0) return c;
      return Sign(a.as_offset_or_nanos(), b.as_offset_or_nanos());
    case Type::kDateTime: {
      const DateTime &x = a.as_datetime(), &y = b.as_datetime();
      if (const int c = Sign(x.seconds, y.seconds); c != 0) return c;
      if (const int c = Sign(x.nanos, y.nanos); c != 0) return c;
      if (const int c = Sign(x.offset, y.offset); c != 0) return c;
      return Sign(x.zone, y.zone);
    }
    default:
      return Sign(a.as_days(), b.as_days());
  }
}

// Where a type stands in ORDER BY.
int Rank(Type type) {
  switch (type) {
    case Type::kMap:
      return 0;
    case Type::kNode:
      return 1;
    case Type::kEdge:
      return 2;
    case Type::kList:
      return 3;
    case Type::kPath:
      return 4;
    case Type::kPoint:
      return 5;
    case Type::kDateTime:
      return 6;
    case Type::kLocalDateTime:
      return 7;
    case Type::kDate:
      return 8;
    case Type::kTime:
      return 9;
    case Type::kLocalTime:
      return 10;
    case Type::kDuration:
      return 11;
    case Type::kString:
      return 12;
    case Type::kBool:
      return 13;
    case Type::kInt:
    case Type::kFloat:
      return 14;
    case Type::kBytes:
      return 15;
    case Type::kNull:
      return 16;
  }
  return 17;
}

}  // namespace

int Equals(const Value& a, const Value& b) {
  if (a.is_null() || b.is_null()) return -1;
  if (a.is_number() && b.is_number()) {
    return !IsNan(a) && !IsNan(b) && CompareNumbers(a, b) == 0;
  }
  if (a.type() != b.type()) return 0;
  switch (a.type()) {
    case Type::kList: {
      const ValueList &x = a.as_list(), &y = b.as_list();
      if (x.size() != y.size()) return 0;
      int result = 1;
      for (size_t i = 0; i < x.size(); ++i) {
        const int equal = Equals(x[i], y[i]);
        if (equal == 0) return 0;
        if (equal < 0) result = -1;
      }
      return result;
    }
    case Type::kMap: {
      const ValueMap &x = a.as_map(), &y = b.as_map();
      if (x.size() != y.size()) return 0;
      for (size_t i = 0; i < x.size(); ++i) {
        if (x[i].first != y[i].first) return 0;
      }
      int result = 1;
      for (size_t i = 0; i < x.size(); ++i) {
        const int equal = Equals(x[i].second, y[i].second);
        if (equal == 0) return 0;
        if (equal < 0) result = -1;
      }
      return result;
    }
    case Type::kDuration:
      return a.as_duration() == b.as_duration();
    default:
      return Order(a, b) == 0;
  }
}

int Compare(const Value& a, const Value& b) {
  if (a.is_null() || b.is_null()) return kIncomparable;
  if (a.is_number() && b.is_number()) {
    return IsNan(a) || IsNan(b) ? kUnordered : CompareNumbers(a, b);
  }
  if (a.type() != b.type()) return kIncomparable;
  switch (a.type()) {
    case Type::kList: {
      const ValueList &x = a.as_list(), &y = b.as_list();
      for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
        const int c = Compare(x[i], y[i]);
        if (c != 0) return c;
      }
      return Sign(x.size(), y.size());
    }
    case Type::kBool:
    case Type::kString:
    case Type::kDate:
    case Type::kLocalTime:
    case Type::kTime:
    case Type::kLocalDateTime:
    case Type::kDateTime:
    case Type::kBytes:
      return Order(a, b);
    default:
      return kIncomparable;
  }
}

int Order(const Value& a, const Value& b) {
  if (const int c = Sign(Rank(a.type()), Rank(b.type())); c != 0) return c;
  switch (a.type()) {
    case Type::kNull:
      return 0;
    case Type::kBool:
      return Sign(a.as_bool(), b.as_bool());
    case Type::kInt:
    case Type::kFloat: {
      const bool x = IsNan(a), y = IsNan(b);
      return x || y ? Sign(x, y) : CompareNumbers(a, b);
    }
    case Type::kString:
      return Sign(a.as_string(), b.as_string());
    case Type::kBytes:
      return Sign(a.as_bytes(), b.as_bytes());
    case Type::kNode:
      return Sign(a.as_node(), b.as_node());
    case Type::kEdge:
      return Sign(a.as_edge().id, b.as_edge().id);
    case Type::kPath:
      return ComparePaths(a.as_path(), b.as_path());
    case Type::kDuration:
      return OrderDurations(a.as_duration(), b.as_duration());
    case Type::kPoint:
      return OrderPoints(a.as_point(), b.as_point());
    case Type::kList: {
      const ValueList &x = a.as_list(), &y = b.as_list();
      for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
        if (const int c = Order(x[i], y[i]); c != 0) return c;
      }
      return Sign(x.size(), y.size());
    }
    case Type::kMap: {
      const ValueMap &x = a.as_map(), &y = b.as_map();
      for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
        if (const int c = Sign(x[i].first, y[i].first); c != 0) return c;
        if (const int c = Order(x[i].second, y[i].second); c != 0) return c;
      }
      return Sign(x.size(), y.size());
    }
    default:
      return OrderTemporals(a, b);
  }
}

uint64_t Hash(const Value& value) {
  const auto mix = [](uint64_t seed, uint64_t v) {
    return XXH3_64bits_withSeed(&v, sizeof(v), seed);
  };
  const uint64_t seed = static_cast<uint64_t>(Rank(value.type())) * 0x9E3779B97F4A7C15u;
  switch (value.type()) {
    case Type::kNull:
      return seed;
    case Type::kInt:
      return mix(seed, static_cast<uint64_t>(value.as_int()));
    case Type::kFloat: {
      const double d = value.as_float();
      if (d >= -9223372036854775808.0 && d < 9223372036854775808.0 && d == std::floor(d)) {
        return mix(seed, static_cast<uint64_t>(static_cast<int64_t>(d)));
      }
      uint64_t bits;
      const double canonical = std::isnan(d) ? std::nan("") : d;
      std::memcpy(&bits, &canonical, sizeof(bits));
      return mix(seed, bits);
    }
    case Type::kString:
      return XXH3_64bits_withSeed(value.as_string().data(), value.as_string().size(), seed);
    case Type::kBytes:
      return XXH3_64bits_withSeed(value.as_bytes().data(), value.as_bytes().size(), seed);
    case Type::kEdge:
      return mix(seed, value.as_edge().id);
    case Type::kPath: {
      uint64_t h = mix(seed, value.as_path().nodes[0]);
      for (const EdgeRef& e : value.as_path().edges) h = mix(h, e.id);
      return h;
    }
    case Type::kList: {
      uint64_t h = seed;
      for (const Value& v : value.as_list()) h = mix(h, Hash(v));
      return h;
    }
    case Type::kMap: {
      uint64_t h = seed;
      for (const auto& [key, v] : value.as_map()) {
        h = mix(XXH3_64bits_withSeed(key.data(), key.size(), h), Hash(v));
      }
      return h;
    }
    case Type::kPoint: {
      const Point& p = value.as_point();
      uint64_t h = mix(seed, static_cast<uint64_t>(p.crs));
      for (const double c : {p.x, p.y, p.z}) h = mix(h, std::bit_cast<uint64_t>(c == 0 ? 0.0 : c));
      return h;
    }
    case Type::kDateTime:
      return mix(seed, static_cast<uint64_t>(value.as_datetime().seconds));
    case Type::kDuration: {
      const Duration& d = value.as_duration();
      return mix(mix(mix(seed, static_cast<uint64_t>(d.months)), static_cast<uint64_t>(d.days)),
                 static_cast<uint64_t>(d.seconds));
    }
    default:
      return mix(seed, static_cast<uint64_t>(value.as_int()));
  }
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  char text[40];
  // As Java, and so Neo4j, has them.
  const double size = std::abs(value);
  const bool plain = size == 0 || (size >= 1e-3 && size < 1e7);
  const auto form = plain ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(text, text + sizeof(text), value, form).ptr;
  std::string s(text, end);
  const size_t exponent = s.find('e');
  if (exponent == std::string::npos) {
    if (s.find('.') == std::string::npos) s += ".0";
    return s;
  }
  // 1.5E10.
  std::string mantissa = s.substr(0, exponent), power = s.substr(exponent + 1);
  if (mantissa.find('.') == std::string::npos) mantissa += ".0";
  if (power[0] == '+') power.erase(0, 1);
  const bool negative = power[0] == '-';
  if (negative) power.erase(0, 1);
  power.erase(0, std::min(power.find_first_not_of('0'), power.size() - 1));
  return mantissa + "E" + (negative ? "-" : "") + power;
}

bool IsPropertyValue(const Value& v) {
  if (v.is_map() || v.is_node() || v.is_edge() || v.is_path()) return false;
  if (!v.is_list()) return true;
  const ValueList& list = v.as_list();
  return std::all_of(list.begin(), list.end(), [](const Value& item) {
    return !item.is_list() && !item.is_null() && IsPropertyValue(item);
  });
}

}  // namespace pulse::cypher
