#include "services/offload/engine_flow.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "services/files/wire.h"

namespace pulse::offload {
namespace {

using files::kBlock;
using net::Buffer;
using net::Ticket;

// Held for the host behind reads under way; beyond it, these are given up.
constexpr size_t kMostHeld = size_t{256} << 10;
// Replies of up to so many bytes, header and trailer included, join those that the connection has
// to send already: one copy of few bytes costs less than one more piece of a send, and the buffer
// is free at once.
constexpr size_t kJoinUpTo = 4096;

Error ErrorOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDeadlineExceeded:
      return Error::kMalformed;
    case absl::StatusCode::kResourceExhausted:
      return Error::kTooLarge;
    case absl::StatusCode::kCancelled:
      return Error::kShuttingDown;
    default:
      return Error::kOverloaded;
  }
}

// `size`: of the first message in `bytes`, as the program says.
absl::StatusOr<size_t> Checked(int64_t size, std::string_view bytes, absl::string_view malformed) {
  if (size < 0 || static_cast<uint64_t>(size) > bytes.size()) {
    return absl::InvalidArgumentError(malformed);
  }
  return static_cast<size_t>(size);
}

}  // namespace

EngineFlow::EngineFlow(LoopState* state, net::Connection* connection)
    : state_(state),
      runtime_(state->engine->runtime()),
      connection_(connection),
      ordered_(runtime_->program().order == Order::kRequest) {}

EngineFlow::~EngineFlow() {
  if (reads_ == 0) return;
  for (Context& c : state_->contexts()) {
    if (c.flow != this) continue;
    c.flow = nullptr;
    if (c.finished) state_->FreeContext(&c);
  }
}

absl::StatusOr<size_t> EngineFlow::SplitRequest(std::string_view bytes) {
  return Checked(runtime_->SplitRequest(bytes), bytes, "malformed request");
}

absl::StatusOr<size_t> EngineFlow::SplitReply(std::string_view bytes) {
  return Checked(runtime_->SplitReply(bytes), bytes, "malformed reply of the host");
}

void EngineFlow::OnRequest(Ticket ticket, std::string_view bytes) {
  const bool off = runtime_->off();
  Sorted& sorted = state_->sorted;
  if (off || runtime_->program().predicate == nullptr ||
      !runtime_->Predicate(bytes, sorted.Reset()) || !sorted.useful()) {
    state_->Count(runtime_->off() ? EngineStats::kOff : EngineStats::kToHost);
    return ToHost(ticket, bytes, runtime_->Replies(bytes));
  }
  if (ordered_ && AnswersTooSoon(sorted)) {
    state_->Count(EngineStats::kOrder);
    return ToHost(ticket, bytes, runtime_->Replies(bytes));
  }
  bool first = true;
  for (const Sorted::Item& item : sorted.items()) {
    const Ticket mine = std::exchange(first, false) ? ticket : connection_->AnotherTicket();
    const std::string_view request = sorted.bytes(item);
    switch (item.to) {
      case Sorted::To::kHost:
        state_->Count(EngineStats::kToHost);
        ToHost(mine, request, item.replies);
        break;
      case Sorted::To::kAgent:
        StartRead(mine, request);
        break;
      case Sorted::To::kAnswer:
        state_->Count(EngineStats::kAnswered);
        connection_->Reply(mine, request);
        break;
    }
  }
}

bool EngineFlow::IsBehindHost() const {
  return !forwarded_.empty() || held_bytes_ > 0 || silent_ != 0;
}

// An answer that the program has made already, behind what the host is yet to do.
bool EngineFlow::AnswersTooSoon(const Sorted& sorted) const {
  bool behind = IsBehindHost();
  for (const Sorted::Item& item : sorted.items()) {
    if (behind && item.to == Sorted::To::kAnswer) return true;
    behind |= item.to == Sorted::To::kHost;
  }
  return false;
}

// --- reads

void EngineFlow::StartRead(Ticket ticket, std::string_view request) {
  const EngineStats::Counter why = TryRead(ticket, request);
  if (why == EngineStats::kOffloaded) return;
  state_->Count(why);
  ToHost(ticket, request, 1);
}

