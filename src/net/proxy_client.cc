#include "net/proxy_client.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/cpu_profile.h"

namespace pulse::net {
namespace {

// How long the end of a client's side is waited for: closing over bytes that were not read would
// reset the connection under the last words.
constexpr int64_t kLinger = 1'000 * kMillisecond;
constexpr int64_t kLingerDraining = 200 * kMillisecond;
// A message may take as long as at this rate beyond slow_ms.
constexpr int64_t kSlowestBytesPerMs = 8;
// A client that takes less is making no progress: it would hold a reply's memory for ever.
constexpr int64_t kSlowestTakenPerMs = 1;

}  // namespace

// Lives as long as anybody holds it; `client` is looked at on the loop's thread alone.
class ClientRemote final : public Remote, public std::enable_shared_from_this<ClientRemote> {
 public:
  ClientRemote(std::shared_ptr<Mailbox> mailbox, ProxyClient* client)
      : mailbox_(std::move(mailbox)), client_(client) {}
  void Post(std::function<void()> work) override {
    mailbox_->Push([self = shared_from_this(), work = std::move(work)] {
      ProxyClient* client = self->client_;
      if (client == nullptr || client->state_ == ProxyClient::State::kDead) return;
      work();
      client->Stirred();  // what its flow holds may have changed
      // At once, as others of this turn ask for room, too.
      if (client->Output() > kAlwaysAllowed) client->loop_->Account(client, client->Held());
    });
  }
  void Detach() { client_ = nullptr; }

