// A client of `pulse kv --udp-port` in one screen: single requests, and many under way.
//
//   pulse kv --udp-port 7000 --threads 2 &
//   kv_udp_example 127.0.0.1:7000
//
// or, where the server registers itself in etcd (--etcd http://127.0.0.1:2379):
//
//   kv_udp_example http://127.0.0.1:2379
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "pulse/kv_udp_client.h"

using pulse::KvUdpClient;
using pulse::KvUdpCode;
using pulse::KvUdpCompletion;

namespace {

constexpr uint64_t kMany = 100'000;

void Check(const char* what, const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "kv_udp_example: %s: %s\n", what, status.ToString().c_str());
  std::exit(1);
}

// Each completion brings back the tag of its request. Those of the first round are the numbers'
// sets, those of the second one the gets.
void Pipeline(KvUdpClient* client) {
  std::array<KvUdpCompletion, 64> done;
  for (const bool set : {true, false}) {
    uint64_t next = 0;
    uint64_t sum = 0;
    for (uint64_t finished = 0; finished < kMany;) {
      while (next < kMany) {
        const std::string key = "number:" + std::to_string(next);
        const absl::Status status = set ? client->SubmitSet(key, std::to_string(next), 0, next)
                                        : client->SubmitGet(key, next);
        if (absl::IsResourceExhausted(status)) break;  // take completions, then go on
        Check("submit", status);
        ++next;
      }
      const size_t count = client->Wait(absl::MakeSpan(done), 10'000);
      if (count == 0) Check("wait", absl::DeadlineExceededError("nothing comes"));
      for (size_t i = 0; i < count; ++i) {
        if (done[i].code != KvUdpCode::kOk) {
          std::fprintf(stderr, "kv_udp_example: request %" PRIu64 " has code %d\n", done[i].tag,
                       static_cast<int>(done[i].code));
          std::exit(1);
        }
        sum += set ? done[i].tag : std::stoull(std::string(done[i].value));
      }
      finished += count;
    }
    std::printf("%s %" PRIu64 " numbers, whose sum is %" PRIu64 "\n", set ? "wrote" : "read", kMany,
                sum);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: kv_udp_example HOST:PORT | http://ETCD:PORT\n");
    return 2;
  }
  pulse::KvUdpOptions options;
  if (std::string_view(argv[1]).starts_with("http")) {
    options.etcd = argv[1];
  } else {
    options.endpoints.emplace_back(argv[1]);
  }
  options.timeout_ms = 10'000;
  const auto opened = KvUdpClient::Open(options);
  Check("open", opened.status());
  KvUdpClient& client = **opened;
  for (uint32_t p = 0; p < client.partitions(); ++p) {
    std::printf("partition %u is at %s\n", p, client.EndpointOf(p).c_str());
  }

  // One request, and its answer. The item ends in a minute.
  Check("set", client.Set("city", "Lisbon", 60'000));
  std::string value;
  Check("get", client.Get("city", &value));
  std::printf("city = %s\n", value.c_str());
  if (absl::IsNotFound(client.Get("country", &value))) std::printf("no country\n");
  Check("delete", client.Delete("city"));

  Pipeline(opened->get());
  return 0;
}
