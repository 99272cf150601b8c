#include "services/kv/udp/batch.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/cpu_profile.h"

namespace pulse::kv {
namespace {

// Of any answer's headers, beside its records: two datagrams that follow each other have more bytes
// together than the client takes in one.
size_t MostParts(size_t record_bytes, size_t reply_bytes) {
  return 2 * record_bytes / (reply_bytes - sizeof(UdpHeader)) + 1;
}

}  // namespace

// What ExecuteBatch tells of each request.
class UdpBatch::Sink {
 public:
  Sink(UdpBatch* batch, const Lane& lane, redis::WatchTable* watch)
      : batch_(*batch), lane_(lane), watch_(*watch) {}
  void Got(size_t i, const Item* item) {
    batch_.Answer(lane_.refs[i], WireOp::kGet,
                  item == nullptr ? WireStatus::kNotFound : WireStatus::kOk,
                  item == nullptr ? std::string_view() : item->value());
  }
  void Stored(size_t i, Partition::Result result) {
    const bool stored = result == Partition::Result::kStored;
    if (stored) TellWatchers(i);
    batch_.Answer(lane_.refs[i], WireOp::kSet,
                  stored                                   ? WireStatus::kOk
                  : result == Partition::Result::kNoMemory ? WireStatus::kNoMemory
                                                           : WireStatus::kTooLarge,
                  {});
  }
  void Deleted(size_t i, bool deleted) {
    if (deleted) TellWatchers(i);
    batch_.Answer(lane_.refs[i], WireOp::kDelete, deleted ? WireStatus::kOk : WireStatus::kNotFound,
                  {});
  }

