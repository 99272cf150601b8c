#include "vdpu/cpu_throttle.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/own_threads.h"
#include "base/unique_fd.h"
#include "vdpu/core_budget.h"

namespace pulse::vdpu {
namespace {

constexpr int64_t kQuantumNanos = 1'000'000;
constexpr auto kLookEvery = std::chrono::milliseconds(10);
// Less than this is not worth a sleep, or a look; it stays owed.
constexpr int64_t kLeastSleepNanos = 20'000;
constexpr int64_t kLeastWorkNanos = 5'000;

int Signal() { return SIGRTMIN + 5; }

// The CPU clock of a thread of this process, as pthread_getcpuclockid makes it.
clockid_t CpuClockOf(int tid) {
  return static_cast<clockid_t>(~static_cast<unsigned>(tid) << 3 | 6);
}

// As plain system calls: in a handler nothing must come between.
void SleepUntil(int64_t when) {
  const timespec at{static_cast<time_t>(when / 1'000'000'000),
                    static_cast<long>(when % 1'000'000'000)};
  while (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr) != 0 &&
         errno == EINTR) {
  }
}

// Of the calling thread. Its signal handler reads them, so they are atomic; no other thread does.
struct Exemption {
  std::atomic<int64_t> total{0};
  std::atomic<int64_t> since{-1};  // the CPU clock at the beginning of the outermost scope
  int depth = 0;
};
thread_local constinit Exemption exemption;
thread_local constinit std::atomic<CpuThrottle::Thread*> current{nullptr};

// The kernel's threads on behalf of this process's io_uring. They block every signal.
bool IsKernelWorker(int tid) { return NameOfThread(tid).starts_with("iou-"); }

int64_t ExemptUntil(int64_t cpu_now) {
  const int64_t since = exemption.since.load(std::memory_order_relaxed);
  return exemption.total.load(std::memory_order_relaxed) + (since < 0 ? 0 : cpu_now - since);
}

}  // namespace

struct CpuThrottle::Cores {
  Cores(int n, double s) : speed(s), budget(n, s) {}
  const double speed;
  CoreBudget budget;
};

// What belongs to one enrolled thread. Written by that thread, its handler included; never freed,
// since a signal may be under way, but used again once its thread has ended.
struct CpuThrottle::Thread {
  Cores* cores = nullptr;
  timer_t timer{};
  bool prepared = false;      // the thread's own settings are made
  UniqueFd schedstat;         // its entry in /proc; not valid where there is none
  int64_t waited_before = 0;  // for a CPU, when last seen
  std::atomic<bool> enrolled{false};
  std::atomic<bool> paying{false};
  std::atomic<int64_t> base{0};         // its CPU clock when it was enrolled
  std::atomic<int64_t> exempt_base{0};  // what was exempt until then
  std::atomic<int64_t> consumed{0};
  std::atomic<int64_t> slept{0};

  void Pay();
  int64_t Waited() const;
};

namespace {

// What must outlive its throttle. Under the throttle's lock, of which there is one at a time.
struct Kept {
  std::vector<CpuThrottle::Cores*> cores;
  std::vector<CpuThrottle::Thread*> threads;
  std::vector<CpuThrottle::Thread*> spare;  // of threads that ended: to be used again
};
Kept& kept() {
  static auto* all = new Kept;
  return *all;
}
std::atomic<bool> in_use{false};

void OnSignal(int, siginfo_t* info, void*) {
  auto* t = static_cast<CpuThrottle::Thread*>(info->si_value.sival_ptr);
  if (info->si_code != SI_TIMER || t == nullptr) return;
  const int error = errno;
  t->Pay();
  errno = error;
}

}  // namespace

// Nanoseconds for which the thread was ready to run and had no CPU, since it began. In a handler,
// so without the library's files: "RAN WAITED TIMES".
int64_t CpuThrottle::Thread::Waited() const {
  char text[96];
  const ssize_t n = schedstat.valid() ? pread(schedstat.get(), text, sizeof(text), 0) : 0;
  int64_t waited = 0;
  ssize_t i = 0;
  while (i < n && text[i] != ' ') ++i;
  for (++i; i < n && text[i] >= '0' && text[i] <= '9'; ++i) waited = waited * 10 + (text[i] - '0');
  return waited;
}

void CpuThrottle::Thread::Pay() {
  if (!enrolled.load()) return;  // pairs with the store of who enrolled it
  // The signal may come while the thread pays by itself.
  if (paying.exchange(true)) return;
  // Drop clears the one and then waits for the other: either it waits, or this sees it.
  if (!enrolled.load()) {
    paying.store(false);
    return;
  }
  if (!prepared) {
    prepared = true;
    current.store(this, std::memory_order_relaxed);
    syscall(SYS_prctl, PR_SET_TIMERSLACK, 1, 0, 0, 0);  // sleeps end when they should
  }
  const int64_t cpu = ThreadCpuNanos();
  const int64_t used = cpu - base.load(std::memory_order_relaxed) -
                       (ExemptUntil(cpu) - exempt_base.load(std::memory_order_relaxed));
  const int64_t before = consumed.load(std::memory_order_relaxed);
  if (used - before >= kLeastWorkNanos) {
    consumed.store(used, std::memory_order_relaxed);
    // On a core of its own it would have run while it waited here for a CPU: so much slower it was
    // already. No more than it had to be: nothing is saved up.
    const int64_t waited = Waited();
    int64_t has_slept = slept.load(std::memory_order_relaxed);
    int64_t owed = std::max<int64_t>(0, SleepOwed(used, has_slept, cores->speed));
    const int64_t credit = std::min(owed, waited - waited_before);
    has_slept += credit;
    owed -= credit;
    const int64_t now = NowNanos();
    const int64_t ready = std::max(now + owed, cores->budget.Charge(used - before, now));
    if (ready - now >= kLeastSleepNanos) {
      SleepUntil(ready);
      // Waiting for a core is not credited, only slowness and what the sleep took too long; nor is
      // what falling asleep and waking up consumed.
      const int64_t late = NowNanos() - ready;
      const int64_t awake = ThreadCpuNanos() - cpu;
      has_slept += std::min(owed, ready - now) + late - awake;
      waited_before = Waited();  // what it waited to wake up is in `late`
    } else {
      waited_before = waited;
    }
    slept.store(has_slept, std::memory_order_relaxed);
  }
  paying.store(false);
}

CpuThrottle::Exempt::Exempt() {
  if (exemption.depth++ > 0) return;
  exemption.since.store(ThreadCpuNanos(), std::memory_order_relaxed);
}

CpuThrottle::Exempt::~Exempt() {
  if (--exemption.depth > 0) return;
  const int64_t now = ThreadCpuNanos();
  const int64_t taken = now - exemption.since.load(std::memory_order_relaxed);
  // A signal between these two sees a little less as exempt than it was, and the next one sees all.
  exemption.since.store(-1, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  exemption.total.store(exemption.total.load(std::memory_order_relaxed) + taken,
                        std::memory_order_relaxed);
}

CpuThrottle::Mark CpuThrottle::Now() {
  const int64_t cpu = ThreadCpuNanos();
  return {cpu, ExemptUntil(cpu)};
}

CpuThrottle::Mark CpuThrottle::ExemptSince(const Mark& mark) {
  PULSE_DCHECK(exemption.depth == 0);
  const Mark now = Now();
  // Without what was exempt by itself. A signal before has charged it: later ones charge less.
  const int64_t more = (now.cpu - mark.cpu) - (now.exempt - mark.exempt);
  exemption.total.store(now.exempt + more, std::memory_order_relaxed);
  return {now.cpu, now.exempt + more};
}

absl::StatusOr<std::unique_ptr<CpuThrottle>> CpuThrottle::Start(const Options& options) {
  if (!(options.speed > 0 && options.speed <= 1) || options.cores < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a core speed of ", options.speed, " on ", options.cores,
                     " cores: use a speed above 0 and up to 1, and no negative number of cores"));
  }
  if (in_use.exchange(true)) {
    return absl::FailedPreconditionError("this process has a CPU throttle already");
  }
  std::unique_ptr<CpuThrottle> t(new CpuThrottle(options));  // its destructor ends the use
  struct sigaction old;
  sigaction(Signal(), nullptr, &old);
  const bool ours = (old.sa_flags & SA_SIGINFO) != 0 && old.sa_sigaction == &OnSignal;
  if (!ours && ((old.sa_flags & SA_SIGINFO) != 0 || old.sa_handler != SIG_DFL)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "signal ", Signal(), " (SIGRTMIN+5) is in use by another part of the process"));
  }
  // Stays installed: a signal that was under way must not end the process.
  struct sigaction action {};
  action.sa_sigaction = &OnSignal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (sigaction(Signal(), &action, nullptr) != 0) {
    return ErrnoError(errno, "installing", "the handler of the CPU throttle");
  }
  t->cores_ = new Cores(options.cores, options.speed);
  {
    std::lock_guard lock(t->mu_);
    kept().cores.push_back(t->cores_);
  }
  if (options.every_thread) {
    // Those that are there pay from now on, those to come from their beginning.
    PULSE_RETURN_IF_ERROR(t->LookForThreads(/*first=*/true));
    t->watcher_ = std::thread([throttle = t.get()] { throttle->Watch(); });
  }
  return t;
}

