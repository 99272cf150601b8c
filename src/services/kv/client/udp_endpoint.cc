#include "services/kv/client/udp_endpoint.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pulse::kv {
namespace {

constexpr int kMostDoublings = 4;

const std::string& NoRecords() {
  static const std::string none(sizeof(UdpHeader), '\0');
  return none;
}

}  // namespace

UdpEndpoint::UdpEndpoint(const KvUdpOptions& options, std::string name, UniqueFd socket,
                         uint64_t nonce)
    : options_(options),
      name_(std::move(name)),
      socket_(std::move(socket)),
      nonce_(nonce),
      jitter_(static_cast<uint32_t>(nonce) | 1),
      reader_(NoRecords()) {
  building_.bytes = NoRecords();
}

// A quarter more or less, so that clients which lost datagrams together do not repeat them
// together.
int64_t UdpEndpoint::WaitFor(int sends) const {
  const int64_t first = std::max(options_.retry_ms * kUdpMillisecond, 4 * smoothed_);
  const int64_t wait = first << std::min(sends - 1, kMostDoublings);
  const uint32_t mixed = (jitter_ + static_cast<uint32_t>(sends)) * 2654435761U;
  return wait * 3 / 4 + wait / 2 * (mixed >> 16) / 65536;
}

bool UdpEndpoint::HasSlot() const {
  return next_ - floor_ < std::min(options_.window, facts_.window) &&
         !flights_[next_ % kUdpWindow].in_use;
}

bool UdpEndpoint::Fits(const UdpCommand& command) const {
  const size_t size = UdpRequestBytes(command.key, command.value, command.ttl_ms);
  // More reads than the server answers together would have to be asked for again.
  const size_t answer = command.op == WireOp::kGet ? usual_answer_ : UdpResponseBytes(0);
  return building_.bytes.size() + size <= options_.datagram_bytes &&
         (building_.tags.empty() || building_answer_ + answer <= kUdpMostReply) &&
         building_.tags.size() < std::min(options_.datagram_requests, facts_.most_requests);
}

bool UdpEndpoint::Submit(const UdpCommand& command, uint64_t tag, int64_t now) {
  if (!Fits(command)) {
    if (!HasSlot()) return false;
    SealBuilding();
  }
  if (building_.tags.empty()) building_.deadline = now + options_.timeout_ms * kUdpMillisecond;
  AppendUdpRequest(command, &building_.bytes);
  building_.tags.push_back(tag);
  building_answer_ += command.op == WireOp::kGet ? usual_answer_ : UdpResponseBytes(0);
  building_.writes |= command.op != WireOp::kGet;
  ++outstanding_;
  return true;
}

// It has a number from now on. The vectors of the one that had the slot before are used again.
void UdpEndpoint::Seal(Flight* flight) {
  Flight& slot = FlightOf(next_);
  std::swap(slot, *flight);
  slot.sequence = next_++;
  flight->bytes.resize(sizeof(UdpHeader));
  flight->tags.clear();
  flight->writes = false;
  slot.answered.assign(slot.tags.size(), 0);
  slot.left = slot.tags.size();
  slot.sends = 0;
  slot.next_at = 0;
  slot.in_use = true;
  ++unsent_;
  ++jitter_;
}

void UdpEndpoint::SealBuilding() {
  Seal(&building_);
  building_answer_ = 0;
}

// As many as may be answered together; the first one is.
void UdpEndpoint::SealAgain() {
  Flight flight;
  flight.bytes = NoRecords();
  flight.deadline = INT64_MAX;
  const size_t most = std::min(options_.datagram_requests, facts_.most_requests);
  size_t answer = 0;
  while (!again_.empty() && flight.tags.size() < most) {
    const Again& again = again_.front();
    answer += again.answer_bytes;
    if (!flight.tags.empty() &&
        (answer > kUdpMostReply ||
         flight.bytes.size() + again.record.size() > options_.datagram_bytes)) {
      break;
    }
    flight.bytes += again.record;
    flight.tags.push_back(again.tag);
    flight.deadline = std::min(flight.deadline, again.deadline);
    again_.pop_front();
  }
  Seal(&flight);
}

void UdpEndpoint::SendFlight(Flight* flight, uint64_t sequence, int64_t now) {
  if (flight->sends == 0) {
    flight->sent_at = now;
    --unsent_;
    ++stats_.datagrams;
  } else {
    ++stats_.resent;
  }
  UdpHeader h{};
  h.magic = kUdpMagic;
  h.version = kUdpVersion;
  h.type = UdpType::kRequests;
  h.count = static_cast<uint16_t>(flight->tags.size());
  h.session = session_;
  h.sequence = sequence;
  h.floor = floor_;
  h.stamp = flight->sent_at;
  h.reply_bytes = options_.datagram_bytes;
  std::memcpy(flight->bytes.data(), &h, sizeof(h));
  flight->next_at = now + WaitFor(++flight->sends);
  sender_.Add(&connected_, flight->bytes.data(), flight->bytes.size());
}

