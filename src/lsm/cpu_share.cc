#include "lsm/cpu_share.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "base/clock.h"

namespace pulse::lsm {
namespace {

constexpr int64_t kShareNanos = 200'000'000;
// Of what they could use: beside one other thread there is a half, and beside what serves them
// more.
constexpr double kCrowded = 0.45;
constexpr double kLeastWanted = 0.3;  // threads that ran or waited: fewer say little

}  // namespace

std::optional<CpuShare::Times> CpuShare::Read(pid_t thread) {
  std::ifstream in("/proc/self/task/" + std::to_string(thread) + "/schedstat");
  Times t;
  if (!(in >> t.ran >> t.waited)) return std::nullopt;
  return t;
}

bool CpuShare::IsKnown() {
  const std::optional<Times> mine = Read(gettid());
  return mine && mine->ran > 0;
}

CpuShare::Share CpuShare::Of(double ran, double waited, int cpus, double served) {
  const double wanted = ran + waited;
  if (wanted < kLeastWanted) return {};
  return {ran / wanted, ran + served < kCrowded * std::min<double>(cpus, wanted + served)};
}

std::optional<CpuShare::Share> CpuShare::Take(const std::vector<pid_t>& threads, int cpus,
                                              int64_t served) {
  const int64_t now = NowNanos();
  if (now - at_ < kShareNanos) return std::nullopt;
  const auto nanos = static_cast<double>(now - std::exchange(at_, now));
  // What has just ended may not have been added yet.
  const auto served_now =
      std::max(0.0, static_cast<double>(served - std::exchange(served_, served)) / nanos);
  uint64_t ran = 0, waited = 0;
  int seen_before = 0;
  std::map<pid_t, Times> seen;
  for (const pid_t thread : threads) {
    const std::optional<Times> t = Read(thread);
    if (!t) continue;
    seen[thread] = *t;
    const auto before = last_.find(thread);
    // Another thread may have its number.
    if (before == last_.end() || t->ran < before->second.ran || t->waited < before->second.waited) {
      continue;
    }
    ++seen_before;
    ran += t->ran - before->second.ran;
    waited += t->waited - before->second.waited;
  }
  last_ = std::move(seen);
  if (seen_before == 0) return std::nullopt;
  // The kernel adds a wait when it is over, also one from before.
  const double running = static_cast<double>(ran) / nanos;
  const double waiting =
      std::clamp(static_cast<double>(waited) / nanos, 0.0, std::max(0.0, seen_before - running));
  return Of(running, waiting, cpus, served_now);
}

}  // namespace pulse::lsm
