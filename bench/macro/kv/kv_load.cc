#include "bench/macro/kv/kv_load.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "bench/macro/child_jobs.h"
#include "bench/macro/workload.h"
#include "bench/macro/ycsb/zipfian.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {

KvShape ReadKvShape(const nlohmann::json& spec) {
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

absl::StatusOr<std::unique_ptr<kv::Partition>> FillPartition(const KvShape& shape, uint32_t part,
                                                             uint32_t parts) {
  kv::PartitionOptions options;
  const uint64_t each = kv::Item::SizeOf(shape.key_bytes, shape.value_bytes, 0) + 20;
  options.memory_bytes = shape.items / parts * each + (uint64_t{64} << 20);
  auto opened = kv::Partition::Open(options);
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

absl::StatusOr<nlohmann::json> RunKvJob(const nlohmann::json& spec) {
  const KvShape shape = ReadKvShape(spec);
  if (shape.key_bytes < 8 || shape.key_bytes > 250 || shape.value_bytes < 1 ||
      shape.value_bytes > 1024 || shape.batch < 1 || shape.batch > 256 || shape.items < 1) {
    return absl::InvalidArgumentError(
        "keys of 8 to 250 bytes, values of 1 to 1024, and batches of 1 to 256 are possible");
  }
  const auto part = spec.at("part").get<std::string>();
  if (part == "shm") return RunKvShm(shape);
  if (part == "udp") return RunKvUdp(shape);
  return part == "engine" ? RunKvEngine(shape) : RunKvNetwork(shape);
}

}  // namespace pulse::bench
