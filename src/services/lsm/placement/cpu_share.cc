#include "services/lsm/placement/cpu_share.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "base/clock.h"

namespace pulse::lsm {
namespace {

constexpr int64_t kShareNanos = 200'000'000;
// Of what they could use: less than the half that is left beside one other thread.
constexpr double kContended = 0.45;
constexpr double kLeastWanted = 0.3;  // threads that ran or waited: fewer are too few to measure

}  // namespace

std::optional<CpuShare::Times> CpuShare::Read(pid_t thread) {
  std::ifstream in("/proc/self/task/" + std::to_string(thread) + "/schedstat");
  Times t;
  if (!(in >> t.ran >> t.waited)) return std::nullopt;
  return t;
}

bool CpuShare::IsSupported() {
  ThreadCpuNanos();  // brings the account of a thread that has just begun up to date
  const std::optional<Times> mine = Read(gettid());
  return mine && mine->ran > 0;
}

CpuShare::Share CpuShare::Of(double ran, double waited, int cpus, double served) {
  const double wanted = ran + waited;
  if (wanted < kLeastWanted) return {};
  return {ran / wanted, ran + served < kContended * std::min<double>(cpus, wanted + served)};
}

void CpuShare::Note(const std::vector<pid_t>& threads, int64_t served) {
  const int64_t now = NowNanos();
  const int64_t nanos = now - std::exchange(noted_at_, now);
  const int64_t served_now = served - std::exchange(served_at_, served);
  std::map<pid_t, Times> seen;
  bool any = false;
  for (const pid_t thread : threads) {
    const std::optional<Times> t = Read(thread);
    if (!t) continue;
    seen[thread] = *t;
    const auto before = last_.find(thread);
    // The number may have been given to another thread.
    if (before == last_.end() || t->ran < before->second.ran || t->waited < before->second.waited) {
      continue;
    }
    any = true;
    all_ += static_cast<double>(nanos);
    ran_ += static_cast<double>(t->ran - before->second.ran);
    waited_ += static_cast<double>(t->waited - before->second.waited);
  }
  last_ = std::move(seen);
  if (!any) return;
  any_ += nanos;
  // CPU time of a thread that has just ended may not have been added yet.
  served_ += static_cast<double>(std::max<int64_t>(0, served_now));
}

bool CpuShare::AnyIsReady() const {
  for (const auto& [thread, times] : last_) {
    if (thread == gettid()) continue;  // it runs, and so its waits have ended
    std::ifstream in("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string line;
    std::getline(in, line);
    // The state stands behind the name, which may have anything in it.
    const size_t name_end = line.rfind(") ");
    if (name_end != std::string::npos && line.compare(name_end + 2, 1, "R") == 0) return true;
  }
  return false;
}

std::optional<CpuShare::Share> CpuShare::Take(const std::vector<pid_t>& threads, int cpus,
                                              int64_t served) {
  if (!last_.empty() && any_ + NowNanos() - noted_at_ < kShareNanos) return std::nullopt;
  Note(threads, served);
  if (any_ < kShareNanos) return std::nullopt;
  // The kernel adds a wait when it ends: until then a thread that is starved looks like an idle
  // one.
  if (ran_ + waited_ < kLeastWanted * static_cast<double>(any_) && AnyIsReady()) {
    return std::nullopt;
  }
  const auto nanos = static_cast<double>(std::exchange(any_, 0));
  const double ran = std::exchange(ran_, 0);
  const double waited = std::exchange(waited_, 0);
  const double all = std::exchange(all_, 0);
  // The kernel adds a wait when it ends, even one that began before the last measurement.
  return Of(ran / nanos, std::clamp(waited, 0.0, std::max(0.0, all - ran)) / nanos, cpus,
            std::exchange(served_, 0) / nanos);
}

}  // namespace pulse::lsm
