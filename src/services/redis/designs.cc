#include "services/redis/designs.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_profile.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/shortage.h"
#include "services/redis/commands/commands.h"
#include "services/redis/commands/handlers.h"

namespace pulse::redis {
namespace {

// For how long a loop of an agent looks for requests before it sleeps, where it has CPUs of its
// own: who wakes it pays for that.
constexpr int64_t kAgentSpinNanos = 50'000;

// Empty: any, and so the other's, too.
bool AreApart(const std::vector<int>& some, const std::vector<int>& others) {
  if (some.empty() || others.empty()) return false;
  return std::find_first_of(some.begin(), some.end(), others.begin(), others.end()) == some.end();
}

}  // namespace

Designs::Designs(int loops, std::vector<int> host_cpus, std::vector<int> agent_cpus,
                 std::string no_dual)
    : host_cpus_(std::move(host_cpus)),
      agent_cpus_(std::move(agent_cpus)),
      agent_alone_(AreApart(host_cpus_, agent_cpus_)),
      no_dual_(std::move(no_dual)),
      loops_(static_cast<size_t>(loops)) {}

Designs::~Designs() { StopWorkers(); }

std::vector<std::string_view> Designs::Admissible() const {
  // With one loop lat is sav.
  if (loops_.size() == 1) return {"cpu", "sav"};
  if (!no_dual_.empty()) return {"cpu", "sav", "lat"};
  return {"cpu", "sav", "lat", "dual"};
}

std::string Designs::name() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return name_;
}

Designs::Status Designs::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {now_, changes_, HostCpu()};
}

absl::StatusOr<std::string_view> Designs::CheckLocked(std::string_view name) const {
  static constexpr std::string_view kKnown[] = {"cpu",  "dpu",  "lat",     "sav",
                                                "dual", "shrd", "adaptive"};
  const auto* known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                   [&](std::string_view k) { return EqualsIgnoringCase(name, k); });
  const auto cannot_run = [&](std::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat("design '", AbslOf(*known),
                                                      "' cannot run here: ", AbslOf(why), ". ",
                                                      name_, " stays in force"));
  };
  if (known == std::end(kKnown)) {
    return absl::InvalidArgumentError(
        absl::StrCat("design '", AbslOf(name.substr(0, 32)),
                     "' is none; cpu, dpu, lat, sav, dual, shrd and adaptive are there, and ",
                     name_, " stays in force"));
  }
  if (*known != "cpu" && agent_cpus_.empty()) {
    return cannot_run("the agent has no CPUs; start with --agent-cpus, and --cpus for the host");
  }
  if (*known == "dual" || *known == "shrd") {
    if (!no_dual_.empty()) return cannot_run(no_dual_);
    if (loops_.size() < 2) {
      return cannot_run("host and agent both serve connections; start with --threads 2 or more");
    }
  }
  if (stopping_) return cannot_run("the server stops");
  return *known;
}

absl::Status Designs::Check(std::string_view name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return CheckLocked(name).status();
}

absl::Status Designs::Set(std::string_view name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  PULSE_ASSIGN_OR_RETURN(const auto known, CheckLocked(name));
  if (known == "adaptive" && !adaptive_.joinable()) {
    const auto run = [this] {
      pthread_setname_np(pthread_self(), "pulse-host-adpt");
      SetThreadAffinity(host_cpus_).IgnoreError();  // which were checked at the start
      RunAdaptive();
    };
    PULSE_RETURN_IF_ERROR(StartThread("the design adaptive", run, &adaptive_));
  }
  if (known != "adaptive") {
    PULSE_RETURN_IF_ERROR(Enforce(known));
    name_ = known;
    return absl::OkStatus();
  }
  // It goes on from the design in force, if it may choose that.
  const auto admissible = Admissible();
  if (std::find(admissible.begin(), admissible.end(), now_) == admissible.end()) {
    PULSE_RETURN_IF_ERROR(Enforce(admissible[0]));
  }
  name_ = known;
  wake_.notify_one();
  return absl::OkStatus();
}

