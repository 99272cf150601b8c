// HostTask: a compaction that runs on an external agent as a task, on the host's side.
//
// One thread at a time. Wait blocks; Cancel may be called by any thread. Destroying one that has
// not ended cancels it on the agent, without waiting for that.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "base/wake_event.h"
#include "channel/doorbell.h"
#include "services/lsm/placement/task_wire.h"

namespace pulse::lsm {

class HostTask {
 public:
  // Passes the two descriptors to an agent: of the request (a sealed memfd), and of the stream
  // socket on which it answers. They stay the caller's.
  using SendFunction = absl::FunctionRef<absl::Status(int request, int reply)>;
  // On the agent that `send` reaches. An errno of EBUSY: the agent has no slot free.
  static absl::StatusOr<std::unique_ptr<HostTask>> Start(SendFunction send,
                                                         const TaskRequest& request);

  // The result for RocksDB. Unavailable when the agent was lost, DeadlineExceeded when it has shown
  // no sign of life for `deadline_ms` (-1: wait for ever), Cancelled after Cancel; else as the
  // agent says, Unimplemented for what it will never be able to do. `on_contention`, if not empty,
  // is called while others contend for the agent's CPUs, with the share of a CPU that its tasks
  // have.
  absl::StatusOr<std::string> Wait(int64_t deadline_ms,
                                   const std::function<void(double)>& on_contention = {});
  void Cancel() { cancel_.Set(); }
  // Has the agent cancel the task, and waits until it has, for `wait_ms` at most: what it was
  // writing may then be removed.
  void Abandon(int wait_ms);

 private:
  // Waits until the socket is readable.
  absl::Status Await(int64_t deadline_ms);
  absl::Status Read(void* data, size_t size, int64_t deadline_ms);

  UniqueFd socket_;
  WakeEvent cancel_;
};

}  // namespace pulse::lsm
