// Adjacency: the relationships of a scope as CSR in memory, for algorithms that go over them again
// and again: 4 bytes for each, and 8 with weights. Filled by all threads, each list in its place.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/algorithms/scope.h"

namespace pulse::graph::algorithms {

class Adjacency {
 public:
  // Relationships of `direction` within the scope. `weight`: the property that is the weight, 1
  // where it is not there; empty: none. InvalidArgument for a weight that is no number, NaN,
  // infinite or below 0.
  static absl::StatusOr<Adjacency> Make(const Scope& scope, Direction direction,
                                        const std::string& weight, Memory* memory);

  uint64_t edges() const { return offsets_.back(); }
  std::span<const Index> Of(Index node) const {
    return {ends_.data() + offsets_[node], offsets_[node + 1] - offsets_[node]};
  }
  bool weighted() const { return !weights_.empty(); }
  std::span<const double> WeightsOf(Index node) const {
    return {weights_.data() + offsets_[node], offsets_[node + 1] - offsets_[node]};
  }

  // Each neighbour once, ascending; without weights.
  absl::Status Simplify(const Scope& scope, bool keep_loops);
  // Keeps what `keep(node, neighbour)` says.
  template <typename Keep>
  absl::Status Filter(const Scope& scope, const Keep& keep) {
    Pace pace(scope.budget());
    uint64_t to = 0, begin = 0;
    for (size_t node = 0; node + 1 < offsets_.size(); ++node) {
      const uint64_t end = offsets_[node + 1];
      if (!pace.Go(1 + end - begin)) return scope.budget()->status();
      for (uint64_t at = begin; at < end; ++at) {
        if (keep(static_cast<Index>(node), ends_[at])) ends_[to++] = ends_[at];
      }
      begin = end;
      offsets_[node + 1] = to;
    }
    ends_.resize(to);
    return absl::OkStatus();
  }

 private:
  absl::Status Count(const Scope& scope, Direction direction, Memory* memory);
  absl::Status Fill(const Scope& scope, Direction direction, const std::string& weight,
                    Memory* memory);
  // Closes the gaps between lists, of which list i has sizes[i] entries.
  absl::Status Compact(const Scope& scope, const std::vector<Index>& sizes);

  std::vector<uint64_t> offsets_;
  cypher::UnfilledVector<Index> ends_;
  cypher::UnfilledVector<double> weights_;
};

// The weights of relationships that an expansion found, of `origins`: node(origin) is one end.
absl::Status ReadWeights(const cypher::GraphView& view, Token key, std::span<const NodeId> origins,
                         const cypher::NeighbourBatch& batch, std::vector<double>* out);

}  // namespace pulse::graph::algorithms