CpuThrottle::~CpuThrottle() {
  if (watcher_.joinable()) {
    {
      std::lock_guard lock(mu_);
      stopping_ = true;
    }
    cv_.notify_all();
    watcher_.join();
  }
  {
    std::lock_guard lock(mu_);
    // Not used again: their threads may live, with a signal under way.
    while (!threads_.empty()) Drop(threads_.begin()->first);
  }
  in_use.store(false);
}

absl::Status CpuThrottle::EnrollTid(int tid, int64_t cpu_base, int64_t exempt_base) {
  if (threads_.count(tid) != 0) return absl::OkStatus();
  if (kept().spare.empty()) {
    kept().threads.push_back(new Thread);
    kept().spare.push_back(kept().threads.back());
  }
  Thread* thread = kept().spare.back();
  // Whose it was has ended, after its last payment. The acquire pairs with that payment's release.
  (void)thread->paying.load(std::memory_order_acquire);
  thread->cores = cores_;
  thread->prepared = false;
  thread->base.store(cpu_base);
  thread->exempt_base.store(exempt_base);
  thread->consumed.store(0);
  thread->slept.store(0);
  thread->paying.store(false);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = Signal();
  event.sigev_value.sival_ptr = thread;
  event._sigev_un._tid = tid;
  if (timer_create(CpuClockOf(tid), &event, &thread->timer) != 0) {
    return ErrnoError(errno, "making a CPU timer for", absl::StrCat("thread ", tid),
                      errno == EAGAIN ? "raise the limit of pending signals (ulimit -i)" : "");
  }
  const std::string path = absl::StrCat("/proc/self/task/", tid, "/schedstat");
  thread->schedstat.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  thread->waited_before = thread->Waited();
  thread->enrolled.store(true);
  const itimerspec period{{0, kQuantumNanos}, {0, kQuantumNanos}};
  if (timer_settime(thread->timer, 0, &period, nullptr) != 0) {
    const int error = errno;
    thread->enrolled.store(false);
    timer_delete(thread->timer);
    thread->schedstat.reset();
    return ErrnoError(error, "starting the CPU timer of", absl::StrCat("thread ", tid));
  }
  kept().spare.pop_back();
  threads_.emplace(tid, thread);
  return absl::OkStatus();
}