absl::Status Designs::Enforce(std::string_view name) {
  if (now_ == name) return absl::OkStatus();
  const size_t wanted = name == "lat" ? loops_.size() : name == "sav" || name == "dual" ? 1 : 0;
  try {
    while (workers_.size() < wanted) {
      workers_.push_back(std::make_unique<WorkerPool>(
          1, absl::StrCat("pulse-host-kv", workers_.size()), host_cpus_));
    }
  } catch (const std::system_error&) {
    return NoThreadError("the design " + std::string(name));
  }
  now_ = name;
  ++changes_;
  generation_.fetch_add(1, std::memory_order_release);
  return absl::OkStatus();
}

void Designs::StopWorkers() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    name_ = now_ = "cpu";
  }
  wake_.notify_one();
  if (adaptive_.joinable()) adaptive_.join();
  std::vector<std::unique_ptr<WorkerPool>> workers;
  {
    // Commands that are carried out elsewhere may ask for the status.
    const std::lock_guard<std::mutex> lock(mutex_);
    workers.swap(workers_);
  }
}

bool Designs::IsOnHost(size_t loop) const {
  if (now_ == "dual") return loop < std::max<size_t>(1, loops_.size() / 4);
  if (now_ == "shrd") return loop < loops_.size() / 2;
  return now_ == "cpu";
}

void Designs::TakeUp(net::EventLoop* loop, Seen* seen) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto index = static_cast<size_t>(loop->index());
  const bool on_host = IsOnHost(index);
  seen->owner = this;
  seen->generation = generation_.load(std::memory_order_relaxed);
  seen->worker = nullptr;
  if (!on_host && now_ != "dpu" && now_ != "shrd") {
    seen->worker = workers_[now_ == "lat" ? index : 0].get();
  }
  LoopFacts& facts = loops_[index];
  const int64_t cpu = ThreadCpuNanos();
  if (facts.on_host && facts.thread != 0) facts.host_cpu_nanos += cpu - facts.cpu_since;
  facts.thread = gettid();
  facts.cpu_since = cpu;
  facts.on_host = on_host;
  CpuProfile::OfThread().set_side(on_host ? CpuSide::kHost : CpuSide::kAgent);
  // Which were checked when the server started.
  SetThreadAffinity(on_host ? host_cpus_ : agent_cpus_).IgnoreError();
  pthread_setname_np(pthread_self(),
                     absl::StrCat(on_host ? "pulse-host-" : "pulse-agent-", index).c_str());
  loop->SetSpin(on_host || !agent_alone_ ? 0 : kAgentSpinNanos);
}

int64_t Designs::HostCpu() const {
  int64_t sum = 0;
  for (const LoopFacts& facts : loops_) {
    sum += facts.host_cpu_nanos;
    if (!facts.on_host || facts.thread == 0) continue;
    sum += std::max<int64_t>(0, ThreadCpuNanos(facts.thread) - facts.cpu_since);
  }
  for (const auto& worker : workers_) sum += worker->cpu_nanos();
  return sum;
}

// While another design is set, it waits, and forgets.
void Designs::RunAdaptive() {
  const auto admissible = Admissible();
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    wake_.wait(lock, [this] { return stopping_ || name_ == "adaptive"; });
    const auto current = std::find(admissible.begin(), admissible.end(), now_);
    AdaptiveChoice choice(admissible.size(), static_cast<size_t>(current - admissible.begin()));
    while (!stopping_ && name_ == "adaptive") {
      AdaptiveChoice::Sample sample;
      sample.now_nanos = NowNanos();
      sample.host_cpu_nanos = HostCpu();
      for (const LoopFacts& facts : loops_) {
        sample.requests += facts.requests.load(std::memory_order_relaxed);
      }
      // Without its threads a design is not to be had, and the one before serves in its turn.
      const absl::Status enforced = Enforce(admissible[choice.Next(sample)]);
      if (!enforced.ok()) LogOnce("design of adaptive", enforced.message());
      wake_.wait_for(lock, std::chrono::nanoseconds(AdaptiveChoice::kTickNanos));
    }
  }
}

}  // namespace pulse::redis
