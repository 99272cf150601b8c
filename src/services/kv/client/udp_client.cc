#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/errors.h"
#include "pulse/kv_udp_client.h"
#include "services/kv/client/udp_discovery.h"
#include "services/kv/client/udp_endpoint.h"
#include "services/kv/core/hash.h"

namespace pulse {
namespace kv {
namespace {

// Full datagrams that are sent together.
constexpr size_t kTogether = 8;
// When one server has answered, others that were named have so long to do so, too.
constexpr int64_t kOthersNanos = 250 * kUdpMillisecond;

absl::Status Check(const KvUdpOptions& o) {
  if (o.etcd.empty() == o.endpoints.empty()) {
    return absl::InvalidArgumentError("give etcd's URL or endpoints, one of both");
  }
  if (o.datagram_bytes < kUdpLeastDatagram || o.datagram_bytes > kUdpMostDatagram) {
    return absl::InvalidArgumentError(absl::StrCat("datagram_bytes ", o.datagram_bytes, ": ",
                                                   kUdpLeastDatagram, " to ", kUdpMostDatagram));
  }
  if (o.datagram_requests < 1 || o.datagram_requests > kUdpMostRequests) {
    return absl::InvalidArgumentError(
        absl::StrCat("datagram_requests ", o.datagram_requests, ": 1 to ", kUdpMostRequests));
  }
  if (o.window < 1 || o.window > kUdpWindow) {
    return absl::InvalidArgumentError(absl::StrCat("window ", o.window, ": 1 to ", kUdpWindow));
  }
  if (o.timeout_ms < 1 || o.timeout_ms > kUdpMostTimeoutMs || o.retry_ms < 1 ||
      o.retry_ms > kUdpMostTimeoutMs) {
    return absl::InvalidArgumentError(
        absl::StrCat("timeout_ms and retry_ms: 1 to ", kUdpMostTimeoutMs));
  }
  return absl::OkStatus();
}

uint64_t DrawNonce() {
  uint64_t nonce = 0;
  while (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce)) continue;
  return nonce;
}

class UdpClient final : public KvUdpClient {
 public:
  explicit UdpClient(const KvUdpOptions& options) : options_(options) {
    options_.datagram_bytes &= ~7U;
  }

  absl::Status Connect() {
    const int64_t deadline = NowNanos() + options_.timeout_ms * kUdpMillisecond;
    std::vector<std::string> names = options_.endpoints;
    if (!options_.etcd.empty()) {
      PULSE_ASSIGN_OR_RETURN(
          names, FindUdpServers(options_.etcd, options_.etcd_prefix, options_.timeout_ms));
    }
    for (const std::string& name : names) {
      PULSE_ASSIGN_OR_RETURN(const auto address, net::ParseAddress(name));
      if (address.is_unix()) {
        return absl::InvalidArgumentError(absl::StrCat(name, ": expected HOST:PORT"));
      }
      PULSE_RETURN_IF_ERROR(AddEndpoint(address));
    }
    PULSE_RETURN_IF_ERROR(Greet(deadline, /*all=*/false));
    return OpenPartitions(deadline);
  }

  size_t set_bytes() const override {
    return options_.datagram_bytes - sizeof(UdpHeader) - sizeof(UdpRequest) - 8;
  }
  size_t get_bytes() const override {
    return options_.datagram_bytes - sizeof(UdpHeader) - sizeof(UdpResponse);
  }

  absl::Status SubmitGet(std::string_view key, uint64_t tag) override {
    return Submit({WireOp::kGet, key, {}, 0}, tag);
  }
  absl::Status SubmitSet(std::string_view key, std::string_view value, int64_t ttl_ms,
                         uint64_t tag) override {
    if (ttl_ms < 0) return absl::InvalidArgumentError("a negative time to live");
    return Submit({WireOp::kSet, key, value, ttl_ms}, tag);
  }
  absl::Status SubmitDelete(std::string_view key, uint64_t tag) override {
    return Submit({WireOp::kDelete, key, {}, 0}, tag);
  }

