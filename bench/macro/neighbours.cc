#include "bench/macro/neighbours.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/cpu_list.h"
#include "base/errors.h"

namespace pulse::bench {

Neighbours::~Neighbours() {
  for (const pid_t pid : pids_) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}

absl::Status Neighbours::Make(int number, const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int c : cpus) CPU_SET(c, &set);
  for (int i = 0; i < number; ++i) {
    const pid_t pid = fork();
    if (pid < 0) return ErrnoError(errno, "starting a process that keeps CPU", FormatCpuList(cpus));
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (sched_setaffinity(0, sizeof(set), &set) != 0) _exit(1);
      raise(SIGSTOP);
      for (;;) asm volatile("");
    }
    pids_.push_back(pid);
    int status = 0;
    if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status)) {
      return absl::InternalError("a process that should keep a CPU busy has ended");
    }
  }
  return absl::OkStatus();
}

void Neighbours::Work(int number) const {
  for (size_t i = 0; i < pids_.size(); ++i) {
    kill(pids_[i], i < static_cast<size_t>(number) ? SIGCONT : SIGSTOP);
  }
}

absl::Status Neighbours::WorkAsAsked(const nlohmann::json& spec) {
  const int number = spec.value("neighbours", 0);
  if (number == 0) return absl::OkStatus();
  PULSE_RETURN_IF_ERROR(Make(number, spec.at("neighbours_cpus").get<std::vector<int>>()));
  Work(number);
  return absl::OkStatus();
}

}  // namespace pulse::bench
