// A client of GTPC's transactions: draws their parameters, and runs one. Main thread only; blocks.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "bench/macro/graph/gtpc_data.h"
#include "bench/macro/graph/gtpc_queries.h"
#include "services/graph/session/service.h"

namespace pulse::bench {

class GtpcClients {
 public:
  // `data` outlives it.
  GtpcClients(const GtpcData& data, uint64_t seed)
      : data_(data), random_(seed), order_(data.orders()), line_(data.lines()) {}
  // Parameters of the next transaction, and the numbers of what it creates.
  cypher::ValueMap Next();

 private:
  int64_t Number(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  const GtpcData& data_;
  std::mt19937_64 random_;
  int64_t order_, line_;
};

absl::Status RunGtpcTransaction(const GtpcTransaction& transaction,
                                const cypher::ValueMap& parameters, cypher::GraphService* service);

double Percentile(std::vector<double> seconds, double p);

}  // namespace pulse::bench