  void Flush() override {
    const int64_t now = NowNanos();
    for (const auto& e : endpoints_) e->Send(now, true);
  }
  size_t Poll(absl::Span<KvUdpCompletion> completions) override;
  size_t Wait(absl::Span<KvUdpCompletion> completions, int64_t timeout_ms) override;
  size_t outstanding() const override {
    size_t sum = ended_.size();
    for (const auto& e : endpoints_) sum += e->outstanding();
    return sum;
  }

  KvUdpStats stats() const override {
    KvUdpStats sum;
    for (const auto& e : endpoints_) {
      const KvUdpStats& s = e->stats();
      sum.datagrams += s.datagrams;
      sum.resent += s.resent;
      sum.answers += s.answers;
      sum.ignored += s.ignored;
      sum.timeouts += s.timeouts;
    }
    return sum;
  }
  uint32_t partitions() const override { return static_cast<uint32_t>(endpoints_.size()); }
  uint32_t PartitionOf(std::string_view key) const override {
    return kv::PartitionOf(HashKey(key, hash_seed_), partitions());
  }
  const std::string& EndpointOf(uint32_t partition) const override {
    return endpoints_[partition]->name();
  }

 private:
  absl::Status AddEndpoint(const net::Address& address) {
    PULSE_ASSIGN_OR_RETURN(UniqueFd socket, ConnectUdp(address));
    endpoints_.push_back(std::make_unique<UdpEndpoint>(options_, address.ToString(),
                                                       std::move(socket), DrawNonce()));
    return absl::OkStatus();
  }
  absl::Status Greet(int64_t deadline, bool all);
  absl::Status NobodyAnswers() const;
  absl::Status OpenPartitions(int64_t deadline);
  absl::Status Submit(const UdpCommand& command, uint64_t tag);
  void WaitForDatagrams(int64_t until);
  void Lose();
  // Of the endpoint whose datagrams are in the receiver.
  size_t TakeReceived(int64_t now, absl::Span<KvUdpCompletion> completions, size_t count);

