// What etcd answers, or whoever answers in its place: lists of values, the values themselves, and
// what it says of a lease. Whatever it is, a cluster's members make sense, and a lease waits for a
// bounded time.
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"
#include "fuzz_input.h"
#include "services/kv/client/udp_discovery.h"
#include "services/kv/etcd/lease.h"
#include "services/kv/etcd/members.h"
#include "services/kv/etcd/values.h"

namespace {

using pulse::kv::EtcdLease;
using pulse::kv::EtcdValue;
using pulse::redis::Cluster;

constexpr size_t kMostText = 512;

// No two that serve have a slot in common, and what clients are shown is a line of words.
void CheckMembers(const std::vector<EtcdValue>& values) {
  static Cluster* const cluster = [] {
    auto* made = new Cluster(true, 2, "127.0.0.1", {0, 8191});
    made->Listen({7000, 7001});
    return made;
  }();
  const Cluster::Members before = pulse::kv::MembersOf(*cluster, {}, {});
  const Cluster::Members members =
      pulse::kv::MembersOf(*cluster, pulse::kv::NodesIn(values), before);
  for (size_t i = 0; i < members.size(); ++i) {
    const Cluster::Member& member = members[i];
    FUZZ_CHECK(member.first_slot >= 0 && member.first_slot <= member.last_slot);
    FUZZ_CHECK(member.last_slot < pulse::redis::kSlots);
    FUZZ_CHECK(member.host.find_first_of(" \r\n,") == std::string::npos);
    for (size_t j = 0; j < i && member.state == Cluster::State::kServes; ++j) {
      FUZZ_CHECK(members[j].state != Cluster::State::kServes ||
                 !members[j].slots().Overlaps(member.slots()));
    }
  }
  cluster->SetMembers(members);
  cluster->OwnerOf(0);
  for (const EtcdValue& value : values) {
    const std::string endpoint = pulse::kv::UdpEndpointIn(value.text);
    FUZZ_CHECK(endpoint.empty() || endpoint.find(':') != std::string::npos);
  }
}

// A lease, each of whose requests gets the next line.
void KeepLease(const std::vector<std::string>& replies) {
  size_t next = 0;
  EtcdLease lease("fuzz", {{"key", "value"}}, 5,
                  [&](std::string_view, const std::string& body) -> absl::StatusOr<std::string> {
                    FUZZ_CHECK(body.size() < kMostText);
                    if (next == replies.size()) return absl::UnavailableError("no more");
                    return replies[next++];
                  });
  for (size_t i = 0; i <= replies.size() && i < 32; ++i) {
    const int64_t wait = lease.Step();
    FUZZ_CHECK(wait >= 0 && wait <= 24 * 60 * 60 * 1000);
  }
  lease.Revoke().IgnoreError();  // nobody listens
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input in(data, size);
  const uint8_t kind = in.Byte() % 3;
  const std::string text = in.Rest();
  if (kind == 0) {
    if (const auto values = pulse::kv::EtcdValuesIn(text); values.ok()) CheckMembers(*values);
    return 0;
  }
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  if (kind == 1) {
    std::vector<EtcdValue> values;
    for (const std::string& line : lines) {
      values.push_back({line, static_cast<int64_t>(values.size() % 4)});
    }
    CheckMembers(values);
  } else {
    KeepLease(lines);
  }
  return 0;
}
