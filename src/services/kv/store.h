// KvStore: an in-memory Keyspace for the server of Redis's protocol (services/redis): partitions of
// the keys by hash, each with a lock, so that one thread at a time has it. A command holds the
// partitions of its keys, in order, while it runs: so commands of several keys, and transactions,
// are atomic and isolated.
//
// In cluster mode the slot of a key decides its partition, and each partition belongs to a node of
// the cluster (node.h): a node's commands find their partition without looking at the key.
//
// Memory: `memory_bytes` are shared equally among the partitions and never exceeded. What does not
// fit is refused with Redis's OOM error (noeviction), or takes the place of what is used least.
//
// Threads: thread-safe. Blocking: a thread that may not block spins for a partition for some
// microseconds, and then says kWouldBlock; commands on all keys (KEYS, FLUSHALL) do so at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "services/kv/core/batch.h"
#include "services/kv/core/partition.h"
#include "services/kv/processing.h"
#include "services/kv/store_file.h"
#include "services/redis/commands/cluster.h"
#include "services/redis/commands/keyspace.h"
#include "services/redis/designs.h"

namespace pulse::kv {

inline constexpr int kMostPartitions = 64;

struct KvStoreOptions {
  uint64_t memory_bytes = uint64_t{1} << 30;
  // What clients are told as maxmemory: the limit of the process that this is a part of; 0: it is
  // memory_bytes.
  uint64_t told_memory_bytes = 0;
  int partitions = 1;
  Policy policy = Policy::kNoEviction;
  redis::KeyspaceLimits limits;
  std::function<int64_t()> clock = &WallMillis;
  bool trims_heap = true;             // the process's; false where it is another program's
  redis::Designs* designs = nullptr;  // null: cpu alone; outlives the store
  // In cluster mode, with as many nodes as there are partitions; else null, or not enabled.
  // Outlives the store.
  const redis::Cluster* cluster = nullptr;
  bool ticks = true;  // a thread gives back what has expired; tests call Tick
  uint64_t seed = std::random_device{}();
  // Adds lines to INFO's section of the store, such as "name:value\r\n". Any thread; never blocks.
  std::function<void(std::string*)> more_info;
  // A file on a tmpfs that keeps the keys for the next process (store_file.h); empty: none.
  std::string memory_file;
  // What designs that keep items on the agent may take of its memory; 0: memory_bytes.
  uint64_t agent_memory_bytes = 0;
};

// "noeviction", "allkeys-lfu", "allkeys-lru", "allkeys-random", whatever their case.
absl::StatusOr<Policy> ParsePolicy(std::string_view name);
std::string_view PolicyName(Policy policy);

class KvNode;

class KvStore final : public redis::Keyspace {
 public:
  static absl::StatusOr<std::unique_ptr<KvStore>> Open(const KvStoreOptions& options);
  ~KvStore() override;

  RunResult Run(const redis::CommandInfo& command, const redis::Arguments& args, bool may_block,
                redis::ReplyWriter* reply, redis::CommandCounts* counts) override;
  RunResult RunGets(const redis::Request* requests, size_t count, uint64_t most_bytes,
                    bool may_block, redis::ReplyWriter* reply, std::vector<size_t>* ends,
                    redis::CommandCounts* counts) override;
  RunResult RunSets(absl::Span<const redis::Request* const> sets, bool may_block,
                    absl::Span<std::string> errors) override;
  void RunPlain(redis::PlainBatch* batch, redis::ErrorStats* errors) override;
  bool runs_plain() const override { return true; }
  bool CollectsSets() const override { return false; }
  void RunTransaction(const std::vector<Queued>& commands, const redis::WatchTable::Set& watches,
                      const Answer& answer, redis::ReplyWriter* reply,
                      redis::CommandCounts* counts) override;
  bool Watch(const std::string_view* keys, size_t count, bool may_block,
             redis::WatchTable::Set* watches, std::string* error) override;
  bool SizeOfValue(std::string_view key, bool may_block, uint64_t* bytes) override;
  uint64_t largest_value() const override { return largest_item_.load(std::memory_order_relaxed); }
  int64_t now_ms() const override { return options_.clock(); }
  const redis::KeyspaceLimits& limits() const override { return options_.limits; }
  void AddInfo(std::string_view section, std::string* out) const override;
  std::string_view section_name() const override { return "KV"; }
  std::vector<Setting> Settings() const override;
  std::string Configure(std::string_view name, std::string_view value) override;
  std::string CheckSetting(std::string_view name, std::string_view value) const override;
  void ResetCounters() override;
  uint64_t most_value() const override { return shards_[0].partition->largest_item(); }
  redis::Keyspace* Node(int index) override;