// kOffloaded: it is under way. Anything else is why it is not.
EngineStats::Counter EngineFlow::TryRead(Ticket ticket, std::string_view request) {
  if (ordered_ && IsBehindHost()) return EngineStats::kOrder;
  ReadOp op{};
  if (!runtime_->Read(request, &op)) {
    return runtime_->off() ? EngineStats::kOff : EngineStats::kNoPlace;
  }
  const Program& program = runtime_->program();
  constexpr uint64_t kMost = uint64_t{1} << 62;
  if (op.file == store::kNoFile || op.size == 0 || op.size > kMost || op.offset > kMost) {
    return EngineStats::kNoPlace;
  }
  const uint64_t unit = state_->unit;
  const uint64_t begin = op.offset / unit * unit;
  const uint64_t whole = RoundUp(op.offset + op.size, unit) - begin;
  if (whole > RangeGuard::kRange * (RangeGuard::kMostLooks - 2)) return EngineStats::kNoPlace;

  Context* const c = state_->NewContext();
  if (c == nullptr) return EngineStats::kFull;
  c->op = op;
  const auto refuse = [&](EngineStats::Counter why) {
    state_->FreeContext(c);
    return why;
  };
  if (!state_->engine->options().copying) {
    auto buffer =
        connection_->buffers()->Take(whole + program.max_reply_trailer, program.max_reply_header);
    if (!buffer.has_value()) return refuse(EngineStats::kFull);
    c->buffer = *std::move(buffer);
  }
  // The guard's first look comes before the map, whose rightness it vouches for as well.
  if (!state_->engine->guard()->Before(op.file, begin, whole, &c->look)) {
    return refuse(EngineStats::kChanged);
  }
  std::vector<store::Extent>& extents = state_->extents;
  extents.clear();
  const uint64_t bytes = op.offset + op.size - begin;
  uint32_t links = 0;
  // Of a file that was removed and is still open, the host alone knows who may read it.
  if (!state_->engine->store().MapRead(op.file, begin, bytes, &extents, &links).ok() ||
      links == 0) {
    return refuse(EngineStats::kNotThere);
  }
  uint64_t there = 0;
  for (const store::Extent& e : extents) there += e.hole() ? 0 : e.length;
  if (there != bytes) return refuse(EngineStats::kNotThere);
  // The last block whole: segments are.
  extents.back().length += whole - bytes;
  char* data = c->buffer.data();
  if (state_->engine->options().copying) {
    c->copy.reset(static_cast<char*>(std::aligned_alloc(kBlock, RoundUp(whole, kBlock))));
    data = c->copy.get();
  }
  c->flow = this;
  c->ticket = ticket;
  c->request_size = static_cast<uint32_t>(request.size());
  std::memcpy(state_->RequestOf(c), request.data(), request.size());
  ++reads_;
  if (ordered_) pending_.push_back({ticket, c, {}, 0});
  state_->Start(c, extents, data);
  return EngineStats::kOffloaded;
}

void EngineFlow::OnRead(Context* c) {
  c->good = !c->failed && state_->engine->guard()->After(c->look);
  if (ordered_) return Drain();
  const std::string_view request(state_->RequestOf(c), c->request_size);
  const EngineStats::Counter what = Answer(c);
  state_->Count(what);
  if (what != EngineStats::kOffloaded) ToHost(c->ticket, request, 1);
  --reads_;
  state_->FreeContext(c);
}

EngineStats::Counter EngineFlow::Answer(Context* c) {
  if (c->failed) return EngineStats::kDevice;
  if (!c->good) return EngineStats::kChanged;
  const char* base = c->copy != nullptr ? c->copy.get() : c->buffer.data();
  Reply reply{
      base + c->op.offset % state_->unit, 0, c->op.size, state_->header, 0, 0, state_->trailer};
  const std::string_view request(state_->RequestOf(c), c->request_size);
  if (!runtime_->BuildReply(request, c->op, &reply)) {
    return runtime_->off() ? EngineStats::kOff : EngineStats::kRejected;
  }
  return SendReply(c, reply) ? EngineStats::kOffloaded : EngineStats::kRejected;
}

bool EngineFlow::SendReply(Context* c, const Reply& reply) {
  const Program& program = runtime_->program();
  if (reply.begin > c->op.size || reply.size > c->op.size - reply.begin ||
      reply.header_size > program.max_reply_header ||
      reply.trailer_size > program.max_reply_trailer) {
    return false;
  }
  state_->Count(EngineStats::kBytes, reply.size);
  const uint64_t begin = c->op.offset % state_->unit + reply.begin;
  if (c->copy != nullptr) {
    std::string bytes(state_->header, reply.header_size);
    bytes.append(c->copy.get() + begin, reply.size);
    bytes.append(state_->trailer, reply.trailer_size);
    connection_->Reply(c->ticket, std::string_view(bytes));
    return true;
  }
  Buffer buffer = std::move(c->buffer);
  buffer.Trim(begin, reply.size);
  if (reply.header_size > 0) {
    std::memcpy(buffer.Prepend(reply.header_size), state_->header, reply.header_size);
  }
  if (reply.trailer_size > 0) {
    std::memcpy(buffer.Grow(reply.trailer_size), state_->trailer, reply.trailer_size);
  }
  if (buffer.size() <= kJoinUpTo) {
    connection_->Reply(c->ticket, buffer.view());
  } else {
    connection_->Reply(c->ticket, std::move(buffer));
  }
  return true;
}

