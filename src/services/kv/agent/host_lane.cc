#include "services/kv/agent/host_lane.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <utility>

#include "base/cpu_profile.h"
#include "base/errors.h"
#include "base/log.h"

namespace pulse::kv {
namespace {

constexpr uint32_t kSlots = 4;
constexpr uint32_t kBatch = 512;
constexpr uint32_t kBufferBytes = 128 << 10;

}  // namespace

LaneFacts HostLane::FactsOf(const LaneShared& shared) {
  LaneFacts facts{};
  facts.magic = kLaneMagic;
  facts.version = kLaneVersion;
  facts.slots = kSlots;
  facts.batch = kBatch;
  facts.buffer_bytes = kBufferBytes;
  if (shared.application != nullptr) {
    facts.max_bulk = shared.application->limits().max_bulk;
    facts.wants_auth = shared.application->facts().users.Anonymous() == nullptr ? 1 : 0;
  }
  return facts;
}

absl::StatusOr<std::shared_ptr<HostLane>> HostLane::Create(LaneShared* shared,
                                                           std::shared_ptr<net::Mailbox> mailbox,
                                                           UniqueFd socket, UniqueFd notify,
                                                           UniqueFd* kick_ring) {
  const LaneFacts facts = FactsOf(*shared);
  PULSE_ASSIGN_OR_RETURN(Region region, Region::CreateShared(facts.bytes()));
  PULSE_ASSIGN_OR_RETURN(Doorbell::Ends ends, Doorbell::CreatePair());
  std::shared_ptr<HostLane> lane(new HostLane(shared, facts, std::move(mailbox), std::move(region),
                                              std::move(socket), std::move(notify)));
  *kick_ring = std::move(ends.ring);
  lane->kick_ = Doorbell(std::move(ends.sleep), &lane->header()->host_sleeping.value);
  return lane;
}

HostLane::HostLane(LaneShared* shared, const LaneFacts& facts,
                   std::shared_ptr<net::Mailbox> mailbox, Region region, UniqueFd socket,
                   UniqueFd notify)
    : ShmPeer(std::move(socket)),
      shared_(shared),
      facts_(facts),
      mailbox_(std::move(mailbox)),
      region_(std::move(region)),
      requests_(facts.queue(), region_.data() + LaneRequests()),
      replies_(facts.queue(), region_.data() + LaneReplies(facts)) {
  auto* h = new (region_.data()) LaneHeader{};
  h->facts = facts;
  notify_ = Doorbell(std::move(notify), &h->agent_sleeping.value);
}

HostLane::~HostLane() { Leave(); }

void HostLane::Leave() {
  broken_ = true;
  touched_.clear();
  waiting_.clear();
  packer_.reset();
  for (const auto& session : sessions_) {
    if (session != nullptr && session->flow_ != nullptr) {
      shared_->sessions.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  sessions_.clear();
}

void HostLane::Broken() {
  if (!broken_) LogOnce("kv-agent-broken", "an agent has broken the protocol, and is cut off");
  broken_ = true;
  Break();  // who accepts agents sees its end, and takes it from the thread
}

bool HostLane::HasWork() {
  const char* requests = nullptr;
  if (broken_) return false;
  if (held_ <= shared_->lane_bytes && requests_.FindRequests(&requests) == QueuePair::Found::kBatch)
    return true;
  return !waiting_.empty() && replies_.Reclaim() && replies_.HasRoom();
}

size_t HostLane::Serve() {
  if (broken_) return 0;
  sent_ = 0;
  if (!replies_.Reclaim()) {
    Broken();
    return 0;
  }
  const size_t taken = TakeRequests();
  EndTurn();
  return std::max(taken, sent_);
}

size_t HostLane::TakeRequests() {
  if (held_ > shared_->lane_bytes) return 0;  // until some of it has gone
  const char* buffer = nullptr;
  switch (requests_.FindRequests(&buffer)) {
    case QueuePair::Found::kNothing:
      return 0;
    case QueuePair::Found::kCorrupt:
      Broken();
      return 0;
    case QueuePair::Found::kBatch:
      break;
  }
  BatchHeader batch;
  std::memcpy(&batch, buffer, sizeof(batch));
  const size_t count = batch.count;
  if (count > facts_.batch) {
    Broken();
    return 0;
  }
  {
    const CpuScope scope(CpuComponent::kReceive);
    for (size_t at = 0; at < count * sizeof(RequestDescriptor); at += 64) {
      __builtin_prefetch(buffer + sizeof(batch) + at);
    }
    for (size_t i = 0; i < count && !broken_; ++i) {
      RequestDescriptor d;
      std::memcpy(&d, buffer + sizeof(batch) + i * sizeof(d), sizeof(d));
      if (!Take(buffer, d)) Broken();
    }
    RunPlain();
  }
  if (broken_) return 0;
  requests_.Answer();
  gave_back_ = true;
  shared_->transfers.fetch_add(1, std::memory_order_relaxed);
  shared_->requests.fetch_add(count, std::memory_order_relaxed);
  return count;
}

bool HostLane::Take(const char* buffer, const RequestDescriptor& d) {
  std::string_view key;
  std::string_view value;
  if ((d.flags & kInline) != 0) {
    if (d.key_size > sizeof(d.key) || d.value_size > sizeof(d.value)) return false;
    key = {reinterpret_cast<const char*>(&d.key), d.key_size};
    value = {reinterpret_cast<const char*>(&d.value), d.value_size};
  } else {
    const uint64_t size = uint64_t{d.key_size} + d.value_size;
    if (d.key > facts_.buffer_bytes || size > facts_.buffer_bytes - d.key) return false;
    key = {buffer + d.key, d.key_size};
    value = {buffer + d.key + d.key_size, d.value_size};
  }
  const uint64_t number = d.hash;
  if (number >= kMostSessions) return false;
  const auto op = static_cast<LaneOp>(d.op);
  if (op != LaneOp::kGet && op != LaneOp::kSet) RunPlain();
  if (op == LaneOp::kOpen) return TakeOpen(static_cast<uint32_t>(number), key, value, d.flags);
  if (number >= sessions_.size() || sessions_[number] == nullptr) return false;
  HostSession* session = sessions_[number].get();
  const bool more = (d.flags & kMore) != 0;
  switch (op) {
    case LaneOp::kGet:
    case LaneOp::kSet:
    case LaneOp::kDelete:
      if (more || !session->incoming_.empty()) return false;
      return TakePlain(session, op, key, value) || TakeWords(session, op, key, value);
    case LaneOp::kCommand:
    case LaneOp::kMemcached:
      return session->Take(op, value, more);
    case LaneOp::kResume:
      session->Resume();
      return true;
    case LaneOp::kClose:
      return session->EndByAgent();
    default:
      return false;
  }
}

bool HostLane::TakePlain(HostSession* session, LaneOp op, std::string_view key,
                         std::string_view value) {
  if (op == LaneOp::kDelete) return false;
  const redis::SplitFlow::Idle idle = session->WhileIdle();
  const bool is_set = op == LaneOp::kSet;
  if (idle.executor != nullptr &&
      idle.executor->AddPlain(*idle.session, is_set, key, value, &plain_)) {
    plain_of_.push_back({session, idle.session});
    plain_executor_ = idle.executor;
    return true;
  }
  // It comes behind them.
  RunPlain();
  return false;
}

bool HostLane::TakeWords(HostSession* session, LaneOp op, std::string_view key,
                         std::string_view value) {
  scratch_.clear();
  static constexpr std::string_view kNames[] = {"GET", "SET", "DEL"};
  const std::array<std::string_view, 3> words = {
      kNames[static_cast<size_t>(op) - static_cast<size_t>(LaneOp::kGet)], key, value};
  redis::AppendSplit({words.data(), op == LaneOp::kSet ? size_t{3} : size_t{2}}, &scratch_);
  return session->Take(op, scratch_, false);
}

void HostLane::RunPlain() {
  if (plain_of_.empty()) return;
  plain_executor_->RunPlain(&plain_);
  for (size_t i = 0; i < plain_of_.size(); ++i) {
    const PlainOwner& owner = plain_of_[i];
    const redis::PlainBatch::Entry& entry = plain_.entries[i];
    if (i < plain_.done()) {
      plain_executor_->NotePlain(*owner.of_flow, plain_, i, 1);
      owner.session->ReplyToNext(plain_.ReplyOf(i));
    } else {
      TakeWords(owner.session, entry.is_set ? LaneOp::kSet : LaneOp::kGet, plain_.KeyOf(entry),
                plain_.ValueOf(entry));
    }
  }
  plain_of_.clear();
  plain_.Clear();
}

bool HostLane::TakeOpen(uint32_t number, std::string_view peer, std::string_view local,
                        uint8_t flags) {
  if (number >= sessions_.size()) sessions_.resize(number + 1);
  auto& session = sessions_[number];
  if (session != nullptr) return false;
  // Those that were refused count until the agent closes them. One that has so many does not
  // listen.
  if (kept_sessions_ >= shared_->most_sessions + kMostRefused) return false;
  ++kept_sessions_;
  session = std::make_unique<HostSession>(this, static_cast<uint16_t>(number),
                                          std::string(peer.substr(0, kMostAddress)),
                                          std::string(local.substr(0, kMostAddress)));
  const bool full = shared_->sessions.load(std::memory_order_relaxed) >= shared_->most_sessions;
  session->Begin((flags & kOtherProtocol) != 0,
                 full ? "-ERR max number of clients reached\r\n" : "");
  if (session->flow_ != nullptr) shared_->sessions.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void HostLane::Touch(HostSession* session) {
  if (std::exchange(session->touched_, true)) return;
  touched_.push_back(session);
}

void HostLane::WaitForRoom(HostSession* session) {
  if (std::exchange(session->waits_, true)) return;
  waiting_.push_back(session);
}

HostSession* HostLane::LargestPaused() {
  HostSession* most = nullptr;
  for (const auto& session : sessions_) {
    if (session == nullptr || session->closing_) continue;
    if (session->counted_paused_ > (most == nullptr ? 0 : most->counted_paused_)) {
      most = session.get();
    }
  }
  return most;
}

void HostLane::EndTurn() {
  while (true) {
    // Those that wait have turns of a piece each.
    bool stuck = false;
    while (!waiting_.empty() && !stuck) {
      for (HostSession* session : std::exchange(waiting_, {})) {
        session->waits_ = false;
        const size_t before = session->pieces_.size();
        if (session->SendPiece()) continue;
        stuck |= session->pieces_.size() == before;
        WaitForRoom(session);
      }
    }
    if (touched_.empty()) break;
    for (HostSession* session : std::exchange(touched_, {})) {
      session->touched_ = false;
      if (!session->EndTurn() || session->touched_ || session->waits_) continue;
      sessions_[session->number_].reset();
      --kept_sessions_;
    }
  }
  if (packer_.has_value() && packer_->count() > 0) Submit();
  packer_.reset();
  // It may wait for the buffer that it got back; else replies tell it.
  if (std::exchange(gave_back_, false)) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (header()->agent_waits.value.load(std::memory_order_relaxed) != 0) notify_.Ring();
  }
  const bool waits = !waiting_.empty();
  header()->host_waits.value.store(waits ? 1 : 0, std::memory_order_relaxed);
}

bool HostLane::OpenPacker() {
  if (!replies_.HasRoom() && (!replies_.Reclaim() || !replies_.HasRoom())) return false;
  packer_.emplace(replies_.BufferToSubmit(), facts_.buffer_bytes, facts_.batch);
  return true;
}

bool HostLane::TrySend(uint16_t session, LaneStatus status, uint8_t flags, std::string_view bytes) {
  if (broken_) return true;
  const CpuScope scope(CpuComponent::kRespond);
  if (packer_.has_value() && (packer_->room() == 0 || packer_->room() < bytes.size())) Submit();
  if (!packer_.has_value() && !OpenPacker()) return false;
  packer_->Add(session, static_cast<uint8_t>(status), flags, bytes);
  ++sent_;
  return true;
}

void HostLane::Submit() {
  packer_->Finish();
  packer_.reset();
  replies_.Submit();
  notify_.Ring();
}

}  // namespace pulse::kv
