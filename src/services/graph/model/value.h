// The values of Cypher: null, boolean, integer, float, string, list, map, node, relationship, path,
// the temporal types, bytes and points. A value takes 16 bytes; what does not fit is a counted,
// immutable object behind a pointer, so that copies are cheap and rows are flat arrays of values.
//
// Threads: the counts are atomic; a value may be copied by many threads, and changed by one.
// Nothing blocks. Lists and maps know how deeply they nest: whoever builds them refuses what
// exceeds kMaxValueDepth (recursion over values is bounded by it).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pulse::cypher {

using NodeId = uint64_t;
using EdgeId = uint64_t;
// Labels, relationship types and property keys are numbers inside an engine.
using Token = uint32_t;
inline constexpr Token kNoToken = ~Token{0};

inline constexpr int kMaxValueDepth = 128;

enum class Type : uint8_t {
  kNull,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kMap,
  kNode,
  kEdge,
  kPath,
  kDate,           // days since 1970-01-01
  kLocalTime,      // nanoseconds of the day
  kTime,           // the same at an offset
  kLocalDateTime,  // seconds since 1970-01-01T00:00 of no zone, and nanoseconds
  kDateTime,
  kDuration,
  kBytes,
  kPoint,
};
inline constexpr Type kLastType = Type::kPoint;

// "INTEGER", for messages.
std::string_view TypeName(Type type);

// A relationship as rows hold it: what a store of adjacency lists has at hand when it finds one.
struct EdgeRef {
  EdgeId id = 0;
  NodeId source = 0;
  NodeId target = 0;
  Token type = kNoToken;
  bool operator==(const EdgeRef& other) const { return id == other.id; }
};

// An instant at an offset; `zone` is empty where there is only the offset.
struct DateTime {
  int64_t seconds = 0;  // since 1970-01-01T00:00Z
  int32_t nanos = 0;
  int32_t offset = 0;  // seconds east of UTC
  std::string zone;
};

// Months, days and seconds do not convert into each other. 0 <= nanos < 1e9.
struct Duration {
  int64_t months = 0;
  int64_t days = 0;
  int64_t seconds = 0;
  int32_t nanos = 0;
  bool operator==(const Duration&) const = default;
};

// Coordinate reference systems (point.h).
enum class Crs : uint8_t { kCartesian, kCartesian3d, kWgs84, kWgs84In3d };

// Coordinates are finite; z is 0 where the system has two.
struct Point {
  Crs crs = Crs::kCartesian;
  double x = 0, y = 0, z = 0;
};

class Value;
using ValueList = std::vector<Value>;
// Sorted by key, each key once.
using ValueMap = std::vector<std::pair<std::string, Value>>;

struct Path {
  std::vector<NodeId> nodes;   // one more than edges
  std::vector<EdgeRef> edges;  // may be walked against their direction
};

class Value {
 public:
  Value() : int_(0) {}
  Value(const Value& other) : type_(other.type_), small_(other.small_), int_(other.int_) {
    if (IsObject(type_)) Retain();
  }
  Value(Value&& other) noexcept : type_(other.type_), small_(other.small_), int_(other.int_) {
    other.type_ = Type::kNull;
  }
  Value& operator=(const Value& other) {
    if (IsObject(type_) || IsObject(other.type_)) {
      if (this != &other) *this = Value(other);
      return *this;
    }
    type_ = other.type_;
    small_ = other.small_;
    int_ = other.int_;
    return *this;
  }
  Value& operator=(Value&& other) noexcept {
    std::swap(type_, other.type_);
    std::swap(small_, other.small_);
    std::swap(int_, other.int_);
    return *this;
  }
  ~Value() {
    if (IsObject(type_)) Release();
  }

  static Value Bool(bool value) { return Value(Type::kBool, value ? 1 : 0); }
  static Value Int(int64_t value) { return Value(Type::kInt, value); }
  static Value Float(double value);
  static Value String(std::string_view text);
  static Value TakeString(std::string text);  // without a copy
  static Value List(ValueList list);
  // Of elements that lie in other lists, too, which are about to go: what all of it takes.
  static Value ListOf(ValueList list, size_t deep_bytes);
  // `map` in any order; of equal keys the last counts.
  static Value Map(ValueMap map);
  static Value Node(NodeId id) { return Value(Type::kNode, static_cast<int64_t>(id)); }
  static Value Edge(const EdgeRef& edge);
  static Value MakePath(Path path);
  static Value Date(int64_t days) { return Value(Type::kDate, days); }
  static Value LocalTime(int64_t nanos) { return Value(Type::kLocalTime, nanos); }
  static Value Time(int64_t nanos, int32_t offset) { return Value(Type::kTime, nanos, offset); }
  static Value LocalDateTime(int64_t seconds, int32_t nanos) {
    return Value(Type::kLocalDateTime, seconds, nanos);
  }
  static Value MakeDateTime(DateTime value);
  static Value MakeDuration(const Duration& value);
  static Value MakeBytes(std::string_view bytes);
  static Value MakePoint(const Point& point);

