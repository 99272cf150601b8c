#include "services/kv/store.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/parallel_for.h"
#include "base/shortage.h"
#include "base/spin_lock.h"
#include "services/kv/held.h"
#include "services/kv/node.h"
#include "services/kv/view.h"
#include "services/redis/commands/handlers.h"

namespace pulse::kv {
namespace {

constexpr std::array<std::pair<std::string_view, Policy>, 4> kPolicies = {
    {{"noeviction", Policy::kNoEviction},
     {"allkeys-lfu", Policy::kLfu},
     {"allkeys-lru", Policy::kLru},
     {"allkeys-random", Policy::kRandom}}};
// Of those that will expire: until they do, in milliseconds.
int64_t MeanMsToLive(const PartitionNumbers& n, int64_t now_ms) {
  if (n.expiring == 0) return 0;
  const auto mean = static_cast<int64_t>(n.expiry_seconds / n.expiring) * 1000;
  return std::max<int64_t>(0, mean - now_ms);
}

// What changes keys without adding to them, and is never refused for want of memory.
bool IsUrgent(redis::Command command) {
  using redis::Command;
  switch (command) {
    case Command::kExpire:
    case Command::kPexpire:
    case Command::kExpireat:
    case Command::kPexpireat:
    case Command::kPersist:
    case Command::kGetex:
    case Command::kRename:
    case Command::kRenamenx:
      return true;
    default:
      return false;
  }
}

// What looks at a key without using it.
bool CountsAsUse(redis::Command command) {
  using redis::Command;
  switch (command) {
    case Command::kObject:
    case Command::kMemory:
    case Command::kExists:
    case Command::kTtl:
    case Command::kPttl:
    case Command::kExpiretime:
    case Command::kPexpiretime:
    case Command::kType:
      return false;
    default:
      return true;
  }
}

KvView::CommandTraits TraitsOf(const redis::CommandInfo& command) {
  using redis::Command;
  const bool many = command.id == Command::kMset || command.id == Command::kMsetnx;
  return {IsUrgent(command.id), CountsAsUse(command.id), many};
}

// A command on all keys that takes long, or must have all of them at once.
bool NeedsAll(const redis::CommandInfo& command) {
  return (command.flags & redis::kKeyspace) != 0 && command.writes();
}

// As Redis reads sizes: 1k is 1000, 1kb is 1024. None for what is no size.
std::optional<uint64_t> ParseMemory(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  uint64_t number = 0;
  if (!absl::SimpleAtoi(redis::AbslOf(text.substr(0, digits)), &number)) return std::nullopt;
  constexpr std::pair<std::string_view, uint64_t> kUnits[] = {
      {"", 1},          {"b", 1},        {"k", 1000},          {"kb", 1024},
      {"m", 1'000'000}, {"mb", 1 << 20}, {"g", 1'000'000'000}, {"gb", 1 << 30}};
  for (const auto& [name, bytes] : kUnits) {
    if (!redis::EqualsIgnoringCase(text.substr(digits), name)) continue;
    if (number > UINT64_MAX / bytes) return std::nullopt;
    return number * bytes;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Policy> ParsePolicy(std::string_view name) {
  for (const auto& [known, policy] : kPolicies) {
    if (redis::EqualsIgnoringCase(name, known)) return policy;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", redis::AbslOf(name.substr(0, 64)),
      "' is no policy; noeviction, allkeys-lfu, allkeys-lru and allkeys-random are known"));
}

std::string_view PolicyName(Policy policy) { return kPolicies[static_cast<size_t>(policy)].first; }

absl::StatusOr<std::unique_ptr<KvStore>> KvStore::Open(const KvStoreOptions& options) {
  std::unique_ptr<KvStore> store(new KvStore(options));
  const int partitions = std::clamp(options.partitions, 1, kMostPartitions);
  store->options_.partitions = partitions;
  store->policy_ = options.policy;
  store->random_ = options.seed;
  store->shards_ = std::vector<Shard>(static_cast<size_t>(partitions));
  PartitionOptions one;
  one.memory_bytes = options.memory_bytes / static_cast<uint64_t>(partitions);
  one.policy = options.policy;
  if (store->in_cluster() && options.cluster->nodes().size() != store->shards_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a cluster of ", options.cluster->nodes().size(),
                                                   " nodes cannot have ", partitions,
                                                   " partitions"));
  }
  if (!options.memory_file.empty()) {
    const redis::SlotRange slots =
        store->in_cluster() ? options.cluster->slots() : redis::SlotRange();
    PULSE_ASSIGN_OR_RETURN(store->file_,
                           StoreFile::Open(options.memory_file, options.memory_bytes, partitions,
                                           store->in_cluster() ? &slots : nullptr));
    store->last_cas_ = &store->file_->last_cas();
  }
  PULSE_RETURN_IF_ERROR(store->OpenPartitions(one));
  uint64_t& most = store->options_.limits.max_value;
  most = std::min(most, store->most_value());
  if (store->file_ != nullptr) store->file_->Finish();
  PULSE_RETURN_IF_ERROR(store->CheckItems(store->DesignName()));
  PULSE_RETURN_IF_ERROR(store->MoveItems(store->DesignName()));
  for (int i = 0; store->in_cluster() && i < partitions; ++i) {
    store->nodes_.push_back(std::make_unique<KvNode>(store.get(), i));
  }
  if (options.ticks) {
    PULSE_RETURN_IF_ERROR(StartThread(
        "a store", [s = store.get()] { s->Housekeeping(); }, &store->housekeeper_));
  }
  return store;
}

// Together, as one that was being changed takes its time.
absl::Status KvStore::OpenPartitions(const PartitionOptions& options) {
  if (file_ != nullptr && file_->existed()) largest_item_ = UINT64_MAX;
  const auto open_one = [&](size_t i) -> absl::Status {
    PartitionOptions one = options;
    if (file_ != nullptr) one.file = file_->place(static_cast<int>(i));
    PULSE_ASSIGN_OR_RETURN(shards_[i].partition, Partition::Open(one));
    // What a memory file tells of is not of this process.
    shards_[i].at_reset = shards_[i].partition->numbers();
    shards_[i].partition->set_largest(&largest_item_);
    shards_[i].partition->set_on_evict([this](std::string_view key) {
      if (watch_.active()) watch_.Touch(key, /*by_client=*/false);
    });
    shards_[i].partition->set_on_expire([this](std::string_view key) { watch_.TellOfExpiry(key); });
    return absl::OkStatus();
  };
  return ParallelFor(shards_.size(), static_cast<int>(shards_.size()), open_one, [] {});
}

bool KvStore::SizeOfValue(std::string_view key, bool may_block, uint64_t* bytes) {
  return WithPartition(key, may_block, [key, bytes](Partition& partition, uint64_t hash) {
    const Item* item = partition.Peek(key, hash);
    *bytes = item == nullptr ? 0 : item->value_size();
  });
}

int KvStore::undone() const {
  int count = 0;
  for (const Shard& shard : shards_) count += shard.partition->undone();
  return count;
}

int KvStore::recovered() const {
  int count = 0;
  for (const Shard& shard : shards_) count += shard.partition->recovered();
  return count;
}

KvStore::KvStore(const KvStoreOptions& options) : options_(options) {}

KvStore::~KvStore() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (housekeeper_.joinable()) housekeeper_.join();
}

std::string KvStore::DesignName() const {
  return options_.designs == nullptr ? "cpu" : options_.designs->name();
}

bool KvStore::Lock(std::mutex* mutex, bool may_block) {
  if (may_block) {
    mutex->lock();
    return true;
  }
  return TrySpinning(mutex, 200);
}

BatchResult KvStore::RunBatch(uint32_t partition, const BatchBuffers& buffers) {
  Shard& shard = shards_[partition];
  const std::lock_guard<std::mutex> lock(shard.mutex);
  Begin(&shard, /*may_block=*/true, now_ms());
  const BatchRules rules = {.partition = partition,
                            .partitions = static_cast<uint32_t>(shards_.size()),
                            .most_far_bytes = options_.limits.max_value,
                            .watch = &watch_};
  const BatchResult result = ProcessBatch(shard.partition.get(), buffers, rules, &shard.batches);
  shard.partition->Settle();
  return result;
}

bool KvStore::ClearAt(int64_t at_ms, bool may_block) {
  const int64_t now = now_ms();
  if (at_ms <= now && !may_block) return false;
  Held held(this);
  if (!held.Take(Everywhere().all(), may_block)) return false;
  for (Shard& shard : shards_) {
    shard.clear_at_ms = at_ms;
    if (at_ms <= now) ClearShard(&shard);
  }
  return true;
}

void KvStore::ClearShard(Shard* shard) {
  shard->partition->Clear();
  shard->clear_at_ms = kNoExpiry;
  // For each partition, as keys of the others may have been watched, and read, since the first.
  if (watch_.active()) watch_.TouchAll();
}

// SplitMix64.
uint64_t KvStore::NextRandom() {
  uint64_t z = random_.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

redis::Keyspace* KvStore::Node(int index) {
  return in_cluster() ? nodes_[static_cast<size_t>(index)].get()
                      : static_cast<redis::Keyspace*>(this);
}

PartitionNumbers KvStore::numbers() const { return Numbers(Everywhere()); }

template <class Of>
PartitionNumbers KvStore::Sum(const Place& place, const Of& of) const {
  PartitionNumbers sum;
  for (uint32_t i = place.begin(); i < place.end(); ++i) {
    std::unique_lock<std::mutex> lock(shards_[i].mutex, std::defer_lock);
    if (!Held::IsHere(this, i)) lock.lock();
    sum += of(shards_[i]);
  }
  return sum;
}

PartitionNumbers KvStore::Numbers(const Place& place) const {
  return Sum(place, [](const Shard& shard) { return shard.partition->numbers(); });
}

void KvStore::ResetCounters() {
  for (size_t i = 0; i < shards_.size(); ++i) {
    std::unique_lock<std::mutex> lock(shards_[i].mutex, std::defer_lock);
    if (!Held::IsHere(this, i)) lock.lock();
    shards_[i].at_reset = shards_[i].partition->numbers();
  }
}

uint64_t KvStore::batch_requests() const {
  uint64_t sum = 0;
  for (size_t i = 0; i < shards_.size(); ++i) {
    std::unique_lock<std::mutex> lock(shards_[i].mutex, std::defer_lock);
    if (!Held::IsHere(this, i)) lock.lock();
    sum += shards_[i].batches.requests;
  }
  return sum;
}

KvStore::RunResult KvStore::Run(const redis::CommandInfo& command, const redis::Arguments& args,
                                bool may_block, redis::ReplyWriter* reply,
                                redis::CommandCounts* counts) {
  return Run(Everywhere(), command, args, may_block, reply, counts);
}

KvStore::RunResult KvStore::Run(const Place& place, const redis::CommandInfo& command,
                                const redis::Arguments& args, bool may_block,
                                redis::ReplyWriter* reply, redis::CommandCounts* counts) {
  const bool all = NeedsAll(command);
  if (all && !may_block) return RunResult::kWouldBlock;
  ShardSet wanted = all ? place.all() : 0;
  redis::ForEachKey(command, args, [&](std::string_view key) { wanted |= place.SetOf(key); });
  Held held(this);
  if (!held.Take(wanted, may_block)) return RunResult::kWouldBlock;
  KvView view(this, place, TraitsOf(command), may_block, all, held.now_ms());
  const size_t begin = reply->out()->size();
  const redis::CommandCounts before = *counts;
  redis::Call call{command, args, view, *reply, *counts};
  redis::RunCommand(call);
  if (!view.error().empty()) view.Undo();
  return EndCommand(view, begin, before, reply, counts);
}

void KvStore::RunTransaction(const std::vector<Queued>& commands,
                             const redis::WatchTable::Set& watches, const Answer& answer,
                             redis::ReplyWriter* reply, redis::CommandCounts* counts) {
  RunTransaction(Everywhere(), commands, watches, answer, reply, counts);
}

void KvStore::RunTransaction(const Place& place, const std::vector<Queued>& commands,
                             const redis::WatchTable::Set& watches, const Answer& answer,
                             redis::ReplyWriter* reply, redis::CommandCounts* counts) {
  ShardSet wanted = 0;
  const auto want = [&](std::string_view key) { wanted |= place.SetOf(key); };
  for (const Queued& queued : commands) {
    if ((queued.command->flags & redis::kKeyspace) != 0) wanted |= place.all();
    // They look at all partitions: what they have to wait for is taken in order, with the others.
    if (queued.command->id == redis::Command::kInfo ||
        queued.command->id == redis::Command::kConfig ||
        redis::ConcernsNoKey(*queued.command, *queued.args)) {
      wanted |= Everywhere().all();
    }
    redis::ForEachKey(*queued.command, *queued.args, want);
  }
  for (const std::string& key : watches.keys()) want(key);
  Held held(this);
  held.Take(wanted, true);
  // Nobody else drops what expires from then on before the commands are done.
  const int64_t now = held.now_ms();
  if (watches.Broken(now)) {
    reply->NullArray();
    return;
  }
  RunQueued(
      commands, options_.limits.max_reply,
      [&](const Queued& queued) {
        const size_t element = reply->out()->size();
        KvView view(this, place, TraitsOf(*queued.command), true,
                    (wanted & place.all()) == place.all(), now);
        redis::Call call{*queued.command, *queued.args, view, *reply, *counts};
        redis::RunCommand(call);
        if (view.error().empty()) return true;
        view.Undo();
        reply->out()->resize(element);
        reply->Error(view.error());
        return true;
      },
      answer, reply, counts);
}

bool KvStore::Watch(const std::string_view* keys, size_t count, bool may_block,
                    redis::WatchTable::Set* watches, std::string*) {
  return Watch(Everywhere(), keys, count, may_block, watches);
}

bool KvStore::Watch(const Place& place, const std::string_view* keys, size_t count, bool may_block,
                    redis::WatchTable::Set* watches) {
  ShardSet wanted = 0;
  for (size_t i = 0; i < count; ++i) wanted |= place.SetOf(keys[i]);
  Held held(this);
  if (!held.Take(wanted, may_block)) return false;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t hash = HashKey(keys[i]);
    const Item* item = partition(place.ShardOf(hash)).Peek(keys[i], hash);
    const int64_t expires_ms = item == nullptr ? kNoExpiry : item->expires_ms();
    watches->Add(keys[i], expires_ms == kNoExpiry ? redis::kNever : expires_ms);
  }
  return true;
}

void KvStore::AddInfo(std::string_view section, std::string* out) const {
  AddInfo(Everywhere(), section, out);
}

void KvStore::AddInfo(const Place& place, std::string_view section, std::string* out) const {
  const auto add = [&](absl::string_view name, const auto& value) {
    absl::StrAppend(out, name, ":", value, "\r\n");
  };
  // In one look at each shard: ResetCounters may be at it.
  const PartitionNumbers n = Sum(place, [](const Shard& shard) {
    PartitionNumbers now = shard.partition->numbers();
    now.expired -= shard.at_reset.expired;
    now.evicted -= shard.at_reset.evicted;
    now.refused -= shard.at_reset.refused;
    now.moved_bytes -= shard.at_reset.moved_bytes;
    return now;
  });
  if (section == "memory") {
    add("maxmemory", told_memory());
    add("maxmemory_policy", redis::AbslOf(PolicyName(policy_)));
    add("item_bytes", n.item_bytes);
    add("dead_bytes", n.dead_bytes);
    add("index_bytes", n.index_bytes);
    add("partition_bytes", n.used_bytes);
    add("partition_limit", options_.memory_bytes);
  } else if (section == "persistence") {
    add("aof_enabled", 0);
  } else if (section == "stats") {
    add("expired_keys", n.expired);
    add("evicted_keys", n.evicted);
    add("refused_keys", n.refused);
  } else if (section == "keyspace") {
    if (n.items > 0) {
      add("db0", absl::StrCat("keys=", n.items, ",expires=", n.expiring,
                              ",avg_ttl=", MeanMsToLive(n, now_ms())));
    }
  } else if (section == section_name()) {
    add("partitions", shards_.size());
    add("design", DesignName());
    if (options_.designs != nullptr) {
      const redis::Designs::Status status = options_.designs->status();
      add("design_now", status.now);
      AddItemsInfo(place, out);
      add("design_changes", status.changes);
      add("host_cpu_us", status.host_cpu_nanos / 1000);
    }
    add("moved_bytes", n.moved_bytes);
    add("shared_memory_requests", batch_requests());
    if (options_.more_info != nullptr) options_.more_info(out);
    if (file_ != nullptr) {
      add("memory_file", options_.memory_file);
      add("resumed", file_->existed() ? 1 : 0);
      add("undone_partitions", undone());
      add("recovered_partitions", recovered());
    }
  }
}

std::vector<redis::Keyspace::Setting> KvStore::Settings() const {
  return {{"appendonly", "no"},
          {"design", DesignName()},
          {"maxmemory", std::to_string(told_memory())},
          {"maxmemory-policy", std::string(PolicyName(policy_))}};
}

std::string KvStore::CheckSetting(std::string_view name, std::string_view value) const {
  if (redis::EqualsIgnoringCase(name, "maxmemory-policy")) {
    const auto policy = ParsePolicy(value);
    if (policy.ok()) return "";
    return absl::StrCat("ERR CONFIG SET failed - maxmemory-policy: ", policy.status().message());
  }
  if (redis::EqualsIgnoringCase(name, "maxmemory")) {
    // Who sets what is in force anyway is content.
    if (ParseMemory(value) == told_memory()) return "";
    return absl::StrCat("ERR CONFIG SET failed - maxmemory is fixed at start, by --memory: it is ",
                        told_memory());
  }
  if (redis::EqualsIgnoringCase(name, "design")) {
    const absl::Status status = options_.designs != nullptr
                                    ? options_.designs->Check(value)
                                    : redis::Designs(1, {}, {}).Check(value);
    if (!status.ok()) return absl::StrCat("ERR CONFIG SET failed - ", status.message());
    const absl::Status items = CheckItems(value);
    return items.ok() ? ""
                      : absl::StrCat("ERR CONFIG SET failed - ", items.message(), ". ",
                                     DesignName(), " stays in force");
  }
  return absl::StrCat("ERR Unknown option or number of arguments for CONFIG SET - '",
                      redis::AbslOf(name.substr(0, 64)),
                      "'; design, maxmemory-policy, latency-tracking, slowlog-log-slower-than and "
                      "slowlog-max-len can be set");
}

std::string KvStore::Configure(std::string_view name, std::string_view value) {
  if (std::string error = CheckSetting(name, value); !error.empty()) return error;
  if (redis::EqualsIgnoringCase(name, "design")) {
    if (options_.designs == nullptr) return "";
    const absl::Status status = SetDesign(value);
    return status.ok() ? "" : absl::StrCat("ERR CONFIG SET failed - ", status.message());
  }
  if (redis::EqualsIgnoringCase(name, "maxmemory")) return "";
  const Policy policy = *ParsePolicy(value);
  policy_ = policy;
  for (size_t i = 0; i < shards_.size(); ++i) {
    std::unique_lock<std::mutex> lock(shards_[i].mutex, std::defer_lock);
    if (!Held::IsHere(this, i)) lock.lock();
    shards_[i].partition->set_policy(policy);
  }
  return "";
}

}  // namespace pulse::kv