 private:
  void TellWatchers(size_t i) {
    if (watch_.active()) watch_.Touch(lane_.requests[i].key);
  }
  UdpBatch& batch_;
  const Lane& lane_;
  redis::WatchTable& watch_;
};

UdpBatch::UdpBatch(KvStore* store, const UdpWelcome* facts, const UdpCookies* cookies,
                   UdpSessions* sessions, UdpStats* stats)
    : store_(store),
      facts_(facts),
      cookies_(cookies),
      sessions_(sessions),
      stats_(stats),
      bytes_(new char[kReplyBytes]),  // not touched before it is used
      end_(bytes_.get()),
      lanes_(facts->partitions) {}

void UdpBatch::Clear() {
  end_ = bytes_.get();
  promised_ = 0;
  request_count_ = 0;
  datagrams_.clear();
  replies_.clear();
  for (Lane& lane : lanes_) {
    lane.requests.clear();
    lane.refs.clear();
  }
}

// The most that the answer to a datagram takes, headers included.
size_t UdpBatch::MostAnswerBytes(const UdpHeader& header, size_t gets) {
  size_t records = header.count * UdpResponseBytes(0);
  if (gets > 0) {
    // Beyond kUdpMostReply a value is replaced by its size.
    const size_t most = kUdpMostReply + gets * UdpResponseBytes(8);
    records += std::min<size_t>(most, gets * size_t{header.reply_bytes});
  }
  return records + MostParts(records, header.reply_bytes) * sizeof(UdpHeader);
}

bool UdpBatch::HasRoom(const UdpHeader& header) const {
  return request_count_ + header.count <= kMostRequests &&
         promised_ + MostAnswerBytes(header, header.count) <= kReplyBytes;
}

bool UdpBatch::Parse(std::string_view bytes, uint16_t count) {
  commands_.clear();
  UdpRequestReader reader(bytes);
  UdpCommand command;
  while (commands_.size() < count && reader.Next(&command)) commands_.push_back(command);
  return commands_.size() == count && reader.at_end();
}

bool UdpBatch::Add(const UdpPeer& peer, std::string_view datagram, int64_t now) {
  // Of all answers but those to requests.
  if (promised_ + kUdpHelloBytes > kReplyBytes) return false;
  UdpHeader header;
  if (!ReadUdpHeader(datagram, &header)) {
    stats_->Add(UdpStats::kIgnored);
    return true;
  }
  if (header.type != UdpType::kHello && header.type != UdpType::kRequests) {
    stats_->Add(UdpStats::kIgnored);  // an answer to an answer would be answered again
    return true;
  }
  if (header.version != kUdpVersion) {
    Refuse(peer, header, UdpRefusal::kVersion);
    return true;
  }
  if (header.type == UdpType::kHello) {
    Greet(peer, header, datagram, now);
    return true;
  }
  UdpSession* session = sessions_->Find(header.session, peer, now);
  if (session == nullptr) {
    Refuse(peer, header, UdpRefusal::kNoSession);
    return true;
  }
  if (header.count == 0 || header.count > kUdpMostRequests ||
      header.reply_bytes < kUdpLeastDatagram || header.reply_bytes > kUdpMostDatagram ||
      header.reply_bytes % 8 != 0 || !UdpSession::Fits(header.sequence, header.floor)) {
    Refuse(peer, header, UdpRefusal::kMalformed);
    return true;
  }
  if (!HasRoom(header)) return false;
  AddRequests(peer, header, datagram, session);
  return true;
}

void UdpBatch::AddRequests(const UdpPeer& peer, const UdpHeader& header, std::string_view bytes,
                           UdpSession* session) {
  if (!Parse(bytes, header.count)) return Refuse(peer, header, UdpRefusal::kMalformed);
  const UdpSession::Turn turn = session->Begin(header.sequence, header.floor);
  if (turn == UdpSession::Turn::kStale) return stats_->Add(UdpStats::kStale);
  const bool repeat = turn == UdpSession::Turn::kRepeat;
  if (repeat && session->SlotOf(header.sequence).statuses.size() != header.count) {
    return Refuse(peer, header, UdpRefusal::kMalformed);  // the number of another datagram
  }
  size_t gets = 0;
  for (const UdpCommand& c : commands_) gets += c.op == WireOp::kGet ? 1 : 0;
  Datagram d{};
  d.peer = &peer;
  d.header = header;
  d.header.type = UdpType::kResponses;
  d.header.floor = 0;
  d.count = header.count;
  if (gets < header.count && !repeat) d.slot = session->Remember(header.sequence, d.count);
  const auto number = static_cast<uint32_t>(datagrams_.size());
  const int64_t now_ms = store_->now_ms();
  uint32_t first_lane = UINT32_MAX;
  datagrams_.push_back(d);
  d.apart = repeat;
  for (size_t i = 0; i < commands_.size(); ++i) {
    const UdpCommand& c = commands_[i];
    if (c.op != WireOp::kGet && repeat) continue;
    BatchRequest request;
    request.key = c.key;
    request.hash = HashKey(c.key);
    request.value = c.value;
    request.op = c.op == WireOp::kGet ? Op::kGet : c.op == WireOp::kSet ? Op::kSet : Op::kDelete;
    if (c.ttl_ms != 0 && __builtin_add_overflow(now_ms, c.ttl_ms, &request.facts.expires_ms)) {
      request.facts.expires_ms = kNoExpiry;  // it ends after all that there is
    }
    const uint32_t partition = PartitionOf(request.hash, facts_->partitions);
    if (first_lane == UINT32_MAX) first_lane = partition;
    d.apart |= partition != first_lane;
    lanes_[partition].requests.push_back(request);
    lanes_[partition].refs.push_back({number, static_cast<uint16_t>(i)});
    ++request_count_;
  }
  const size_t most = MostAnswerBytes(header, gets);
  promised_ += most;
  Datagram& added = datagrams_.back();
  added.apart = d.apart;
  if (d.apart) {
    added.part = end_;
    end_ += most;
    OpenPart(&added);
  }
  stats_->Add(UdpStats::kDatagrams);
  stats_->Add(UdpStats::kRequests, d.count);
  if (!repeat) return;
  stats_->Add(UdpStats::kRepeats);
  const std::string& statuses = session->SlotOf(header.sequence).statuses;
  for (size_t i = 0; i < commands_.size(); ++i) {
    if (commands_[i].op == WireOp::kGet) continue;
    Answer({number, static_cast<uint16_t>(i)}, commands_[i].op,
           static_cast<WireStatus>(statuses[i]), {});
  }
}

void UdpBatch::Greet(const UdpPeer& peer, UdpHeader header, std::string_view bytes, int64_t now) {
  UdpHello hello;
  // What is shorter than the answer gets none.
  if (bytes.size() < kUdpHelloBytes || !ReadUdpBody(bytes, &hello)) {
    return stats_->Add(UdpStats::kIgnored);
  }
  const uint64_t cookie = cookies_->Of(peer);
  header.count = 0;
  header.floor = 0;
  if (hello.cookie != cookie) {
    header.type = UdpType::kCookie;
    header.session = cookie;
    return AnswerHeader(peer, header);
  }
  const UdpSession* session = sessions_->Open(peer, hello.nonce, now);
  stats_->Set(UdpStats::kSessions, sessions_->size());
  if (session == nullptr) return Refuse(peer, header, UdpRefusal::kClients);
  header.type = UdpType::kWelcome;
  header.session = session->id();
  AnswerHeader(peer, header, {reinterpret_cast<const char*>(facts_), sizeof(*facts_)});
}

void UdpBatch::Refuse(const UdpPeer& peer, UdpHeader header, UdpRefusal why) {
  stats_->Add(UdpStats::kRefused);
  header.version = kUdpVersion;
  header.type = UdpType::kRefusal;
  header.count = static_cast<uint16_t>(why);
  header.floor = 0;
  AnswerHeader(peer, header);
}

void UdpBatch::AnswerHeader(const UdpPeer& peer, const UdpHeader& header, std::string_view body) {
  const size_t size = sizeof(header) + body.size();
  std::memcpy(end_, &header, sizeof(header));
  if (!body.empty()) std::memcpy(end_ + sizeof(header), body.data(), body.size());
  replies_.push_back({&peer, end_, size});
  end_ += size;
  promised_ += size;
}

// Its header is written when it is closed.
void UdpBatch::OpenPart(Datagram* d) {
  d->at = d->part + sizeof(UdpHeader);
  d->in_part = 0;
}

void UdpBatch::ClosePart(Datagram* d) {
  d->header.count = d->in_part;
  std::memcpy(d->part, &d->header, sizeof(d->header));
  replies_.push_back({d->peer, d->part, static_cast<size_t>(d->at - d->part)});
  d->part = d->at;
}

void UdpBatch::Answer(const Ref& ref, WireOp op, WireStatus status, std::string_view value) {
  Datagram& d = datagrams_[ref.datagram];
  // A client that greets anew meanwhile has emptied it.
  if (op != WireOp::kGet && d.slot != nullptr && ref.request < d.slot->statuses.size()) {
    d.slot->statuses[ref.request] = static_cast<char>(status);
  }
  if (d.part == nullptr) {
    d.part = end_;
    OpenPart(&d);
  }
  const size_t left = d.count - d.answered - 1;
  size_t size = UdpResponseBytes(value.size());
  uint64_t value_size = value.size();
  if (size > d.header.reply_bytes - sizeof(UdpHeader) ||
      d.record_bytes + size + left * UdpResponseBytes(8) > kUdpMostReply) {
    if (value.size() > 8) {
      status = WireStatus::kTooLarge;
      value = {reinterpret_cast<const char*>(&value_size), sizeof(value_size)};
      size = UdpResponseBytes(sizeof(value_size));
    }
  }
  if (static_cast<size_t>(d.at - d.part) + size > d.header.reply_bytes) {
    ClosePart(&d);
    OpenPart(&d);
  }
  WriteUdpResponse({ref.request, status, value}, d.at);
  d.at += size;
  d.record_bytes += static_cast<uint32_t>(size);
  ++d.in_part;
  if (++d.answered < d.count) return;
  ClosePart(&d);
  if (d.slot != nullptr) d.slot->pending = false;
  if (!d.apart) end_ = d.at;
}

void UdpBatch::Run() {
  if (request_count_ > 0) stats_->Add(UdpStats::kBatches);
  const CpuScope scope(CpuComponent::kStore);
  for (uint32_t p = 0; p < lanes_.size(); ++p) {
    const Lane& lane = lanes_[p];
    if (lane.requests.empty()) continue;
    Sink sink(this, lane, store_->watch_table());
    store_->RunRequests(p, lane.requests.data(), lane.requests.size(), &sink);
  }
  PULSE_DCHECK(end_ <= bytes_.get() + kReplyBytes);
}

}  // namespace pulse::kv
