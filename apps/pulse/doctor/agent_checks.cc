#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <string>

#include "apps/pulse/doctor/check.h"
#include "base/errors.h"
#include "channel/doorbell.h"
#include "channel/handshake.h"
#include "channel/region.h"
#include "fmt/format.h"
#include "uring/io_backend.h"

namespace pulse::doctor {
namespace {

constexpr char kName[] = "agent socket";
constexpr int kTimeoutMs = 5000;

// An error's remedy follows its first semicolon.
Check FailWith(const std::string& path, const absl::Status& why) {
  const std::string text(why.message());
  const std::string found = text.find(path) == std::string::npos ? path + ": " + text : text;
  const size_t cut = found.find("; ");
  if (cut == std::string::npos) return Fail(kName, found, "see pulse agent --help");
  return Fail(kName, found.substr(0, cut), found.substr(cut + 2));
}

// Says hello as a host does, and leaves when the answer has come.
absl::StatusOr<Received> Greet(int socket) {
  PULSE_ASSIGN_OR_RETURN(auto page, Region::CreateShared(wire::kPage));
  auto* control = new (page.data()) wire::ControlPage();
  control->magic = wire::kRegionMagic;
  control->version = wire::kProtocolVersion;
  PULSE_ASSIGN_OR_RETURN(auto notify, Doorbell::CreatePair());
  wire::Message hello = MakeMessage(wire::MessageType::kHello);
  hello.args[0] = static_cast<uint64_t>(getpid());
  PULSE_RETURN_IF_ERROR(SendFirst(socket, hello, {page.fd(), notify.ring.get()}));
  return ReceiveMessage(socket);
}

Check CheckAnswer(const std::string& path, const PeerCredentials& peer, const Received& answer) {
  const wire::Message& m = answer.message;
  if (m.version != wire::kProtocolVersion) {
    return Fail(kName,
                fmt::format("{}: the agent speaks protocol version {}, this program {}", path,
                            m.version, wire::kProtocolVersion),
                "install agent and plug-in from the same release, and restart the agent");
  }
  if (m.status != 0) {
    const std::string text = TextOf(m);
    return FailWith(path, absl::FailedPreconditionError(
                              fmt::format("{}: the agent refuses hosts: {}", path, text)));
  }
  if (m.type != static_cast<uint32_t>(wire::MessageType::kHelloAck) || answer.fds.size() != 1) {
    return Fail(kName, path + ": who answers is no PulseDB agent", "choose another --socket");
  }
  const absl::string_view engine_name = EngineName(static_cast<EngineKind>(m.args[3]));
  return Ok(kName, fmt::format("{}: process {} of user {} welcomes hosts ({}, {} queues of at most "
                               "{} MiB a session)",
                               path, peer.pid, peer.uid,
                               std::string(engine_name.data(), engine_name.size()), m.args[0],
                               m.args[1] >> 20));
}

}  // namespace

Checks CheckAgentSocket(const std::string& path) {
  const auto socket = ConnectUnix(path);
  if (!socket.ok()) {
    if (ErrnoOf(socket.status()) == EACCES) {
      return {Fail(kName, path + ": this user may not connect (the socket has mode 0600)",
                   "run agent and host as the same user")};
    }
    return {FailWith(path, socket.status())};
  }
  const auto peer = GetPeerCredentials(socket->get());
  if (!peer.ok()) return {FailWith(path, peer.status())};
  if (peer->uid != geteuid() && peer->uid != 0) {
    return {Fail(kName,
                 fmt::format("{}: the agent (process {}) runs as user {}, this program as {}", path,
                             peer->pid, peer->uid, geteuid()),
                 "run agent and host as the same user")};
  }
  if (absl::Status st = SetSocketTimeout(socket->get(), kTimeoutMs); !st.ok()) {
    return {FailWith(path, st)};
  }
  const auto answer = Greet(socket->get());
  if (answer.ok()) return {CheckAnswer(path, *peer, *answer)};
  if (absl::IsDeadlineExceeded(answer.status())) {
    return {
        Fail(kName,
             fmt::format("{}: process {} accepts connections and does not answer", path, peer->pid),
             "it hangs, or is no PulseDB agent: look at it, and restart it")};
  }
  if (absl::IsUnavailable(answer.status())) {
    return {Fail(kName, fmt::format("{}: process {} hangs up on a host's hello", path, peer->pid),
                 "it is stopping, or is no PulseDB agent: look at its log, and restart it")};
  }
  return {FailWith(path, answer.status())};
}

}  // namespace pulse::doctor
