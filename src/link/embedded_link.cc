#include "link/embedded_link.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "agent/status_server.h"
#include "base/errors.h"
#include "channel/queue_pair.h"

namespace pulse {
namespace {

class EmbeddedLink : public AgentLink {
 public:
  absl::Status Start(EmbeddedOptions options) {
    PULSE_ASSIGN_OR_RETURN(auto page, Region::CreatePrivate(wire::kPage));
    PULSE_ASSIGN_OR_RETURN(auto notify, Prepare(std::move(page)));
    PULSE_ASSIGN_OR_RETURN(auto kick, Doorbell::CreatePair());
    kick_ = Doorbell(std::move(kick.ring), &control_->agent_sleeping.value);
    if (!options.status_path.empty()) {
      PULSE_ASSIGN_OR_RETURN(status_, StatusServer::Open(options.status_path));
      options.worker.status = std::shared_ptr<AgentStatus>(status_, &status_->status());
    }
    const std::shared_ptr<AgentStatus> status = options.worker.status;
    PULSE_ASSIGN_OR_RETURN(worker_, Worker::Start(std::move(options.worker)));
    worker_->Run([&] {
      Session::Config config;
      config.mover = options.mover;
      config.embedded = true;
      config.peer = getpid();
      config.name = "of this process";
      config.status = status;
      config.service = options.service;
      auto session = std::make_unique<Session>(std::move(config), control_, Region(),
                                               std::move(kick.sleep), std::move(notify), UniqueFd(),
                                               worker_->engine(), options.factory);
      session_ = session.get();
      worker_->AddSession(std::move(session));
    });
    return absl::OkStatus();
  }

  absl::StatusOr<Region> CreateRegion(size_t bytes) override {
    PULSE_ASSIGN_OR_RETURN(Region region, Region::CreatePrivate(bytes));
    // A child could not use it, and what I/O has pinned would be copied for it.
    madvise(region.data(), region.size(), MADV_DONTFORK);
    return region;
  }

  absl::Status Attach(uint32_t queue_id, uint64_t arena_bytes, const Region& region) override {
    absl::Status st;
    worker_->Run([&] {
      st = session_->AttachQueue(queue_id, arena_bytes, reinterpret_cast<uintptr_t>(region.data()),
                                 Region(), &region);
    });
    return st;
  }

  absl::StatusOr<int> SendFile(uint32_t /*file*/, int fd) override {
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return ErrnoError(errno, "duplicating", "a file descriptor");
    return copy;
  }

  bool embedded() const override { return true; }
  int death_fd() const override { return -1; }
  bool Gone() const override { return false; }
  uint32_t max_queues() const override { return AgentLimits().max_queues; }

 private:
  std::shared_ptr<StatusServer> status_;  // null: none was asked for
  Session* session_ = nullptr;
  std::unique_ptr<Worker> worker_;  // last: its destructor drains the session
};

}  // namespace

absl::StatusOr<std::unique_ptr<AgentLink>> StartEmbeddedAgent(EmbeddedOptions options) {
  auto link = std::make_unique<EmbeddedLink>();
  if (absl::Status st = link->Start(std::move(options)); !st.ok()) return st;
  return std::unique_ptr<AgentLink>(std::move(link));
}

}  // namespace pulse
