// The host's half of the echo service: sends text to the agent and takes it back.
//
// Any thread, one call at a time. Open and Send block, until the agent has answered or is lost.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "link/message_group.h"

namespace pulse::echo {

class Host {
 public:
  // Errors: link/message_channel.h.
  static absl::StatusOr<std::unique_ptr<Host>> Open(const std::string& socket);
  ~Host();

  // `text` as the agent sent it back. ResourceExhausted for one that is longer than a message may
  // be; Unavailable when the agent was lost.
  absl::StatusOr<std::string> Send(std::string_view text);

 private:
  Host() = default;

  std::unique_ptr<MessageChannel> channel_;
  std::unique_ptr<HostMessageGroup> group_;  // before the channel
};

}  // namespace pulse::echo
