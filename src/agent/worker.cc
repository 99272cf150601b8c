#include "agent/worker.h"

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <future>

#include "base/adaptive_spin.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/shortage.h"

namespace pulse {
namespace {

// What a watched descriptor of a session is, in the low bits of the session's address.
constexpr uint64_t kSocket = 0, kDoorbell = 1, kPeerProcess = 2, kSourceMask = 3;
static_assert(alignof(Session) > kSourceMask);
// A worker that polls a device looks at its descriptors once in so many rounds that found nothing.
constexpr uint32_t kPolledRounds = 4096;

}  // namespace

absl::StatusOr<std::unique_ptr<Worker>> Worker::Start(WorkerOptions options) {
  std::unique_ptr<Worker> w(new Worker(std::move(options)));
  std::promise<absl::Status> ready;
  std::future<absl::Status> result = ready.get_future();
  const auto work = [worker = w.get(), &ready] {
    absl::Status st = worker->Init();
    const bool ok = st.ok();
    AgentStatus* const status = ok ? worker->options_.status.get() : nullptr;
    uint64_t status_id = 0;
    if (status != nullptr) {
      clockid_t clock;
      if (pthread_getcpuclockid(pthread_self(), &clock) != 0) clock = CLOCK_THREAD_CPUTIME_ID;
      status_id = status->EnterWorker(clock, std::string(EngineName(worker->engine_kind_)));
    }
    ready.set_value(std::move(st));  // `ready` may be gone from here on
    if (ok) worker->Loop();
    if (status != nullptr) status->LeaveWorker(status_id);
  };
  PULSE_RETURN_IF_ERROR(StartThread("an agent's worker", work, &w->thread_));
  if (absl::Status st = result.get(); !st.ok()) {
    w->thread_.join();
    return st;
  }
  return w;
}

Worker::~Worker() {
  if (!thread_.joinable()) return;
  stop_.store(true);
  Post([] {});
  thread_.join();
  std::lock_guard lock(mu_);  // whoever posted last has left
}

absl::Status Worker::Init() {
  pthread_setname_np(pthread_self(), options_.name.substr(0, 15).c_str());
  PULSE_RETURN_IF_ERROR(SetThreadAffinity(options_.cpus));
  // Before the back-end starts: its helper threads inherit both. Best effort, as nothing depends on
  // it.
  if (options_.background) {
    const sched_param param{};
    sched_setscheduler(0, SCHED_BATCH, &param);
  }
  if (options_.nice != 0) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), options_.nice);
  IoBackendOptions backend_options = options_.backend;
  backend_options.cpus = options_.cpus;
  PULSE_ASSIGN_OR_RETURN(auto backend, CreateIoBackend(backend_options));
  engine_kind_ = backend->kind();
  engine_ = std::make_unique<FileEngine>(std::move(backend));
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return ErrnoError(errno, "creating", "an epoll descriptor");
  PULSE_ASSIGN_OR_RETURN(wake_, WakeEvent::Create());
  due_timer_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!due_timer_.valid()) return ErrnoError(errno, "creating", "a timer descriptor");
  PULSE_RETURN_IF_ERROR(Watch(wake_.fd(), 0));
  PULSE_RETURN_IF_ERROR(Watch(due_timer_.get(), 0));
  return Watch(engine_->backend().wait_fd(), 0);
}

absl::Status Worker::Watch(int fd, uint64_t data) {
  epoll_event ev{};
  ev.events = EPOLLIN;
  ev.data.u64 = data;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &ev) == 0) return absl::OkStatus();
  return ErrnoError(errno, "watching", "a descriptor");
}

void Worker::Post(std::function<void()> fn) {
  // All of it under the lock: the worker may have nothing left to do but end.
  std::lock_guard lock(mu_);
  posted_.push_back(std::move(fn));
  has_posted_.store(true, std::memory_order_release);
  wake_.Set();
}

