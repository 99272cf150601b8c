#include "services/offload/containment.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/errors.h"

namespace pulse::offload {
namespace {

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr size_t kStackBytes = size_t{64} << 10;

struct sigaction before[NSIG];
int TimerSignal() { return SIGRTMAX - 3; }

// What was there before handles it.
void PassOn(int signal, siginfo_t* info, void* context) {
  const struct sigaction& old = before[signal];
  if ((old.sa_flags & SA_SIGINFO) != 0) return old.sa_sigaction(signal, info, context);
  if (old.sa_handler == SIG_IGN) return;
  if (old.sa_handler != SIG_DFL) return old.sa_handler(signal);
  // Ends the process: the instruction is tried again, or the signal comes once more.
  sigaction(signal, &old, nullptr);
  if (info == nullptr || info->si_code <= 0) raise(signal);
}

}  // namespace

thread_local Containment::Thread* Containment::current = nullptr;

const char* EndName(Containment::End end) {
  switch (end) {
    case Containment::End::kCrashed:
      return "crashed";
    case Containment::End::kThrew:
      return "threw an exception";
    case Containment::End::kTooLong:
      return "did not end within its CPU time";
    default:
      return "returned";
  }
}

absl::Status Containment::Install() {
  static const int error = [] {
    struct sigaction action = {};
    sigemptyset(&action.sa_mask);
    action.sa_sigaction = &Containment::OnFault;
    // Not blocked in the handler, which may never return; on a stack of its own, as the call may
    // have used up the thread's.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (const int signal : kFaults) {
      if (sigaction(signal, &action, &before[signal]) != 0) return errno;
    }
    action.sa_sigaction = &Containment::OnTimer;
    action.sa_flags |= SA_RESTART;
    return sigaction(TimerSignal(), &action, nullptr) != 0 ? errno : 0;
  }();
  if (error == 0) return absl::OkStatus();
  return ErrnoError(error, "taking the signals of offload programs' faults", "");
}

// Gives back what a thread has at its end.
struct Containment::Exit {
  ~Exit() {
    Thread* const t = current;
    if (t == nullptr) return;
    if (t->has_timer) timer_delete(t->timer);
    if (t->stack != nullptr) {
      stack_t none = {};
      none.ss_flags = SS_DISABLE;
      sigaltstack(&none, nullptr);
      munmap(t->stack, kStackBytes);
    }
    current = nullptr;
    delete t;
  }
};

Containment::Thread* Containment::NewThread() {
  static thread_local Exit exit;
  (void)exit;
  auto* const t = new Thread;
  stack_t old = {};
  if (sigaltstack(nullptr, &old) == 0 && (old.ss_flags & SS_DISABLE) != 0) {
    void* const memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory != MAP_FAILED) {
      t->stack = memory;
      stack_t mine = {};
      mine.ss_sp = memory;
      mine.ss_size = kStackBytes;
      sigaltstack(&mine, nullptr);
    }
  }
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = TimerSignal();
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  t->has_timer = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &t->timer) == 0;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, TimerSignal());
  for (const int signal : kFaults) sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  current = t;
  return t;
}

void Containment::LeaveLate() {
  current->too_long = true;
  siglongjmp(current->leave, 1);
}

Containment::Thread* Containment::Enter() {
  Thread* const t = current != nullptr ? current : NewThread();
  t->call = t->call + 1;
  t->own_budgets = 0;
  if (!t->armed) Arm(t);
  return t;
}

void Containment::Arm(Thread* t) {
  t->armed_call = t->call;
  if (!t->has_timer) return;
  t->armed = true;
  itimerspec once = {};
  once.it_value.tv_nsec = kBudgetNanos;
  timer_settime(t->timer, 0, &once, nullptr);
}

Containment::End Containment::Left(Thread* t) {
  t->state = kOutside;
  const bool too_long = t->too_long;
  t->too_long = false;
  return too_long ? End::kTooLong : End::kCrashed;
}

void Containment::OnFault(int signal, siginfo_t* info, void* context) {
  Thread* const t = current;
  if (t != nullptr && t->state == kInside) siglongjmp(t->leave, 1);
  PassOn(signal, info, context);
}

void Containment::OnTimer(int, siginfo_t*, void*) {
  Thread* const t = current;
  if (t == nullptr) return;
  const int error = errno;
  t->armed = false;
  if (t->state == kInside && t->call == t->armed_call) {
    t->too_long = true;
    siglongjmp(t->leave, 1);
  }
  if (t->state == kOwn && t->call == t->armed_call) t->own_budgets = t->own_budgets + 1;
  // Another call than the timer was set for, or one that is in the agent's own code just now.
  if (t->state != kOutside) Arm(t);
  errno = error;
}

}  // namespace pulse::offload
