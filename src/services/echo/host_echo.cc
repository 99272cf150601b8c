#include "services/echo/host_echo.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "services/echo/wire.h"

namespace pulse::echo {
namespace {

constexpr GroupShape kShape = {uint64_t{1} << 20, uint64_t{1} << 20, 16};

class Answer : public HostMessageGroup::Taker {
 public:
  bool OnResponse(const TakenResponse& r, uint32_t /*slot*/) override {
    if (r.result < 0 || static_cast<uint64_t>(r.result) > r.capacity) {
      text = absl::InternalError("the agent gave an answer that makes no sense");
    } else {
      text = std::string(r.data, static_cast<size_t>(r.result));
    }
    return false;  // nothing keeps the response's memory
  }
  void OnLost(uint64_t /*id*/, uint32_t /*slot*/) override {
    text = absl::UnavailableError("the agent was lost before it answered");
  }

  absl::StatusOr<std::string> text = absl::UnknownError("no answer yet");
};

}  // namespace

absl::StatusOr<std::unique_ptr<Host>> Host::Open(const std::string& socket) {
  LinkOptions link;
  link.service = {kServiceId, kServiceVersion};
  link.socket_path = socket;
  std::unique_ptr<Host> host(new Host);
  auto channel =
      MessageChannel::Open(link, absl::StrCat("pulse agent --socket ", socket, " --echo"));
  if (!channel.ok()) return channel.status();
  host->channel_ = *std::move(channel);
  auto group = HostMessageGroup::Create(host->channel_.get(), kShape);
  if (!group.ok()) return group.status();
  host->group_ = *std::move(group);
  return host;
}

Host::~Host() {
  if (channel_ != nullptr) channel_->Close();
}

absl::StatusOr<std::string> Host::Send(std::string_view text) {
  // An answer must fit beside those that the host has not given back: half of its ring.
  if (text.size() > kShape.response_bytes / 4) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a text of ", text.size(), " bytes; the most is ", kShape.response_bytes / 4));
  }
  Request request{};
  const uint32_t slot = group_->TakeSlot(&request.id);
  if (slot == HostMessageGroup::kNoSlot) return absl::UnavailableError("too many requests");
  PULSE_RETURN_IF_ERROR(group_->Submit(slot, request.id, kEcho, {&request, sizeof(request)},
                                       {text.data(), text.size()}));
  Answer answer;
  const auto taken = group_->Wait(&answer, 1, HostMessageGroup::kForever);
  if (!taken.ok()) return taken.status();
  return std::move(answer.text);
}

}  // namespace pulse::echo