// --- order

// Ends what is first, as far as it has come.
void EngineFlow::Drain() {
  while (!pending_.empty()) {
    Pending& p = pending_.front();
    if (p.read == nullptr) {
      held_bytes_ -= p.host.size();
      Forward(p.ticket, p.host, p.replies);
      pending_.pop_front();
      continue;
    }
    // Behind a request that the host has not answered, it may not have seen that one's effect.
    if (!forwarded_.empty()) return GiveUp(nullptr);
    if (!p.read->finished) return;
    const EngineStats::Counter what = Answer(p.read);
    state_->Count(what);
    if (what != EngineStats::kOffloaded) return GiveUp(p.read);
    --reads_;
    state_->FreeContext(p.read);
    pending_.pop_front();
  }
}

// The host gets all that is pending, in order. `counted`: a read whose reason has been.
void EngineFlow::GiveUp(const Context* counted) {
  std::deque<Pending> all;
  all.swap(pending_);
  held_bytes_ = 0;
  for (Pending& p : all) {
    if (p.read == nullptr) {
      Forward(p.ticket, p.host, p.replies);
      continue;
    }
    Forward(p.ticket, {state_->RequestOf(p.read), p.read->request_size}, 1);
    if (p.read != counted) state_->Count(EngineStats::kOrder);
    --reads_;
    p.read->flow = nullptr;
    if (p.read->finished) state_->FreeContext(p.read);
  }
}

// --- the host

void EngineFlow::ToHost(Ticket ticket, std::string_view bytes, uint32_t replies) {
  if (pending_.empty()) return Forward(ticket, bytes, replies);
  pending_.push_back({ticket, nullptr, std::string(bytes), replies});
  held_bytes_ += bytes.size();
  if (held_bytes_ > kMostHeld) GiveUp(nullptr);
}

void EngineFlow::Forward(Ticket ticket, std::string_view bytes, uint32_t replies) {
  if (replies > 0) {
    // A long one is not kept: what it would be answered is.
    const bool is_long = bytes.size() > kMaxRequestBytes;
    Forwarded f{ticket, is_long, "", ""};
    if (is_long) {
      f.text = ErrorText(bytes, Error::kHostLost);
      f.unsent = ErrorText(bytes, Error::kHostDown);
    } else {
      f.text = bytes;
    }
    forwarded_bytes_ += f.bytes();
    forwarded_.push_back(std::move(f));
  } else {
    silent_ = ticket;
  }
  connection_->Forward(ticket, bytes, replies);
}

EngineFlow::Forwarded EngineFlow::Forget(Ticket ticket) {
  // The host answers in order: nearly always the first.
  const auto it = std::find_if(forwarded_.begin(), forwarded_.end(),
                               [ticket](const Forwarded& f) { return f.ticket == ticket; });
  if (it == forwarded_.end()) return {};
  Forwarded found = std::move(*it);
  forwarded_.erase(it);
  forwarded_bytes_ -= found.bytes();
  return found;
}

void EngineFlow::OnHostReply(Ticket ticket, std::string_view bytes, bool last, std::string* out) {
  out->append(bytes);
  if (last) Forget(ticket);
  if (last && ticket > silent_) silent_ = 0;
}

std::string EngineFlow::OnHostLost(Ticket ticket, bool sent) {
  Forwarded lost = Forget(ticket);
  if (lost.is_long) return std::move(sent ? lost.text : lost.unsent);
  return ErrorText(lost.text, sent ? Error::kHostLost : Error::kHostDown);
}

std::string EngineFlow::ErrorReply(const absl::Status& error) {
  return ErrorText({}, ErrorOf(error));
}

std::string EngineFlow::ErrorText(std::string_view request, Error error) {
  char text[kMaxErrorBytes];
  return std::string(text, runtime_->Error(request, error, text, sizeof(text)));
}

}  // namespace pulse::offload