void Worker::Run(const std::function<void()>& fn) {
  std::promise<void> done;
  Post([&] {
    fn();
    done.set_value();
  });
  done.get_future().wait();
}

void Worker::AddSession(std::unique_ptr<Session> session) {
  // Every descriptor carries the session, which HandleEvents looks up before it trusts it.
  const uint64_t data = reinterpret_cast<uintptr_t>(session.get());
  absl::Status watched = Watch(session->doorbell().end(), data | kDoorbell);
  if (session->socket() >= 0) watched.Update(Watch(session->socket(), data | kSocket));
  if (session->peer_process() >= 0) {
    watched.Update(Watch(session->peer_process(), data | kPeerProcess));
  }
  Session* const added = session.get();
  sessions_.push_back(std::move(session));
  session_count_.store(sessions_.size(), std::memory_order_relaxed);
  if (watched.ok()) return;
  // Nobody would see what it asks for, nor that it is gone.
  LogOnce("watch a session", absl::StrCat("a session is ended: ", watched.message()));
  EndSession(added, nullptr);
}

void Worker::Unwatch(Session& session) {
  for (int fd : {session.doorbell().end(), session.socket(), session.peer_process()}) {
    if (fd >= 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
}

void Worker::EndSession(Session* session, std::function<void()> freed) {
  const auto same = [session](const Ending& e) { return e.session == session; };
  if (std::any_of(ending_.begin(), ending_.end(), same)) return;
  Unwatch(*session);
  session->BeginShutdown();
  ending_.push_back({session, std::move(freed)});
}

void Worker::Reap() {
  for (size_t i = 0; i < ending_.size();) {
    Session* s = ending_[i].session;
    if (!s->Drained()) {
      ++i;
      continue;
    }
    std::function<void()> freed = std::move(ending_[i].freed);
    ending_.erase(ending_.begin() + static_cast<ptrdiff_t>(i));
    std::erase_if(sessions_, [s](const auto& p) { return p.get() == s; });
    session_count_.store(sessions_.size(), std::memory_order_relaxed);
    if (freed) freed();
  }
}

bool Worker::RunOnce() {
  bool busy = false;
  if (has_posted_.exchange(false, std::memory_order_acquire)) {
    std::vector<std::function<void()>> run;
    {
      std::lock_guard lock(mu_);
      run.swap(posted_);
    }
    for (auto& fn : run) fn();
    busy = true;
  }
  // Who is waited for goes first; everybody gets one batch a round.
  for (auto& s : sessions_) {
    if (s->LatchUrgent()) busy |= s->PollQueues(options_.batch) > 0;
  }
  for (auto& s : sessions_) {
    if (!s->urgent()) busy |= s->PollQueues(options_.batch) > 0;
  }
  busy |= engine_->Poll() > 0;
  for (auto& s : sessions_) busy |= s->Deliver();
  // Sessions that broke the protocol inside PollQueues.
  for (size_t i = 0; i < sessions_.size(); ++i) {
    Session* s = sessions_[i].get();
    if (s->shutting_down() && std::none_of(ending_.begin(), ending_.end(),
                                           [s](const Ending& e) { return e.session == s; })) {
      EndSession(s, {});
    }
  }
  if (!ending_.empty()) Reap();
  return busy;
}

bool Worker::HandleEvents(int timeout_ms) {
  epoll_event events[16];
  const int n = epoll_wait(epoll_.get(), events, 16, timeout_ms);
  for (int i = 0; i < n; ++i) {
    if (events[i].data.u64 == 0) continue;
    auto* s = reinterpret_cast<Session*>(static_cast<uintptr_t>(events[i].data.u64 & ~kSourceMask));
    const bool alive = std::any_of(sessions_.begin(), sessions_.end(),
                                   [s](const auto& p) { return p.get() == s; });
    if (!alive || s->shutting_down()) continue;
    const uint64_t source = events[i].data.u64 & kSourceMask;
    const bool goes_on = source == kDoorbell ? s->HandleDoorbell()
                         : source == kSocket ? s->HandleSocket()
                                             : false;  // the process has ended
    if (goes_on) continue;
    if (s->Orphan()) {
      Unwatch(*s);  // its end is told again and again
    } else {
      EndSession(s, {});
    }
  }
  return n > 0;
}

// Setting it, also to nothing (0), forgets an expiry that was not read.
void Worker::ArmDueTimer(int64_t when) {
  itimerspec at{};
  at.it_value.tv_sec = static_cast<time_t>(when / 1'000'000'000);
  at.it_value.tv_nsec = static_cast<long>(when % 1'000'000'000);
  timerfd_settime(due_timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
}

void Worker::Looked(bool in_vain) {
  if (options_.pace == nullptr) return;
  if (in_vain) {
    options_.pace->FoundNoWork();
  } else if (looking_) {
    options_.pace->StoppedLooking();
  }
  looking_ = in_vain;
}

void Worker::Sleep() {
  for (auto& s : sessions_) s->doorbell().PrepareSleep();
  const bool work =
      has_posted_.load() || stop_.load() ||
      std::any_of(sessions_.begin(), sessions_.end(), [](const auto& s) { return s->HasWork(); });
  // Nothing tells when a host made room for completions, nor when a session has drained: look again
  // soon.
  const bool deferred = std::any_of(sessions_.begin(), sessions_.end(),
                                    [](const auto& s) { return s->HasDeferred(); });
  const int64_t due = engine_->next_due();
  if (due != 0) ArmDueTimer(due);
  HandleEvents(work ? 0 : deferred ? 1 : ending_.empty() ? -1 : 10);
  if (due != 0) ArmDueTimer(0);
  wake_.Clear();
  // Whose doorbell rang was emptied by HandleEvents. A later ring costs a needless wake-up.
  for (auto& s : sessions_) {
    s->doorbell().LowerFlag();
    s->Beat();
  }
}

void Worker::Loop() {
  int64_t idle_since = 0;
  AdaptiveSpin in_general(options_.spin_nanos);
  AdaptiveSpin for_answers(options_.answer_spin_nanos);
  AdaptiveSpin* spin = &in_general;
  uint32_t rounds = 0;
  size_t last_rounds = 0;  // since the stop
  while (true) {
    const bool stopping = stop_.load(std::memory_order_acquire);
    const bool busy = RunOnce();
    // What was asked before the stop is still served, and a session's full rings take fewer rounds
    // than this; but hosts that always have another request must not keep the agent from stopping.
    if (stopping && (!busy || ++last_rounds > wire::kSubmissionSlots)) {
      for (size_t i = 0; i < sessions_.size(); ++i) {
        if (!sessions_[i]->shutting_down()) EndSession(sessions_[i].get(), {});
      }
      if (sessions_.empty() && engine_->idle() && !has_posted_.load()) return;
    }
    Looked(!busy);
    if (busy) {
      if (options_.pace != nullptr) options_.pace->DidWork();
      idle_since = 0;
      // Control messages must not starve while the rings are busy.
      if (++rounds % 64 == 0) {
        HandleEvents(0);
        for (auto& s : sessions_) s->Beat();
      }
      continue;
    }
    if (engine_->needs_polling()) {
      idle_since = 0;
      // A device may take long, and a host that pings wants to know whether we are there.
      if (++rounds % kPolledRounds == 0) {
        HandleEvents(0);
        for (auto& s : sessions_) s->Beat();
      }
      CpuPause();
      continue;
    }
    const int64_t now = NowNanos();
    if (idle_since == 0) {
      idle_since = now;
      const bool answers = std::any_of(sessions_.begin(), sessions_.end(),
                                       [](const auto& s) { return s->ExpectsRequests(); });
      spin = answers ? &for_answers : &in_general;
    }
    if (now - idle_since < spin->now()) {
      CpuPause();
      continue;
    }
    Looked(false);
    Sleep();
    spin->Slept(NowNanos() - now);
    idle_since = 0;
  }
}

}  // namespace pulse
