// What GTPC's queries have to answer, computed from the generator's rows without a graph or a query
// engine: what tests compare with. For tests only.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "bench/macro/graph/gtpc_data.h"

namespace pulse::bench {

using AnswerValue = std::variant<int64_t, double, std::string>;
using Answer = std::vector<std::vector<AnswerValue>>;  // in any order

// `query` is 1 to 22.
Answer GtpcAnswer(const GtpcData& data, int query);

}  // namespace pulse::bench
