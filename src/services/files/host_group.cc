#include "services/files/host_group.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"

namespace pulse::files {
namespace {

constexpr unsigned kSlotBits = 20;
constexpr uint64_t kSlotMask = (uint64_t{1} << kSlotBits) - 1;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
// Who only looks asks the kernel about the agent this often, at most.
constexpr int64_t kLookNanos = 1'000'000;
constexpr size_t kMaxText = 512;

// Of a group's count of retries, what this thread has seen: of as many groups as have room. Of one
// that was forgotten it hears once more.
struct Seen {
  uint64_t group = 0;
  uint64_t retries = 0;
};
thread_local std::array<Seen, 64> seen_retries;
std::atomic<uint64_t> groups_made{0};

absl::Status ErrorOf(int64_t result, const char* text, size_t bytes) {
  const int err = result < -4095 ? EIO : static_cast<int>(-result);
  std::string why(text, strnlen(text, std::min(bytes, kMaxText)));
  absl::StatusCode code = absl::StatusCode::kInternal;
  switch (err) {
    case EBADF:
      code = absl::StatusCode::kFailedPrecondition;
      if (why.empty()) why = "the file is closed";
      break;
    case ENOTEMPTY:
    case EBUSY:
      code = absl::StatusCode::kFailedPrecondition;
      break;
    default:
      code = ErrnoError(err, "", "").code();
  }
  if (why.empty()) why = strerror(err);
  return absl::Status(code, why);
}

bool ParseListing(const char* at, uint64_t left, Completion* out) {
  ListHeader header;
  if (left < sizeof(header)) return false;
  std::memcpy(&header, at, sizeof(header));
  at += sizeof(header);
  left -= sizeof(header);
  for (uint32_t i = 0; i < header.entries; ++i) {
    EntryHeader e;
    if (left < sizeof(e)) return false;
    std::memcpy(&e, at, sizeof(e));
    at += sizeof(e);
    left -= sizeof(e);
    const uint64_t padded = RoundUp(e.name_bytes, 8);
    if (padded > left) return false;
    out->entries.push_back({std::string(at, e.name_bytes), e.size, e.modified_ns});
    at += padded;
    left -= padded;
  }
  out->more = header.more != 0;
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostGroup>> HostGroup::Create(Connection* connection, uint32_t poll,
                                                             const PollOptions& options) {
  std::unique_ptr<HostGroup> g(new HostGroup);
  g->connection_ = connection;
  g->poll_ = poll;
  g->unique_ = ++groups_made;
  g->shape_ = {options.request_bytes, options.response_bytes, options.max_requests};
  if (!Valid(g->shape_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a poll group of ", options.request_bytes, " and ", options.response_bytes, " bytes and ",
        options.max_requests, " requests; use powers of two, from ", kMinRingBytes, " to ",
        kMaxRingBytes, " bytes and up to ", kMaxRequests, " requests"));
  }
  auto region = Region::CreateShared(GroupBytes(g->shape_));
  if (!region.ok()) return region.status();
  g->region_ = *std::move(region);
  const uint32_t number = connection->NewGroupNumber();
  auto* header = new (g->region_.data()) GroupHeader();
  header->magic = wire::kRegionMagic;
  header->version = wire::kProtocolVersion;
  header->group = number;
  header->request_bytes = g->shape_.request_bytes;
  header->response_bytes = g->shape_.response_bytes;
  header->requests = g->shape_.requests;
  auto doorbell = Doorbell::CreatePair();
  if (!doorbell.ok()) return doorbell.status();
  g->notify_ = Doorbell(std::move(doorbell->sleep), &header->host_waiting.value);
  auto wake = WakeEvent::Create();
  if (!wake.ok()) return wake.status();
  g->wake_ = *std::move(wake);
  auto align = connection->AttachGroup(number, g->shape_, g->region_, doorbell->ring.get());
  if (!align.ok()) return align.status();
  g->align_ = *align;
  g->region_.Populate();
  g->requests_ = std::make_unique<ProgressProducer<>>(MakeProgressProducer(
      g->region_.data() + RequestOffset(), {g->shape_.request_bytes, g->shape_.request_bytes}));
  g->responses_ =
      MakeResponseReader(g->region_.data() + ResponseOffset(g->shape_), ResponsesOf(g->shape_));
  g->max_write_ = g->requests_->MaxMessage(kMaxAlign) - sizeof(Request);
  // As the agent's ResponseBuffer::MaxData says, less the rest of the blocks at both ends.
  g->max_read_ = g->shape_.response_bytes / 2 - kMaxAlign - 2 * kBlock;
  g->slots_ = std::vector<Slot>(g->shape_.requests);
  for (uint32_t i = 0; i < g->shape_.requests; ++i) {
    g->slots_[i].next = i + 1 < g->shape_.requests ? i + 1 : kNone;
  }
  return g;
}

HostGroup::~HostGroup() {
  // A group that could not be attached: was it refused, the agent has hung up already.
  if (region_.data() == nullptr || AgentLetGo(connection_->wait_until())) return;
  Log(LogLevel::kWarn,
      "an agent that does not answer may still write to a poll group's memory, "
      "which therefore stays mapped");
  region_.Forget();
}

bool HostGroup::AgentLetGo(int64_t until) const {
  if (notify_.end() < 0) return true;  // it was never offered
  while (true) {
    pollfd bell{notify_.end(), POLLRDHUP, 0};
    const int64_t left = std::max<int64_t>(0, until - NowNanos());
    const timespec time{left / 1'000'000'000, left % 1'000'000'000};
    const int n = ppoll(&bell, 1, &time, nullptr);
    if (n < 0 && errno == EINTR) continue;
    return n > 0;
  }
}

// A doorbell that was hung up rings no more, though the socket may still stand.
bool HostGroup::AgentIsGone() {
  if (connection_->CheckLost()) return true;
  if (AgentLetGo(0)) connection_->MarkLost();
  return connection_->lost();
}

// --- the table

uint32_t HostGroup::TakeSlot() {
  uint64_t top = free_.load(std::memory_order_acquire);
  while (true) {
    const auto slot = static_cast<uint32_t>(top);
    if (slot == kNone) return kNone;
    const uint64_t next =
        ((top >> 32) + 1) << 32 | slots_[slot].next.load(std::memory_order_relaxed);
    if (free_.compare_exchange_weak(top, next, std::memory_order_acq_rel,
                                    std::memory_order_acquire)) {
      return slot;
    }
  }
}

void HostGroup::FreeSlot(uint32_t slot) {
  uint64_t top = free_.load(std::memory_order_relaxed);
  while (true) {
    slots_[slot].next.store(static_cast<uint32_t>(top), std::memory_order_relaxed);
    const uint64_t next = ((top >> 32) + 1) << 32 | slot;
    if (free_.compare_exchange_weak(top, next, std::memory_order_acq_rel,
                                    std::memory_order_relaxed)) {
      break;
    }
  }
  const bool last = outstanding_.fetch_sub(1, std::memory_order_seq_cst) == 1;
  if (last && (hungry_.load(std::memory_order_seq_cst) > 0 || TakeFresh())) WakeAll();
}

void HostGroup::Retried() {
  retries_.fetch_add(1, std::memory_order_seq_cst);
  fresh_.store(true, std::memory_order_seq_cst);
  if (outstanding() == 0 && TakeFresh()) WakeAll();
}

bool HostGroup::RetryUnseen() const {
  const Seen& s = seen_retries[unique_ % seen_retries.size()];
  return retries_.load(std::memory_order_seq_cst) != (s.group == unique_ ? s.retries : 0);
}

bool HostGroup::SeeRetry() {
  if (!RetryUnseen()) return false;
  seen_retries[unique_ % seen_retries.size()] = {unique_, retries_.load(std::memory_order_seq_cst)};
  return true;
}

void HostGroup::WakeAll() {
  std::lock_guard lock(mu_);
  if (leader_) {
    woken_all_ = true;
    wake_.Set();
  }
  cv_.notify_all();
}

uint32_t HostGroup::Claim(uint64_t id) {
  const auto slot = static_cast<uint32_t>(id & kSlotMask);
  if (id == 0 || slot >= slots_.size()) return kNone;
  uint64_t expected = id;
  return slots_[slot].id.compare_exchange_strong(expected, 0, std::memory_order_acq_rel) ? slot
                                                                                         : kNone;
}

absl::Status HostGroup::Submit(const Outstanding& what, Request request, pulse::Piece body,
                               bool direct, RequestId* id) {
  if (connection_->lost()) return connection_->LostError();
  const uint32_t slot = TakeSlot();
  if (slot == kNone) {
    Retried();
    return absl::Status(absl::StatusCode::kUnavailable, "");
  }
  outstanding_.fetch_add(1, std::memory_order_seq_cst);
  Slot& s = slots_[slot];
  s.what.cookie = what.cookie;
  s.what.operation = what.operation;
  s.what.mode = what.mode;
  s.what.pieces = what.pieces;
  s.what.skip = what.skip;
  std::copy(what.piece, what.piece + what.pieces, s.what.piece);
  request.id = uint64_t{++s.generation} << kSlotBits | slot;
  if (id != nullptr) *id = request.id;  // before anybody can have its completion
  s.id.store(request.id, std::memory_order_seq_cst);
  // Whoever reports the loss looks at the slots after it: he sees this one, or we see the loss.
  if (connection_->lost()) {
    if (Claim(request.id) == kNone) return absl::OkStatus();  // reported with the rest
    FreeSlot(slot);
    return connection_->LostError();
  }
  const PushResult pushed =
      requests_->TryPush(static_cast<uint16_t>(what.operation), {&request, sizeof(request)}, body,
                         direct ? align_ : 8);
  if (pushed == PushResult::kDone) {
    connection_->Ring();
    return absl::OkStatus();
  }
  // Unless the loss of the agent was noticed just now, and this was reported with the rest.
  if (Claim(request.id) == kNone) return absl::OkStatus();
  FreeSlot(slot);
  if (pushed == PushResult::kRetry) {
    Retried();
    return absl::Status(absl::StatusCode::kUnavailable, "");
  }
  return absl::InvalidArgumentError("the request is longer than its ring takes");
}

// --- completions

void HostGroup::Fill(const TakenResponse& r, uint32_t slot, Completion* out) {
  const Outstanding& what = slots_[slot].what;
  out->id = r.id;
  out->cookie = what.cookie;
  out->operation = what.operation;
  out->status = absl::OkStatus();
  out->bytes = 0;
  out->file = File::kNone;
  out->attributes = {};
  out->entries.clear();
  out->more = false;
  out->data = nullptr;
  out->lease = 0;
  bool sound = r.kind == static_cast<uint16_t>(what.operation);
  bool keep = false;
  if (sound && r.result < 0) {
    const bool text = what.operation != Operation::kRead;
    out->status = ErrorOf(r.result, r.data, text ? r.capacity : 0);
  } else if (sound) {
    switch (what.operation) {
      case Operation::kRead: {
        const auto bytes = static_cast<uint64_t>(r.result);
        uint64_t asked = 0;
        for (uint8_t i = 0; i < what.pieces; ++i) asked += what.piece[i].size;
        sound = bytes <= asked && (bytes == 0 || what.skip + bytes <= r.capacity);
        if (!sound) break;
        out->bytes = bytes;
        if (what.mode == ReadMode::kInPlace) {
          keep = bytes > 0;
          out->data = keep ? r.data + what.skip : nullptr;
          out->lease = keep ? uint64_t{r.ticket} + 1 : 0;
          break;
        }
        const char* from = r.data + what.skip;
        uint64_t left = bytes;
        for (uint8_t i = 0; i < what.pieces && left > 0; ++i) {
          const uint64_t n = std::min(left, what.piece[i].size);
          std::memcpy(what.piece[i].data, from, n);
          from += n;
          left -= n;
        }
        break;
      }
      case Operation::kWrite:
        out->bytes = static_cast<uint64_t>(r.result);
        break;
      case Operation::kCreateFile:
      case Operation::kOpenFile: {
        OpenedFile opened;
        sound = r.capacity >= sizeof(opened);
        if (!sound) break;
        std::memcpy(&opened, r.data, sizeof(opened));
        out->file = static_cast<File>(opened.file);
        out->attributes = {opened.attributes.size, opened.attributes.allocated,
                           opened.attributes.modified_ns, opened.attributes.id};
        break;
      }
      case Operation::kGetAttributes: {
        WireAttributes a;
        sound = r.capacity >= sizeof(a);
        if (!sound) break;
        std::memcpy(&a, r.data, sizeof(a));
        out->attributes = {a.size, a.allocated, a.modified_ns, a.id};
        break;
      }
      case Operation::kListDirectories:
      case Operation::kListDirectory:
        sound = ParseListing(r.data, r.capacity, out);
        break;
      default:
        break;
    }
  }
  if (!sound) out->status = absl::InternalError("the agent gave an answer that makes no sense");
  if (!keep) responses_->Done(r.ticket);
}

size_t HostGroup::Take(Completion* out, size_t max) {
  size_t n = 0;
  TakenResponse r;
  while (n < max && responses_->Take(&r)) {
    const uint32_t slot = Claim(r.id);
    if (slot == kNone) {  // an answer to nothing
      responses_->Done(r.ticket);
      continue;
    }
    Fill(r, slot, &out[n++]);
    FreeSlot(slot);
  }
  if (n < max && responses_->corrupt()) connection_->MarkLost();
  return n;
}

size_t HostGroup::ReportLost(Completion* out, size_t max) {
  size_t n = 0;
  for (uint32_t i = 0; i < slots_.size() && n < max; ++i) {
    const uint64_t id = slots_[i].id.load(std::memory_order_seq_cst);
    if (Claim(id) == kNone) continue;
    out[n] = Completion();
    out[n].id = id;
    out[n].cookie = slots_[i].what.cookie;
    out[n].operation = slots_[i].what.operation;
    out[n].status = absl::UnavailableError(
        "the agent was lost; whether the operation was carried out is not known");
    ++n;
    FreeSlot(i);
  }
  return n;
}

void HostGroup::Release(Completion* completion) {
  if (completion->lease == 0) return;
  responses_->Done(static_cast<uint32_t>(completion->lease - 1));
  completion->lease = 0;
  completion->data = nullptr;
}

// --- waiting

absl::StatusOr<size_t> HostGroup::Wait(Completion* out, size_t max, int64_t timeout_us) {
  if (max == 0) return absl::InvalidArgumentError("no room for a completion");
  const int64_t until = timeout_us < 0               ? kNever
                        : timeout_us > kNever / 2000 ? kNever
                        : timeout_us == 0            ? 0
                                                     : NowNanos() + timeout_us * 1000;
  bool slept = false;
  absl::StatusOr<size_t> result = size_t{0};
  while (true) {
    size_t n = Take(out, max);
    if (n == 0 && connection_->lost()) {
      n = ReportLost(out, max);
      if (n == 0) {
        result = absl::UnavailableError("the agent was lost; open a new library");
        break;
      }
    }
    result = n;
    if (n > 0) break;
    if (wakes_.load(std::memory_order_relaxed) > 0) {
      std::lock_guard lock(mu_);
      if (wakes_ > 0) {
        if (--wakes_ == 0) wake_.Clear();
        break;
      }
    }
    if (timeout_us == 0) {
      const int64_t now = NowNanos();
      int64_t looked = looked_.load(std::memory_order_relaxed);
      if (now - looked < kLookNanos ||
          !looked_.compare_exchange_strong(looked, now, std::memory_order_relaxed) ||
          !AgentIsGone()) {
        break;
      }
      continue;
    }
    if (NowNanos() >= until) break;
    // The agent gives space back by and by. With nothing outstanding no completion will tell of it.
    if (outstanding() == 0 && SeeRetry()) break;
    Sleep(until);
    slept = true;
  }
  if (slept) {
    // Whoever was woken and leaves without having become the leader passes it on.
    std::lock_guard lock(mu_);
    if (!leader_ && followers_ > 0) cv_.notify_one();
  }
  return result;
}

void HostGroup::Sleep(int64_t until) {
  std::unique_lock lock(mu_);
  const uint32_t hungry = RetryUnseen() ? 1 : 0;
  hungry_.fetch_add(hungry, std::memory_order_seq_cst);
  // From here on whoever makes it so wakes us.
  const bool for_nothing = hungry > 0 && outstanding() == 0;
  if (leader_) {
    ++followers_;
    if (!for_nothing && until == kNever) {
      cv_.wait(lock);
    } else if (!for_nothing) {
      cv_.wait_until(lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(until)));
    }
    --followers_;
    hungry_.fetch_sub(hungry, std::memory_order_seq_cst);
    return;
  }
  leader_ = true;
  lock.unlock();
  notify_.PrepareSleep();
  pollfd fds[3] = {
      {notify_.fd(), POLLIN, 0}, {connection_->socket(), POLLRDHUP, 0}, {wake_.fd(), POLLIN, 0}};
  if (!for_nothing && !responses_->Ready() && !connection_->lost()) {
    timespec left{};
    if (until != kNever) {
      const int64_t nanos = std::max<int64_t>(0, until - NowNanos());
      left = {nanos / 1'000'000'000, nanos % 1'000'000'000};
    }
    if (ppoll(fds, 3, until == kNever ? nullptr : &left, nullptr) > 0 && fds[1].revents != 0) {
      connection_->CheckLost();
    }
  }
  notify_.FinishSleep();
  if (notify_.hung_up()) connection_->MarkLost();  // nobody would wake us again
  lock.lock();
  leader_ = false;
  hungry_.fetch_sub(hungry, std::memory_order_seq_cst);
  if (std::exchange(woken_all_, false) && wakes_ == 0) wake_.Clear();
  if (followers_ > 0) cv_.notify_one();
}

void HostGroup::Wake() {
  std::lock_guard lock(mu_);
  ++wakes_;
  wake_.Set();
}

}  // namespace pulse::files
