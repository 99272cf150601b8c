#include "services/redis/designs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/redis/commands.h"
#include "services/redis/handlers.h"

namespace pulse::redis {

Designs::Designs(int loops, std::vector<int> host_cpus, std::vector<int> agent_cpus)
    : host_cpus_(std::move(host_cpus)), agent_cpus_(std::move(agent_cpus)), loops_(loops) {}

std::string Designs::name() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return name_;
}

absl::Status Designs::Set(std::string_view name) {
  static constexpr std::string_view kKnown[] = {"cpu", "dpu", "lat", "sav"};
  static constexpr std::string_view kPlanned[] = {"dual", "shrd", "adaptive"};
  const auto is_it = [&](std::string_view known) { return EqualsIgnoringCase(name, known); };
  const auto* known = std::find_if(std::begin(kKnown), std::end(kKnown), is_it);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (known == std::end(kKnown)) {
    const bool planned = std::any_of(std::begin(kPlanned), std::end(kPlanned), is_it);
    return absl::InvalidArgumentError(absl::StrCat(
        "design '", AbslOf(name.substr(0, 32)), planned ? "' is not built yet" : "' is none",
        "; cpu, dpu, lat and sav are there, and ", name_, " stays in force"));
  }
  if (*known != "cpu" && agent_cpus_.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("design '", AbslOf(*known),
                     "' cannot run here: the agent has no CPUs; start with "
                     "--agent-cpus, and --cpus for the host. ",
                     name_, " stays in force"));
  }
  const size_t wanted = *known == "lat" ? static_cast<size_t>(loops_) : *known == "sav" ? 1 : 0;
  while (workers_.size() < wanted) {
    workers_.push_back(std::make_unique<WorkerPool>(
        1, absl::StrCat("pulse-host-kv", workers_.size()), host_cpus_));
  }
  name_ = *known;
  generation_.fetch_add(1, std::memory_order_release);
  return absl::OkStatus();
}

void Designs::StopWorkers() {
  const std::lock_guard<std::mutex> lock(mutex_);
  name_ = "cpu";
  workers_.clear();
}

void Designs::TakeUp(int loop, Seen* seen) {
  const std::lock_guard<std::mutex> lock(mutex_);
  seen->owner = this;
  seen->generation = generation_.load(std::memory_order_relaxed);
  seen->worker = name_ == "lat"   ? workers_[static_cast<size_t>(loop) % workers_.size()].get()
                 : name_ == "sav" ? workers_[0].get()
                                  : nullptr;
  const bool on_host = name_ == "cpu";
  // Which were checked when the server started.
  SetThreadAffinity(on_host ? host_cpus_ : agent_cpus_).IgnoreError();
  pthread_setname_np(pthread_self(),
                     absl::StrCat(on_host ? "pulse-host-" : "pulse-agent-", loop).c_str());
}

}  // namespace pulse::redis
