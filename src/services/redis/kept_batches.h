// Batches that a loop keeps for its next connections. One thread's each.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "services/redis/executor.h"

namespace pulse::redis {

// Large ones go.
inline constexpr size_t kKeptBatches = 16;
inline constexpr size_t kKeptBytes = size_t{64} << 10;
inline constexpr size_t kKeptRequests = 256;

inline std::vector<std::shared_ptr<RequestBatch>>& KeptBatches() {
  thread_local std::vector<std::shared_ptr<RequestBatch>> batches;
  return batches;
}

inline std::shared_ptr<RequestBatch> TakeBatch() {
  auto& kept = KeptBatches();
  if (kept.empty()) return std::make_shared<RequestBatch>();
  std::shared_ptr<RequestBatch> batch = std::move(kept.back());
  kept.pop_back();
  return batch;
}

inline void KeepBatch(std::shared_ptr<RequestBatch> batch) {
  auto& kept = KeptBatches();
  if (kept.size() >= kKeptBatches || batch->MemoryHeld() > kKeptBytes ||
      batch->requests.size() > kKeptRequests) {
    return;
  }
  batch->Clear();
  kept.push_back(std::move(batch));
}

}  // namespace pulse::redis