void UdpEndpoint::SendHello(int64_t now) {
  UdpHeader h{};
  h.magic = kUdpMagic;
  h.version = kUdpVersion;
  h.type = UdpType::kHello;
  h.sequence = nonce_;
  h.stamp = now;
  h.reply_bytes = options_.datagram_bytes;
  const UdpHello hello{nonce_, cookie_};
  hello_.assign(kUdpHelloBytes, '\0');
  std::memcpy(hello_.data(), &h, sizeof(h));
  std::memcpy(hello_.data() + sizeof(h), &hello, sizeof(hello));
  hello_at_ = now + WaitFor(++hellos_);
  sender_.Add(&connected_, hello_.data(), hello_.size());
}

void UdpEndpoint::Send(int64_t now, bool flush) {
  if (state_ == State::kGreeting) {
    if (now >= hello_at_) SendHello(now);
  } else if (state_ == State::kOpen) {
    while (!again_.empty() && HasSlot()) SealAgain();
    if (flush && collecting() && HasSlot()) SealBuilding();
    for (uint64_t s = floor_; s < next_; ++s) {
      Flight& flight = FlightOf(s);
      if (flight.in_use && now >= flight.next_at) SendFlight(&flight, s, now);
    }
  }
  sender_.Send(socket_.get());  // what is lost is sent again
}

int64_t UdpEndpoint::NextAt() const {
  int64_t at = INT64_MAX;
  if (outstanding_ > 0 && state_ == State::kGreeting) at = hello_at_;
  if (collecting()) at = std::min(at, building_.deadline);
  for (const Again& a : again_) at = std::min(at, a.deadline);
  for (const Flight& f : flights_) {
    if (!f.in_use) continue;
    at = std::min(at, f.deadline);
    if (state_ == State::kOpen) at = std::min(at, f.next_at);
  }
  return at;
}

void UdpEndpoint::Advance() {
  while (floor_ < next_ && !FlightOf(floor_).in_use) ++floor_;
}

void UdpEndpoint::End(Flight* flight, KvUdpCode code, Complete complete) {
  for (size_t i = 0; i < flight->tags.size(); ++i) {
    if (!flight->answered.empty() && flight->answered[i] != 0) continue;
    --outstanding_;
    if (code == KvUdpCode::kTimeout) ++stats_.timeouts;
    complete({.tag = flight->tags[i], .code = code});
  }
  if (flight->in_use && flight->sends == 0) --unsent_;
  flight->in_use = false;
}

// Of those whose time is over at `until`.
void UdpEndpoint::EndAll(KvUdpCode code, int64_t until, Complete complete) {
  for (uint64_t s = floor_; s < next_; ++s) {
    Flight& flight = FlightOf(s);
    if (flight.in_use && flight.deadline <= until) End(&flight, code, complete);
  }
  Advance();
  if (collecting() && building_.deadline <= until) {
    building_.answered.clear();
    End(&building_, code, complete);
    building_.bytes.resize(sizeof(UdpHeader));
    building_.tags.clear();
    building_.writes = false;
    building_answer_ = 0;
  }
  // They lie in the order of their answers. All are taken before anybody is told: `complete` may
  // ask for more.
  std::vector<uint64_t> over;
  std::erase_if(again_, [&](const Again& a) {
    if (a.deadline > until) return false;
    over.push_back(a.tag);
    return true;
  });
  for (const uint64_t tag : over) {
    --outstanding_;
    if (code == KvUdpCode::kTimeout) ++stats_.timeouts;
    complete({.tag = tag, .code = code});
  }
}

void UdpEndpoint::Expire(int64_t now, Complete complete) {
  EndAll(KvUdpCode::kTimeout, now, complete);
}

void UdpEndpoint::Lose(Complete complete) { EndAll(KvUdpCode::kLost, INT64_MAX, complete); }

void UdpEndpoint::TakeWelcome(const UdpHeader& header, std::string_view datagram) {
  UdpWelcome w;
  const bool sound =
      ReadUdpBody(datagram, &w) && w.partitions >= 1 && w.partitions <= kUdpMostPartitions &&
      w.partition < w.partitions && w.window >= 1 && w.window <= kUdpWindow &&
      w.most_requests >= 1 && w.most_requests <= kUdpMostRequests && w.boot != 0 &&
      std::all_of(w.ports, w.ports + w.partitions, [](uint16_t p) { return p != 0; });
  if (!sound) {
    ++stats_.ignored;
    return;
  }
  if (facts_.boot != 0 && facts_.boot != w.boot) {
    state_ = State::kOther;
    return;
  }
  state_ = State::kOpen;
  facts_ = w;
  session_ = header.session;
  // The session before is gone, and none of these had been carried out in it (wire.h: a session
  // that is given away was idle for longer than a request waits), unless it is another address's.
  for (uint64_t s = floor_; s < next_; ++s) {
    Flight& flight = FlightOf(s);
    const bool unknown = has_moved_ && flight.writes && flight.sends > 0;
    flight.next_at = unknown ? INT64_MAX : 0;
    if (unknown) flight.deadline = 0;
  }
  has_moved_ = false;
}

