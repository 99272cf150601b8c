#include "agent/hello.h"

#include <cerrno>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "channel/doorbell.h"

namespace pulse {

absl::StatusOr<AskedService> ReadAskedService(const wire::Message& m) {
  if (m.version != wire::kProtocolVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the agent speaks protocol version ", wire::kProtocolVersion, " and the plug-in version ",
        m.version, "; install agent and plug-in from the same release, and restart the agent"));
  }
  if (m.type != static_cast<uint32_t>(wire::MessageType::kHello)) {
    return absl::InvalidArgumentError("the first message is not a hello");
  }
  // Hosts of an early release say no version; it was the first.
  return AskedService{m.args[1], m.args[3] == 0 ? 1 : m.args[3]};
}

absl::StatusOr<Hello> CheckHello(Received message, MoverKind usual) {
  const wire::Message& m = message.message;
  if (message.fds_lost) {
    return ErrnoError(EMFILE, "the agent cannot take", "another session", kRaiseOpenFiles);
  }
  if (message.fds.size() != 2) {
    return absl::InvalidArgumentError("a hello takes two descriptors: control page and doorbell");
  }
  Hello hello;
  // A host may ask for a mover of its own.
  const MoverKind movers[] = {usual, MoverKind::kShared, MoverKind::kVmRead};
  if (m.args[2] >= std::size(movers)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a hello asks for an unknown mover, ", m.args[2]));
  }
  hello.mover = movers[m.args[2]];
  PULSE_ASSIGN_OR_RETURN(hello.region, Region::Map(std::move(message.fds[0]), wire::kPage));
  hello.control = reinterpret_cast<wire::ControlPage*>(hello.region.data());
  if (hello.control->magic != wire::kRegionMagic ||
      hello.control->version != wire::kProtocolVersion) {
    return absl::InvalidArgumentError("the control page is not PulseDB's");
  }
  if (absl::Status st = Doorbell::CheckRingEnd(message.fds[1].get()); !st.ok()) return st;
  hello.notify = std::move(message.fds[1]);
  return hello;
}

}  // namespace pulse
