#include "bench/macro/faults/soak_samples.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "bench/macro/memory_meter.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

double Seconds(int64_t nanos) { return static_cast<double>(nanos) / 1e9; }

}  // namespace

ProcessUse UseOf(pid_t pid) {
  if (pid <= 0) return {};
  const std::string dir = fmt::format("/proc/{}", pid);
  std::stringstream status;
  status << std::ifstream(dir + "/status").rdbuf();
  const MemoryUse memory = ParseMemoryUse(status.str(), "");
  ProcessUse use{memory.resident, memory.anonymous};
  std::error_code ec;
  std::filesystem::directory_iterator it(dir + "/fd", ec);
  for (; !ec && it != std::filesystem::directory_iterator(); it.increment(ec)) ++use.descriptors;
  return use;
}

SoakSampler::SoakSampler(int64_t start, const rocksdb::FileSystem* fs, SoakAgent* agent,
                         SoakLoad* load)
    : start_(start),
      fs_(fs),
      agent_(agent),
      load_(load),
      last_(start),
      last_ops_(load->figures().total()),
      last_stats_(stats()) {
  load_->TakeWorstWriteNanos();
}

Stats SoakSampler::stats() const {
  Stats stats = {};
  GetStats(fs_, &stats);
  return stats;
}

void SoakSampler::Take(int64_t now, bool disturbed) {
  if (now <= last_) return;
  const Stats s = stats();
  const uint64_t ops = load_->figures().total();
  SoakSample sample;
  sample.at_s = Seconds(now - start_);
  sample.seconds = Seconds(now - last_);
  sample.host = UseOf(getpid());
  sample.agent = UseOf(agent_->pid());
  sample.ops_per_s = static_cast<double>(ops - last_ops_) / sample.seconds;
  sample.worst_write_ms = static_cast<double>(load_->TakeWorstWriteNanos()) / 1e6;
  sample.bytes_persisted = s.bytes_persisted - last_stats_.bytes_persisted;
  sample.bytes_inline = s.bytes_inline - last_stats_.bytes_inline;
  sample.failovers = s.failovers - last_stats_.failovers;
  sample.queued_bytes = s.queued_bytes;
  sample.queued_requests = s.queued_requests;
  const uint64_t agentless = s.agentless_nanos - last_stats_.agentless_nanos;
  sample.agentless_share =
      std::clamp(static_cast<double>(agentless) / static_cast<double>(now - last_), 0.0, 1.0);
  sample.disturbed = disturbed;
  samples_.push_back(sample);
  last_ = now;
  last_ops_ = ops;
  last_stats_ = s;
}

std::vector<NamedTrend> JudgeTrends(const std::vector<SoakSample>& samples) {
  std::vector<double> host_rss, host_fds, agent_rss, agent_fds, queued_bytes, queued_requests;
  for (const SoakSample& s : samples) {
    queued_bytes.push_back(static_cast<double>(s.queued_bytes));
    queued_requests.push_back(static_cast<double>(s.queued_requests));
    host_rss.push_back(static_cast<double>(s.host.rss_bytes));
    host_fds.push_back(static_cast<double>(s.host.descriptors));
    if (s.agent.rss_bytes == 0 || s.agent.descriptors == 0) continue;
    agent_rss.push_back(static_cast<double>(s.agent.rss_bytes));
    agent_fds.push_back(static_cast<double>(s.agent.descriptors));
  }
  return {
      {"host memory", true, JudgeTrend(host_rss, kTrendShare, kTrendFloorBytes)},
      {"host descriptors", false, JudgeTrend(host_fds, kTrendShare, kTrendFloorDescriptors)},
      {"agent memory", true, JudgeTrend(agent_rss, kTrendShare, kTrendFloorBytes)},
      {"agent descriptors", false, JudgeTrend(agent_fds, kTrendShare, kTrendFloorDescriptors)},
      {"payload in queues", true, JudgeTrend(queued_bytes, kTrendShare, kTrendFloorBytes)},
      {"requests in rings", false, JudgeTrend(queued_requests, kTrendShare, kTrendFloorRequests)}};
}

SoakSpeeds SpeedsOf(const std::vector<SoakSample>& samples) {
  std::vector<double> with, disturbed, without;
  for (const SoakSample& s : samples) {
    // Intervals are not cut to the nanosecond.
    std::vector<double>& kind = s.agentless_share > 0.99                 ? without
                                : s.agentless_share == 0 && !s.disturbed ? with
                                                                         : disturbed;
    kind.push_back(s.ops_per_s);
  }
  return {MedianOf(with), MedianOf(disturbed), MedianOf(without),
          with.size(),    disturbed.size(),    without.size()};
}

}  // namespace pulse::bench