void UdpEndpoint::TakeRefusal(const UdpHeader& header, int64_t now) {
  const auto why = static_cast<UdpRefusal>(header.count);
  if (state_ == State::kGreeting && header.sequence == nonce_) {
    refusal_ = why;
  } else if (state_ == State::kOpen && header.session == session_ &&
             why == UdpRefusal::kNoSession) {
    state_ = State::kGreeting;
    hello_at_ = 0;
    hellos_ = 0;
    // A session is given away once it was idle. Before that it is there, and this client has
    // another address now: what was sent in it may have been carried out.
    has_moved_ = now - heard_at_ < kUdpIdleNanos;
  } else {
    ++stats_.ignored;
  }
}

bool UdpEndpoint::Take(std::string_view datagram, int64_t now) {
  UdpHeader h;
  if (!ReadUdpHeader(datagram, &h) || h.version != kUdpVersion) {
    ++stats_.ignored;
    return false;
  }
  const bool greets = state_ == State::kGreeting && h.sequence == nonce_;
  switch (h.type) {
    case UdpType::kCookie:
      if (greets && cookie_ != h.session) {
        cookie_ = h.session;
        hello_at_ = 0;
        hellos_ = 0;
      }
      return false;
    case UdpType::kWelcome:
      if (greets) TakeWelcome(h, datagram);
      if (greets && state_ == State::kOpen) heard_at_ = now;
      return false;
    case UdpType::kRefusal:
      TakeRefusal(h, now);
      return false;
    case UdpType::kResponses:
      break;
    default:
      ++stats_.ignored;
      return false;
  }
  Flight* flight = h.sequence >= floor_ && h.sequence < next_ ? &FlightOf(h.sequence) : nullptr;
  if (h.session != session_ || flight == nullptr || !flight->in_use || flight->sends == 0 ||
      h.stamp != flight->sent_at) {
    ++stats_.ignored;
    return false;
  }
  ++stats_.answers;
  heard_at_ = now;
  // An answer to a repeat may be that to the first one.
  if (flight->sends == 1) {
    const int64_t took = now - flight->sent_at;
    smoothed_ = smoothed_ == 0 ? took : smoothed_ + (took - smoothed_) / 8;
  }
  reader_ = UdpResponseReader(datagram);
  reading_ = h.sequence;
  read_at_ = now;
  return true;
}

// One of several requests: alone, it may have all of an answer.
bool UdpEndpoint::MayFitAlone(const Flight& flight, const UdpAnswer& answer,
                              uint64_t value_size) const {
  return answer.status == WireStatus::kTooLarge && answer.value.size() == 8 &&
         flight.tags.size() > 1 &&
         value_size <= options_.datagram_bytes - sizeof(UdpHeader) - sizeof(UdpResponse);
}

void UdpEndpoint::AskAgain(const Flight& flight, size_t request, uint64_t value_size) {
  UdpRequestReader reader(flight.bytes);
  UdpCommand command;
  for (size_t i = 0; i <= request; ++i) reader.Next(&command);
  Again again{{}, flight.tags[request], flight.deadline, UdpResponseBytes(value_size)};
  AppendUdpRequest(command, &again.record);
  again_.push_back(std::move(again));
}

bool UdpEndpoint::TakeNext(KvUdpCompletion* completion) {
  UdpAnswer answer;
  while (reader_.Next(&answer)) {
    Flight& flight = FlightOf(reading_);
    // It may have ended since, and another one have its slot.
    if (!flight.in_use || flight.sequence != reading_ || answer.request >= flight.tags.size() ||
        flight.answered[answer.request] != 0) {
      ++stats_.ignored;
      continue;
    }
    flight.answered[answer.request] = 1;
    const bool last = --flight.left == 0;
    uint64_t value_size = answer.value.size();
    if (answer.status == WireStatus::kTooLarge && answer.value.size() == 8) {
      std::memcpy(&value_size, answer.value.data(), 8);
    }
    // Sizes change slowly, and one large value is to count soon.
    if (!answer.value.empty()) {
      const size_t size = UdpResponseBytes(std::min<uint64_t>(value_size, kUdpMostDatagram));
      usual_answer_ = size > usual_answer_ ? (usual_answer_ + size + 1) / 2
                                           : usual_answer_ - (usual_answer_ - size) / 64;
    }
    const bool again = MayFitAlone(flight, answer, value_size);
    if (again) {
      AskAgain(flight, answer.request, value_size);
    } else {
      --outstanding_;
      const bool ok = answer.status == WireStatus::kOk;
      *completion = {.tag = flight.tags[answer.request],
                     .code = static_cast<KvUdpCode>(answer.status),
                     .value = ok ? answer.value : std::string_view(),
                     .value_size = ok || answer.status == WireStatus::kTooLarge ? value_size : 0,
                     .nanos = read_at_ - flight.sent_at};
    }
    if (last) {
      flight.in_use = false;
      Advance();
    }
    if (!again) return true;
  }
  return false;
}

}  // namespace pulse::kv
