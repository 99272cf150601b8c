#include "services/kv/shm/peer_listener.h"

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"

namespace pulse::kv {

absl::StatusOr<std::unique_ptr<PeerListener>> PeerListener::Open(PeerHost* host,
                                                                 const ListenerOptions& options) {
  std::unique_ptr<PeerListener> made(new PeerListener(host, options));
  auto listener = HelloListener::Open(made.get(), {.path = options.path,
                                                   .thread = options.thread,
                                                   .who = "the server",
                                                   .hello_ms = options.hello_ms});
  if (absl::IsAlreadyExists(listener.status())) {
    return absl::AlreadyExistsError(
        absl::StrCat(options.option, " ", options.path,
                     ": another server listens there, or the file is no socket; stop it, or choose "
                     "another path"));
  }
  PULSE_ASSIGN_OR_RETURN(made->listener_, std::move(listener));
  return made;
}

PeerListener::~PeerListener() {
  listener_.reset();
  for (const auto& peer : peers_) peer->Break();
}

void PeerListener::Watch(std::vector<pollfd>* fds) {
  for (const auto& peer : peers_) fds->push_back({peer->socket(), POLLIN, 0});
}

void PeerListener::Look(std::span<const pollfd> watched) {
  // Those that have ended are destroyed here, and not by a thread that others wait for.
  const auto before = std::exchange(peers_, {});
  for (size_t i = 0; i < before.size(); ++i) {
    if (watched[i].revents == 0) peers_.push_back(before[i]);
  }
  if (peers_.size() < before.size()) host_->SetPeers(peers_);
}

void PeerListener::Refused(const absl::Status& why) {
  LogOnce(
      absl::StrCat("shm-refused", options_.service, "-", why.raw_code()),
      absl::StrCat("refused a client of shared memory on ", options_.path, ": ", why.message()));
}

absl::Status PeerListener::Welcome(UniqueFd* socket, Received hello) {
  const wire::Message& m = hello.message;
  if (m.version != wire::kProtocolVersion ||
      (m.args[1] == options_.service && m.args[3] != options_.version)) {
    return ErrnoError(EPROTONOSUPPORT, "a client speaks", "another version of the protocol",
                      "install pulse and its client library from the same release");
  }
  if (m.type != static_cast<uint32_t>(wire::MessageType::kHello) || m.args[1] != options_.service) {
    return ErrnoError(EPROTOTYPE, "this socket is of",
                      absl::StrCat("`pulse kv ", options_.option, "`, not of service ", m.args[1]),
                      "give another path, or install both from the same release");
  }
  if (hello.fds_lost) {
    return ErrnoError(EMFILE, "taking a client's", "descriptors", kRaiseOpenFiles);
  }
  if (hello.fds.size() != options_.descriptors) {
    return absl::InvalidArgumentError(
        absl::StrCat("a hello brings a doorbell first of ", options_.descriptors, " descriptors"));
  }
  PULSE_RETURN_IF_ERROR(Doorbell::CheckRingEnd(hello.fds[0].get()));
  PULSE_ASSIGN_OR_RETURN(auto peer, host_->Welcome(socket, std::move(hello.fds)));
  peers_.push_back(std::move(peer));
  host_->SetPeers(peers_);
  return absl::OkStatus();
}

}  // namespace pulse::kv
