#include "services/graph/nodes/value_order.h"

#include <algorithm>
#include <bit>
#include <string>

namespace pulse::graph {
namespace {

using cypher::Bound;
using cypher::Type;
using cypher::Value;

constexpr size_t kBytes = 15;  // of a place, behind the one for the kind of value
constexpr uint64_t kSign = uint64_t{1} << 63;

OrderPlace Make(Type kind, uint64_t first, uint64_t second) {
  const auto tag = static_cast<uint64_t>(kind) << 56;
  return {tag | first >> 8, first << 56 | second >> 8};
}

OrderPlace PlaceOfText(const std::string& text, uint8_t behind) {
  uint64_t words[2] = {0, 0};
  for (size_t i = 0; i < kBytes; ++i) {
    const uint64_t byte = i < text.size() ? static_cast<uint8_t>(text[i]) : behind;
    words[i / 8] |= byte << (56 - i % 8 * 8);
  }
  return Make(Type::kString, words[0], words[1]);
}

uint64_t Ascending(int64_t number) { return static_cast<uint64_t>(number) ^ kSign; }
OrderPlace PlaceOfMoment(Type kind, int64_t seconds, int32_t nanos) {
  return Make(kind, Ascending(seconds), static_cast<uint64_t>(nanos) << 32);
}

}  // namespace

std::optional<OrderPlace> PlaceOf(const Value& value) {
  switch (value.type()) {
    case Type::kInt:
    case Type::kFloat: {
      // Large integers that differ may have the same place; none has one before that of a smaller.
      const double number = value.as_number();
      if (number != number) return std::nullopt;
      const auto bits = std::bit_cast<uint64_t>(number == 0 ? 0.0 : number);
      return Make(Type::kFloat, (bits & kSign) != 0 ? ~bits : bits | kSign, 0);
    }
    case Type::kString:
      return PlaceOfText(value.as_string(), 0);
    case Type::kDate:
      return Make(Type::kDate, Ascending(value.as_days()), 0);
    case Type::kLocalTime:
      return Make(Type::kLocalTime, Ascending(value.as_nanos_of_day()), 0);
    case Type::kLocalDateTime:
      return PlaceOfMoment(Type::kLocalDateTime, value.as_local_seconds(),
                           value.as_offset_or_nanos());
    case Type::kDateTime:
      return PlaceOfMoment(Type::kDateTime, value.as_datetime().seconds, value.as_datetime().nanos);
    default:
      return std::nullopt;
  }
}

std::optional<OrderRange> RangeOf(std::span<const Bound> bounds) {
  constexpr OrderRange kNone{{1, 0}, {0, 0}};
  OrderRange range{{0, 0}, {~uint64_t{0}, ~uint64_t{0}}};
  for (const Bound& bound : bounds) {
    if (bound.value.is_null()) return kNone;
    std::optional<OrderPlace> place = PlaceOf(bound.value);
    if (!place) return std::nullopt;
    // Values of other kinds are beyond both ends.
    constexpr uint64_t kRest = ~uint64_t{0} >> 8;
    OrderPlace first{place->high & ~kRest, 0}, last{place->high | kRest, ~uint64_t{0}};
    if (bound.kind != Bound::Kind::kAtMost) first = *place;
    if (bound.kind == Bound::Kind::kAtMost) last = *place;
    if (bound.kind == Bound::Kind::kBeginsWith) {
      if (!bound.value.is_string()) return std::nullopt;
      last = PlaceOfText(bound.value.as_string(), 0xFF);
    }
    range.first = std::max(range.first, first);
    range.last = std::min(range.last, last);
  }
  return range;
}

}  // namespace pulse::graph
