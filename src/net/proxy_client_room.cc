// Of ProxyClient: how its connection waits where all connections together hold too much.
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "net/proxy_client.h"

namespace pulse::net {
size_t ProxyClient::MostBytes() {
  if (state_ != State::kOpen || !loop_->budget()->IsOver() || HasTurn()) return SIZE_MAX;
  const size_t small = loop_->budget()->small();
  return std::max<size_t>(1, small - std::min(small, Unsplit()));
}

// Of what was kept, without the requests that were given.
size_t ProxyClient::Unsplit() const { return in_.size() - in_begin_; }

bool ProxyClient::WantsRoom() const {
  const bool grows = state_ == State::kOpen && need_more_ && Unsplit() >= loop_->budget()->small();
  return grows || flow_->lacks_room();
}

// Whether it is its turn to have more than there is room for. Joins the line.
bool ProxyClient::HasTurn() {
  if (!place_in_line_.has_value()) {
    if (!WantsRoom()) return false;
    place_in_line_ = loop_->budget()->Join(remote());
    used_turn_ = has_exceeded_ = false;
    turn_since_ = 0;
  }
  if (!loop_->budget()->IsFirst(*place_in_line_)) return false;
  NoteTurn(loop_->now());
  return true;
}

// It is first.
void ProxyClient::NoteTurn(int64_t now) {
  if (turn_since_ != 0) return;
  turn_since_ = now;
  turn_bytes_ = 0;
}

// For others: that it waits for room for a reply, also where all hold less than they may.
void ProxyClient::NoteLack() {
  if (flow_->lacks_room() == lacks_) return;
  lacks_ = !lacks_;
  loop_->budget()->CountLack(lacks_);
}

// A turn is for one message, or one large reply: it ends when all replies have left, and who wants
// more is last in line. Who has found room needs no turn.
void ProxyClient::EndTurnInLine() {
  if (!place_in_line_.has_value()) return;
  const bool is_idle = Output() == 0 && (flow_->held() == 0 || flow_->lacks_room());
  const bool found_room = !WantsRoom() && (Output() > 0 || flow_->held() == 0);
  const bool is_done = used_turn_ ? is_idle : found_room;
  if (!is_done) return;
  loop_->budget()->Leave(*place_in_line_);
  place_in_line_.reset();
}

bool ProxyClient::MayGrow() {
  const ByteBudget& budget = *loop_->budget();
  return !budget.IsOver() || Unsplit() < budget.small() || HasTurn();
}

bool ProxyClient::MayExceed() {
  EndTurnInLine();
  // A flow may ask before it knows of any lack: then a place that there is counts, but none is
  // taken.
  if (!place_in_line_.has_value() && !flow_->lacks_room()) return false;
  if (!HasTurn() || has_exceeded_) return false;
  has_exceeded_ = used_turn_ = true;
  return true;
}

// It is not read, though there is something to read: who has sent nothing more than was read has
// itself to blame that its message is not finished.
bool ProxyClient::WaitsWithMore() const { return place_in_line_.has_value() && HasUnread(); }

bool ProxyClient::HasUnread() const {
  int unread = 0;
  return ioctl(stream_->fd(), SIOCINQ, &unread) != 0 || unread > 0;
}

bool ProxyClient::OthersWantRoom() const {
  const ByteBudget& budget = *loop_->budget();
  if (budget.waiting() <= (place_in_line_.has_value() ? 1 : 0)) return false;
  return budget.IsOver() || budget.lacking() > (lacks_ ? 1 : 0);
}

bool ProxyClient::OthersWait() const { return place_in_line_.has_value() && OthersWantRoom(); }

// Whether others have a use for what it holds and does nothing with: it takes next to nothing of
// its replies, or has not gone on with its message.
bool ProxyClient::HoldsRoomOthersNeed(int64_t now) {
  const int64_t patience = loop_->limits().patience_ms * kMillisecond;
  if (patience == 0 || !OthersWantRoom() || Held() < loop_->budget()->small()) return false;
  if (Output() > 0) return !stream_->out()->empty() && now - taken_at_ >= patience;
  if (!need_more_ || in_.empty() || now - heard_at_ < patience) return false;
  return flow_->held() == 0 && !HasUnread();
}

// Its turn may take as long as its bytes take at the slowest.
bool ProxyClient::IsTooSlowForOthers(int64_t now) {
  if (!place_in_line_.has_value() || !loop_->budget()->IsFirst(*place_in_line_)) return false;
  NoteTurn(now);
  turn_bytes_ = std::max(turn_bytes_, in_.size() + Output());
  const bool is_under_way = Output() == 0 && flow_->held() > 0 && !flow_->lacks_room();
  if (!OthersWait() || is_under_way) {
    turn_since_ = now;
    return false;
  }
  const int64_t allowed =
      loop_->limits().slow_ms + static_cast<int64_t>(turn_bytes_) / kSlowestForOthersPerMs;
  return now - turn_since_ >= allowed * kMillisecond;
}

size_t ProxyClient::Held() const {
  return HeapBytes(in_) + Output() + (slots_.empty() ? 0 : slots_.memory()) +
         HeapBytes(last_words_) + flow_->held() + (link_ != nullptr ? link_->held() : 0) +
         (transport_ != nullptr ? transport_->held() : 0);
}

void ProxyClient::EndForOthers() {
  if (Output() > 0 || state_ != State::kOpen) {
    Die(true);  // what it does not take cannot be followed by anything
    return;
  }
  FreeBytes(&in_);
  in_begin_ = 0;
  slots_.clear();
  unanswered_ = 0;
  Refuse(absl::ResourceExhaustedError(absl::StrCat(
      "other connections have waited for too long for the memory that this request needs; send it "
      "faster than ",
      kSlowestForOthersPerMs, " bytes per millisecond")));
}

}  // namespace pulse::net
