// `pulse bench kv --part shm`: a client that shares memory with the store, by the C ABI. The
// server's thread is on the host's core, the client on the agent's; both poll.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/histogram.h"
#include "bench/macro/kv/kv_requests.h"
#include "nlohmann/json.hpp"
#include "pulse/kv_client.h"
#include "services/kv/shm/server.h"

namespace pulse::bench {
namespace {

// Longer than any pause of the client, so that the server's thread polls.
constexpr int64_t kServerSpins = 10'000'000;

struct Client {
  pulse_kv_client* client = nullptr;
  Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() { pulse_kv_close(client); }
};

absl::Status Failed(const char* what, int code) {
  return absl::InternalError(absl::StrCat(what, ": ", pulse_kv_text(code)));
}

absl::StatusOr<nlohmann::json> RunOne(const KvShape& shape, const KvRequests& requests,
                                      pulse_kv_client* client) {
  std::string value(shape.value_bytes, 'w');
  Histogram latency;
  uint64_t done = 0;
  const int64_t begin = NowNanos();
  const auto until = begin + static_cast<int64_t>(shape.seconds * 1e9);
  int64_t before = begin;
  while (before < until) {
    size_t size = 0;
    const char* key = requests.key(done);
    const bool set = requests.set(done);
    if (set) requests.WriteValue(done, &value);
    const int code =
        set ? pulse_kv_set(client, key, shape.key_bytes, value.data(), value.size(), 0)
            : pulse_kv_get(client, key, shape.key_bytes, value.data(), value.size(), &size);
    if (code != PULSE_KV_OK) return Failed("a request", code);
    if (!set && !requests.Fits(done, value.data(), size)) {
      return absl::InternalError("a value is wrong");
    }
    ++done;
    const int64_t now = NowNanos();
    latency.Record(static_cast<uint64_t>(now - before));
    before = now;
  }
  return nlohmann::json{
      {"ops_per_s", static_cast<double>(done) / (static_cast<double>(before - begin) / 1e9)},
      {"p50_us", static_cast<double>(latency.ValueAtPercentile(50)) / 1e3},
      {"p99_us", static_cast<double>(latency.ValueAtPercentile(99)) / 1e3}};
}

absl::StatusOr<nlohmann::json> RunPipelined(const KvShape& shape, const KvRequests& requests,
                                            pulse_kv_client* client) {
  std::string value(shape.value_bytes, 'w');
  std::array<pulse_kv_completion, 256> completions;
  uint64_t submitted = 0;
  uint64_t done = 0;
  uint64_t wrong = 0;
  const int64_t begin = NowNanos();
  const auto until = begin + static_cast<int64_t>(shape.seconds * 1e9);
  int64_t now = begin;
  for (uint64_t round = 1; now < until; ++round) {
    for (size_t i = 0; i < shape.batch; ++i) {
      const char* key = requests.key(submitted);
      const bool set = requests.set(submitted);
      if (set) requests.WriteValue(submitted, &value);
      const int code = set ? pulse_kv_submit_set(client, key, shape.key_bytes, value.data(),
                                                 value.size(), 0, submitted)
                           : pulse_kv_submit_get(client, key, shape.key_bytes, submitted);
      if (code == PULSE_KV_BUSY) break;
      if (code != PULSE_KV_OK) return Failed("a request", code);
      ++submitted;
    }
    size_t count = 0;
    if (const int code = pulse_kv_poll(client, completions.data(), completions.size(), &count);
        code != PULSE_KV_OK) {
      return Failed("polling", code);
    }
    // One partition: in the order of the requests.
    for (size_t i = 0; i < count; ++i) {
      const pulse_kv_completion& c = completions[i];
      const bool right = c.code == PULSE_KV_OK && c.tag == done + i &&
                         (requests.set(c.tag) || requests.Fits(c.tag, c.value, c.value_size));
      wrong += right ? 0 : 1;
    }
    done += count;
    if (round % 64 == 0) now = NowNanos();
  }
  if (wrong > 0) return absl::InternalError(absl::StrCat(wrong, " completions were wrong"));
  return nlohmann::json{
      {"ops_per_s", static_cast<double>(done) / (static_cast<double>(now - begin) / 1e9)}};
}

}  // namespace

absl::StatusOr<nlohmann::json> RunKvShm(const KvShape& shape) {
  PULSE_ASSIGN_OR_RETURN(auto store, OpenKvStore(shape));
  const std::string path = absl::StrCat("/tmp/pulse-bench-kv-", getpid(), ".shm");
  PULSE_ASSIGN_OR_RETURN(auto server, kv::ShmServer::Open(store.get(), {.path = path,
                                                                        .spin_nanos = kServerSpins,
                                                                        .cpus = shape.host_cpus}));
  PULSE_RETURN_IF_ERROR(SetThreadAffinity(shape.agent_cpus));
  const KvRequests requests(shape);
  Client client;
  std::array<char, 256> why;
  if (pulse_kv_open(path.c_str(), 10'000, &client.client, why.data(), why.size()) != PULSE_KV_OK) {
    return absl::InternalError(why.data());
  }
  return shape.design == "shm-one" ? RunOne(shape, requests, client.client)
                                   : RunPipelined(shape, requests, client.client);
}

}  // namespace pulse::bench
