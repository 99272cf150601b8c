#include "bench/macro/memory_meter.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/pulse/util/agent_socket.h"
#include "base/errors.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

constexpr std::chrono::milliseconds kSampleInterval(50);
constexpr uint64_t kLeastQueue = uint64_t{2} << 20;
constexpr uint64_t kLeastFetch = uint64_t{48} << 20;

std::string ReadProc(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

MemoryUse UseOfProcess(const std::string& pid) {
  return ParseMemoryUse(ReadProc(absl::StrCat("/proc/", pid, "/status")),
                        ReadProc(absl::StrCat("/proc/", pid, "/maps")));
}

double MiB(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

MemoryUse ParseMemoryUse(const std::string& status, const std::string& maps) {
  MemoryUse use;
  std::istringstream lines(status);
  for (std::string line; std::getline(lines, line);) {
    const auto kilobytes = [&](const char* name, uint64_t* out) {
      if (absl::StartsWith(line, name)) {
        *out = std::strtoull(line.c_str() + std::char_traits<char>::length(name), nullptr, 10)
               << 10;
      }
    };
    kilobytes("VmRSS:", &use.resident);
    kilobytes("RssAnon:", &use.anonymous);
  }
  std::istringstream mappings(maps);
  for (std::string line; std::getline(mappings, line);) {
    if (!absl::StrContains(line, "/memfd:pulse-region")) continue;
    char* end = nullptr;
    const uint64_t from = std::strtoull(line.c_str(), &end, 16);
    if (*end != '-') continue;
    const uint64_t bytes = std::strtoull(end + 1, nullptr, 16) - from;
    if (bytes >= kLeastFetch) {
      use.fetch_bytes += bytes;
    } else if (bytes >= kLeastQueue) {
      ++use.queues;
      use.queue_bytes += bytes;
    }
  }
  return use;
}

void MemoryMeter::Peaks::Take(const MemoryUse& use) {
  most.resident = std::max(most.resident, use.resident);
  most.anonymous = std::max(most.anonymous, use.anonymous);
  most.fetch_bytes = std::max(most.fetch_bytes, use.fetch_bytes);
  shared = std::max(shared, use.queue_bytes + use.fetch_bytes);
  // Number and size of the same moment.
  if (use.queue_bytes > most.queue_bytes) {
    most.queue_bytes = use.queue_bytes;
    most.queues = use.queues;
  }
}

absl::StatusOr<std::unique_ptr<MemoryMeter>> MemoryMeter::Create(const Variant& variant) {
  pid_t pid = 0;
  if (!variant.agent_socket.empty()) {
    PULSE_ASSIGN_OR_RETURN(const auto agent, FindAgent(variant.agent_socket));
    pid = agent.pid;
  }
  return std::unique_ptr<MemoryMeter>(new MemoryMeter(pid));
}

void MemoryMeter::Start() {
  host_idle_ = UseOfProcess("self");
  if (agent_ != 0) agent_idle_ = UseOfProcess(absl::StrCat(agent_));
  Sample();
  sampler_.emplace(kSampleInterval, [this] { Sample(); });
}

void MemoryMeter::Sample() {
  host_.Take(UseOfProcess("self"));
  if (agent_ != 0) agent_peaks_.Take(UseOfProcess(absl::StrCat(agent_)));
  looks_.fetch_add(1);
}

void MemoryMeter::Stop(nlohmann::json* result) {
  if (!sampler_) return;
  sampler_.reset();
  (*result)["host_idle_rss_mib"] = MiB(host_idle_.resident);
  (*result)["host_rss_mib"] = MiB(host_.most.resident);
  (*result)["host_private_mib"] = MiB(host_.most.anonymous);
  if (agent_ == 0) return;
  (*result)["agent_idle_rss_mib"] = MiB(agent_idle_.resident);
  (*result)["agent_rss_mib"] = MiB(agent_peaks_.most.resident);
  (*result)["agent_private_mib"] = MiB(agent_peaks_.most.anonymous);
  (*result)["queues"] = host_.most.queues;
  (*result)["queue_mib"] = MiB(host_.most.queue_bytes);
  (*result)["fetch_mib"] = MiB(host_.most.fetch_bytes);
  (*result)["shared_mib"] = MiB(host_.shared);
  if (host_.most.queues != 0) {
    (*result)["mib_per_queue"] =
        MiB(host_.most.queue_bytes) / static_cast<double>(host_.most.queues);
  }
}

}  // namespace pulse::bench
