#include "services/ops/dpdk/module/regex_device.h"

#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_regexdev.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "services/ops/dpdk/module/environment.h"
#include "services/ops/dpdk/module/pause.h"

namespace pulse::ops::dpdk {
namespace {

constexpr uint32_t kLargestInput = 0xFFC0;
constexpr uint16_t kInFlight = 64;
// Whether there is one is all that is asked.
constexpr uint16_t kMostMatches = 1;
// Where the vendor's compiler puts rules that name no other.
constexpr uint16_t kGroup = 1;
// Answers that are not certain: the device gave up before the end.
constexpr uint16_t kLimits = RTE_REGEX_OPS_RSP_MAX_SCAN_TIMEOUT_F | RTE_REGEX_OPS_RSP_MAX_PREFIX_F |
                             RTE_REGEX_OPS_RSP_RESOURCE_LIMIT_REACHED_F;

struct RegexDeviceState {
  uint8_t id = 0;
  std::string rules;
  uint16_t most_matches = 1;
  RegexFacts facts{};
  rte_mempool* buffers = nullptr;
  // One queue, one user of it at a time.
  std::mutex mutex;
  bool lost = false;
};

struct RegexRegistry {
  std::mutex mutex;
  std::map<std::string, RegexDeviceState*> devices;
  std::set<uint8_t> ids;
};

RegexRegistry& TheRegexRegistry() {
  static RegexRegistry* const registry = new RegexRegistry;  // as long as DPDK's own threads
  return *registry;
}

Outcome Configure(RegexDeviceState& device, const std::string& name, std::string& why) {
  rte_regexdev_info info{};
  if (rte_regexdev_info_get(device.id, &info) != 0) {
    why = "it says nothing of itself";
    return Outcome::kUnsupported;
  }
  std::snprintf(device.facts.driver, sizeof(device.facts.driver), "%s",
                info.driver_name == nullptr ? "unnamed" : info.driver_name);
  device.facts.largest_input = std::min<uint64_t>(kLargestInput, info.max_payload_size);
  device.most_matches = std::clamp<uint16_t>(info.max_matches, 1, kMostMatches);
  rte_regexdev_config config{};
  config.nb_max_matches = device.most_matches;
  config.nb_queue_pairs = 1;
  config.nb_groups = 1;
  config.rule_db = device.rules.data();
  config.rule_db_len = static_cast<uint32_t>(device.rules.size());
  const auto failed = [&](const char* what, int got) {
    const std::string said = TakeLog();
    why = std::string(what) + ": " + strerror(got < 0 ? -got : got) +
          (said.empty() ? "" : " (" + said + ")");
    return Outcome::kUnsupported;
  };
  if (const int got = rte_regexdev_configure(device.id, &config); got != 0) {
    return failed("it does not take these rules", got);
  }
  rte_regexdev_qp_conf queue{};
  queue.nb_desc = kInFlight;
  if (const int got = rte_regexdev_queue_pair_setup(device.id, 0, &queue); got != 0) {
    return failed("its queue cannot be set up", got);
  }
  device.buffers =
      rte_pktmbuf_pool_create((name + "_r").c_str(), kInFlight, 0, 0, kLargestInput, SOCKET_ID_ANY);
  if (device.buffers == nullptr) return failed("no memory for its buffers", rte_errno);
  if (const int got = rte_regexdev_start(device.id); got != 0) {
    return failed("it does not start", got);
  }
  return Outcome::kOk;
}

Outcome OpenDevice(RegexRegistry& registry, const std::string& name, RegexDeviceState& device,
                   std::string& why) {
  if (!IsPciAddress(name)) {
    why =
        "no regex device here: DPDK has no software driver for regular expressions; name a "
        "card's PCI address";
    return Outcome::kNoDevice;
  }
  Outcome got = BeginEnvironment(name, "regex", why);
  if (got == Outcome::kOk) got = AddDevice(name, "regex", why);
  if (got != Outcome::kOk) {
    why = "no regex device here: " + why;
    return got;
  }
  for (unsigned id = 0; id < RTE_MAX_REGEXDEV_DEVS; ++id) {
    const auto candidate = static_cast<uint8_t>(id);
    rte_regexdev_info info{};
    if (registry.ids.count(candidate) != 0 || rte_regexdev_info_get(candidate, &info) != 0) {
      continue;
    }
    registry.ids.insert(candidate);
    device.id = candidate;
    return Configure(device, name, why);
  }
  why = "no regex device here: its driver has none (package librte-regex-mlx5)";
  return Outcome::kNoDevice;
}

// An operation has its matches behind it.
size_t OperationBytes(const RegexDeviceState& device) {
  const size_t bytes = sizeof(rte_regex_ops) + device.most_matches * sizeof(rte_regexdev_match);
  return (bytes + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
}

// Null: no mbuf is left.
rte_mbuf* Load(const RegexDeviceState& device, const RegexJob& job) {
  rte_mbuf* const buffer = rte_pktmbuf_alloc(device.buffers);
  if (buffer == nullptr) return nullptr;
  buffer->data_off = 0;
  buffer->data_len = static_cast<uint16_t>(job.input_bytes);
  buffer->pkt_len = buffer->data_len;
  if (job.input_bytes != 0) {
    std::memcpy(rte_pktmbuf_mtod(buffer, void*), job.input, job.input_bytes);
  }
  return buffer;
}

// At most kInFlight jobs. False: the device is lost, with all that it was given.
bool ScanBurst(RegexDeviceState& device, RegexJob* jobs, uint32_t count) {
  const size_t bytes = OperationBytes(device);
  std::vector<std::max_align_t> memory(bytes / sizeof(std::max_align_t) * count);
  std::vector<rte_regex_ops*> ops;
  for (uint32_t i = 0; i < count; ++i) {
    RegexJob& job = jobs[i];
    job.matched = 0;
    job.outcome = Outcome::kUnsupported;
    // No driver promises anything for an empty buffer.
    if (job.input_bytes > device.facts.largest_input || job.input_bytes == 0) continue;
    job.outcome = Outcome::kFull;
    rte_mbuf* const buffer = Load(device, job);
    if (buffer == nullptr) continue;
    job.outcome = Outcome::kLost;
    auto* const op =
        reinterpret_cast<rte_regex_ops*>(reinterpret_cast<char*>(memory.data()) + i * bytes);
    op->mbuf = buffer;
    op->req_flags = RTE_REGEX_OPS_REQ_GROUP_ID0_VALID_F;
    op->group_id0 = kGroup;
    op->user_ptr = &job;
    ops.push_back(op);
  }
  size_t given = 0;
  size_t back = 0;
  Pause pause;
  std::vector<rte_regex_ops*> done(ops.size());
  while (back < ops.size()) {
    const uint16_t taken = rte_regexdev_enqueue_burst(device.id, 0, ops.data() + given,
                                                      static_cast<uint16_t>(ops.size() - given));
    given += taken;
    const uint16_t got =
        rte_regexdev_dequeue_burst(device.id, 0, done.data(), static_cast<uint16_t>(done.size()));
    for (uint16_t i = 0; i < got; ++i) {
      const rte_regex_ops& op = *done[i];
      auto& job = *static_cast<RegexJob*>(op.user_ptr);
      job.matched = op.nb_actual_matches != 0 || op.nb_matches != 0 ? 1 : 0;
      const bool certain = job.matched != 0 || (op.rsp_flags & kLimits) == 0;
      job.outcome = certain ? Outcome::kOk : Outcome::kRefused;
    }
    back += got;
    if (taken != 0 || got != 0) {
      pause.Reset();
    } else if (!pause.Wait()) {
      // It may still write to what it has: that memory is never used again.
      static_cast<void>(new std::vector<std::max_align_t>(std::move(memory)));
      return false;
    }
  }
  for (rte_regex_ops* op : ops) rte_pktmbuf_free(op->mbuf);
  return true;
}

}  // namespace

Outcome OpenRegex(const char* name, const void* rules, uint32_t rule_bytes, void** out,
                  RegexFacts* facts, Error* error) {
  RegexRegistry& registry = TheRegexRegistry();
  const std::lock_guard lock(registry.mutex);
  const std::string database(static_cast<const char*>(rules), rule_bytes);
  std::string why;
  Outcome got = Outcome::kOk;
  auto it = registry.devices.find(name);
  if (it == registry.devices.end()) {
    auto device = std::make_unique<RegexDeviceState>();
    device->rules = database;
    got = OpenDevice(registry, name, *device, why);
    if (got == Outcome::kOk) it = registry.devices.emplace(name, device.release()).first;
  } else if (it->second->rules != database) {
    got = Outcome::kFull;
    why = "it is in use with other rules";
  }
  if (got != Outcome::kOk) {
    std::snprintf(error->text, sizeof(error->text), "%s", why.c_str());
    return got;
  }
  *out = it->second;
  *facts = it->second->facts;
  return Outcome::kOk;
}

void ScanRegex(void* opaque, RegexJob* jobs, uint32_t count) {
  auto& device = *static_cast<RegexDeviceState*>(opaque);
  for (uint32_t i = 0; i < count; ++i) jobs[i].outcome = Outcome::kLost;
  const std::lock_guard lock(device.mutex);
  for (uint32_t at = 0; at < count && !device.lost; at += kInFlight) {
    device.lost = !ScanBurst(device, jobs + at, std::min<uint32_t>(kInFlight, count - at));
  }
}

}  // namespace pulse::ops::dpdk
