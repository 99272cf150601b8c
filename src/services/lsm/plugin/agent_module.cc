#include "services/lsm/plugin/agent_module.h"

#include <dlfcn.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pulse/rocksdb.h"
#include "services/lsm/core/agent_service.h"
#include "services/lsm/core/spec.h"
#include "services/lsm/placement/agent_tasks.h"
#include "services/lsm/placement/task_numbers.h"
#include "services/lsm/placement/whole_task.h"

namespace pulse::lsm {
namespace {

constexpr int kTaskNice = 5;    // of whole compactions, beside the workers
constexpr int kDeeperNice = 5;  // more, of those that are not of level 0

constexpr OptionSpec kOptions[] = {
    {.name = "--tasks",
     .kind = OptionSpec::Kind::kInteger,
     .help = "whole compactions at a time, for databases with placement=whole or adaptive\n"
             "(default: one for each CPU, and one more; of several, the last is kept for\n"
             "compactions of level 0, for which writers wait first; 0: none)",
     .most = 1024},
    {.name = "--plugin",
     .help = "shared object that registers comparators, merge operators and the like with\n"
             "RocksDB, for whole compactions of databases that use them; may be repeated",
     .repeated = true}};
constexpr const OptionSpec& kTasks = kOptions[0];
constexpr const OptionSpec& kPlugin = kOptions[1];

// Loads what registers objects with RocksDB: comparators and the like of those whose databases are
// compacted here. They stay for good.
absl::Status LoadPlugins(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) continue;
    const char* why = dlerror();
    return absl::InvalidArgumentError(
        absl::StrCat("--plugin ", path, ": ", why == nullptr ? "cannot be loaded" : why,
                     "; expected a shared object that registers its objects with RocksDB's "
                     "ObjectLibrary::Default() when it is loaded"));
  }
  return absl::OkStatus();
}

class Module : public ServiceModule {
 public:
  Module(const TaskRunnerOptions& tasks, double core_speed)
      : runner_(tasks, RemoteTaskFunction()), core_speed_(core_speed) {}

  std::optional<OfferedService> Offer() override {
    const size_t most = runner_.max_tasks();
    return OfferedService{&kSpec,
                          most > 0 ? AgentServiceFactory([this](UniqueFd request, UniqueFd reply) {
                            return runner_.Start(std::move(request), std::move(reply));
                          })
                                   : ServiceFactory(&CreateAgentService),
                          {most, static_cast<uint64_t>(core_speed_ * 1000)}};
  }
  NumberGroup Numbers() const override { return TaskNumbers(*runner_.counters()); }

 private:
  TaskRunner runner_;
  const double core_speed_;
};

absl::StatusOr<std::unique_ptr<ServiceModule>> Open(const OptionValues& options,
                                                    const AgentFacts& facts) {
  if (absl::Status st = LoadPlugins(options.List(kPlugin)); !st.ok()) return st;
  TaskRunnerOptions tasks;
  // One more than CPUs for them: it is level 0's (TaskRunner).
  const size_t cpus =
      facts.cpus.empty() ? std::max(1U, std::thread::hardware_concurrency()) : facts.cpus.size();
  tasks.max_tasks =
      static_cast<size_t>(options.Integer(kTasks).value_or(static_cast<int64_t>(cpus) + 1));
  tasks.cpus = facts.cpus;
  // Flushes and outputs, for which writers wait, go first.
  tasks.nice = kTaskNice;
  tasks.deeper_nice = kDeeperNice;
  tasks.background = true;
  // OPTIONS files may name its listener.
  RegisterRocksDb().PermitUncheckedError();
  return std::make_unique<Module>(tasks, facts.core_speed);
}

}  // namespace

const ServiceEntry kEntry = {&kSpec, kOptions, &Open};

}  // namespace pulse::lsm
