#include "services/graph/algorithms/scope.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/parallel_for.h"
#include "services/graph/model/read_counts.h"

namespace pulse::graph::algorithms {
namespace {

constexpr size_t kScanBatch = 16384;
constexpr size_t kExpandBatch = 32768;

int ThreadsOf(int asked) {
  if (asked > 0) return asked;
  const size_t mine = MyCpus().size();
  return mine > 0 ? static_cast<int>(mine) : static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

absl::StatusOr<Scope> Scope::Make(const cypher::GraphView& view, const ScopeOptions& options,
                                  Budget* budget, Memory* memory) {
  Scope scope;
  scope.view_ = &view;
  scope.budget_ = budget;
  scope.direction_ = options.direction;
  scope.threads_ = ThreadsOf(options.threads);
  if (options.types) {
    for (const std::string& type : *options.types) {
      const auto token = view.FindType(type);
      if (token) scope.types_.push_back(*token);
    }
    scope.without_edges_ = scope.types_.empty();
  }
  PULSE_RETURN_IF_ERROR(scope.ScanNodes(options, memory));
  PULSE_RETURN_IF_ERROR(scope.Number(memory));
  return scope;
}

absl::Status Scope::ScanLabel(Token label, Memory* memory) {
  uint64_t position = 0;
  for (;;) {
    const size_t before = nodes_.size();
    PULSE_RETURN_IF_ERROR(memory->Take(kScanBatch, sizeof(NodeId)));
    nodes_.resize(before + kScanBatch);
    PULSE_ASSIGN_OR_RETURN(
        const size_t count,
        view_->ScanNodes(label, &position, {nodes_.data() + before, kScanBatch}));
    nodes_.resize(before + count);
    memory->GiveBack(kScanBatch - count, sizeof(NodeId));
    if (count == 0) return absl::OkStatus();
    if (nodes_.size() >= kNone) return absl::ResourceExhaustedError("more than 2^32 - 2 nodes");
    if (!budget_->Continue()) return budget_->status();
  }
}

absl::Status Scope::ScanNodes(const ScopeOptions& options, Memory* memory) {
  if (!options.labels) PULSE_RETURN_IF_ERROR(ScanLabel(cypher::kNoToken, memory));
  const std::vector<std::string> labels = options.labels.value_or(std::vector<std::string>());
  for (const std::string& label : labels) {
    const auto token = view_->FindLabel(label);
    if (token) PULSE_RETURN_IF_ERROR(ScanLabel(*token, memory));
  }
  if (!std::is_sorted(nodes_.begin(), nodes_.end())) std::sort(nodes_.begin(), nodes_.end());
  if (labels.size() > 1) {  // a node may have several
    nodes_.erase(std::unique(nodes_.begin(), nodes_.end()), nodes_.end());
  }
  return absl::OkStatus();
}

absl::Status Scope::Number(Memory* memory) {
  if (nodes_.empty()) return absl::OkStatus();
  const uint64_t words = nodes_.back() / 64 + 1;
  PULSE_RETURN_IF_ERROR(memory->Take(words, sizeof(uint64_t) + sizeof(Index)));
  bits_.resize(words);
  ranks_.resize(words);
  Pace pace(budget_);
  for (const NodeId node : nodes_) {
    if (!pace.Go()) return budget_->status();
    bits_[node / 64] |= uint64_t{1} << (node % 64);
  }
  Index rank = 0;
  for (uint64_t word = 0; word < words; ++word) {
    if (!pace.Go()) return budget_->status();
    ranks_[word] = rank;
    rank += static_cast<Index>(__builtin_popcountll(bits_[word]));
  }
  return absl::OkStatus();
}

absl::Status Scope::ForBlocks(uint64_t count, uint64_t block, const Body& body) const {
  const uint64_t blocks = (count + block - 1) / block;
  const auto run = [&](uint64_t i) -> absl::Status {
    try {
      return body(i * block, std::min(count, (i + 1) * block));
    } catch (const std::bad_alloc&) {  // which would end the process where it leaves a thread
      return absl::ResourceExhaustedError("the system gave no memory for this algorithm");
    }
  };
  // A few blocks are done before threads have begun.
  if (threads_ == 1 || blocks <= 2) {
    for (uint64_t i = 0; i < blocks; ++i) {
      if (!budget_->Continue()) return budget_->status();
      PULSE_RETURN_IF_ERROR(run(i));
    }
    return absl::OkStatus();
  }
  if (!budget_->Continue()) return budget_->status();
  std::atomic<bool> stop{false};
  // Whoever counts the caller's reads counts those of the threads.
  cypher::ReadCounts* const counts = cypher::counted_reads;
  std::mutex counts_mu;
  const absl::Status status = ParallelFor(
      blocks, threads_,
      [&](size_t i) {
        if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("");
        if (counts == nullptr) return run(i);
        cypher::ReadCounts own;
        absl::Status done;
        {
          const cypher::CountReadsIn counting(&own);
          done = run(i);
        }
        const std::lock_guard lock(counts_mu);
        counts->Add(own);
        return done;
      },
      [&] {
        if (!budget_->Continue()) stop.store(true, std::memory_order_relaxed);
      });
  return stop.load(std::memory_order_relaxed) ? budget_->status() : status;
}

absl::Status Scope::Expand(
    std::span<const NodeId> nodes, Direction direction, bool ends_only,
    const std::function<absl::Status(const cypher::NeighbourBatch& batch)>& take) const {
  if (without_edges_) return absl::OkStatus();
  cypher::NeighbourBatch batch;
  batch.ends_only = ends_only;
  cypher::ExpandPosition position;
  while (position.node < nodes.size()) {
    batch.clear();
    PULSE_RETURN_IF_ERROR(view_->Expand(nodes, direction, types_, kExpandBatch, &position, &batch));
    PULSE_RETURN_IF_ERROR(take(batch));
  }
  return absl::OkStatus();
}

}  // namespace pulse::graph::algorithms
