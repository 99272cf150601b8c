#include "services/lsm/placement/host_task.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/errors.h"

namespace pulse::lsm {
namespace {

// The deadline is counted in so many pieces, so that a machine that was suspended meanwhile does
// not make a living agent count as lost.
constexpr int kPieces = 5;

}  // namespace

absl::StatusOr<std::unique_ptr<HostTask>> HostTask::Start(SendFunction send,
                                                          const TaskRequest& request) {
  auto task = std::make_unique<HostTask>();
  PULSE_ASSIGN_OR_RETURN(task->cancel_, WakeEvent::Create());
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return ErrnoError(errno, "creating", "the sockets for a compaction's answer");
  }
  task->socket_.reset(ends[0]);
  const UniqueFd reply(ends[1]);
  PULSE_ASSIGN_OR_RETURN(auto memory, WriteTask(request));
  PULSE_RETURN_IF_ERROR(send(memory.get(), reply.get()));
  return task;
}

absl::Status HostTask::Await(int64_t deadline_ms) {
  const int piece =
      deadline_ms < 0 ? -1 : static_cast<int>(std::max<int64_t>(1, deadline_ms / kPieces));
  for (int silent = 0; silent < kPieces;) {
    pollfd fds[2] = {{socket_.get(), POLLIN, 0}, {cancel_.fd(), POLLIN, 0}};
    const int n = poll(fds, 2, piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoError(errno, "waiting for", "the agent's compaction");
    if (fds[1].revents != 0) return absl::CancelledError("the compaction was cancelled");
    if (fds[0].revents != 0) return absl::OkStatus();
    ++silent;
  }
  return absl::DeadlineExceededError(absl::StrCat("the agent has shown no sign of life for ",
                                                  deadline_ms, " ms while it compacted"));
}

absl::Status HostTask::Read(void* data, size_t size, int64_t deadline_ms) {
  char* p = static_cast<char*>(data);
  while (size > 0) {
    PULSE_RETURN_IF_ERROR(Await(deadline_ms));
    const ssize_t n = recv(socket_.get(), p, size, MSG_DONTWAIT);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0 && errno != ECONNRESET) return ErrnoError(errno, "reading", "the agent's compaction");
    if (n <= 0) return absl::UnavailableError("the agent was lost while it compacted");
    p += n;
    size -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

void HostTask::Abandon(int wait_ms) {
  // It makes the agent's next beat fail. When the agent has closed its end, poll tells POLLHUP.
  shutdown(socket_.get(), SHUT_RD);
  pollfd gone{socket_.get(), 0, 0};
  while (poll(&gone, 1, wait_ms) < 0 && errno == EINTR) {
  }
}

absl::StatusOr<std::string> HostTask::Wait(int64_t deadline_ms,
                                           const std::function<void(double)>& on_contention) {
  int contended = 0;  // measurements in a row
  while (true) {
    TaskFrame frame;
    PULSE_RETURN_IF_ERROR(Read(&frame, sizeof(frame), deadline_ms));
    PULSE_RETURN_IF_ERROR(CheckTaskFrame(frame));
    std::string payload(frame.length, '\0');
    PULSE_RETURN_IF_ERROR(Read(payload.data(), payload.size(), deadline_ms));
    switch (static_cast<TaskFrameKind>(frame.kind)) {
      case TaskFrameKind::kBeat:
        if (frame.code == 0) continue;  // no new measurement
        // The first one may be of what has just ended.
        contended = frame.code < kFullShare ? contended + 1 : 0;
        if (contended >= 2 && on_contention) {
          on_contention(static_cast<double>(frame.code) / kFullShare);
        }
        continue;
      case TaskFrameKind::kDone:
        return payload;
      case TaskFrameKind::kFailed: {
        const bool known = frame.code >= static_cast<uint32_t>(absl::StatusCode::kCancelled) &&
                           frame.code <= static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
        return absl::Status(
            known ? static_cast<absl::StatusCode>(frame.code) : absl::StatusCode::kUnknown,
            payload);
      }
    }
  }
}

}  // namespace pulse::lsm