  // Runs `use(partition, hash)` with the key's partition held. False, and `use` was not called: it
  // would block.
  template <class Use>
  bool WithPartition(std::string_view key, bool may_block, const Use& use) {
    const uint64_t hash = HashKey(key);
    Shard& shard = shards_[ShardOf(key, hash)];
    if (!Lock(&shard.mutex, may_block)) return false;
    const std::lock_guard<std::mutex> lock(shard.mutex, std::adopt_lock);
    if (!Begin(&shard, may_block, now_ms())) return false;
    use(*shard.partition, hash);
    shard.partition->Settle();
    return true;
  }
  // A batch of a client in another process, or the next part of it, with a partition held: requests
  // for keys of other partitions are malformed. Waits for the partition.
  BatchResult RunBatch(uint32_t partition, const BatchBuffers& buffers);
  // A batch with a partition held, whose keys all are its own; `sink` is told of each request, as
  // ExecuteBatch says. Waits for the partition.
  template <class Sink>
  void RunRequests(uint32_t partition, const BatchRequest* requests, size_t count, Sink* sink) {
    Shard& shard = shards_[partition];
    const std::lock_guard<std::mutex> lock(shard.mutex);
    Begin(&shard, /*may_block=*/true, now_ms());
    ExecuteBatch(shard.partition.get(), requests, count, BestMatch(), sink);
    shard.partition->Settle();
  }
  // Calls `use(i, partition, hash, candidate)` for each of at most kLargestGroup keys in turn, with
  // all their partitions held, so that the keys' misses overlap. Waits for the partitions. Not in
  // cluster mode.
  using UseKey = absl::FunctionRef<void(size_t i, Partition& partition, uint64_t hash,
                                        const Candidate& candidate)>;
  void WithPartitions(absl::Span<const std::string_view> keys, UseKey use);
  // Drops all keys at that time: before it returns where the time has come, else before the first
  // use of a partition from then on, so that what is stored later stays. kNoExpiry: never. The last
  // call counts. False: it would block, and has changed nothing.
  bool ClearAt(int64_t at_ms, bool may_block);
  // A number for an item's version that no other has had.
  uint64_t NextCas() { return last_cas_->fetch_add(1, std::memory_order_relaxed) + 1; }

  // Gives back what has expired. True: there is more, which should not wait for long.
  bool Tick();
  // Keys were there when it opened; and in so many partitions a change was taken back, or a new
  // index made.
  bool resumed() const { return file_ != nullptr && file_->existed(); }
  int undone() const;
  int recovered() const;
  // Sums over all partitions, one after the other.
  PartitionNumbers numbers() const;
  // Requests that RunBatch has answered, ever.
  uint64_t batch_requests() const;
  const KvStoreOptions& options() const { return options_; }

 private:
  friend class KvNode;
  friend class KvView;
  struct alignas(64) Shard {
    mutable std::mutex mutex;
    std::unique_ptr<Partition> partition;
    int64_t clear_at_ms = kNoExpiry;  // ClearAt's time that is still to come
    BatchCounts batches;              // of RunBatch
    PartitionNumbers at_reset;        // what ResetCounters has found
  };
  // Bits of shards.
  using ShardSet = uint64_t;
  class Held;

  explicit KvStore(const KvStoreOptions& options);
  absl::Status OpenPartitions(const PartitionOptions& options);
  bool in_cluster() const { return options_.cluster != nullptr && options_.cluster->enabled(); }
  uint32_t ShardOf(std::string_view key, uint64_t hash) const {
    if (in_cluster()) return static_cast<uint32_t>(options_.cluster->NodeOf(redis::SlotOf(key)));
    return PartitionOf(hash, static_cast<uint32_t>(shards_.size()));
  }

  // Where a command's keys are: in any partition, or all in one, a node's or the only one.
  class Place {
   public:
    static constexpr uint32_t kAny = UINT32_MAX;
    Place(const KvStore& store, uint32_t one) : one_(one), count_(store.shards_.size()) {}
    bool is_one() const { return one_ != kAny; }
    uint32_t ShardOf(uint64_t hash) const {
      return is_one() ? one_ : PartitionOf(hash, static_cast<uint32_t>(count_));
    }
    ShardSet SetOf(std::string_view key) const {
      return ShardSet{1} << (is_one() ? one_ : ShardOf(HashKey(key)));
    }
    uint32_t begin() const { return is_one() ? one_ : 0; }
    uint32_t end() const { return is_one() ? one_ + 1 : static_cast<uint32_t>(count_); }
    ShardSet all() const {
      if (is_one()) return ShardSet{1} << one_;
      return count_ == kMostPartitions ? ~ShardSet{0} : (ShardSet{1} << count_) - 1;
    }

