// The host's half of the echo service: sends text to the agent and takes it back.
//
// Any thread, one call at a time. Open and Send block, until the agent has answered or is lost.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "link/message_group.h"
#include "services/echo/wire.h"

namespace pulse::echo {

class Host : private HostMessageGroup::Taker {
 public:
  // Errors: link/message_channel.h.
  static absl::StatusOr<std::unique_ptr<Host>> Open(const std::string& socket) {
    const LinkOptions link{.service = {kServiceId, kServiceVersion}, .socket_path = socket};
    const std::string hint = absl::StrCat("pulse agent --socket ", socket, " --echo");
    PULSE_ASSIGN_OR_RETURN(auto channel, MessageChannel::Open(link, hint));
    std::unique_ptr<Host> host(new Host(std::move(channel)));
    PULSE_ASSIGN_OR_RETURN(host->group_, HostMessageGroup::Create(host->channel_.get(), kShape));
    return host;
  }
  ~Host() override { channel_->Close(); }

  // `text` as the agent sent it back. ResourceExhausted for one that is longer than a message may
  // be; Unavailable when the agent was lost.
  absl::StatusOr<std::string> Send(std::string_view text) {
    // An answer must fit beside those that the host has not given back: half of its ring.
    constexpr uint64_t kMost = kShape.response_bytes / 4;
    if (text.size() > kMost) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a text of ", text.size(), " bytes; the most is ", kMost));
    }
    Request request{};
    const uint32_t slot = group_->TakeSlot(&request.id);
    if (slot == HostMessageGroup::kNoSlot) return absl::UnavailableError("too many requests");
    PULSE_RETURN_IF_ERROR(group_->Submit(slot, request.id, kEcho, {&request, sizeof(request)},
                                         {text.data(), text.size()}));
    PULSE_RETURN_IF_ERROR(group_->Wait(this, 1, HostMessageGroup::kForever).status());
    return std::move(answer_);
  }

 private:
  static constexpr GroupShape kShape = {uint64_t{1} << 20, uint64_t{1} << 20, 16};

  explicit Host(std::unique_ptr<MessageChannel> channel) : channel_(std::move(channel)) {}

  bool OnResponse(const TakenResponse& r, uint32_t /*slot*/) override {
    if (r.result < 0 || static_cast<uint64_t>(r.result) > r.capacity) {
      answer_ = absl::InternalError("the agent gave an answer that makes no sense");
    } else {
      answer_ = std::string(r.data, static_cast<size_t>(r.result));
    }
    return false;  // nothing keeps the response's memory
  }
  void OnLost(uint64_t /*id*/, uint32_t /*slot*/) override {
    answer_ = absl::UnavailableError("the agent was lost before it answered");
  }

  std::unique_ptr<MessageChannel> channel_;
  std::unique_ptr<HostMessageGroup> group_;  // before the channel
  absl::StatusOr<std::string> answer_ = absl::UnknownError("no answer yet");
};

}  // namespace pulse::echo
