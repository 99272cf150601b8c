#include "services/files/host_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "channel/handshake.h"

namespace pulse::files {
namespace {

constexpr int kTimeoutMs = 10'000;
constexpr int64_t kCloseNanos = 3'000'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const Options& options) {
  std::unique_ptr<Connection> c(new Connection);
  if (absl::Status st = c->Connect(options); !st.ok()) return st;
  return c;
}

absl::Status Connection::Connect(const Options& options) {
  path_ = options.socket;
  auto page = Region::CreateShared(wire::kPage);
  if (!page.ok()) return page.status();
  control_region_ = *std::move(page);
  control_ = new (control_region_.data()) wire::ControlPage();
  control_->magic = wire::kRegionMagic;
  control_->version = wire::kProtocolVersion;
  auto doorbell = Doorbell::CreatePair();
  if (!doorbell.ok()) return doorbell.status();
  notify_ = std::move(doorbell->sleep);
  auto socket = ConnectUnix(path_, kTimeoutMs);
  if (!socket.ok()) {
    return absl::Status(
        socket.status().code(),
        absl::StrCat("no agent at ", path_, ": ", socket.status().message(),
                     " (start it with: pulse agent --socket ", path_, " --store PATH)"));
  }
  socket_ = *std::move(socket);
  PULSE_RETURN_IF_ERROR(SetSocketTimeout(socket_.get(), kTimeoutMs));
  auto peer = GetPeerCredentials(socket_.get());
  if (!peer.ok()) return peer.status();
  if (peer->uid != geteuid() && peer->uid != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the agent at ", path_, " runs as user ", peer->uid,
                     ", which is neither this user nor root; data is not handed to it"));
  }
  wire::Message hello = MakeMessage(wire::MessageType::kHello);
  hello.args[0] = static_cast<uint64_t>(getpid());
  hello.args[1] = kServiceNumber;
  hello.args[2] = static_cast<uint64_t>(options.transfer);
  UniqueFd kick;
  auto ack =
      Ask(hello, {control_region_.fd(), doorbell->ring.get()}, wire::MessageType::kHelloAck, &kick);
  if (!ack.ok()) return ack.status();
  if (!kick.valid() || !Doorbell::CheckRingEnd(kick.get()).ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the agent at ", path_, " passed no doorbell with its answer"));
  }
  kick_ = Doorbell(std::move(kick), &control_->agent_sleeping.value);
  return absl::OkStatus();
}

absl::StatusOr<wire::Message> Connection::Ask(const wire::Message& question,
                                              const std::vector<int>& fds, wire::MessageType answer,
                                              UniqueFd* passed) {
  PULSE_RETURN_IF_ERROR(SendMessage(socket_.get(), question, fds));
  const int64_t until = NowNanos() + int64_t{kTimeoutMs} * 1'000'000;
  while (true) {
    auto r = ReceiveMessage(socket_.get());
    if (!r.ok()) {
      return absl::Status(r.status().code(),
                          absl::StrCat("the agent at ", path_, ": ", r.status().message()));
    }
    const wire::Message& m = r->message;
    // The late answer to a question that was given up.
    const bool late = answer == wire::MessageType::kAttachAck &&
                      m.type == static_cast<uint32_t>(answer) && m.args[0] != question.args[0];
    if (late && NowNanos() < until) continue;
    if (m.status != 0) {
      const absl::Status why = ErrnoError(m.status, "the agent at", path_);
      const bool full = absl::IsResourceExhausted(why);
      return absl::Status(
          full ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kFailedPrecondition,
          absl::StrCat("the agent at ", path_, " refused: ", TextOf(m)));
    }
    if (m.version != wire::kProtocolVersion || m.type != static_cast<uint32_t>(answer)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the agent at ", path_, " speaks another protocol; install both from the same release"));
    }
    if (r->fds_lost) {
      return ErrnoError(EMFILE, "taking the doorbell of", path_,
                        "raise this process's limit of open files (ulimit -n)");
    }
    if (passed != nullptr && r->fds.size() == 1) *passed = std::move(r->fds[0]);
    return m;
  }
}

absl::StatusOr<uint64_t> Connection::AttachGroup(uint32_t group, const GroupShape& shape,
                                                 const Region& region, int notify) {
  std::lock_guard lock(mu_);
  if (CheckLost()) return LostError();
  wire::Message m = MakeMessage(wire::MessageType::kAttachGroup);
  m.args[0] = group;
  m.args[1] = shape.request_bytes;
  m.args[2] = shape.response_bytes;
  m.args[3] = shape.requests;
  m.args[4] = reinterpret_cast<uintptr_t>(region.data());
  auto ack = Ask(m, {region.fd(), notify}, wire::MessageType::kAttachAck, nullptr);
  if (!ack.ok()) return ack.status();
  const uint64_t align = ack->args[1];
  if (align < 8 || align > kMaxAlign || (align & (align - 1)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the agent at ", path_, " asks for an impossible alignment"));
  }
  return align;
}

bool Connection::CheckLost() {
  if (lost()) return true;
  pollfd p{socket_.get(), POLLRDHUP, 0};
  if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0) MarkLost();
  return lost();
}

void Connection::Shutdown() { shutdown(socket_.get(), SHUT_RDWR); }

void Connection::Close() {
  Shutdown();
  wait_until_ = NowNanos() + kCloseNanos;
}

absl::Status Connection::LostError() const {
  return absl::FailedPreconditionError(
      absl::StrCat("the agent at ", path_, " was lost; open a new library"));
}

}  // namespace pulse::files
