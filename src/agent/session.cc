#include "agent/session.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "channel/handshake.h"

namespace pulse {
namespace {

// Queues of a class served in one round, at most, however many a session has.
constexpr size_t kQueuesPerRound = 4;

// Control messages read in one call: more than a socket holds, so that what a request relies on is
// read before it, and yet no peer can keep the worker reading.
constexpr int kMaxMessages = 1024;

}  // namespace

void SessionQueue::Complete(const wire::Completion& c) {
  if (deferred_.empty() && queue_.TryPush(c)) {
    if (outstanding_->now > 0) --outstanding_->now;
    notify_ = true;
    return;
  }
  deferred_.push_back(c);
}

bool SessionQueue::FlushDeferred() {
  bool any = false;
  while (!deferred_.empty() && queue_.TryPush(deferred_.front())) {
    deferred_.pop_front();
    if (outstanding_->now > 0) --outstanding_->now;
    any = true;
  }
  notify_ |= any;
  if (any) PublishReclaimed();
  return any;
}

void SessionQueue::DropDeferred() {
  outstanding_->now -= std::min<size_t>(outstanding_->now, deferred_.size());
  deferred_.clear();
}

bool SessionQueue::Track(uint64_t position, uint64_t* ticket) {
  if (position < last_position_ || position - reclaimed_ > arena_bytes()) return false;
  last_position_ = position;
  extents_.push_back({position, false});
  *ticket = first_ticket_ + extents_.size() - 1;
  return true;
}

void SessionQueue::Untrack(uint64_t ticket) {
  extents_[ticket - first_ticket_].done = true;
  bool moved = false;
  while (!extents_.empty() && extents_.front().done) {
    reclaimed_ = extents_.front().position;
    extents_.pop_front();
    ++first_ticket_;
    moved = true;
  }
  if (moved) PublishReclaimed();
}

void SessionQueue::PublishReclaimed() {
  // Space whose completion the host cannot have seen yet must not be overwritten: should this agent
  // die, the host would write those bytes itself.
  if (deferred_.empty()) queue_.PublishReclaimed(reclaimed_);
}

Session::Session(Config config, wire::ControlPage* control, Region control_region, UniqueFd kick_fd,
                 UniqueFd notify_fd, UniqueFd socket, FileEngine* engine,
                 const ServiceFactory& factory)
    : config_(std::move(config)),
      control_(control),
      control_region_(std::move(control_region)),
      doorbell_(std::move(kick_fd), &control->agent_sleeping.value),
      notifier_(std::move(notify_fd), &control->host_waiting.value),
      socket_(std::move(socket)),
      engine_(engine),
      origin_(engine->scheduler()),
      outstanding_{config_.limits.max_requests},
      service_(factory(this, engine)) {
  if (config_.status == nullptr || config_.service == nullptr) return;
  status_id_ = config_.status->Enter(
      {config_.peer, config_.service, MoverName(config_.mover).data(), &counters_, control_});
}

Session::~Session() {
  if (status_id_ != 0) config_.status->Leave(status_id_);
  for (auto& q : queues_) engine_->backend().UnregisterBuffer(q->buffer_index);
  service_.reset();  // may give descriptors and memory back
  if (config_.usage == nullptr) return;
  config_.usage->arena_bytes -= arena_total_;
  config_.usage->files -= descriptors_;
}

int Session::TakeDescriptor() {
  const AgentLimits& limits = config_.limits;
  if (descriptors_ >= limits.max_session_files) {
    LogOnce("files of a session", absl::StrCat("session ", config_.name, " has its ", descriptors_,
                                               " files open already; further ones are refused"));
    return ENFILE;
  }
  if (config_.usage != nullptr && config_.usage->files.fetch_add(1) >= limits.max_total_files &&
      limits.max_total_files != 0) {
    --config_.usage->files;
    LogOnce("files of all sessions",
            absl::StrCat("the sessions have ", limits.max_total_files,
                         " files open, which is all that the limit of open files leaves them; "
                         "further ones are refused. Raise the agent's limit (ulimit -n)"));
    return ENFILE;
  }
  ++descriptors_;
  counters_.files.Set(descriptors_);
  return 0;
}

void Session::GiveDescriptorBack() {
  --descriptors_;
  counters_.files.Set(descriptors_);
  if (config_.usage != nullptr) --config_.usage->files;
}

absl::Status Session::CheckMemory(uint64_t arena_bytes) const {
  const AgentLimits& limits = config_.limits;
  if (arena_bytes > limits.max_arena_bytes ||
      arena_total_ + arena_bytes > limits.max_session_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a queue of ", arena_bytes, " bytes exceeds the agent's limit of ",
                     limits.max_arena_bytes, " a queue and ", limits.max_session_bytes,
                     " a session (--session-memory); use a smaller queue="));
  }
  if (config_.usage != nullptr && limits.max_total_bytes != 0 &&
      config_.usage->arena_bytes.load() + arena_bytes > limits.max_total_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a queue of ", arena_bytes, " bytes exceeds what the agent's limit of ",
                     limits.max_total_bytes,
                     " for all sessions leaves; raise --total-memory or use a smaller queue="));
  }
  return absl::OkStatus();
}

