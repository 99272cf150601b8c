// `pulse bench kv --part udp`: a client that sends datagrams over loopback, through the kernel's
// sockets both ways. The server's thread is on the host's core, the client on the agent's. The
// server sleeps when nothing has come; the client polls.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/histogram.h"
#include "bench/macro/kv/kv_requests.h"
#include "nlohmann/json.hpp"
#include "pulse/kv_udp_client.h"
#include "services/kv/udp/server.h"

namespace pulse::bench {
namespace {

int64_t ProcessCpuNanos() { return ClockNanos(CLOCK_PROCESS_CPUTIME_ID); }

class UdpRun {
 public:
  UdpRun(const KvShape& shape, const KvRequests& requests, KvUdpClient* client)
      : shape_(shape), requests_(requests), client_(*client), value_(shape.value_bytes, 'w') {}

  // As many as are taken, or `rate` a second, each from when it is due.
  absl::StatusOr<nlohmann::json> Run() {
    const int64_t begin = NowNanos();
    const int64_t cpu = ProcessCpuNanos();
    const int64_t own_cpu = ThreadCpuNanos();
    const auto until = begin + static_cast<int64_t>(shape_.seconds * 1e9);
    int64_t now = begin;
    while (now < until || client_.outstanding() > 0) {
      uint64_t due = UINT64_MAX;
      if (shape_.rate > 0) {
        due = static_cast<uint64_t>(static_cast<double>(now - begin) * shape_.rate / 1e9);
      }
      while (now < until && submitted_ < due) {
        const absl::Status status = Submit();
        if (absl::IsResourceExhausted(status)) break;
        PULSE_RETURN_IF_ERROR(status);
      }
      const size_t count = client_.Poll(absl::MakeSpan(completions_));
      now = NowNanos();
      for (size_t i = 0; i < count; ++i) Take(completions_[i], begin, now);
    }
    if (wrong_ > 0) return absl::InternalError(absl::StrCat(wrong_, " answers were wrong"));
    const auto own = static_cast<double>(ThreadCpuNanos() - own_cpu);
    const auto done = static_cast<double>(std::max<uint64_t>(done_, 1));
    return nlohmann::json{{"ops_per_s", done / (static_cast<double>(now - begin) / 1e9)},
                          {"host_ns", (static_cast<double>(ProcessCpuNanos() - cpu) - own) / done},
                          {"client_ns", own / done},
                          {"resent", client_.stats().resent},
                          {"p50_us", static_cast<double>(latency_.ValueAtPercentile(50)) / 1e3},
                          {"p99_us", static_cast<double>(latency_.ValueAtPercentile(99)) / 1e3}};
  }

 private:
  absl::Status Submit() {
    const uint64_t i = submitted_;
    const std::string_view key(requests_.key(i), shape_.key_bytes);
    absl::Status status;
    if (requests_.set(i)) {
      requests_.WriteValue(i, &value_);
      status = client_.SubmitSet(key, value_, 0, i);
    } else {
      status = client_.SubmitGet(key, i);
    }
    if (status.ok()) ++submitted_;
    return status;
  }
  void Take(const KvUdpCompletion& c, int64_t begin, int64_t now) {
    const bool right =
        c.code == KvUdpCode::kOk &&
        (requests_.set(c.tag) || requests_.Fits(c.tag, c.value.data(), c.value.size()));
    wrong_ += right ? 0 : 1;
    ++done_;
    int64_t took = c.nanos;  // from the time stamp that the server has echoed
    if (shape_.rate > 0) {
      took = now - begin - static_cast<int64_t>(static_cast<double>(c.tag) * 1e9 / shape_.rate);
    }
    latency_.Record(static_cast<uint64_t>(std::max<int64_t>(took, 0)));
  }

  const KvShape& shape_;
  const KvRequests& requests_;
  KvUdpClient& client_;
  std::string value_;
  std::array<KvUdpCompletion, 1024> completions_;
  Histogram latency_;
  uint64_t submitted_ = 0;
  uint64_t done_ = 0;
  uint64_t wrong_ = 0;
};

}  // namespace

absl::StatusOr<nlohmann::json> RunKvUdp(const KvShape& shape) {
  PULSE_ASSIGN_OR_RETURN(auto store, OpenKvStore(shape));
  PULSE_ASSIGN_OR_RETURN(auto server,
                         kv::UdpServer::Open(store.get(), {.port = 0, .cpus = shape.host_cpus}));
  PULSE_RETURN_IF_ERROR(SetThreadAffinity(shape.agent_cpus));
  const KvRequests requests(shape);
  const std::map<std::string, std::pair<uint32_t, uint32_t>> sizes = {{"udp-1", {1432, 1}},
                                                                      {"udp-32", {8192, 32}},
                                                                      {"udp-1432", {1432, 1024}},
                                                                      {"udp-64k", {65504, 1024}}};
  const auto size = sizes.find(shape.design);
  if (size == sizes.end()) return absl::InvalidArgumentError(shape.design);
  PULSE_ASSIGN_OR_RETURN(
      auto client, KvUdpClient::Open({.endpoints = {absl::StrCat("127.0.0.1:", server->ports()[0])},
                                      .datagram_bytes = size->second.first,
                                      .datagram_requests = size->second.second,
                                      .window = shape.design == "udp-64k" ? 8u : 32u,
                                      .timeout_ms = 10'000,
                                      .retry_ms = 100}));
  return UdpRun(shape, requests, client.get()).Run();
}

}  // namespace pulse::bench
