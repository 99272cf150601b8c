// EngineFlow: one client connection of an offload program. Of the engine's files only.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "net/application.h"
#include "services/offload/loop_state.h"

namespace pulse::offload {

class EngineFlow final : public net::Flow {
 public:
  EngineFlow(LoopState* state, net::Connection* connection);
  ~EngineFlow() override;

  absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override;
  absl::StatusOr<size_t> SplitReply(std::string_view bytes) override;
  void OnRequest(net::Ticket ticket, std::string_view bytes) override;
  void OnHostReply(net::Ticket ticket, std::string_view bytes, bool last,
                   std::string* out) override;
  std::string OnHostLost(net::Ticket ticket, bool sent) override;
  std::string ErrorReply(const absl::Status& error) override;

  size_t held() const override { return held_bytes_ + forwarded_bytes_; }

  // The context's reads are done.
  void OnRead(Context* c);

 private:
  // With Order::kRequest, what is not at its end, in order.
  struct Pending {
    net::Ticket ticket;
    Context* read;     // or null:
    std::string host;  // for the host, once the reads before it are done
    uint32_t replies;
  };
  // Forwarded, and what is needed to tell of its loss.
  struct Forwarded {
    net::Ticket ticket = 0;
    bool is_long = false;
    std::string text;    // the request, or of a long one the error
    std::string unsent;  // of a long one: the error if it was not sent
    size_t bytes() const { return text.size() + unsent.size(); }
  };

  void StartRead(net::Ticket ticket, std::string_view request);
  EngineStats::Counter TryRead(net::Ticket ticket, std::string_view request);
  void ToHost(net::Ticket ticket, std::string_view bytes, uint32_t replies);
  void Forward(net::Ticket ticket, std::string_view bytes, uint32_t replies);
  // kOffloaded, or why the host has to answer.
  EngineStats::Counter Answer(Context* c);
  bool SendReply(Context* c, const Reply& reply);
  void Drain();
  void GiveUp(const Context* counted);
  Forwarded Forget(net::Ticket ticket);
  bool IsBehindHost() const;
  bool AnswersTooSoon(const Sorted& sorted) const;
  std::string ErrorText(std::string_view request, Error error);

  LoopState* const state_;
  Runtime* const runtime_;
  net::Connection* const connection_;
  const bool ordered_;
  uint32_t reads_ = 0;  // contexts that point here
  std::deque<Pending> pending_;
  size_t held_bytes_ = 0;
  // The last that the host does not answer: done for sure once it has answered a later one.
  net::Ticket silent_ = 0;
  std::deque<Forwarded> forwarded_;
  size_t forwarded_bytes_ = 0;
};

}  // namespace pulse::offload
