// Places for values in the order in which `<` compares them, in 16 bytes: for indexes that find
// ranges. Values that `<` does not compare have places that are apart. Some that differ have the
// same place, as texts that begin with the same 15 bytes: who finds a node looks at its value.
//
// Pure; any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>

#include "services/graph/model/graph.h"

namespace pulse::graph {

struct OrderPlace {
  uint64_t high = 0, low = 0;
  auto operator<=>(const OrderPlace&) const = default;
};

// Nothing: no order is kept of it. That is of numbers, texts, dates, date-times and local times.
std::optional<OrderPlace> PlaceOf(const cypher::Value& value);

struct OrderRange {
  OrderPlace first, last;  // both within
  bool empty() const { return last < first; }
};
// Where all values within the bounds lie. Nothing: one of them has no place.
std::optional<OrderRange> RangeOf(std::span<const cypher::Bound> bounds);

}  // namespace pulse::graph
