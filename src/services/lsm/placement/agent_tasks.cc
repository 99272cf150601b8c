#include "services/lsm/placement/agent_tasks.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/log.h"

namespace pulse::lsm {
namespace {

constexpr int64_t kSendNanos = 10'000'000'000;  // for one answer
constexpr int kSendPieceMs = 100;

// False when the host has gone, does not read for too long, or `stop` was set. The host shares the
// socket's settings, so a blocking send with a timeout would be in its hands.
bool SendAll(int socket, const void* data, size_t size, const std::atomic<bool>& stop) {
  const char* p = static_cast<const char*>(data);
  const int64_t until = NowNanos() + kSendNanos;
  while (size > 0) {
    const ssize_t n = send(socket, p, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      p += n;
      size -= static_cast<size_t>(n);
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n == 0 || errno != EAGAIN || stop || NowNanos() > until) return false;
    pollfd room{socket, POLLOUT, 0};
    poll(&room, 1, kSendPieceMs);
  }
  return true;
}

TaskFrame MakeFrame(TaskFrameKind kind, uint32_t code, size_t length) {
  return {kTaskFrameMagic, static_cast<uint32_t>(kind), code, 0, length};
}

}  // namespace

TaskRunner::TaskRunner(TaskRunnerOptions options, TaskFunction function)
    : options_(std::move(options)), function_(std::move(function)) {
  counters_->most = options_.max_tasks;
}

TaskRunner::~TaskRunner() {
  {
    std::lock_guard lock(mu_);
    stop_ = true;
    stopping_ = true;
    for (const auto& task : tasks_) task->canceled = true;
  }
  wake_.notify_all();
  if (beat_.joinable()) beat_.join();
  for (const auto& task : tasks_) task->thread.join();
}

absl::Status TaskRunner::Start(UniqueFd request, UniqueFd reply) {
  PULSE_ASSIGN_OR_RETURN(auto read, ReadTask(request.get()));
  int type = 0, domain = 0;
  socklen_t size = sizeof(type);
  if (getsockopt(reply.get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM ||
      getsockopt(reply.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_UNIX) {
    return absl::InvalidArgumentError("a compaction's answer goes to a Unix stream socket");
  }
  std::lock_guard lock(mu_);
  ReapLocked();
  if (stop_) return absl::UnavailableError("the agent is stopping");
  // Tasks that only have their answer to send hold no slot, but are limited as well: a host that
  // does not read must not accumulate them.
  auto slot = tasks_.size() < 2 * options_.max_tasks
                  ? slots_.Take(static_cast<int>(options_.max_tasks), read.urgent)
                  : nullptr;
  if (slot == nullptr) {
    counters_->refused.fetch_add(1, std::memory_order_relaxed);
    return ErrnoError(EBUSY, "starting a compaction on the agent",
                      absl::StrCat("beside ", running(), " others"),
                      "pulse agent --tasks says how many it runs; the last is for level 0");
  }
  auto task = std::make_unique<Task>();
  task->request = std::move(read);
  task->slot = std::move(slot);
  task->reply = std::move(reply);
  Task* raw = task.get();
  try {
    if (!beat_.joinable()) beat_ = std::thread([this] { BeatLoop(); });
    counters_->running.fetch_add(1, std::memory_order_relaxed);
    task->thread = std::thread([this, raw] { Run(raw); });
  } catch (const std::system_error& e) {
    if (beat_.joinable()) counters_->running.fetch_sub(1, std::memory_order_relaxed);
    return ErrnoError(e.code().value(), "starting a thread for", "a compaction on the agent");
  }
  tasks_.push_back(std::move(task));
  wake_.notify_all();
  return absl::OkStatus();
}

void TaskRunner::ReapLocked() {
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    if (!(*it)->ended) {
      ++it;
      continue;
    }
    (*it)->thread.join();
    it = tasks_.erase(it);
  }
}

void TaskRunner::Run(Task* task) {
  pthread_setname_np(pthread_self(), "pulse-ag-task");
  if (!options_.cpus.empty()) {
    if (absl::Status st = SetThreadAffinity(options_.cpus); !st.ok())
      Log(LogLevel::kWarn, st.message());
  }
  if (options_.background) {
    const sched_param param{};
    sched_setscheduler(0, SCHED_BATCH, &param);
  }
  const int nice = options_.nice + (task->request.urgent ? 0 : options_.deeper_nice);
  if (nice != 0) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice);
  if (options_.on_thread_start) options_.on_thread_start();
  task->tid = gettid();
  const absl::StatusOr<std::string> result = function_(task->request, &task->canceled);
  {
    std::lock_guard lock(mu_);
    ended_nanos_ += ThreadCpuNanos();
    task->tid = 0;
  }
  // Before the answer: a host that has it may ask for the next task at once.
  const bool done = result.ok() && result->size() <= kMaxTaskBytes;
  (done ? counters_->done : counters_->failed).fetch_add(1, std::memory_order_relaxed);
  counters_->running.fetch_sub(1, std::memory_order_relaxed);
  task->slot->GiveBack();
  {
    std::lock_guard lock(task->reply_mu);
    const std::string payload = result.ok() ? *result : std::string(result.status().message());
    const TaskFrame frame =
        payload.size() > kMaxTaskBytes
            ? MakeFrame(TaskFrameKind::kFailed,
                        static_cast<uint32_t>(absl::StatusCode::kResourceExhausted), 0)
        : result.ok() ? MakeFrame(TaskFrameKind::kDone, 0, payload.size())
                      : MakeFrame(TaskFrameKind::kFailed,
                                  static_cast<uint32_t>(result.status().code()), payload.size());
    if (task->reply.valid() && SendAll(task->reply.get(), &frame, sizeof(frame), stopping_) &&
        frame.length > 0) {
      SendAll(task->reply.get(), payload.data(), payload.size(), stopping_);
    }
    // On all copies: a process that the host has forked may have one. What was sent can be read.
    if (task->reply.valid()) shutdown(task->reply.get(), SHUT_RDWR);
    task->reply.reset();
  }
  task->ended = true;
  wake_.notify_all();
}

// Of all tasks together: those of a lower priority get less because of the others, and because of
// the agent's own threads, which is no contention by others.
uint32_t TaskRunner::ShareLocked() {
  std::vector<pid_t> threads;
  for (const auto& task : tasks_) {
    if (const pid_t tid = task->tid; tid != 0) threads.push_back(tid);
  }
  const size_t cpus = options_.cpus.empty() ? MyCpus().size() : options_.cpus.size();
  int64_t served = ClockNanos(CLOCK_PROCESS_CPUTIME_ID) - ended_nanos_;
  for (const pid_t thread : threads) served -= std::max<int64_t>(0, ThreadCpuNanos(thread));
  const auto share = share_.Take(threads, static_cast<int>(std::max<size_t>(1, cpus)), served);
  if (!share) return 0;
  return share->contended ? std::max(1u, static_cast<uint32_t>(share->each * kFullShare))
                          : kFullShare;
}

void TaskRunner::BeatLoop() {
  pthread_setname_np(pthread_self(), "pulse-ag-beat");
  std::unique_lock lock(mu_);
  while (!stop_) {
    ReapLocked();
    if (tasks_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const uint32_t share = ShareLocked();
    for (const auto& task : tasks_) {
      // A task that sends its result needs no beat.
      std::unique_lock reply(task->reply_mu, std::try_to_lock);
      if (!reply.owns_lock() || !task->reply.valid()) continue;
      const TaskFrame beat = MakeFrame(TaskFrameKind::kBeat, share, 0);
      const ssize_t n = send(task->reply.get(), &beat, sizeof(beat), MSG_NOSIGNAL | MSG_DONTWAIT);
      // The host has left; or it does not read, and only a part of a frame was sent, after which it
      // could not make sense of another.
      if ((n < 0 && errno != EAGAIN && errno != EINTR) ||
          (n >= 0 && static_cast<size_t>(n) < sizeof(beat))) {
        task->canceled = true;
        if (n >= 0) task->reply.reset();
      }
    }
    wake_.wait_for(lock, std::chrono::milliseconds(options_.beat_ms));
  }
}

}  // namespace pulse::lsm