  Type type() const { return type_; }
  bool is_null() const { return type_ == Type::kNull; }
  bool is_bool() const { return type_ == Type::kBool; }
  bool is_int() const { return type_ == Type::kInt; }
  bool is_float() const { return type_ == Type::kFloat; }
  bool is_number() const { return is_int() || is_float(); }
  bool is_string() const { return type_ == Type::kString; }
  bool is_list() const { return type_ == Type::kList; }
  bool is_map() const { return type_ == Type::kMap; }
  bool is_node() const { return type_ == Type::kNode; }
  bool is_edge() const { return type_ == Type::kEdge; }
  bool is_path() const { return type_ == Type::kPath; }
  bool is_temporal() const { return type_ >= Type::kDate && type_ <= Type::kDateTime; }
  bool is_duration() const { return type_ == Type::kDuration; }
  bool is_bytes() const { return type_ == Type::kBytes; }
  bool is_point() const { return type_ == Type::kPoint; }
  bool is_true() const { return type_ == Type::kBool && int_ != 0; }

  // Each for its type only.
  bool as_bool() const { return int_ != 0; }
  int64_t as_int() const { return int_; }
  double as_float() const { return float_; }
  double as_number() const { return is_int() ? static_cast<double>(int_) : float_; }
  const std::string& as_string() const;
  const ValueList& as_list() const;
  const ValueMap& as_map() const;
  NodeId as_node() const { return static_cast<NodeId>(int_); }
  const EdgeRef& as_edge() const;
  const Path& as_path() const;
  int64_t as_days() const { return int_; }           // date
  int64_t as_nanos_of_day() const { return int_; }   // time, local time
  int64_t as_local_seconds() const { return int_; }  // local date-time
  int32_t as_offset_or_nanos() const {
    return small_;
  }  // time: offset; local date-time: nanoseconds
  const DateTime& as_datetime() const;
  const Duration& as_duration() const;
  const std::string& as_bytes() const;
  const Point& as_point() const;

  // Whether both refer to one and the same text, list, map or the like.
  bool SharesWith(const Value& other) const {
    return type_ == other.type_ && IsObject(type_) && object_ == other.object_;
  }
  // The value of a key, or nullptr.
  const Value* Find(std::string_view key) const;
  // 0 for a scalar, 1 for a flat list or map.
  int depth() const;
  // An estimate of the memory that the value holds: without its elements; with those that it did
  // not share with others as it was made; and the latter, but of what others hold only the
  // reference.
  size_t Bytes() const;
  size_t DeepBytes() const;
  size_t OwnedBytes() const;
  // About how much more work than with a number it is to compare or to copy it.
  size_t Weight() const { return IsObject(type_) ? DeepBytes() / 1024 : 0; }

 private:
  struct Object {
    mutable std::atomic<uint32_t> refs{1};
    int32_t depth = 0;
  };
  struct StringObject;  // bytes, too
  struct ListObject;
  struct MapObject;
  struct EdgeObject;
  struct PathObject;
  struct DateTimeObject;
  struct DurationObject;
  struct PointObject;

  static constexpr bool IsObject(Type type) {
    constexpr auto bit = [](Type t) { return uint32_t{1} << static_cast<int>(t); };
    constexpr uint32_t kObjects = bit(Type::kString) | bit(Type::kList) | bit(Type::kMap) |
                                  bit(Type::kEdge) | bit(Type::kPath) | bit(Type::kDateTime) |
                                  bit(Type::kDuration) | bit(Type::kBytes) | bit(Type::kPoint);
    return (kObjects >> static_cast<int>(type) & 1) != 0;
  }
  Value(Type type, int64_t value, int32_t small = 0) : type_(type), small_(small), int_(value) {}
  Value(Type type, const Object* object) : type_(type), object_(object) {}
  void Retain() const { object_->refs.fetch_add(1, std::memory_order_relaxed); }
  void Release();

  Type type_ = Type::kNull;
  int32_t small_ = 0;
  union {
    int64_t int_;
    double float_;
    const Object* object_;
  };
};
static_assert(sizeof(Value) == 16);

// Equality of `=`: 1, 0, or -1 for null.
int Equals(const Value& a, const Value& b);
// Comparability of `<`: -1, 0, 1, or one of these.
inline constexpr int kIncomparable = 2;  // the comparison is null
inline constexpr int kUnordered = 3;     // NaN: the comparison is false
int Compare(const Value& a, const Value& b);
// The total order of ORDER BY, ascending; null last. 0 is equivalence, as DISTINCT and grouping use
// it (null is equivalent to null, NaN to NaN, 1 to 1.0).
int Order(const Value& a, const Value& b);
// Equal for equivalent values.
uint64_t Hash(const Value& value);

// Whether a node or relationship may have it as a property.
bool IsPropertyValue(const Value& value);

// A float as Cypher writes it: the shortest text that reads back, with a point or an exponent.
std::string FloatText(double value);

}  // namespace pulse::cypher
