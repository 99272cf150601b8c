#include "bench/macro/kv/kv_load.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "bench/macro/child_jobs.h"
#include "bench/macro/workload.h"
#include "bench/macro/ycsb/zipfian.h"
#include "bench/rivals/kv/mica_cache.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {

absl::StatusOr<KvShape> ReadKvShape(const nlohmann::json& spec) {
  KvShape shape;
  shape.items = spec.at("items").get<uint64_t>();
  shape.key_bytes = spec.at("key_bytes").get<size_t>();
  shape.value_bytes = spec.at("value_bytes").get<size_t>();
  shape.set_share = spec.at("set_share").get<double>();
  shape.zipf = spec.at("zipf").get<bool>();
  shape.batch = spec.at("batch").get<size_t>();
  shape.seconds = spec.at("seconds").get<double>();
  shape.design = spec.at("design").get<std::string>();
  shape.rate = spec.value("rate", 0.0);
  shape.engine = spec.value("engine", "pulse");
  shape.loads = spec.value("loads", std::vector<int>());
  shape.connections = spec.value("connections", std::vector<int>());
  if (const auto profile = spec.value("profile", ""); !profile.empty()) {
    PULSE_ASSIGN_OR_RETURN(shape.profile, vdpu::LoadProfile(profile));
  }
  shape.host_cpus = spec.at("host_cpus").get<std::vector<int>>();
  shape.agent_cpus = spec.at("agent_cpus").get<std::vector<int>>();
  return shape;
}

std::vector<uint64_t> DrawNumbers(const KvShape& shape, size_t count, uint64_t seed) {
  std::vector<uint64_t> numbers(count);
  Random random(seed);
  const Zipfian zipf;
  const double zeta = shape.zipf ? zipf.Zeta(shape.items) : 0;
  for (uint64_t& number : numbers) {
    // Popular numbers are scattered among all.
    number = shape.zipf ? Mix(zipf.Rank(random.Unit(), shape.items, zeta)) % shape.items
                        : random.Below(shape.items);
  }
  return numbers;
}

namespace {

absl::StatusOr<std::unique_ptr<kv::Partition>> OpenStore(uint64_t items, uint64_t item_bytes,
                                                         const kv::Partition*) {
  kv::PartitionOptions options;
  options.memory_bytes = items * (item_bytes + 20) + (uint64_t{64} << 20);
  return kv::Partition::Open(options);
}

// A log that evicts nothing while it is filled.
absl::StatusOr<std::unique_ptr<kv::MicaCache>> OpenStore(uint64_t items, uint64_t item_bytes,
                                                         const kv::MicaCache*) {
  kv::MicaOptions options;
  options.log_bytes = items * item_bytes + items * item_bytes / 16 + (uint64_t{1} << 20);
  options.expected_items = items;
  return kv::MicaCache::Open(options);
}

}  // namespace

template <class Store>
absl::StatusOr<std::unique_ptr<Store>> FillStore(const KvShape& shape, uint32_t part,
                                                 uint32_t parts) {
  auto opened =
      OpenStore(shape.items / parts, kv::Item::SizeOf(shape.key_bytes, shape.value_bytes, 0),
                static_cast<const Store*>(nullptr));
  if (!opened.ok()) return opened.status();
  (*opened)->SetNow(1);
  std::string key(shape.key_bytes, '\0');
  for (uint64_t number = 0; number < shape.items; ++number) {
    WriteKey(number, key.size(), key.data());
    const uint64_t hash = kv::HashKey(key);
    if (parts > 1 && kv::PartitionOf(hash, parts) != part) continue;
    kv::Item* item = nullptr;
    if ((*opened)->Put(key, hash, shape.value_bytes, {}, &item) != kv::Partition::Result::kStored) {
      return absl::ResourceExhaustedError(
          absl::StrCat("item ", number, " of ", shape.items, " finds no room"));
    }
    std::memset(item->value_bytes(), 'v', shape.value_bytes);
    std::memcpy(item->value_bytes(), &number, std::min<size_t>(8, shape.value_bytes));
  }
  return opened;
}
template absl::StatusOr<std::unique_ptr<kv::Partition>> FillStore(const KvShape&, uint32_t,
                                                                  uint32_t);
template absl::StatusOr<std::unique_ptr<kv::MicaCache>> FillStore(const KvShape&, uint32_t,
                                                                  uint32_t);

absl::StatusOr<nlohmann::json> RunKvJob(const nlohmann::json& spec) {
  PULSE_ASSIGN_OR_RETURN(const KvShape shape, ReadKvShape(spec));
  if (shape.key_bytes < 8 || shape.key_bytes > 250 || shape.value_bytes < 1 ||
      shape.value_bytes > 1024 || shape.batch < 1 || shape.batch > 256 || shape.items < 1) {
    return absl::InvalidArgumentError(
        "keys of 8 to 250 bytes, values of 1 to 1024, and batches of 1 to 256 are possible");
  }
  const auto part = spec.at("part").get<std::string>();
  if (part == "shm") return RunKvShm(shape);
  if (part == "designs") return RunKvDesign(shape);
  if (part == "queue") {
    return spec.at("kind") == "movers" ? RunKvQueueMovers(shape) : RunKvQueueBatches(shape);
  }
  if (part == "udp") return RunKvUdp(shape);
  if (part == "redis") return RunKvRedis(shape);
  return part == "engine" ? RunKvEngine(shape) : RunKvNetwork(shape);
}

}  // namespace pulse::bench
