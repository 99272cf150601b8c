#include "link/message_channel.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"

namespace pulse {
namespace {

constexpr int64_t kCloseNanos = 3'000'000'000;
constexpr uint64_t kMaxAlign = wire::kPage;

}  // namespace

absl::StatusOr<std::unique_ptr<MessageChannel>> MessageChannel::Open(
    const LinkOptions& options, const std::string& start_hint) {
  std::unique_ptr<MessageChannel> c(new MessageChannel);
  c->path_ = options.socket_path;
  auto link = ConnectToAgent(options, /*cancel_fd=*/-1);
  if (link.ok()) {
    c->link_ = *std::move(link);
    return c;
  }
  const absl::Status& why = link.status();
  if (ErrnoOf(why) == ENOENT || ErrnoOf(why) == ECONNREFUSED) {
    // What the link advises is for services that can do without an agent.
    return absl::Status(
        why.code(), absl::StrCat("no agent at ", c->path_, ": ", strerror(ErrnoOf(why)), " (errno ",
                                 ErrnoOf(why), "); start it with: ", start_hint));
  }
  // Whoever is there is not the agent that was wanted.
  const bool refused = absl::IsPermissionDenied(why) || absl::IsInvalidArgument(why);
  return absl::Status(refused ? absl::StatusCode::kFailedPrecondition : why.code(), why.message());
}

absl::StatusOr<uint64_t> MessageChannel::AttachGroup(uint32_t group, const GroupShape& shape,
                                                     const Region& region, int notify) {
  if (CheckLost()) return LostError();
  wire::Message m = MakeMessage(wire::MessageType::kAttachGroup,
                                {group, shape.request_bytes, shape.response_bytes, shape.requests,
                                 reinterpret_cast<uintptr_t>(region.data())});
  auto ack = link_->Ask(m, {region.fd(), notify}, wire::MessageType::kAttachAck);
  if (!ack.ok()) return CheckLost() ? LostError() : ack.status();
  const uint64_t align = ack->args[1];
  if (align < 8 || align > kMaxAlign || (align & (align - 1)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the agent at ", path_, " asks for an impossible alignment"));
  }
  return align;
}

absl::Status MessageChannel::DetachGroup(uint32_t group) {
  if (CheckLost()) return LostError();
  return link_
      ->Ask(MakeMessage(wire::MessageType::kService, {group}), {}, wire::MessageType::kServiceAck)
      .status();
}

bool MessageChannel::CheckLost() {
  if (!lost() && link_->Gone()) MarkLost();
  return lost();
}

void MessageChannel::Close() {
  link_->Close();
  wait_until_ = NowNanos() + kCloseNanos;
}

absl::Status MessageChannel::LostError() const {
  return absl::AbortedError(absl::StrCat("the agent at ", path_, " was lost; connect again"));
}

}  // namespace pulse
