// The functions of expressions, by name. Immutable after the first use; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "services/graph/functions/context.h"
#include "services/graph/model/value.h"

namespace pulse::cypher {

// Sets of types, a bit for each.
inline constexpr uint32_t Bit(Type type) { return 1u << static_cast<int>(type); }
inline constexpr uint32_t kAnyType = 2 * Bit(kLastType) - 1;
inline constexpr uint32_t kNullType = Bit(Type::kNull), kBoolType = Bit(Type::kBool);
inline constexpr uint32_t kListType = Bit(Type::kList), kMapType = Bit(Type::kMap);
inline constexpr uint32_t kNodeType = Bit(Type::kNode), kEdgeType = Bit(Type::kEdge);
inline constexpr uint32_t kPathType = Bit(Type::kPath), kIntType = Bit(Type::kInt);
inline constexpr uint32_t kNumberTypes = Bit(Type::kInt) | Bit(Type::kFloat);
inline constexpr uint32_t kTemporalTypes = Bit(Type::kDate) | Bit(Type::kLocalTime) |
                                           Bit(Type::kTime) | Bit(Type::kLocalDateTime) |
                                           Bit(Type::kDateTime);

enum class Aggregate : uint8_t {
  kNone,
  kCount,
  kSum,
  kAvg,
  kMin,
  kMax,
  kCollect,
  kStDev,
  kStDevP,
  kPercentileCont,
  kPercentileDisc,
};

struct Function {
  std::string_view name;  // as documented; found in any case
  int min_args = 0;
  int max_args = 0;
  // Called unless an argument is null and `null_in` says that null then is the result.
  Value (*call)(EvalContext& context, std::span<Value> args) = nullptr;
  uint32_t result = kAnyType;
  std::array<uint32_t, 3> args = {kAnyType, kAnyType, kAnyType};  // what each may be
  bool null_in = true;
  Aggregate aggregate = Aggregate::kNone;
  bool deterministic = true;
  // The first argument that is not null is the result; those behind it are not evaluated.
  bool first_found = false;
};

// The numbers of range(first, last[, step]).
struct NumberRange {
  int64_t first = 0, step = 1;
  uint64_t count = 0;
  int64_t At(uint64_t i) const {
    return static_cast<int64_t>(static_cast<uint64_t>(first) + i * static_cast<uint64_t>(step));
  }
  // False: they are no arguments of it, or there are 2^64 numbers.
  static bool Of(std::span<const Value> arguments, NumberRange* range);
};

// Those with a space in their name are operators, which no query calls.
const std::vector<Function>& AllFunctions();
// nullptr: there is none.
const Function* FindFunction(std::string_view name);

// The parts of the table, one file each.
void AddScalarFunctions(std::vector<Function>* out);
void AddStringFunctions(std::vector<Function>* out);
void AddListFunctions(std::vector<Function>* out);
void AddMathFunctions(std::vector<Function>* out);
void AddTemporalFunctions(std::vector<Function>* out);
void AddSpatialFunctions(std::vector<Function>* out);

}  // namespace pulse::cypher