absl::Status Session::AttachQueue(uint32_t id, uint64_t arena_bytes, uint64_t peer_address,
                                  Region region, const Region* host_region) {
  if (queues_.size() >= config_.limits.max_queues) {
    return absl::ResourceExhaustedError(absl::StrCat("this session has its ", queues_.size(),
                                                     " queues already (limit --max-queues)"));
  }
  PULSE_RETURN_IF_ERROR(CheckMemory(arena_bytes));
  const Region& mapped = host_region != nullptr ? *host_region : region;
  PULSE_ASSIGN_OR_RETURN(auto queue, AgentQueue::Attach(mapped, arena_bytes));
  if (config_.mover == MoverKind::kShared) mapped.Populate();
  PULSE_ASSIGN_OR_RETURN(auto mover, MakeMover(queue.arena(), peer_address, arena_bytes));
  auto q = std::make_unique<SessionQueue>(id, queue, std::move(region), std::move(mover),
                                          &outstanding_, &origin_);
  q->buffer_index = engine_->backend().RegisterBuffer(q->mover().local(), arena_bytes);
  queues_.push_back(std::move(q));
  counters_.queues.Set(queues_.size());
  AddMemory(arena_bytes);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Mover>> Session::MakeMover(char* mapped, uint64_t peer_address,
                                                          size_t bytes) {
  absl::StatusOr<std::unique_ptr<Mover>> mover =
      config_.mover == MoverKind::kVmRead ? Mover::CreateVmRead(config_.peer, peer_address, bytes)
                                          : Mover::CreateShared(mapped, bytes);
  if (!mover.ok() || !config_.wrap_mover) return mover;
  return config_.wrap_mover(*std::move(mover), !std::exchange(has_movers_, true));
}

void Session::GiveMemoryBack(uint64_t bytes) {
  arena_total_ -= bytes;
  counters_.memory.Set(arena_total_);
  if (config_.usage != nullptr) config_.usage->arena_bytes -= bytes;
}

void Session::AddMemory(uint64_t bytes) {
  arena_total_ += bytes;
  counters_.memory.Set(arena_total_);
  // Workers check and add without a lock: together they may exceed the total by a queue each.
  if (config_.usage != nullptr) config_.usage->arena_bytes += bytes;
}

void Session::Refuse(const absl::Status& why) {
  Log(LogLevel::kWarn, absl::StrCat("session ", config_.name, " is ended: ", why.message()));
}

bool Session::HandleMessage(const wire::Message& m, std::vector<UniqueFd> fds, bool fds_lost) {
  switch (static_cast<wire::MessageType>(m.type)) {
    case wire::MessageType::kAttachQueue: {
      absl::Status st;
      if (fds_lost) {
        st = ErrnoError(EMFILE, "the agent cannot take", "the queue's memory", kRaiseOpenFiles);
      } else if (fds.size() != 1) {
        st = absl::InvalidArgumentError("attaching a queue takes exactly one descriptor");
      } else if (m.args[1] > wire::kMaxArenaBytes) {
        st =
            absl::InvalidArgumentError(absl::StrCat("arena of ", m.args[1], " bytes is too large"));
      } else {
        auto region = Region::Map(std::move(fds[0]), QueueRegionBytes(m.args[1]));
        st = region.ok() ? AttachQueue(static_cast<uint32_t>(m.args[0]), m.args[1], m.args[2],
                                       *std::move(region), nullptr)
                         : region.status();
      }
      wire::Message ack = MakeMessage(wire::MessageType::kAttachAck, {m.args[0]});
      return Answer(st, &ack);
    }
    case wire::MessageType::kFile:
      if (fds_lost) {
        LogOnce("descriptors lost",
                absl::StrCat("the agent may open no more files, and refuses what "
                             "hosts pass; ",
                             kRaiseOpenFiles));
        service_->OnFile(static_cast<uint32_t>(m.args[0]), UniqueFd());
        return true;
      }
      if (fds.size() != 1) {
        Refuse(absl::InvalidArgumentError("a file message takes exactly one descriptor"));
        return false;
      }
      service_->OnFile(static_cast<uint32_t>(m.args[0]), std::move(fds[0]));
      return true;
    case wire::MessageType::kAttachGroup:
    case wire::MessageType::kService: {
      const bool service = m.type == static_cast<uint32_t>(wire::MessageType::kService);
      wire::Message ack = MakeMessage(
          service ? wire::MessageType::kServiceAck : wire::MessageType::kAttachAck, {m.args[0]});
      return Answer(
          fds_lost ? ErrnoError(EMFILE, "the agent cannot take",
                                service ? "what was passed" : "the group's memory", kRaiseOpenFiles)
                   : service_->OnMessage(m, std::move(fds), &ack),
          &ack);
    }
    default:
      Refuse(absl::InvalidArgumentError(absl::StrCat("unexpected control message ", m.type)));
      return false;
  }
}

bool Session::Answer(const absl::Status& st, wire::Message* ack) {
  // A limit of the agent's is told apart from what the host did wrong.
  const int without = absl::IsResourceExhausted(st) ? ENOSPC : EINVAL;
  ack->status = st.ok() ? 0 : (ErrnoOf(st) != 0 ? ErrnoOf(st) : without);
  SetText(ack, absl::string_view(st.message().data(), st.message().size()));
  const absl::Status sent = SendMessage(socket_.get(), *ack, {}, /*wait=*/false);
  // A host that is gone hears no answer, and the socket will say so; one that reads none is not
  // waited for.
  return sent.ok() || ErrnoOf(sent) == EPIPE || ErrnoOf(sent) == ECONNRESET;
}

bool Session::HandleSocket() {
  if (!socket_.valid()) return true;
  for (int i = 0; i < kMaxMessages; ++i) {
    auto r = ReceiveMessage(socket_.get(), /*wait=*/false);
    if (!r.ok()) {
      if (IsNoMessage(r.status())) return true;
      if (absl::IsInvalidArgument(r.status())) {
        Refuse(r.status());
        broken_ = true;
      }
      return false;
    }
    const auto type = static_cast<wire::MessageType>(r->message.type);
    if (!HandleMessage(r->message, std::move(r->fds), r->fds_lost)) {
      broken_ = true;
      return false;
    }
    // To map memory takes long.
    const bool maps =
        type == wire::MessageType::kAttachQueue || type == wire::MessageType::kAttachGroup;
    if (maps) i += kMaxMessages / 64;
  }
  return true;  // the worker comes back: the socket stays readable
}

bool Session::HandleDoorbell() {
  doorbell_.Drain();
  return !doorbell_.hung_up();
}

// From a queue whose class changes meanwhile no more is taken: it is another class's turn.
size_t Session::TakeFrom(SessionQueue* q, size_t batch, uint64_t* budget) {
  const IoClass io_class = q->io_class();
  wire::Descriptor d;
  size_t n = 0;
  while (n < batch && !broken_ && *budget > 0 && q->io_class() == io_class && q->TryTake(&d)) {
    // Files named by this request were sent before it, on the socket.
    service_->OnDescriptor(q, d);
    ++n;
    *budget -= std::min(*budget, d.length);
  }
  if (q->ring().corrupt()) {
    Refuse(absl::InvalidArgumentError("a submission ring's cursor was corrupted by the host"));
    broken_ = true;
  }
  return n;
}

void Session::LatchPressure(uint32_t word, int64_t now) {
  if (word != pressure_word_) {
    pressure_word_ = word;
    pressure_at_ = now;
  }
  origin_.set_pressure(now - pressure_at_ < kPressureNanos ? wire::PressureLevel(word)
                                                           : wire::kPressureNone);
}

size_t Session::PollQueues(size_t batch) {
  if (shutting_down_) return 0;
  size_t n = 0;
  if (absl::Status st = service_->Poll(batch, &n); !st.ok()) {
    Refuse(st);
    broken_ = true;
    BeginShutdown();
    return n;
  }
  if (queues_.empty()) {
    if (n > 0) control_->agent_progress.value.fetch_add(n, std::memory_order_relaxed);
    return n;
  }
  // A service may read the socket, where a further queue may be attached: its turn is the next
  // round.
  const size_t count = queues_.size();
  for (size_t c = 0; c < kIoClasses; ++c) {
    uint64_t budget = config_.mover == MoverKind::kVmRead ? IoScheduler::kQuantum[c] : ~uint64_t{0};
    size_t taken = 0;
    const size_t first = next_queue_[c];
    for (size_t k = 0; k < count && taken < kQueuesPerRound * batch && budget > 0; ++k) {
      const size_t i = (first + k) % count;
      SessionQueue* q = queues_[i].get();
      if (static_cast<size_t>(q->io_class()) != c) continue;
      // Then this queue has the first turn when there is room again.
      if (origin_.Full(static_cast<IoClass>(c))) break;
      next_queue_[c] = (i + 1) % count;
      taken += TakeFrom(q, batch, &budget);
      if (broken_) break;
    }
    n += taken;
    if (broken_) {
      BeginShutdown();
      return n;
    }
  }
  if (orphan_) {
    orphan_budget_ -= std::min(n, orphan_budget_);
    const bool untaken =
        std::any_of(queues_.begin(), queues_.end(), [](const auto& q) { return q->Untaken(); });
    if (orphan_budget_ == 0 || !untaken) BeginShutdown();
  }
  if (n > 0) control_->agent_progress.value.fetch_add(n, std::memory_order_relaxed);
  return n;
}

bool Session::HostMayBeGone() const {
  if (orphan_ || shutting_down_) return true;
  if (!socket_.valid()) return false;
  pollfd p{socket_.get(), POLLRDHUP, 0};
  return poll(&p, 1, 0) != 0;
}

bool Session::Orphan() {
  if (broken_ || shutting_down_ || queues_.empty()) return false;
  // Its memory cannot be reached any more; and should the host live, having only parted with this
  // agent, something else may be at those addresses.
  if (config_.mover == MoverKind::kVmRead) return false;
  if (!orphan_) orphan_budget_ = queues_.size() * wire::kSubmissionSlots;
  orphan_ = true;
  return true;
}

bool Session::HasWork() const {
  if (shutting_down_) return false;
  return std::any_of(queues_.begin(), queues_.end(), [](const auto& q) { return q->HasWork(); }) ||
         service_->HasWork();
}

bool Session::HasDeferred() const {
  return std::any_of(queues_.begin(), queues_.end(),
                     [](const auto& q) { return q->HasDeferred(); }) ||
         service_->HasDeferred();
}

bool Session::Deliver() {
  bool any = service_->Deliver();
  bool notify = false;
  for (auto& q : queues_) {
    if (orphan_) q->DropDeferred();
    any |= q->FlushDeferred();
    notify |= q->TakeNotify();
  }
  if (notify) {
    control_->agent_progress.value.fetch_add(1, std::memory_order_relaxed);
    notifier_.Ring();
  }
  return any || notify;
}

void Session::BeginShutdown() {
  if (shutting_down_) return;
  shutting_down_ = true;
  service_->BeginShutdown();
}

}  // namespace pulse