  KvUdpOptions options_;
  uint64_t hash_seed_ = 0;
  std::vector<std::unique_ptr<UdpEndpoint>> endpoints_;
  UdpReceiver receiver_;
  UdpEndpoint* receiving_ = nullptr;
  bool reading_ = false;               // ... has responses to give out
  size_t next_ = 0;                    // endpoint to receive from
  std::deque<KvUdpCompletion> ended_;  // without an answer
  std::vector<pollfd> fds_;
  bool lost_ = false;
};

void UdpClient::WaitForDatagrams(int64_t until) {
  fds_.clear();
  for (const auto& e : endpoints_) fds_.push_back({e->socket(), POLLIN, 0});
  const int64_t nanos = std::max<int64_t>(0, until - NowNanos());
  const timespec wait = {nanos / 1'000'000'000, nanos % 1'000'000'000};
  ppoll(fds_.data(), fds_.size(), &wait, nullptr);  // what interrupts it does no harm
}

absl::Status UdpClient::NobodyAnswers() const {
  std::vector<std::string> names;
  for (const auto& e : endpoints_) {
    if (e->state() == UdpEndpoint::State::kOpen) continue;
    names.push_back(e->name());
    if (e->refusal() == UdpRefusal::kVersion) {
      return absl::FailedPreconditionError(
          absl::StrCat("the server at ", e->name(),
                       " speaks another version; take client and server of one release"));
    }
    if (e->refusal() == UdpRefusal::kClients) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the server at ", e->name(), " has as many clients as it takes; raise --udp-clients"));
    }
  }
  return absl::UnavailableError(absl::StrCat("no answer from ", absl::StrJoin(names, ", "),
                                             " within ", options_.timeout_ms,
                                             " ms; is it the UDP port of a pulse kv --udp-port?"));
}

// Until one endpoint is open, and, if they are as fast, the others; or `all` are.
absl::Status UdpClient::Greet(int64_t deadline, bool all) {
  int64_t others = deadline;
  while (true) {
    const int64_t now = NowNanos();
    size_t open = 0;
    for (const auto& e : endpoints_) {
      e->Send(now, false);
      open += e->state() == UdpEndpoint::State::kOpen ? 1 : 0;
    }
    if (open == endpoints_.size()) return absl::OkStatus();
    if (open > 0 && !all) others = std::min(others, now + kOthersNanos);
    if (now >= others) return open > 0 && !all ? absl::OkStatus() : NobodyAnswers();
    WaitForDatagrams(std::min(others, now + options_.retry_ms * kUdpMillisecond));
    for (const auto& e : endpoints_) {
      while (receiver_.Receive(e->socket()) > 0) {
        const UdpPeer* peer = nullptr;
        std::string_view datagram;
        while (receiver_.Next(&peer, &datagram)) e->Take(datagram, now);
      }
      // Neither is mended by waiting, but for a table that is full.
      if (e->refusal() == UdpRefusal::kVersion) return NobodyAnswers();
    }
  }
}

// One endpoint for each partition, of one server.
absl::Status UdpClient::OpenPartitions(int64_t deadline) {
  auto candidates = std::exchange(endpoints_, {});
  std::erase_if(candidates, [](const auto& e) { return e->state() != UdpEndpoint::State::kOpen; });
  const UdpWelcome facts = candidates.front()->facts();
  for (const auto& c : candidates) {
    if (c->facts().boot == facts.boot && c->facts().partitions == facts.partitions) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(candidates.front()->name(), " and ", c->name(),
                     " are different servers, each with keys of its own; name one, or give each an "
                     "--etcd-prefix"));
  }
  PULSE_ASSIGN_OR_RETURN(auto address, net::ParseAddress(candidates.front()->name()));
  hash_seed_ = facts.hash_seed;
  for (uint32_t p = 0; p < facts.partitions; ++p) {
    const auto known = std::find_if(candidates.begin(), candidates.end(), [&](const auto& c) {
      return c != nullptr && c->facts().partition == p;
    });
    if (known != candidates.end()) {
      endpoints_.push_back(std::move(*known));
      candidates.erase(known);
      continue;
    }
    address.set_port(facts.ports[p]);
    PULSE_RETURN_IF_ERROR(AddEndpoint(address));
  }
  PULSE_RETURN_IF_ERROR(Greet(deadline, /*all=*/true));
  for (const auto& e : endpoints_) {
    if (e->facts().boot == facts.boot) continue;
    return absl::UnavailableError("the server was started anew meanwhile; try again");
  }
  return absl::OkStatus();
}

absl::Status UdpClient::Submit(const UdpCommand& command, uint64_t tag) {
  if (lost_) {
    return absl::UnavailableError(
        "the server has ended; what was under way may have been carried "
        "out; open another client");
  }
  const size_t most = set_bytes();
  if (command.key.size() > UINT16_MAX || command.value.size() > most ||
      command.key.size() > most - command.value.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("key and value have ", command.key.size(), " and ", command.value.size(),
                     " bytes, and a datagram takes ", most,
                     " (a key 65535): use another protocol, or a larger datagram_bytes"));
  }
  UdpEndpoint& e = *endpoints_[PartitionOf(command.key)];
  if (!e.Submit(command, tag, e.Begins(command) ? NowNanos() : 0))
    return absl::ResourceExhaustedError("");
  if (e.unsent() >= kTogether) e.Send(NowNanos(), false);
  return absl::OkStatus();
}

void UdpClient::Lose() {
  lost_ = true;
  for (const auto& e : endpoints_) {
    e->Lose([this](const KvUdpCompletion& c) { ended_.push_back(c); });
  }
}

size_t UdpClient::TakeReceived(int64_t now, absl::Span<KvUdpCompletion> completions, size_t count) {
  const UdpPeer* peer = nullptr;
  std::string_view datagram;
  while (count < completions.size()) {
    if (reading_ && receiving_->TakeNext(&completions[count])) {
      ++count;
      continue;
    }
    if (!receiver_.Next(&peer, &datagram)) {
      reading_ = false;
      receiving_ = nullptr;
      break;
    }
    reading_ = receiving_->Take(datagram, now);
  }
  return count;
}

