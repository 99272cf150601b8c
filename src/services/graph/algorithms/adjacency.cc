#include "services/graph/algorithms/adjacency.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/errors.h"
#include "services/graph/model/text.h"

namespace pulse::graph::algorithms {
namespace {

using cypher::Column;
using cypher::EdgeRef;
using cypher::NeighbourBatch;

constexpr uint64_t kListBlock = 2048;  // nodes

absl::Status CheckWeight(double weight, const EdgeRef& edge) {
  if (weight >= 0 && std::isfinite(weight)) return absl::OkStatus();  // NaN is neither
  return absl::InvalidArgumentError(cypher::Concat("the weight of relationship ", edge.id, " is ",
                                                   cypher::FloatText(weight),
                                                   ": it has to be 0 or more, and finite"));
}

}  // namespace

absl::Status ReadWeights(const cypher::GraphView& view, Token key, std::span<const NodeId> origins,
                         const NeighbourBatch& batch, std::vector<double>* out) {
  out->assign(batch.size(), 1.0);
  if (key == cypher::kNoToken || batch.size() == 0) return absl::OkStatus();
  std::vector<EdgeRef> edges(batch.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    const NodeId origin = origins[batch.origin[i]];
    const bool incoming = batch.incoming[i] != 0;
    edges[i] = {batch.edge[i], incoming ? batch.node[i] : origin, incoming ? origin : batch.node[i],
                batch.type[i]};
  }
  Column column;
  PULSE_RETURN_IF_ERROR(view.ReadEdgeProperty(key, edges, &column));
  for (size_t i = 0; i < edges.size(); ++i) {
    double& weight = (*out)[i];
    switch (column.kind) {
      case Column::Kind::kInts:
        if (column.valid[i] != 0) weight = static_cast<double>(column.ints[i]);
        break;
      case Column::Kind::kFloats:
        if (column.valid[i] != 0) weight = column.floats[i];
        break;
      default: {
        const cypher::Value& value = column.values[i];
        if (value.is_null()) break;
        if (!value.is_number()) {
          return absl::InvalidArgumentError(
              cypher::Concat("the weight of relationship ", edges[i].id, " is a ",
                             cypher::TypeName(value.type()), ", and not a number"));
        }
        weight = value.as_number();
      }
    }
    PULSE_RETURN_IF_ERROR(CheckWeight(weight, edges[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<Adjacency> Adjacency::Make(const Scope& scope, Direction direction,
                                          const std::string& weight, Memory* memory) {
  Adjacency adjacency;
  PULSE_RETURN_IF_ERROR(adjacency.Count(scope, direction, memory));
  PULSE_RETURN_IF_ERROR(adjacency.Fill(scope, direction, weight, memory));
  return adjacency;
}

absl::Status Adjacency::Count(const Scope& scope, Direction direction, Memory* memory) {
  PULSE_RETURN_IF_ERROR(memory->Take(scope.size() + 1, sizeof(uint64_t)));
  offsets_.resize(uint64_t{scope.size()} + 1);
  if (scope.without_edges()) return absl::OkStatus();
  PULSE_RETURN_IF_ERROR(
      scope.ForBlocks(scope.size(), kListBlock, [&](uint64_t begin, uint64_t end) -> absl::Status {
        return scope.view().Degrees(scope.nodes().subspan(begin, end - begin), direction,
                                    scope.types(), {offsets_.data() + begin + 1, end - begin});
      }));
  Pace pace(scope.budget());
  for (size_t i = 1; i < offsets_.size(); ++i) {
    if (!pace.Go()) return scope.budget()->status();
    offsets_[i] += offsets_[i - 1];
  }
  return absl::OkStatus();
}

absl::Status Adjacency::Fill(const Scope& scope, Direction direction, const std::string& weight,
                             Memory* memory) {
  const uint64_t most = offsets_.back();
  PULSE_RETURN_IF_ERROR(memory->Take(most, sizeof(Index) + (weight.empty() ? 0 : sizeof(double))));
  PULSE_RETURN_IF_ERROR(memory->Take(scope.size(), sizeof(Index)));
  ends_.resize(most);
  if (!weight.empty()) weights_.resize(most);
  const Token key =
      weight.empty() ? cypher::kNoToken : scope.view().FindKey(weight).value_or(cypher::kNoToken);
  std::vector<Index> sizes(scope.size());
  const auto fill = [&](uint64_t begin, uint64_t end) -> absl::Status {
    const auto nodes = scope.nodes().subspan(begin, end - begin);
    std::vector<double> weights;
    return scope.Expand(
        nodes, direction, weight.empty(), [&](const NeighbourBatch& batch) -> absl::Status {
          if (!weight.empty()) {
            PULSE_RETURN_IF_ERROR(ReadWeights(scope.view(), key, nodes, batch, &weights));
          }
          for (size_t i = 0; i < batch.size(); ++i) {
            const Index end_index = scope.IndexOf(batch.node[i]);
            if (end_index == kNone) continue;
            const uint64_t node = begin + batch.origin[i];
            const uint64_t at = offsets_[node] + sizes[node];
            if (at >= offsets_[node + 1]) {
              return absl::InternalError("a node has more relationships than it was said to have");
            }
            ends_[at] = end_index;
            if (!weight.empty()) weights_[at] = weights[i];
            ++sizes[node];
          }
          return absl::OkStatus();
        });
  };
  PULSE_RETURN_IF_ERROR(scope.ForBlocks(scope.size(), kListBlock, fill));
  PULSE_RETURN_IF_ERROR(Compact(scope, sizes));
  memory->GiveBack(scope.size(), sizeof(Index));
  return absl::OkStatus();
}

absl::Status Adjacency::Compact(const Scope& scope, const std::vector<Index>& sizes) {
  Pace pace(scope.budget());
  uint64_t to = 0;
  for (size_t node = 0; node < sizes.size(); ++node) {
    if (!pace.Go(1 + sizes[node])) return scope.budget()->status();
    const uint64_t from = offsets_[node];
    if (from != to) {
      std::memmove(ends_.data() + to, ends_.data() + from, sizes[node] * sizeof(Index));
      if (weighted()) {
        std::memmove(weights_.data() + to, weights_.data() + from, sizes[node] * sizeof(double));
      }
    }
    offsets_[node] = to;
    to += sizes[node];
  }
  offsets_.back() = to;
  ends_.resize(to);
  if (weighted()) weights_.resize(to);
  return absl::OkStatus();
}

absl::Status Adjacency::Simplify(const Scope& scope, bool keep_loops) {
  std::vector<Index> sizes(scope.size());
  const auto simplify = [&](uint64_t begin, uint64_t end) {
    for (uint64_t node = begin; node < end; ++node) {
      Index* const first = ends_.data() + offsets_[node];
      Index* last = ends_.data() + offsets_[node + 1];
      std::sort(first, last);
      last = std::unique(first, last);
      if (!keep_loops) last = std::remove(first, last, static_cast<Index>(node));
      sizes[node] = static_cast<Index>(last - first);
    }
    return absl::OkStatus();
  };
  PULSE_RETURN_IF_ERROR(scope.ForBlocks(scope.size(), kListBlock, simplify));
  weights_ = {};
  PULSE_RETURN_IF_ERROR(Compact(scope, sizes));
  return absl::OkStatus();
}

}  // namespace pulse::graph::algorithms
