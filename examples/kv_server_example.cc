// A program that serves its in-memory store: it reads and writes items by calls, while clients of
// Redis and memcached use the same ones.
//
//   kv_server_example                      an example of each call
//   kv_server_example --serve PORT &       until SIGTERM or SIGINT; redis-cli -p PORT get greeting
//   kv_server_example --measure ITEMS      the speed of batches of 32 in this process
#include <signal.h>

#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pulse/kv_server.h"

namespace {

constexpr size_t kBatch = 32;

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "kv_server_example: %s\n", status.ToString().c_str());
  std::exit(1);
}

std::unique_ptr<pulse::KvServer> Start(const pulse::KvServerOptions& options) {
  auto server = pulse::KvServer::Start(options);
  Check(server.status());
  std::printf("serves on port %d\n", (*server)->port());
  std::fflush(stdout);
  return *std::move(server);
}

void UseEachCall(pulse::KvServer* server) {
  Check(server->Set("greeting", "hello"));
  Check(server->Set("session:17", "of a minute", {.ttl_ms = 60'000}));
  std::string value;
  Check(server->Get("greeting", &value));
  std::printf("greeting: %s\n", value.c_str());
  const auto sum = server->Increment("visits");  // as a client's INCR visits
  Check(sum.status());
  std::printf("visits: %" PRId64 "\n", *sum);

  // Keys of a batch cost a fraction of single calls. Values are seen where they lie.
  const std::vector<pulse::KvPair> pairs = {{"a", "1"}, {"b", "2"}, {"c", "3"}};
  Check(server->SetBatch(pairs));
  const std::vector<std::string_view> keys = {"a", "b", "none"};
  Check(server->GetBatch(keys, [&](size_t i, std::optional<std::string_view> found) {
    std::printf("%s: %s\n", std::string(keys[i]).c_str(),
                std::string(found.value_or("(none)")).c_str());
  }));
  Check(server->DeleteBatch(keys));
}

// Random keys of 8 bytes with values of 8, by one thread.
void Measure(uint64_t items) {
  const auto server = Start({.memory_bytes = (uint64_t{128} << 20) + items * 64});
  std::array<uint64_t, kBatch> numbers;
  std::array<std::string_view, kBatch> keys;
  std::array<pulse::KvPair, kBatch> pairs;
  for (size_t i = 0; i < kBatch; ++i) {
    keys[i] = {reinterpret_cast<const char*>(&numbers[i]), sizeof(numbers[i])};
    pairs[i] = {keys[i], keys[i]};
  }
  for (uint64_t next = 0; next < items;) {
    for (uint64_t& number : numbers) number = next++ % items;
    Check(server->SetBatch(pairs));
  }
  for (const bool set : {false, true}) {
    uint64_t random = 1;
    uint64_t sum = 0;  // so that the values are read
    const uint64_t batches = uint64_t{16'000'000} / kBatch;
    const auto begin = std::chrono::steady_clock::now();
    for (uint64_t batch = 0; batch < batches; ++batch) {
      for (uint64_t& number : numbers) {
        random = random * 6364136223846793005 + 1442695040888963407;
        number = (random >> 32) * items >> 32;
      }
      if (set) {
        Check(server->SetBatch(pairs));
        continue;
      }
      Check(server->GetBatch(keys, [&](size_t, std::optional<std::string_view> found) {
        uint64_t value = 0;
        if (found.has_value()) std::memcpy(&value, found->data(), sizeof(value));
        sum += value;
      }));
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%s, batches of %zu: %.1f million/s (%" PRIu64 ")\n", set ? "SET" : "GET", kBatch,
                static_cast<double>(batches * kBatch) / took.count() / 1e6, sum);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc == 3 ? argv[1] : "";
  if ((argc != 1 && mode != "--serve" && mode != "--measure") ||
      (argc == 3 && std::atol(argv[2]) < 1)) {
    std::fprintf(stderr, "usage: %s [--serve PORT | --measure ITEMS]\n", argv[0]);
    return 2;
  }
  if (mode == "--measure") {
    Measure(std::strtoull(argv[2], nullptr, 10));
    return 0;
  }
  // The server takes no signals: these are the program's to wait for.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  pulse::KvServerOptions options;
  options.memory_bytes = uint64_t{64} << 20;
  if (mode == "--serve") options.port = static_cast<uint16_t>(std::atoi(argv[2]));
  const auto server = Start(options);
  UseEachCall(server.get());
  int signal = 0;
  if (mode == "--serve") sigwait(&ends, &signal);
  return 0;
}
