#include "services/lsm/placement/flush_placement.h"

#include <optional>
#include <utility>

#include "services/lsm/core/counters.h"

namespace pulse::lsm {

FlushPlacement::FlushPlacement(FlushMode mode, ThreadMigrator* threads,
                               std::function<bool()> is_contended, FlushPriority* priority,
                               AtomicCounters* counters)
    : mode_(mode),
      threads_(threads),
      is_contended_(std::move(is_contended)),
      priority_(priority),
      counters_(counters) {}

void FlushPlacement::Begin(const std::string& home, bool agent) {
  if (!agent || !threads_->possible() || mode_ == FlushMode::kHost) return;
  if (mode_ == FlushMode::kAdaptive && is_contended_()) return;
  threads_->Migrate(home, priority_->BeginFlush());
}

void FlushPlacement::End() {
  const std::optional<int64_t> nanos = threads_->Return();
  if (!nanos) return;
  Add(&counters_->agent_flushes, 1);
  Add(&counters_->agent_flush_nanos, static_cast<uint64_t>(*nanos));
}

}  // namespace pulse::lsm
