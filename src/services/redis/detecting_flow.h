// DetectingFlow: a connection on a port that more than one protocol comes to. Its first bytes
// decide which flow answers it; until they do, it waits for more, as a client of the usual one.
//
// Threads: as net::Flow says. The functions outlive it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/application.h"
#include "services/redis/serve.h"

namespace pulse::redis {

class DetectingFlow final : public net::Flow {
 public:
  using Make = std::function<std::unique_ptr<net::Flow>()>;
  // `is_other(first bytes, &undecided)` chooses what `other` makes, else `usual`. The connection of
  // `other` ends once `serves_other` says no.
  DetectingFlow(const OtherProtocol::IsIt& is_other, std::unique_ptr<net::Flow> usual, Make other,
                std::function<bool()> serves_other)
      : is_other_(is_other),
        other_(std::move(other)),
        serves_other_(std::move(serves_other)),
        flow_(std::move(usual)) {}

  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override {
    if (!decided_) {
      bool undecided = false;
      const bool other = is_other_(bytes, &undecided);
      if (undecided && bytes.size() < kLongestFirst) return 0;
      decided_ = true;
      is_of_other_ = other;
      if (other) flow_ = other_();
    }
    if (is_of_other_ && !serves_other_()) {
      return absl::PermissionDeniedError("clients without a password are not served any more");
    }
    return flow_->SplitRequest(bytes);
  }
  absl::StatusOr<size_t> SplitReply(std::string_view bytes) override {
    return absl::InternalError("there is no host");
  }
  void OnRequest(net::Ticket ticket, std::string_view bytes) override {
    flow_->OnRequest(ticket, bytes);
  }
  void OnRequestsEnd() override { flow_->OnRequestsEnd(); }
  void OnClientEnd() override { flow_->OnClientEnd(); }
  size_t held() const override { return flow_->held(); }
  void OnRoom() override { flow_->OnRoom(); }
  bool waits_for_room() const override { return flow_->waits_for_room(); }
  bool lacks_room() const override { return flow_->lacks_room(); }
  size_t expected() const override { return flow_->expected(); }
  bool listens() const override { return flow_->listens(); }
  std::string OnHostLost(net::Ticket ticket, bool sent) override {
    return flow_->OnHostLost(ticket, sent);
  }
  std::string ErrorReply(const absl::Status& error) override { return flow_->ErrorReply(error); }

 private:
  static constexpr size_t kLongestFirst = 4096;
  const OtherProtocol::IsIt& is_other_;
  const Make other_;
  const std::function<bool()> serves_other_;
  std::unique_ptr<net::Flow> flow_;
  bool decided_ = false;
  bool is_of_other_ = false;
};

}  // namespace pulse::redis
