// What the parts of `pulse bench kv` share: the shape of a run, and its keys.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "services/kv/core/partition.h"
#include "vdpu/profile.h"

namespace pulse::bench {

struct KvShape {
  uint64_t items = 16'000'000;
  size_t key_bytes = 8;  // at least 8
  size_t value_bytes = 8;
  double set_share = 0;
  bool zipf = false;  // 0.99; else uniform
  size_t batch = 32;
  double seconds = 2;
  std::string design;            // who takes part: a name of data/kv.json
  double rate = 0;               // requests a second offered; 0: as many as are taken
  std::string engine = "pulse";  // or "mica"
  vdpu::Profile profile;         // of the virtual DPU; without a name: there is none
  std::vector<int> loads;        // of designs: per cent of their peak
  std::vector<int> connections;  // of redis: how many at a time
  std::vector<int> host_cpus;
  std::vector<int> agent_cpus;
};
// Of a profile that is no file and no built-in one: as vdpu::LoadProfile.
absl::StatusOr<KvShape> ReadKvShape(const nlohmann::json& spec);

// A key's bytes: its number, scattered, then 'k' to the length.
inline void WriteKey(uint64_t number, size_t bytes, char* to) {
  const uint64_t scattered = number * 0x9e3779b97f4a7c15;
  std::memcpy(to, &scattered, 8);
  std::memset(to + 8, 'k', bytes - 8);
}

// The numbers of so many requests, drawn before anything is timed.
std::vector<uint64_t> DrawNumbers(const KvShape& shape, size_t count, uint64_t seed);

// A store, kv::Partition or kv::MicaCache, with the items of one partition of `parts`; each value
// begins with its number.
template <class Store>
absl::StatusOr<std::unique_ptr<Store>> FillStore(const KvShape& shape, uint32_t part,
                                                 uint32_t parts);

absl::StatusOr<nlohmann::json> RunKvEngine(const KvShape& shape);
absl::StatusOr<nlohmann::json> RunKvNetwork(const KvShape& shape);
absl::StatusOr<nlohmann::json> RunKvDesign(const KvShape& shape);
absl::StatusOr<nlohmann::json> RunKvQueueBatches(const KvShape& shape);
absl::StatusOr<nlohmann::json> RunKvQueueMovers(const KvShape& shape);
absl::StatusOr<nlohmann::json> RunKvRedis(const KvShape& shape);
absl::StatusOr<nlohmann::json> RunKvShm(const KvShape& shape);
absl::StatusOr<nlohmann::json> RunKvUdp(const KvShape& shape);

}  // namespace pulse::bench
