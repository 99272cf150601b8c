// The link to an agent process behind a Unix socket: hello, questions and answers, its end.
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "link/agent_link.h"

namespace pulse {
namespace {

constexpr int kExitWaitMs = 200;

class SocketLink : public AgentLink {
 public:
  explicit SocketLink(const LinkOptions& options)
      : path_(options.socket_path), timeout_ms_(static_cast<int>(options.answer_ms)) {}

  absl::Status Connect(const LinkOptions& options, int cancel_fd) {
    cancel_fd_ = cancel_fd;
    PULSE_ASSIGN_OR_RETURN(auto page, Region::CreateShared(wire::kPage));
    PULSE_ASSIGN_OR_RETURN(auto notify, Prepare(std::move(page)));
    auto socket = ConnectUnix(path_, timeout_ms_, cancel_fd);
    if (!socket.ok()) {
      const int err = ErrnoOf(socket.status());
      absent_ = err == ENOENT || err == ECONNREFUSED || absl::IsDeadlineExceeded(socket.status());
      return socket.status();
    }
    socket_ = *std::move(socket);
    PULSE_RETURN_IF_ERROR(SetSocketTimeout(socket_.get(), timeout_ms_));
    PULSE_RETURN_IF_ERROR(CheckPeer());
    wire::Message hello =
        MakeMessage(wire::MessageType::kHello, {static_cast<uint64_t>(getpid()), options.service.id,
                                                options.mover, options.service.version});
    if (absl::Status st = SendFirst(socket_.get(), hello, {control_region_.fd(), notify.get()});
        !st.ok()) {
      absent_ = true;  // it hung up
      return Told(st);
    }
    auto answer = Receive(Deadline());
    if (answer.ok()) {
      if (absl::Status st = Check(answer->message, wire::MessageType::kHelloAck); !st.ok()) {
        answer = st;
      }
    }
    if (!answer.ok()) {
      // Who hangs up, is silent, or answers with something else entirely, is no agent of this
      // release either. One that refuses has said its version.
      absent_ |= peer_version_ == 0;
      return answer.status();
    }
    cancel_fd_ = -1;  // the caller's; from here on Close() cancels
    greeted_ = true;
    return TakeAnswer(options, *std::move(answer));
  }

  absl::StatusOr<Region> CreateRegion(size_t bytes) override { return Region::CreateShared(bytes); }

  absl::Status Attach(uint32_t queue_id, uint64_t arena_bytes, const Region& region) override {
    wire::Message m =
        MakeMessage(wire::MessageType::kAttachQueue,
                    {queue_id, arena_bytes, reinterpret_cast<uintptr_t>(region.data())});
    return Ask(m, {region.fd()}, wire::MessageType::kAttachAck).status();
  }

  absl::StatusOr<int> SendFile(uint32_t file, int fd) override {
    wire::Message m = MakeMessage(wire::MessageType::kFile, {file});
    PULSE_RETURN_IF_ERROR(Told(SendMessage(socket_.get(), m, {fd})));
    return -1;
  }

  absl::StatusOr<wire::Message> Ask(const wire::Message& question, const std::vector<int>& fds,
                                    wire::MessageType answer) override {
    std::lock_guard lock(mu_);
    PULSE_RETURN_IF_ERROR(Told(SendMessage(socket_.get(), question, fds)));
    // An answer that came after its time-out is not the answer to this question. All of them share
    // one deadline.
    const int64_t until = Deadline();
    while (true) {
      PULSE_ASSIGN_OR_RETURN(auto r, Receive(until));
      const bool ours =
          r.message.type == static_cast<uint32_t>(answer) && r.message.args[0] == question.args[0];
      if (!ours && IsAnswer(r.message.type)) continue;
      PULSE_RETURN_IF_ERROR(Check(r.message, answer));
      return r.message;
    }
  }

  bool embedded() const override { return false; }
  uint64_t fact(size_t index) const override { return index < 2 ? facts_[index] : 0; }
  int death_fd() const override { return socket_.get(); }

  bool Gone() const override {
    pollfd p{socket_.get(), POLLRDHUP, 0};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
  }

  void WaitForExit() const override {
    if (!peer_.valid()) return;
    pollfd gone{peer_.get(), POLLIN, 0};
    poll(&gone, 1, kExitWaitMs);
  }

  void Close() override {
    AgentLink::Close();
    shutdown(socket_.get(), SHUT_RDWR);
  }

  uint32_t max_queues() const override { return max_queues_; }

  bool may_fall_back() const {
    return absent_ || (peer_version_ != 0 && peer_version_ != wire::kProtocolVersion) ||
           other_version_;
  }

