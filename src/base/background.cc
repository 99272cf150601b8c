#include "base/background.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "base/cpu_list.h"
#include "base/log.h"

namespace pulse {

void EnterBackground(bool idle_only) {
  constexpr int kNice = 5;  // as whole compactions
  const sched_param param{};
  // Giving way is allowed to everybody: there is nothing to be refused.
  sched_setscheduler(0, idle_only ? SCHED_IDLE : SCHED_BATCH, &param);
  const auto thread = static_cast<id_t>(gettid());
  // One that gives way more already goes on so.
  setpriority(PRIO_PROCESS, thread, std::max(kNice, getpriority(PRIO_PROCESS, thread)));
}

void EnterBackground(bool idle_only, const std::vector<int>& cpus, absl::string_view what) {
  if (const absl::Status st = SetThreadAffinity(cpus); !st.ok()) LogOnce(what, st.message());
  EnterBackground(idle_only);
}

}  // namespace pulse
