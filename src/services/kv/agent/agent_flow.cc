#include "services/kv/agent/agent_flow.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/cpu_profile.h"

namespace pulse::kv {
namespace {

using redis::Command;

constexpr std::string_view kAway = "the host is away; this was not carried out, try again\r\n";
constexpr std::string_view kLost =
    "the host was lost before it answered; whether this was carried out is not known\r\n";
constexpr std::string_view kLostWithin = "-ERR the host was lost during a transaction\r\n";
constexpr std::string_view kLostTracking =
    "-ERR the host was lost, and with it what this connection was to be told of\r\n";
// A first line that tells no protocol by then is Redis's.
constexpr size_t kLongestFirst = 4096;
// Of a plain request; a longer one crosses in pieces.
constexpr size_t kLongestPlain = kFragment - 64;
// Of a request that is kept, to be repeated.
constexpr size_t kLongestSetup = 4096;

}  // namespace

AgentFlow::AgentFlow(AgentLane* lane, const redis::Limits& limits, net::Connection* connection)
    : lane_(lane),
      connection_(connection),
      most_bulk_(limits.max_bulk),
      redis_(limits),
      memcached_(limits.max_bulk) {}

AgentFlow::~AgentFlow() {
  if (waiting_) lane_->Forget(this);
  EndSession();
}

void AgentFlow::EndSession() {
  if (session_ < 0) return;
  const bool opened = queued_.empty() || queued_.front().op != LaneOp::kOpen;
  lane_->Leave(std::exchange(session_, -1), opened, closed_);
}

bool AgentFlow::IsStranger() const {
  if (!lane_->wants_auth()) return false;
  return std::none_of(setups_.begin(), setups_.end(),
                      [](const Setup& setup) { return setup.authenticates; });
}

absl::StatusOr<size_t> AgentFlow::SplitRequest(std::string_view bytes) {
  if (protocol_ == Protocol::kUndecided) {
    bool undecided = false;
    const bool other = memcached::LooksLikeMemcached(bytes, &undecided);
    if (undecided && bytes.size() < kLongestFirst) return 0;
    protocol_ = other ? Protocol::kMemcached : Protocol::kRedis;
  }
  const CpuScope scope(CpuComponent::kParse);
  const uint64_t max_bulk = std::min(most_bulk_, lane_->max_bulk());
  if (protocol_ == Protocol::kMemcached) {
    memcached_.set_max_data(max_bulk);
    return memcached_.Next(bytes);
  }
  redis_.set_authenticated(!IsStranger());
  redis_.set_max_bulk(max_bulk);
  return redis_.Next(bytes);
}

absl::StatusOr<size_t> AgentFlow::SplitReply(std::string_view) {
  return absl::InternalError("replies come by a lane");
}

std::string AgentFlow::OnHostLost(net::Ticket, bool) { return "-ERR there is no host\r\n"; }

std::string AgentFlow::ErrorReply(const absl::Status& error) {
  if (protocol_ != Protocol::kMemcached) return redis::ErrorLine(error);
  return absl::StrCat(absl::IsInvalidArgument(error) ? "CLIENT_ERROR " : "SERVER_ERROR ",
                      error.message(), "\r\n");
}

void AgentFlow::OnRequest(net::Ticket ticket, std::string_view bytes) {
  const CpuScope scope(CpuComponent::kParse);
  if (closed_) return connection_->Reply(ticket, std::string_view());
  if (protocol_ == Protocol::kMemcached) {
    OnMemcachedRequest(ticket, bytes);
  } else {
    OnRedisRequest(ticket, bytes);
  }
}

void AgentFlow::Refuse(net::Ticket ticket, std::string_view bytes) {
  lane_->counters().refused.fetch_add(1, std::memory_order_relaxed);
  connection_->Reply(ticket, bytes);
}

void AgentFlow::OnMemcachedRequest(net::Ticket ticket, std::string_view bytes) {
  // Of a block whose line has been answered, or will be.
  if (memcached_.skipped()) return connection_->Reply(ticket, std::string_view());
  std::string_view line = bytes.substr(0, bytes.find('\n'));
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const bool silent = line.ends_with(" noreply");
  if (!EnsureSession()) {
    if (line == "quit") return connection_->Close({});
    return Refuse(ticket, silent ? "" : absl::StrCat("SERVER_ERROR ", std::string(kAway)));
  }
  if (session_ < 0) return;
  Expect(ticket, bytes.size(), silent ? Kind::kSilent : Kind::kPlain);
  Send(LaneOp::kMemcached, "", bytes);
}

AgentFlow::Kind AgentFlow::KindOf(const redis::CommandInfo& command, std::string* what,
                                  bool* authenticates) const {
  switch (command.id) {
    case Command::kAuth:
      *what = "auth";
      *authenticates = true;
      return Kind::kSetup;
    case Command::kHello:
      // One without arguments sets nothing.
      if (request_.size() == 1) return Kind::kPlain;
      for (size_t i = 2; i < request_.size(); ++i) {
        *authenticates |= redis::EqualsIgnoringCase(request_[i], "auth");
      }
      *what = request_.size() == 2 ? "hello" : *authenticates ? "hello auth" : "hello name";
      return Kind::kSetup;
    case Command::kClient:
      if (request_.size() == 3 && redis::EqualsIgnoringCase(request_[1], "setname")) {
        *what = "name";
        return Kind::kSetup;
      }
      if (request_.size() == 4 && redis::EqualsIgnoringCase(request_[1], "setinfo")) {
        *what = absl::AsciiStrToLower(std::string(request_[2].substr(0, 16)));
        return Kind::kSetup;
      }
      if (request_.size() >= 3 && redis::EqualsIgnoringCase(request_[1], "tracking")) {
        return redis::EqualsIgnoringCase(request_[2], "off") ? Kind::kTracksNot : Kind::kTracks;
      }
      if (request_.size() == 3 && redis::EqualsIgnoringCase(request_[1], "reply")) {
        return redis::EqualsIgnoringCase(request_[2], "on") ? Kind::kSpeaks : Kind::kSilences;
      }
      return Kind::kPlain;
    case Command::kSubscribe:
      return Kind::kTracks;
    case Command::kReset:
      return Kind::kReset;
    case Command::kMulti:
    case Command::kWatch:
      return Kind::kBegins;
    case Command::kExec:
    case Command::kDiscard:
      return Kind::kEnds;
    default:
      return Kind::kPlain;
  }
}

void AgentFlow::OnRedisRequest(net::Ticket ticket, std::string_view bytes) {
  if (const auto status = request_.Parse(bytes); !status.ok()) {
    return connection_->Close(redis::ErrorLine(status));
  }
  if (request_.empty()) return connection_->Reply(ticket, std::string_view());
  const redis::CommandInfo* command = redis::FindCommand(request_[0]);
  if (!EnsureSession()) {
    if (command != nullptr && command->id == Command::kQuit) return connection_->Close("+OK\r\n");
    return Refuse(ticket, absl::StrCat("-LOADING ", std::string(kAway)));
  }
  if (session_ < 0) return;
  for (const std::string_view argument : request_.arguments()) {
    if (argument.size() > lane_->max_bulk()) {
      return connection_->Close("-ERR Protocol error: invalid bulk length\r\n");
    }
  }
  if (command != nullptr && bytes.size() <= kLongestPlain) {
    const size_t arguments = request_.size();
    LaneOp op = LaneOp::kCommand;
    if (command->id == Command::kGet && arguments == 2) op = LaneOp::kGet;
    if (command->id == Command::kSet && arguments == 3) op = LaneOp::kSet;
    if (command->id == Command::kDel && arguments == 2) op = LaneOp::kDelete;
    if (op != LaneOp::kCommand) {
      Expect(ticket, bytes.size(), Kind::kPlain);
      return Send(op, request_[1], arguments == 3 ? request_[2] : std::string_view(""));
    }
  }
  scratch_.clear();
  redis::AppendSplit(request_.arguments(), &scratch_);
  std::string what;
  bool authenticates = false;
  Kind kind = command == nullptr ? Kind::kPlain : KindOf(*command, &what, &authenticates);
  if (kind == Kind::kSetup && scratch_.size() > kLongestSetup) kind = Kind::kBegins;
  Expect(ticket, bytes.size(), kind);
  if (kind == Kind::kSetup) setups_.push_back({what, scratch_, sent_, authenticates, false});
  if (kind == Kind::kBegins) within_.asked = sent_;
  if (kind == Kind::kTracks) tracks_.asked = sent_;
  if (kind == Kind::kSilences) silent_.asked = sent_;
  Send(LaneOp::kCommand, "", scratch_);
  if (scratch_.capacity() > kFragment) net::FreeBytes(&scratch_);
}

void AgentFlow::Expect(net::Ticket ticket, uint64_t bytes, Kind kind) {
  ++sent_;
  expected_.push_back({ticket, bytes, kind, false, false});
  held_ += bytes;
}

// False: there is no host. True, and no session: the connection ends.
bool AgentFlow::EnsureSession() {
  if (session_ >= 0) return true;
  if (!lane_->attached()) return false;
  session_ = lane_->Enter(this);
  if (session_ < 0) {
    connection_->Close("-ERR max number of clients reached\r\n");
    return true;
  }
  const uint8_t flags = protocol_ == Protocol::kMemcached ? uint8_t{kOtherProtocol} : uint8_t{0};
  const std::string_view peer = std::string_view(connection_->peer()).substr(0, kMostAddress);
  const std::string local = connection_->local().substr(0, kMostAddress);
  Queued open;
  open.op = LaneOp::kOpen;
  open.key_size = peer.size();
  open.flags = flags;
  open.bytes = std::string(peer) + local;
  if (!lane_->TrySend(session_, LaneOp::kOpen, flags, peer, local)) {
    queued_.push_back(std::move(open));
    WaitForRoom();
  }
  const auto repeat = [this](const Setup& setup) {
    Expect(0, setup.split.size(), Kind::kRepeated);
    Send(LaneOp::kCommand, "", setup.split);
  };
  // Who the client is comes first, as an AUTH before the last one is not kept; then all, in order.
  const auto last = std::find_if(setups_.rbegin(), setups_.rend(),
                                 [](const Setup& setup) { return setup.authenticates; });
  if (last != setups_.rend() && &*last != &setups_.front()) repeat(*last);
  for (const Setup& setup : setups_) repeat(setup);
  return true;
}

void AgentFlow::WaitForRoom() {
  if (std::exchange(waiting_, true)) return;
  lane_->WaitForRoom(this);
}

void AgentFlow::Send(LaneOp op, std::string_view key, std::string_view value) {
  if (queued_.empty() && key.size() + value.size() <= kFragment &&
      lane_->TrySend(session_, op, 0, key, value)) {
    expected_.back().begun = expected_.back().whole = true;
    lane_->Count(&paced_);
    return;
  }
  Queued queued;
  queued.op = op;
  queued.key_size = key.size();
  queued.bytes.reserve(key.size() + value.size());
  queued.bytes.append(key).append(value);
  queued.request = sent_;
  queued_.push_back(std::move(queued));
  lane_->Count(&paced_);
  WaitForRoom();
}

bool AgentFlow::SendMore() {
  waiting_ = false;
  if (session_ < 0) return false;
  size_t budget = kFragment;
  while (!queued_.empty()) {
    Queued& queued = queued_.front();
    const std::string_view bytes = queued.bytes;
    const size_t left = bytes.size() - queued.sent;
    const bool more = left > kFragment;
    const size_t size = more ? kFragment : left;
    if (size > budget) {
      WaitForRoom();
      return true;
    }
    const std::string_view key = bytes.substr(0, queued.key_size);
    const std::string_view value =
        bytes.substr(queued.key_size + queued.sent, size - queued.key_size);
    const auto flags = static_cast<uint8_t>(queued.flags | (more ? kMore : 0));
    if (!lane_->TrySend(session_, queued.op, flags, key, value)) {
      WaitForRoom();
      return false;
    }
    if (queued.request != 0) {
      Expected& request = expected_[expected_.size() - 1 - (sent_ - queued.request)];
      request.begun = true;
      request.whole = !more;
    }
    budget -= size;
    queued.sent += size;
    if (!more) queued_.pop_front();
  }
  queued_.Release();
  return false;
}

void AgentFlow::OnRoom() {
  if (!owes_resume_ || session_ < 0 || closed_) return;
  owes_resume_ = false;
  pushed_ = 0;
  lane_->Resume(session_);
}

bool AgentFlow::OnPush(std::string_view bytes, uint8_t flags) {
  // Replies are as many as requests; of messages the host could send any number.
  if (protocol_ == Protocol::kMemcached || owes_resume_) return false;
  pushed_ += bytes.size();
  if (pushed_ > kMostPushed) return false;
  if ((flags & kMore) != 0) {
    partial_.append(bytes);
    pushing_ = true;
    return true;
  }
  if ((flags & kPaused) != 0) owes_resume_ = true;
  if (!std::exchange(pushing_, false)) return connection_->Push(bytes);
  partial_.append(bytes);
  return connection_->Push(std::exchange(partial_, std::string()));
}

bool AgentFlow::OnReply(std::string_view bytes, uint8_t flags, uint64_t max_reply) {
  if (closed_) return false;
  if (drops_) return true;
  if ((flags & kPush) != 0) return (pushing_ || partial_.empty()) && OnPush(bytes, flags);
  if (pushing_ || expected_.empty() || !expected_.front().whole) return false;
  if ((flags & kPaused) != 0) owes_resume_ = true;
  std::string whole;
  if ((flags & kMore) != 0 || !partial_.empty()) {
    if (bytes.size() > max_reply - std::min<uint64_t>(max_reply, partial_.size())) {
      // The store takes longer values than this agent does.
      net::FreeBytes(&partial_);
      drops_ = true;
      connection_->Close(
          absl::StrCat(protocol_ == Protocol::kMemcached ? "SERVER_ERROR " : "-ERR ",
                       "the reply is longer than --serve-kv-max-value of the agent allows\r\n"));
      return true;
    }
    partial_.append(bytes);
    if ((flags & kMore) != 0) return true;
    whole = std::exchange(partial_, std::string());
    bytes = whole;
  }
  const Expected request = std::move(expected_.front());
  expected_.pop_front();
  held_ -= request.bytes;
  Answered(request, bytes);
  return true;
}

void AgentFlow::Answered(const Expected& request, std::string_view reply) {
  const uint64_t number = sent_ - expected_.size();
  // Without a reply (CLIENT REPLY) it has to be taken for accepted.
  const bool accepted = reply.empty() || reply[0] != '-';
  const bool is_ok = reply == "+OK\r\n";  // and no +QUEUED
  switch (request.kind) {
    case Kind::kRepeated:
      // The password has changed, say: it is not who it was.
      if (!accepted) connection_->Close(reply);
      return;
    case Kind::kSetup: {
      const auto setup = std::find_if(setups_.begin(), setups_.end(), [&](const Setup& s) {
        return !s.accepted && s.number == number;
      });
      if (setup == setups_.end()) break;  // a RESET came between
      if (!accepted) {
        setups_.erase(setup);
        break;
      }
      setup->accepted = true;
      const std::string what = setup->what;
      std::erase_if(setups_, [&](const Setup& s) {
        return s.accepted && s.number < number && s.what == what;
      });
      break;
    }
    case Kind::kReset:
      if (!accepted) break;
      std::erase_if(setups_, [&](const Setup& s) { return s.number < number; });
      within_.on = tracks_.on = silent_.on = false;
      break;
    case Kind::kBegins:
      within_.on |= accepted;
      break;
    case Kind::kEnds:
      // One that is refused otherwise leaves what is watched.
      if (accepted || reply.starts_with("-EXECABORT")) within_.on = false;
      break;
    case Kind::kTracks:
      tracks_.on |= accepted;
      break;
    case Kind::kTracksNot:
      if (is_ok) tracks_.on = false;
      break;
    case Kind::kSilences:
      silent_.on |= accepted;
      break;
    case Kind::kSpeaks:
      if (is_ok) silent_.on = false;
      break;
    default:
      break;
  }
  connection_->Reply(request.ticket, reply);
}

void AgentFlow::OnClosed(std::string_view last_words) {
  closed_ = true;
  connection_->Close(last_words);
}

void AgentFlow::OnLost() {
  session_ = -1;
  waiting_ = false;
  owes_resume_ = false;
  net::FreeBytes(&partial_);
  pushing_ = false;
  pushed_ = 0;
  queued_.clear();
  queued_.Release();
  held_ = 0;
  std::erase_if(setups_, [](const Setup& s) { return !s.accepted; });
  const bool within = MayBe(within_);
  const bool silent = MayBe(silent_);
  if ((within || silent || MayBe(tracks_)) && !closed_) {
    closed_ = true;
    expected_.clear();
    connection_->Close(silent ? "" : within ? kLostWithin : kLostTracking);
    return;
  }
  LaneCounters& counters = lane_->counters();
  const bool redis = protocol_ != Protocol::kMemcached;
  for (; !expected_.empty(); expected_.pop_front()) {
    const Expected& request = expected_.front();
    if (request.kind == Kind::kRepeated || closed_) continue;
    auto& counter = request.begun ? counters.unknown : counters.refused;
    counter.fetch_add(1, std::memory_order_relaxed);
    if (request.kind == Kind::kSilent) {
      connection_->Reply(request.ticket, std::string_view());
      continue;
    }
    const std::string_view code = !redis ? "SERVER_ERROR " : request.begun ? "-ERR " : "-LOADING ";
    connection_->Reply(request.ticket,
                       absl::StrCat(std::string(code), std::string(request.begun ? kLost : kAway)));
  }
  expected_.Release();
}

}  // namespace pulse::kv