 private:
  const std::shared_ptr<Mailbox> mailbox_;
  ProxyClient* client_;
};

ProxyClient::ProxyClient(Loop* loop)
    : loop_(loop), ordering_(loop->shared().options.application->ordering()) {}

ProxyClient::~ProxyClient() {
  if (lacks_) loop_->budget()->CountLack(false);
  if (place_in_line_.has_value()) loop_->budget()->Leave(*place_in_line_);
  if (remote_ != nullptr) remote_->Detach();
  link_.reset();
  flow_.reset();
}

void ProxyClient::Start(UniqueFd fd, const absl::Status& refusal) {
  const Address peer = PeerAddress(fd.get());
  peer_ = peer.size == 0 ? "a client" : peer.ToString();
  stream_ = loop_->poller()->Open(std::move(fd), this);
  if (stream_ == nullptr) {
    Die(true);
  } else {
    Begin(refusal);
  }
}

void ProxyClient::Start(LocalOffer* offer, const absl::Status& refusal) {
  peer_ = "local:";
  stream_ = offer->Take(loop_->local(), this);
  Begin(refusal);
}

void ProxyClient::Begin(const absl::Status& refusal) {
  began_at_ = active_at_ = sent_at_ = taken_at_ = heard_at_ = loop_->now();
  const DirectorOptions& options = loop_->shared().options;
  if (options.transport != nullptr) transport_ = options.transport();
  // Without memory for TLS nothing is sent in the clear.
  const bool has_transport = options.transport == nullptr || transport_ != nullptr;
  flow_ = has_transport ? options.application->NewFlow(this) : nullptr;
  Stirred();
  if (flow_ == nullptr) {
    loop_->stats().Add(LoopStats::kRefused);
    Die(false);
  } else if (!refusal.ok()) {
    loop_->stats().Add(LoopStats::kRefused);
    BeginFinish(flow_->ErrorReply(refusal));
  }
}

std::string ProxyClient::local() const {
  const Address address = LocalAddress(stream_->fd());
  return address.size == 0 ? "" : address.ToString();
}

std::shared_ptr<Remote> ProxyClient::remote() {
  if (remote_ == nullptr) remote_ = std::make_shared<ClientRemote>(loop_->mailbox(), this);
  return remote_;
}

// ---- From the client.

void ProxyClient::OnBytes(std::string_view bytes) {
  active_at_ = loop_->now();
  heard_ += static_cast<int64_t>(bytes.size());
  if (in_.empty() || heard_ >= kSlowestTakenPerMs * loop_->limits().patience_ms) {
    heard_ = 0;
    heard_at_ = active_at_;
  }
  if (state_ == State::kLingering || state_ == State::kDead) return;
  Stirred();
  if (transport_ == nullptr) {
    Take(bytes);
    return;
  }
  std::string plain;
  std::string wire;
  const absl::Status status = transport_->FromWire(bytes, &plain, &wire);
  if (!wire.empty()) stream_->out()->Append(wire);
  if (!plain.empty()) Take(plain);
  if (!status.ok() && state_ == State::kOpen) {
    loop_->stats().Add(LoopStats::kCut);
    // It can say nothing more, and what it would have hidden must not go out.
    slots_.clear();
    unanswered_ = slot_bytes_ = 0;
    transport_.reset();
    mute_ = true;
    BeginFinish({});
  }
  ended_ |= transport_ != nullptr && transport_->ended();
}

void ProxyClient::Take(std::string_view bytes) {
  if (state_ != State::kOpen) return;
  if (in_.empty() && need_more_) {
    const size_t taken = Split(bytes);
    if (state_ == State::kOpen) Keep(bytes.substr(taken));
  } else {
    Keep(bytes);
    if (need_more_) TakeKept();
  }
  // At once, as other connections of this turn ask for room, too.
  if (in_.size() > kAlwaysAllowed || Output() > kAlwaysAllowed) loop_->Account(this, Held());
}

// Never for more than will come: a string alone would take up to twice as much.
void ProxyClient::Keep(std::string_view bytes) {
  const size_t needed = in_.size() + bytes.size();
  const size_t expected = in_begin_ + flow_->expected();
  if (needed > in_.capacity() && needed <= expected && expected < 2 * in_.capacity()) {
    std::string longer;
    longer.reserve(expected);
    longer.append(in_);
    in_.swap(longer);
  }
  in_.append(bytes);
}

void ProxyClient::TakeKept() {
  in_begin_ += Split(std::string_view(in_).substr(in_begin_));
  if (state_ != State::kOpen || in_begin_ == in_.size()) {
    in_.clear();
    in_begin_ = 0;
  } else if (in_begin_ > in_.size() / 2) {
    in_.erase(0, in_begin_);
    in_begin_ = 0;
  }
}

// Returns how many bytes became requests.
size_t ProxyClient::Split(std::string_view bytes) {
  const size_t taken = GiveRequests(bytes);
  if (taken > 0) {
    message_since_ = loop_->now();
    // Who waits for room for a reply still has its turn before it.
    used_turn_ |= !flow_->lacks_room();
    flow_->OnRequestsEnd();
  }
  if (taken == 0 && in_.empty()) message_since_ = loop_->now();
  return taken;
}

size_t ProxyClient::GiveRequests(std::string_view bytes) {
  const CpuScope scope(CpuComponent::kParse);
  size_t taken = 0;
  need_more_ = false;
  while (state_ == State::kOpen) {
    size_t size = 0;
    if (taken < bytes.size() && !MayTake()) break;
    if (taken == bytes.size() || !SplitOne(bytes.substr(taken), &size)) {
      need_more_ = true;
      break;
    }
    const Ticket ticket = next_ticket_++;
    slots_.push_back({});
    ++unanswered_;
    loop_->stats().Add(LoopStats::kRequests);
    current_ = ticket;
    flow_->OnRequest(ticket, bytes.substr(taken, size));
    current_ = 0;
    taken += size;
  }
  return taken;
}

// False when there is no whole message, or never will be.
bool ProxyClient::SplitOne(std::string_view bytes, size_t* size) {
  const size_t limit = loop_->limits().max_message;
  const auto split = flow_->SplitRequest(bytes.substr(0, limit));
  if (!split.ok()) {
    Refuse(split.status());
    return false;
  }
  if (*split == 0 && bytes.size() >= limit) {
    Refuse(absl::ResourceExhaustedError(
        absl::StrCat("a request is longer than the limit of ", limit, " bytes")));
    return false;
  }
  *size = *split;
  return *split > 0 && *split <= bytes.size();
}

bool ProxyClient::MayTake() {
  const DirectorLimits& limits = loop_->limits();
  const size_t output = Output();
  const size_t input = link_ != nullptr ? link_->pending() : 0;
  const size_t held = flow_->held();
  // Once there was too much, half has to go first.
  const size_t limit = paused_ ? limits.connection_bytes / 2 : limits.connection_bytes;
  if (output > limit || input > limit || held > limit) return false;
  if (slots_.size() >= limits.outstanding || !flow_->takes_requests()) return false;
  return output + input + held == 0 || !loop_->budget()->IsOver();
}

void ProxyClient::OnEnd() {
  ended_ = true;
  if (state_ == State::kLingering) Die(false);
  Stirred();
}

void ProxyClient::OnError(int error) { Die(true); }

void ProxyClient::OnSent() {
  active_at_ = sent_at_ = taken_at_ = loop_->now();
  Stirred();
}

void ProxyClient::Refuse(const absl::Status& error) {
  loop_->stats().Add(LoopStats::kCut);
  BeginFinish(flow_->ErrorReply(error));
}

// ---- Requests and their replies.

ProxyClient::Slot* ProxyClient::Find(Ticket ticket, Slot::State state) {
  const Ticket first = next_ticket_ - slots_.size();
  if (ticket < first || ticket >= next_ticket_) return nullptr;
  Slot* slot = &slots_[ticket - first];
  return slot->state == state ? slot : nullptr;
}

bool ProxyClient::IsNext(Ticket ticket) const {
  return ordering_ == Ordering::kAny || ticket == next_ticket_ - slots_.size();
}

void ProxyClient::Put(Ticket ticket, Slot* slot, std::string_view bytes) {
  if (IsNext(ticket)) return Emit(bytes);
  slot->text.append(bytes);
  slot_bytes_ += bytes.size();
}

void ProxyClient::Forward(Ticket ticket, std::string_view bytes, uint32_t replies) {
  Slot* slot = Find(ticket, Slot::State::kOpen);
  if (slot == nullptr) return;
  if (link_ == nullptr) link_ = std::make_unique<HostLink>(loop_, this);
  slot->state = Slot::State::kForwarded;
  loop_->stats().Add(LoopStats::kForwarded);
  // One that the host will not answer is done, unless it could not even be queued.
  if (link_->Send(ticket, bytes, replies) && replies == 0) Done(slot);
}

void ProxyClient::Reply(Ticket ticket, std::string_view bytes) {
  Slot* slot = Find(ticket, Slot::State::kOpen);
  if (slot == nullptr) return;
  Put(ticket, slot, bytes);
  Done(slot);
  // At once, as above.
  if (bytes.size() > kAlwaysAllowed) loop_->Account(this, Held());
}

void ProxyClient::Reply(Ticket ticket, Buffer bytes) {
  Slot* slot = Find(ticket, Slot::State::kOpen);
  if (slot == nullptr) return;
  if (IsNext(ticket)) {
    Emit(std::move(bytes));
  } else {
    slot_bytes_ += bytes.size();
    slot->buffer = std::move(bytes);
  }
  Done(slot);
}

bool ProxyClient::ReplyPart(Ticket ticket, std::string_view bytes) {
  if (Slot* slot = Find(ticket, Slot::State::kOpen); slot != nullptr) {
    Put(ticket, slot, bytes);
    active_at_ = loop_->now();
    Stirred();
  }
  return true;
}

bool ProxyClient::Push(std::string_view bytes) {
  if (!bytes.empty() && state_ == State::kOpen) {
    Emit(bytes);
    active_at_ = loop_->now();
    Stirred();
  }
  return true;
}

Ticket ProxyClient::AnotherTicket() {
  if (current_ == 0) return 0;
  slots_.push_back({});
  ++unanswered_;
  return next_ticket_++;
}

void ProxyClient::HostReplied(Ticket ticket, std::string_view bytes, bool last) {
  std::string* const text = loop_->scratch();
  text->clear();
  flow_->OnHostReply(ticket, bytes, last, text);
  // The flow may have closed the connection.
  Slot* slot = Find(ticket, Slot::State::kForwarded);
  if (slot == nullptr) return;
  Put(ticket, slot, *text);
  if (last) Done(slot);
  // A large message's memory is not kept for small ones.
  if (text->capacity() > kAlwaysAllowed) FreeBytes(text);
}

void ProxyClient::TellLost() {
  while (link_ != nullptr && link_->has_lost() && state_ != State::kDead) {
    for (const HostLink::Lost& lost : link_->TakeLost()) {
      if (Find(lost.ticket, Slot::State::kForwarded) == nullptr) continue;
      loop_->stats().Add(LoopStats::kLost);
      const std::string text = flow_->OnHostLost(lost.ticket, lost.sent);
      Slot* slot = Find(lost.ticket, Slot::State::kForwarded);
      if (slot == nullptr) continue;
      Put(lost.ticket, slot, text);
      Done(slot);
    }
    if (!link_->closed()) continue;
    telling_closed_ = true;
    flow_->OnHostClosed();
    telling_closed_ = false;
    link_->AcknowledgeClosed();
  }
}

void ProxyClient::Done(Slot* slot) {
  slot->state = Slot::State::kDone;
  active_at_ = loop_->now();
  --unanswered_;
  Advance();
  Stirred();
}

// What is first now goes out as far as it is there.
void ProxyClient::Advance() {
  while (!slots_.empty()) {
    Slot& slot = slots_.front();
    slot_bytes_ -= slot.text.size() + slot.buffer.size();
    if (!slot.text.empty()) Emit(std::exchange(slot.text, {}));
    if (slot.buffer.size() > 0) Emit(std::move(slot.buffer));
    if (slot.state != Slot::State::kDone) return;
    slots_.pop_front();
  }
}

void ProxyClient::Emit(std::string_view bytes) {
  if (bytes.empty() || stream_ == nullptr || mute_) return;
  if (stream_->out()->empty()) sent_at_ = taken_at_ = loop_->now();
  if (transport_ == nullptr) {
    stream_->out()->Append(bytes);
    return;
  }
  std::string wire;
  if (absl::Status st = transport_->ToWire(bytes, &wire); !st.ok()) {
    Die(true);
    return;
  }
  stream_->out()->Append(wire);
}

void ProxyClient::Emit(Buffer buffer) {
  if (transport_ != nullptr) {
    Emit(buffer.view());
    return;
  }
  if (stream_ == nullptr || mute_) return;
  if (stream_->out()->empty()) sent_at_ = taken_at_ = loop_->now();
  stream_->out()->Append(std::move(buffer));
}

// ---- The end.

void ProxyClient::Close(std::string_view last_words) {
  // What the flow forwarded before it knew was meant for the connection that is gone.
  if (telling_closed_) link_->Forget();
  // It may have been ending for another reason, as a director does that stops: then there is nobody
  // any more who answers.
  const bool ending = state_ == State::kAnswering && current_ == 0;
  if (state_ != State::kOpen && !ending) return;
  if (current_ != 0) {
    // Its own place is the last one's.
    if (Find(current_, Slot::State::kOpen) != nullptr) {
      slots_.pop_back();
      --next_ticket_;
      --unanswered_;
    }
  } else {
    slots_.clear();
    unanswered_ = slot_bytes_ = 0;
  }
  if (ending) {
    if (last_words_.empty()) last_words_ = last_words;
    return Stirred();
  }
  BeginFinish(std::string(last_words));
}

void ProxyClient::BeginFinish(std::string last_words) {
  if (state_ != State::kOpen) return;
  state_ = State::kAnswering;
  last_words_ = std::move(last_words);
  const int64_t limit = loop_->limits().slow_ms;
  deadline_ = limit > 0 ? loop_->now() + limit * kMillisecond : 0;
  Stirred();
}

void ProxyClient::Drain() {
  if (state_ != State::kOpen) return;
  lingers_ = !slots_.empty() || Output() > 0 || !in_.empty();
  BeginFinish({});
}

void ProxyClient::Die(bool cut) {
  if (state_ == State::kDead) return;
  if (cut) loop_->stats().Add(LoopStats::kCut);
  state_ = State::kDead;
  loop_->Retire(this);
}

// Moves on towards the end, as far as it can.
void ProxyClient::Progress() {
  if (state_ == State::kOpen && ended_ && need_more_) {
    flow_->OnClientEnd();
    if (state_ == State::kOpen) {
      BeginFinish({});
      deadline_ = 0;  // the host may take its time
    }
  }
  if (state_ == State::kAnswering && slots_.empty()) {
    Emit(last_words_);
    if (transport_ != nullptr && stream_ != nullptr) {
      std::string wire;
      transport_->Finish(&wire);
      stream_->out()->Append(wire);
    }
    if (state_ == State::kAnswering) state_ = State::kFlushing;
    stream_->Flush();
  }
  const bool host_has_all = link_ == nullptr || link_->pending() == 0;
  if (state_ != State::kFlushing || !stream_->out()->empty() || !host_has_all) return;
  if (ended_ || !lingers_) {
    Die(false);
    return;
  }
  stream_->EndSending();
  state_ = State::kLingering;
  deadline_ = loop_->now() + (loop_->draining() ? kLingerDraining : kLinger);
}

size_t ProxyClient::Output() const {
  return slot_bytes_ + (stream_ != nullptr ? stream_->out()->size() : 0);
}

bool ProxyClient::TakesReplies(Ticket ticket) {
  const size_t limit = loop_->limits().connection_bytes;
  if (stream_->out()->size() > limit) return false;
  // What would have to wait for the agent's own answers waits at the host.
  return slot_bytes_ <= limit || IsNext(ticket);
}

void ProxyClient::EndTurn() {
  TellLost();
  EndTurnInLine();
  if (state_ == State::kOpen && !need_more_ && MayTake()) {
    paused_ = false;
    TakeKept();
    // Sends first; then there may be room for more.
    if (!need_more_) Stirred();
  }
  TellLost();
  if (state_ == State::kDead) return;
  if (link_ != nullptr) link_->EndTurn();
  TellLost();
  if (state_ == State::kDead) return;
  stream_->Flush();
  if ((!slots_.empty() || flow_->waits_for_room()) &&
      Output() <= loop_->limits().connection_bytes / 2) {
    flow_->OnRoom();
  }
  if (state_ != State::kDead) Progress();
  if (state_ == State::kDead) return;
  EndTurnInLine();
  NoteLack();
  // What was sent at once has made room that no event will tell of.
  if (link_ != nullptr && link_->WantsTurn()) Stirred();
  if (state_ == State::kOpen && !need_more_ && MayTake()) Stirred();

  const bool takes = need_more_ && MayTake() && MayGrow();
  if (state_ == State::kOpen && !takes && !paused_) {
    paused_ = true;
    loop_->stats().Add(LoopStats::kPauses);
  } else if (takes) {
    if (paused_) heard_at_ = loop_->now();
    paused_ = false;
  }
  stream_->SetReading(!ended_ &&
                      ((state_ == State::kOpen && takes) || state_ == State::kLingering));
  if (in_.empty() && HeapBytes(in_) > 0) FreeBytes(&in_);
  loop_->Account(this, Held());
}

// The kernel says that there is room again only once a large part of its buffer is free, which a
// slow client may take minutes for: what it has taken meanwhile is progress, too.
void ProxyClient::NoteTaken(int64_t now) {
  int holds = 0;
  if (ioctl(stream_->fd(), SIOCOUTQ, &holds) != 0) return;
  const int gave = std::max(0, kernel_holds_ - holds);
  kernel_holds_ = holds;
  kernel_gave_ += gave;
  gave_others_ += gave;
  if (gave_others_ >= kSlowestTakenPerMs * loop_->limits().patience_ms) {
    gave_others_ = 0;
    taken_at_ = now;
  }
  if (kernel_gave_ < kSlowestTakenPerMs * loop_->limits().slow_ms) return;
  kernel_gave_ = 0;
  sent_at_ = now;
}

void ProxyClient::Sweep(int64_t now) {
  const DirectorLimits& limits = loop_->limits();
  if (link_ != nullptr) link_->Sweep(now);
  if (slots_.empty()) slots_.Release();
  // Room for all may have come from others.
  if (paused_ || link_ != nullptr) Stirred();
  if (deadline_ > 0 && now >= deadline_) {
    Die(state_ != State::kLingering);
    return;
  }
  const int64_t slow = limits.slow_ms * kMillisecond;
  // What is not read is not its fault.
  if (paused_ && (flow_->held() > 0 || WaitsWithMore())) heard_at_ = now;
  if (slow > 0 && !stream_->out()->empty()) {
    NoteTaken(now);
    if (now - sent_at_ >= slow) {
      Die(true);
      return;
    }
  }
  if (slow > 0 && transport_ != nullptr && transport_->handshaking() && now - began_at_ >= slow) {
    Die(true);
    return;
  }
  if (slow > 0 && (HoldsRoomOthersNeed(now) || IsTooSlowForOthers(now))) {
    EndForOthers();
    return;
  }
  if (state_ != State::kOpen) return;
  // What is not read for the flow's sake, or for want of room, cannot be finished.
  if (paused_ && (flow_->held() > 0 || WaitsWithMore())) message_since_ = now;
  const int64_t rate = OthersWait() ? kSlowestForOthersPerMs : kSlowestBytesPerMs;
  const int64_t allowed = slow + static_cast<int64_t>(in_.size()) / rate * kMillisecond;
  if (slow > 0 && need_more_ && !in_.empty() && now - message_since_ >= allowed) {
    Refuse(absl::DeadlineExceededError("a request was left unfinished"));
    return;
  }
  const bool quiet = slots_.empty() && stream_->out()->empty();
  if (limits.idle_ms > 0 && quiet && now - active_at_ >= limits.idle_ms * kMillisecond &&
      !flow_->listens()) {
    BeginFinish({});
  }
}

}  // namespace pulse::net
