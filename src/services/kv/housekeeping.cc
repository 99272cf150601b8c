// Of KvStore: the thread that gives back what has expired, and memory of the heap.
#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>

#include "services/kv/store.h"

namespace pulse::kv {
namespace {

// Between looks at what has expired.
constexpr auto kTick = std::chrono::milliseconds(100);
// The same where more have: others get the partition's lock meanwhile.
constexpr auto kTickMore = std::chrono::milliseconds(1);
// What connections have given back to the heap is within --memory, too, and may be needed
// elsewhere.
constexpr auto kTrim = std::chrono::seconds(1);
constexpr uint64_t kTrimBytes = uint64_t{4} << 20;
// To tell many clients of keys that have expired takes long: few are looked at then.
constexpr int kTickItemsTold = 256;

}  // namespace

void KvStore::Housekeeping() {
  pthread_setname_np(pthread_self(), "pulse-kv-tick");
  std::unique_lock<std::mutex> lock(mutex_);
  auto wait = kTick;
  auto trim_at = std::chrono::steady_clock::now() + kTrim;
  while (!wake_.wait_for(lock, wait, [this] { return stopping_; })) {
    lock.unlock();
    wait = Tick() ? kTickMore : kTick;
    if (const auto now = std::chrono::steady_clock::now(); options_.trims_heap && now >= trim_at) {
      TrimHeap();
      trim_at = now + kTrim;
    }
    lock.lock();
  }
}

void KvStore::TrimHeap() {
  const auto free_bytes = [] { return static_cast<uint64_t>(mallinfo2().fordblks); };
  const uint64_t now = free_bytes();
  untrimmed_from_ = std::min(untrimmed_from_, now);
  if (now - untrimmed_from_ < kTrimBytes) return;
  malloc_trim(0);
  untrimmed_from_ = free_bytes();  // which were given back, but for pages in part
}

bool KvStore::Tick() {
  const bool is_told = watch_.active();
  bool is_more = false;
  for (Shard& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard.mutex);
    Begin(&shard, /*may_block=*/true, now_ms());
    is_more |= shard.partition->Tick(is_told ? kTickItemsTold : Partition::kTickItems);
    shard.partition->Settle();
  }
  return is_more;
}

}  // namespace pulse::kv