size_t UdpClient::Poll(absl::Span<KvUdpCompletion> completions) {
  if (completions.empty()) return 0;
  const int64_t now = NowNanos();
  // What was received and not taken comes first: it is not to be asked again.
  size_t count = receiving_ == nullptr ? 0 : TakeReceived(now, completions, 0);
  for (const auto& e : endpoints_) e->Send(now, true);
  // Values are where they were received: one receive with answers is all that a call gives out.
  for (size_t i = 0; i < endpoints_.size() && count == 0; ++i) {
    receiving_ = endpoints_[next_].get();
    next_ = (next_ + 1) % endpoints_.size();
    if (receiver_.Receive(receiving_->socket()) <= 0) {
      receiving_ = nullptr;
      continue;
    }
    count = TakeReceived(now, completions, 0);
  }
  for (const auto& e : endpoints_) {
    e->Expire(now, [this](const KvUdpCompletion& c) { ended_.push_back(c); });
    if (e->state() == UdpEndpoint::State::kOther && !lost_) Lose();
  }
  for (; count < completions.size() && !ended_.empty(); ++count) {
    completions[count] = ended_.front();
    ended_.pop_front();
  }
  return count;
}

size_t UdpClient::Wait(absl::Span<KvUdpCompletion> completions, int64_t timeout_ms) {
  if (completions.empty()) return 0;
  const int64_t until =
      NowNanos() + std::clamp<int64_t>(timeout_ms, 0, INT32_MAX) * kUdpMillisecond;
  while (true) {
    if (const size_t count = Poll(completions); count > 0) return count;
    if (outstanding() == 0 || NowNanos() >= until) return 0;
    int64_t next = until;
    for (const auto& e : endpoints_) next = std::min(next, e->NextAt());
    WaitForDatagrams(next);
  }
}

}  // namespace
}  // namespace kv

absl::StatusOr<std::unique_ptr<KvUdpClient>> KvUdpClient::Open(const KvUdpOptions& options) {
  PULSE_RETURN_IF_ERROR(kv::Check(options));
  auto client = std::make_unique<kv::UdpClient>(options);
  PULSE_RETURN_IF_ERROR(client->Connect());
  return client;
}

absl::Status KvUdpClient::Finish(absl::Status submitted, std::string* value) {
  PULSE_RETURN_IF_ERROR(submitted);
  KvUdpCompletion done;
  // It ends by itself when its time is over.
  while (Wait({&done, 1}, kv::kUdpMostTimeoutMs) == 0) {
    if (outstanding() == 0) return absl::InternalError("a request has no completion");
  }
  switch (done.code) {
    case KvUdpCode::kOk:
      if (value != nullptr) value->assign(done.value);
      return absl::OkStatus();
    case KvUdpCode::kNotFound:
      return absl::NotFoundError("");
    case KvUdpCode::kNoMemory:
      return absl::ResourceExhaustedError("the store is full; nothing has changed");
    case KvUdpCode::kTooLarge:
      return absl::InvalidArgumentError(
          value == nullptr
              ? "key or value is too large for the store"
              : absl::StrCat("the value has ", done.value_size, " bytes, and a datagram takes ",
                             get_bytes(), ": use another protocol, or a larger datagram_bytes"));
    case KvUdpCode::kTimeout:
      return absl::DeadlineExceededError("no answer in time; a write may have been carried out");
    case KvUdpCode::kLost:
      break;
  }
  return absl::UnavailableError(
      "the server has ended; a write may have been carried out; open another client");
}

namespace {
absl::Status NotAlone() {
  return absl::FailedPreconditionError(
      "requests are under way whose completions were not taken: take them first");
}
}  // namespace

absl::Status KvUdpClient::Get(std::string_view key, std::string* value) {
  if (outstanding() > 0) return NotAlone();
  return Finish(SubmitGet(key, 0), value);
}

absl::Status KvUdpClient::Set(std::string_view key, std::string_view value, int64_t ttl_ms) {
  if (outstanding() > 0) return NotAlone();
  return Finish(SubmitSet(key, value, ttl_ms, 0), nullptr);
}

absl::Status KvUdpClient::Delete(std::string_view key) {
  if (outstanding() > 0) return NotAlone();
  return Finish(SubmitDelete(key, 0), nullptr);
}

}  // namespace pulse
