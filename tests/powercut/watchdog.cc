#include "powercut/watchdog.h"

#include <dirent.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace pulse::powercut {
namespace {}  // namespace

void PrintStack(int) {
  char name[32] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  dprintf(STDERR_FILENO, "--- thread %ld %s\n", syscall(SYS_gettid), name);
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
}

namespace {

// One thread after the other prints its own stack.
void PrintAllStacks() {
  signal(SIGUSR2, PrintStack);
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return;
  while (const dirent* e = readdir(tasks)) {
    const int tid = atoi(e->d_name);
    if (tid <= 0 || tid == syscall(SYS_gettid)) continue;
    syscall(SYS_tgkill, getpid(), tid, SIGUSR2);
    usleep(50'000);  // sleep: one thread prints at a time
  }
  closedir(tasks);
}

}  // namespace

Watchdog::Watchdog(std::chrono::seconds limit)
    : limit_(limit), due_(std::chrono::steady_clock::now() + limit), thread_([this] { Run(); }) {}

Watchdog::~Watchdog() {
  {
    std::lock_guard lock(mu_);
    stop_ = true;
  }
  cv_.notify_all();
  thread_.join();
}

void Watchdog::Feed(const std::string& what) {
  std::lock_guard lock(mu_);
  what_ = what;
  due_ = std::chrono::steady_clock::now() + limit_;
}

void Watchdog::Run() {
  std::unique_lock lock(mu_);
  while (!stop_) {
    if (std::chrono::steady_clock::now() > due_) {
      fprintf(stderr, "hangs: %s\n", what_.c_str());
      PrintAllStacks();
      abort();
    }
    cv_.wait_until(lock, due_ + std::chrono::milliseconds(1));
  }
}

}  // namespace pulse::powercut