 private:
  absl::Status CheckPeer() {
    PULSE_ASSIGN_OR_RETURN(const auto peer, GetPeerCredentials(socket_.get()));
    if (peer.uid != geteuid() && peer.uid != 0) {
      return absl::PermissionDeniedError(
          absl::StrCat("the agent at ", path_, " runs as user ", peer.uid,
                       ", which is neither this user nor root; data is not handed to it"));
    }
    peer_.reset(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
    return absl::OkStatus();
  }

  absl::Status TakeAnswer(const LinkOptions& options, Received answer) {
    const wire::Message& ack = answer.message;
    peer_version_ = ack.version;
    if (ack.version != wire::kProtocolVersion) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the agent at ", path_, " speaks protocol version ", ack.version, ", this program ",
          wire::kProtocolVersion, "; install both from the same release, and restart the agent"));
    }
    if (answer.fds_lost) {
      return ErrnoError(EMFILE, "taking the doorbell of", path_,
                        "raise this process's limit of open files (ulimit -n)");
    }
    if (answer.fds.size() != 1 || !Doorbell::CheckRingEnd(answer.fds[0].get()).ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the agent at ", path_, " passed no doorbell with its answer"));
    }
    kick_ = Doorbell(std::move(answer.fds[0]), &control_->agent_sleeping.value);
    max_queues_ = static_cast<uint32_t>(ack.args[0]);
    facts_[0] = ack.args[4];
    facts_[1] = ack.args[5];
    if (options.engine_name != nullptr && ack.args[3] != options.engine) {
      return absl::InvalidArgumentError(
          absl::StrCat("engine=", options.engine_name, ": the agent at ", path_,
                       " was started with another engine; choose it there (pulse agent --engine)"));
    }
    return absl::OkStatus();
  }

  // Waits for the socket, for Close() and for the caller's cancellation at once.
  absl::Status AwaitAnswer(int64_t until) const {
    pollfd fds[3] = {
        {socket_.get(), POLLIN, 0}, {closed_.fd(), POLLIN, 0}, {cancel_fd_, POLLIN, 0}};
    int n;
    do {
      const int64_t left = (until - NowNanos()) / 1'000'000;
      n = poll(fds, 3, static_cast<int>(std::max<int64_t>(0, left)));
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
      return absl::DeadlineExceededError(absl::StrCat("the agent at ", path_, " gave no answer in ",
                                                      timeout_ms_,
                                                      " ms: it hangs, or is stopped; restart it"));
    }
    if (fds[1].revents != 0 || fds[2].revents != 0) {
      return absl::CancelledError("the agent was given up");
    }
    return absl::OkStatus();
  }

  static bool IsAnswer(uint32_t type) {
    return type == static_cast<uint32_t>(wire::MessageType::kAttachAck) ||
           type == static_cast<uint32_t>(wire::MessageType::kServiceAck);
  }
  int64_t Deadline() const { return NowNanos() + int64_t{timeout_ms_} * 1'000'000; }
  absl::StatusOr<Received> Receive(int64_t until) {
    PULSE_RETURN_IF_ERROR(AwaitAnswer(until));
    auto r = ReceiveMessage(socket_.get());
    if (r.ok()) return r;
    return Told(r.status());
  }
  // What the socket says, as what it means for the agent. One that ends shows that in several ways
  // (the end of the stream, EPIPE, ECONNRESET): all of them are Unavailable.
  absl::Status Told(const absl::Status& status) const {
    if (status.ok()) return status;
    if (!absl::IsUnavailable(status)) {
      return absl::Status(status.code(),
                          absl::StrCat("the agent at ", path_, ": ", status.message()));
    }
    return absl::UnavailableError(
        absl::StrCat("the agent at ", path_, " was lost", greeted_ ? "" : " in the handshake", " (",
                     status.message(), "); start it again; its log may say why it ended"));
  }
  absl::Status Check(const wire::Message& m, wire::MessageType type) {
    if (m.status != 0) {
      peer_version_ = m.version;
      other_version_ = m.status == EPROTONOSUPPORT;
      // With the errno in its text, where the agent has named one.
      const bool full = absl::IsResourceExhausted(ErrnoError(m.status, "", ""));
      return absl::Status(
          full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kFailedPrecondition,
          absl::StrCat("the agent at ", path_, " refused: ", TextOf(m)));
    }
    if (m.type != static_cast<uint32_t>(type)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the agent at ", path_, " gave an answer out of order"));
    }
    return absl::OkStatus();
  }

  const std::string path_;
  const int timeout_ms_;
  int cancel_fd_ = -1;
  UniqueFd peer_;  // pidfd of the agent
  std::mutex mu_;  // one question at a time
  uint64_t facts_[2] = {};
  UniqueFd socket_;
  uint32_t max_queues_ = 0;
  bool absent_ = false;
  bool greeted_ = false;        // it has answered the hello
  bool other_version_ = false;  // of the service
  uint32_t peer_version_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AgentLink>> ConnectToAgent(const LinkOptions& options, int cancel_fd,
                                                          bool* may_fall_back) {
  auto link = std::make_unique<SocketLink>(options);
  absl::Status st = link->Connect(options, cancel_fd);
  if (st.ok()) return std::unique_ptr<AgentLink>(std::move(link));
  if (may_fall_back != nullptr) *may_fall_back = link->may_fall_back();
  return st;
}

}  // namespace pulse