CpuThrottle::Thread* CpuThrottle::Drop(int tid) {
  const auto it = threads_.find(tid);
  if (it == threads_.end()) return nullptr;
  Thread* thread = it->second;
  thread->enrolled.store(false);
  timer_delete(thread->timer);
  // It may be asleep for its debt; the calling thread never is.
  while (thread->paying.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  thread->schedstat.reset();
  gone_.consumed += thread->consumed.load();
  gone_.slept += thread->slept.load();
  threads_.erase(it);
  return thread;
}

absl::Status CpuThrottle::Enroll() {
  const int64_t cpu = ThreadCpuNanos();
  std::lock_guard lock(mu_);
  PULSE_RETURN_IF_ERROR(EnrollTid(gettid(), cpu, ExemptUntil(cpu)));
  current.store(threads_.at(gettid()), std::memory_order_relaxed);
  return absl::OkStatus();
}

void CpuThrottle::Leave() {
  Settle();
  std::lock_guard lock(mu_);
  Drop(gettid());
  current.store(nullptr, std::memory_order_relaxed);
}

void CpuThrottle::Settle() {
  if (Thread* t = current.load(std::memory_order_relaxed); t != nullptr) t->Pay();
}

CpuThrottle::Usage CpuThrottle::usage() const {
  std::lock_guard lock(mu_);
  Usage u = gone_;
  for (const auto& [tid, thread] : threads_) {
    u.consumed += thread->consumed.load();
    u.slept += thread->slept.load();
  }
  for (const auto& [tid, consumed] : kernel_) u.kernel += consumed;
  return u;
}

void CpuThrottle::Watch() {
  pthread_setname_np(pthread_self(), "pulse-vdpu");
  std::unique_lock lock(mu_);
  watcher_tid_ = gettid();
  Drop(watcher_tid_);
  while (!stopping_) {
    cv_.wait_for(lock, kLookEvery);
    // Of a single thread, an error is a matter of its having ended meanwhile, or comes again.
    if (absl::Status st = LookForThreads(/*first=*/false); !st.ok()) {
      LogOnce("cpu throttle", absl::StrCat("a thread is not slowed down: ", st.message()));
    }
  }
}

absl::Status CpuThrottle::LookForThreads(bool first) {
  const std::vector<pid_t> now = OwnThreads();
  if (now.empty()) {
    return ErrnoError(errno, "listing", "/proc/self/task", "mount /proc, which shows the threads");
  }
  std::set<int> there(now.begin(), now.end());
  there.erase(watcher_tid_);
  for (auto it = threads_.begin(); it != threads_.end();) {
    const int tid = (it++)->first;
    const Thread* thread = threads_.at(tid);
    // Of a thread that has less behind it than it had, the number is another thread's by now.
    if (there.count(tid) != 0 && ClockNanos(CpuClockOf(tid)) >= thread->consumed.load()) continue;
    kept().spare.push_back(Drop(tid));  // no signal finds a thread that has ended
  }
  for (auto it = kernel_.begin(); it != kernel_.end();) {
    if (there.count(it->first) != 0) {
      ++it;
      continue;
    }
    gone_.kernel += it->second;
    it = kernel_.erase(it);
  }
  absl::Status status;
  for (const int tid : there) {
    if (threads_.count(tid) != 0) continue;
    const int64_t cpu = ClockNanos(CpuClockOf(tid));
    if (cpu < 0) continue;  // it has ended
    if (kernel_.count(tid) != 0 || IsKernelWorker(tid)) {
      kernel_[tid] = cpu;
      continue;
    }
    absl::Status st = EnrollTid(tid, first ? cpu : 0, 0);
    if (!st.ok() && ClockNanos(CpuClockOf(tid)) >= 0) status.Update(st);
  }
  return status;
}

}  // namespace pulse::vdpu