   private:
    const uint32_t one_;
    const size_t count_;
  };
  Place Everywhere() const { return {*this, shards_.size() == 1 ? 0 : Place::kAny}; }
  // What is public does the same Everywhere.
  RunResult Run(const Place& place, const redis::CommandInfo& command, const redis::Arguments& args,
                bool may_block, redis::ReplyWriter* reply, redis::CommandCounts* counts);
  RunResult RunGets(const Place& place, const redis::Request* requests, size_t count,
                    uint64_t most_bytes, bool may_block, redis::ReplyWriter* reply,
                    std::vector<size_t>* ends, redis::CommandCounts* counts);
  RunResult RunSets(const Place& place, absl::Span<const redis::Request* const> sets,
                    bool may_block, absl::Span<std::string> errors);
  void RunPlain(const Place& place, redis::PlainBatch* batch, redis::ErrorStats* errors);
  // With the key's partition held.
  Partition::Result PutPlain(std::string_view key, std::string_view value, uint64_t hash,
                             const Candidate& candidate, Partition* partition);
  void RunTransaction(const Place& place, const std::vector<Queued>& commands,
                      const redis::WatchTable::Set& watches, const Answer& answer,
                      redis::ReplyWriter* reply, redis::CommandCounts* counts);
  bool Watch(const Place& place, const std::string_view* keys, size_t count, bool may_block,
             redis::WatchTable::Set* watches);
  void AddInfo(const Place& place, std::string_view section, std::string* out) const;
  PartitionNumbers Numbers(const Place& place) const;
  template <class Of>
  PartitionNumbers Sum(const Place& place, const Of& of) const;

  Partition& partition(uint32_t shard) { return *shards_[shard].partition; }
  std::string DesignName() const;
  // store_items.cc: where items lie, by design.
  bool IsOnAgent(std::string_view design, size_t shard) const;
  absl::Status CheckItems(std::string_view design) const;
  absl::Status SetDesign(std::string_view design);
  absl::Status MoveItems(std::string_view design);
  void AddItemsInfo(const Place& place, std::string* out) const;
  uint64_t told_memory() const {
    return options_.told_memory_bytes == 0 ? options_.memory_bytes : options_.told_memory_bytes;
  }
  static constexpr size_t kMostTogether = kLargestGroup;
  // Calls `execute(i, partition, hash, candidate)` for each key in turn, while it returns true.
  template <class Execute>
  void RunTogether(const Place& place, const std::string_view* keys, size_t count,
                   const Execute& execute);
  template <class Execute>
  void RunHashed(const Place& place, const uint64_t* hashes, size_t count, const Execute& execute);
  uint64_t NextRandom();
  // Spins for about as long as another thread's batch takes, if it may not block.
  static bool Lock(std::mutex* mutex, bool may_block);
  // Before a partition is used, with its mutex held: tells it the time, and drops its keys where
  // ClearAt's time has come. False: that takes long, and the thread may not block.
  bool Begin(Shard* shard, bool may_block, int64_t now_ms) {
    if (now_ms >= shard->clear_at_ms) [[unlikely]] {
      if (!may_block) return false;
      ClearShard(shard);
    }
    shard->partition->SetNow(now_ms);
    return true;
  }
  void ClearShard(Shard* shard);
  void Housekeeping();
  // Gives what is free in the process's heap back to the system, where it has become much.
  void TrimHeap();

  KvStoreOptions options_;
  std::atomic<uint64_t> largest_item_{0};  // in bytes, ever; of a file that was there, any
  std::vector<Shard> shards_;
  std::vector<std::unique_ptr<KvNode>> nodes_;  // in cluster mode, by partition
  std::atomic<Policy> policy_{Policy::kNoEviction};
  std::atomic<uint64_t> random_{0};
  std::mutex design_mutex_;  // of who sets the design; taken before the shards'
  std::atomic<bool> items_moving_{false};
  std::unique_ptr<StoreFile> file_;  // null: the keys go with the process
  std::atomic<uint64_t> own_last_cas_{0};
  std::atomic<uint64_t>* last_cas_ = &own_last_cas_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  uint64_t untrimmed_from_ = 0;  // free bytes of the heap, the fewest since it was trimmed
  std::thread housekeeper_;
};

}  // namespace pulse::kv
