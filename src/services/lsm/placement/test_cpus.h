// Which CPUs threads may use, and threads that use one, for tests of those that move.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/cpu_list.h"
#include "base/own_threads.h"

namespace pulse::lsm::test {

// By a thread's directory in /proc; "" when it has ended.
inline std::string CpusOf(const std::string& task) {
  std::ifstream status("/proc/" + task + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("Cpus_allowed_list:\t", 0) == 0) return line.substr(19);
  }
  return "";
}

// Of this process's threads, by their names.
inline std::map<std::string, std::set<std::string>> CpusOfThreads() {
  std::map<std::string, std::set<std::string>> all;
  for (const pid_t thread : OwnThreads()) {
    const std::string cpus = CpusOf("self/task/" + std::to_string(thread));
    if (!cpus.empty()) all[NameOfThread(thread)].insert(cpus);
  }
  return all;
}

// Threads that keep a CPU busy until they are gone. `niceness` beyond this process's: to starve.
class BusyThreads {
 public:
  BusyThreads(int count, int cpu, int niceness = 0) : tids_(static_cast<size_t>(count)) {
    for (auto& tid : tids_) {
      threads_.emplace_back([this, cpu, niceness, &tid] {
        SetThreadAffinity({cpu}).IgnoreError();
        if (niceness != 0) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness);
        tid = gettid();
        while (!stop_) {
        }
      });
    }
    for (const auto& tid : tids_) {
      while (tid == 0) std::this_thread::yield();
    }
  }
  ~BusyThreads() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  std::vector<pid_t> tids() const { return {tids_.begin(), tids_.end()}; }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::atomic<pid_t>> tids_;
  std::vector<std::thread> threads_;
};

// The same as processes of their own.
class BusyProcesses {
 public:
  BusyProcesses(int count, int cpu) {
    for (int i = 0; i < count; ++i) {
      const pid_t pid = fork();
      if (pid != 0) {
        if (pid > 0) pids_.push_back(pid);
        continue;
      }
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(static_cast<size_t>(cpu), &set);
      sched_setaffinity(0, sizeof(set), &set);
      for (;;) asm volatile("");
    }
  }
  ~BusyProcesses() {
    for (const pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> pids_;
};

}  // namespace pulse::lsm::test
