#include "services/kv/agent/host_session.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "services/kv/agent/host_lane.h"

namespace pulse::kv {
namespace {

// Of replies that the client may not have taken: then the agent says when there is room again.
constexpr uint64_t kCredit = uint64_t{256} << 10;
constexpr std::string_view kHoldTooMuch =
    "the requests of all clients hold too many bytes; try again later\r\n";

}  // namespace

// The lane's thread ends the session, and carries out what others have posted.
class HostSession::Remote final : public net::Remote,
                                  public std::enable_shared_from_this<HostSession::Remote> {
 public:
  Remote(std::shared_ptr<net::Mailbox> mailbox, HostSession* session)
      : mailbox_(std::move(mailbox)), session_(session) {}
  void Post(std::function<void()> work) override {
    mailbox_->Push([self = shared_from_this(), work = std::move(work)] {
      HostSession* session = self->session_;
      if (session == nullptr || session->flow_ == nullptr) return;
      work();
      session->lane_->Touch(session);
    });
  }
  void End() { session_ = nullptr; }

 private:
  const std::shared_ptr<net::Mailbox> mailbox_;
  HostSession* session_;  // the lane's thread alone looks at it
};

HostSession::HostSession(HostLane* lane, uint16_t number, std::string peer, std::string local)
    : lane_(lane),
      number_(number),
      peer_(std::move(peer)),
      local_(std::move(local)),
      remote_(std::make_shared<Remote>(lane->mailbox_, this)) {}

HostSession::~HostSession() {
  remote_->End();
  flow_.reset();
  DropIncoming();
  lane_->held_ -= counted_;
  lane_->held_paused_ -= counted_paused_;
}

void HostSession::Begin(bool other_protocol, std::string_view refusal) {
  if (!refusal.empty()) return Close(refusal);
  redis::HostApplication* application = lane_->shared_->application;
  if (!other_protocol) {
    auto split = application->NewSplitFlow(this);
    split_ = split.get();
    flow_ = std::move(split);
  } else if (flow_ = application->NewOtherFlow(this); flow_ == nullptr) {
    // What Redis's protocol says to such a line.
    Close("-NOAUTH Authentication required.\r\n");
  }
}

bool HostSession::Take(LaneOp op, std::string_view bytes, bool more) {
  if (closing_ || closed_by_agent_) return !closed_by_agent_;  // on its way when the host ended it
  if ((op == LaneOp::kMemcached) != (split_ == nullptr)) return false;
  if (split_ == nullptr && !lane_->shared_->application->ServesOther()) {
    Close("SERVER_ERROR clients without a password are not served any more\r\n");
    return true;
  }
  if (more || !incoming_.empty()) {
    if (bytes.size() > lane_->shared_->max_message -
                           std::min<uint64_t>(lane_->shared_->max_message, incoming_.size())) {
      CloseWithError("Protocol error: the request is longer than --max-value allows\r\n");
      return true;
    }
    if (more &&
        lane_->assembling_ > std::max<uint64_t>(lane_->shared_->lane_bytes, incoming_.capacity())) {
      // At once: others of this turn are to have its room, and not its fate.
      DropIncoming();
      CloseWithError(kHoldTooMuch);
      return true;
    }
    const size_t before = incoming_.capacity();
    incoming_.append(bytes);
    lane_->assembling_ += incoming_.capacity() - before;
    if (more) return true;
    bytes = incoming_;
  }
  const net::Ticket ticket = next_ticket_++;
  if (split_ != nullptr) {
    split_->OnSplitRequest(ticket, bytes);
  } else {
    flow_->OnRequest(ticket, bytes);
  }
  DropIncoming();
  given_ = true;
  lane_->Touch(this);
  return true;
}

redis::SplitFlow::Idle HostSession::WhileIdle() {
  if (split_ == nullptr || closing_ || closed_by_agent_ || given_ || paused_ || !pieces_.empty()) {
    return {};
  }
  return split_->WhileIdle();
}

void HostSession::Resume() {
  sent_ = 0;
  paused_ = false;
  lane_->Touch(this);
}

bool HostSession::EndByAgent() {
  if (closed_by_agent_) return false;
  closed_by_agent_ = true;
  Close("");
  lane_->Touch(this);
  return true;
}

void HostSession::DropIncoming() {
  if (incoming_.empty()) return;
  const size_t before = incoming_.capacity();
  net::FreeBytes(&incoming_);
  lane_->assembling_ -= before - incoming_.capacity();
}

bool HostSession::EndTurn() {
  if (flow_ != nullptr && std::exchange(given_, false)) flow_->OnRequestsEnd();
  // What it is told of room may be another batch, and that end by itself.
  if (flow_ != nullptr && !closing_ && !paused_ && pieces_.empty()) flow_->OnRoom();
  if (closing_ && flow_ != nullptr) {
    flow_.reset();
    split_ = nullptr;
    DropIncoming();
    lane_->shared_->sessions.fetch_sub(1, std::memory_order_relaxed);
  }
  Count();
  return closed_by_agent_ && closed_sent_ && pieces_.empty();
}

// What a client holds that does not read is freed by what it, or the agent, says next: that must
// not wait for it.
void HostSession::Count() {
  const size_t now = held();
  lane_->held_ += (paused_ ? 0 : now) - counted_;
  lane_->held_paused_ += (paused_ ? now : 0) - counted_paused_;
  counted_ = paused_ ? 0 : now;
  counted_paused_ = paused_ ? now : 0;
  const LaneShared& shared = *lane_->shared_;
  if (lane_->held_paused_ <= shared.lane_bytes + shared.max_message) return;
  HostSession* const most = lane_->LargestPaused();
  if (most == nullptr) return;
  most->CloseWithError(kHoldTooMuch);
  lane_->held_paused_ -= std::exchange(most->counted_paused_, 0);  // it is about to be freed
}

// While it is paused it is more than what pushes wait for: the agent takes none then.
size_t HostSession::unsent() const {
  const size_t paused = paused_ ? std::max<size_t>(sent_, kCredit + 1) : 0;
  return out_.size() - out_at_ + paused;
}

size_t HostSession::held() const {
  return out_.capacity() + (flow_ != nullptr ? flow_->held() : 0);
}

void HostSession::Forward(net::Ticket, std::string_view, uint32_t) {
  PULSE_CHECK(false);  // the flows of a host answer by themselves
}

void HostSession::Reply(net::Ticket ticket, std::string_view bytes) {
  if (closing_) return;
  ++answered_;
  if (!closed_by_agent_) SendPieces(0, bytes);
}

void HostSession::SendPieces(uint8_t flags, std::string_view bytes) {
  sent_ += bytes.size();
  uint8_t last = flags;
  if (sent_ >= kCredit && !paused_) {
    paused_ = true;
    last |= kPaused;
  }
  while (bytes.size() > kFragment) {
    // Once a piece waits, all that follow do.
    if (!pieces_.empty()) out_.reserve(out_.size() + bytes.size());
    Send(LaneStatus::kReply, flags | kMore, bytes.substr(0, kFragment));
    bytes.remove_prefix(kFragment);
  }
  Send(LaneStatus::kReply, last, bytes);
}

bool HostSession::Push(std::string_view bytes) {
  if (!bytes.empty() && !closing_ && !closed_by_agent_) SendPieces(kPush, bytes);
  return true;
}

void HostSession::Reply(net::Ticket ticket, net::Buffer bytes) {
  Reply(ticket, std::string_view(bytes.data(), bytes.size()));
}

void HostSession::Close(std::string_view last_words) {
  if (closing_) return;
  closing_ = true;
  lane_->Touch(this);
  Send(LaneStatus::kClosed, 0, last_words.substr(0, kFragment));
  closed_sent_ = true;
}

// In the words of the client's protocol.
void HostSession::CloseWithError(std::string_view error) {
  Close(std::string(split_ != nullptr ? "-ERR " : "SERVER_ERROR ").append(error));
}

std::shared_ptr<net::Remote> HostSession::remote() { return remote_; }

// In pieces of at most kFragment.
void HostSession::Send(LaneStatus status, uint8_t flags, std::string_view bytes) {
  if (pieces_.empty() && lane_->TrySend(number_, status, flags, bytes)) return;
  out_.append(bytes);
  pieces_.push_back({bytes.size(), flags, status == LaneStatus::kClosed});
  lane_->WaitForRoom(this);
  lane_->Touch(this);
}

bool HostSession::SendPiece() {
  if (pieces_.empty()) return true;
  const Piece& piece = pieces_.front();
  const auto status = piece.closed ? LaneStatus::kClosed : LaneStatus::kReply;
  if (!lane_->TrySend(number_, status, piece.flags,
                      std::string_view(out_).substr(out_at_, piece.size))) {
    return false;
  }
  out_at_ += piece.size;
  pieces_.pop_front();
  if (pieces_.empty()) {
    pieces_.Release();
    net::FreeBytes(&out_);
    out_at_ = 0;
    lane_->Touch(this);
    return true;
  }
  return false;
}

}  // namespace pulse::kv
