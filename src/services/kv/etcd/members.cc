#include "services/kv/etcd/members.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "nlohmann/json.hpp"

namespace pulse::kv {
namespace {

using redis::Cluster;
using Json = nlohmann::json;
using Member = Cluster::Member;
using Members = Cluster::Members;
using State = Cluster::State;

constexpr auto kPause = std::chrono::milliseconds(500);
constexpr int64_t kTimeoutMs = 2'000;
constexpr size_t kMostHost = 255;

// -1 where there is none up to `most`.
int NumberIn(const Json& object, const char* name, int most) {
  const auto it = object.find(name);
  if (it == object.end() || !it->is_number_unsigned()) return -1;
  const auto number = it->get<uint64_t>();
  return number > static_cast<uint64_t>(most) ? -1 : static_cast<int>(number);
}

std::string TextIn(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// It is shown to clients, in lines of words.
bool IsHost(const std::string& host) {
  return !host.empty() && host.size() <= kMostHost &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '.' || c == '-' || c == ':' || c == '_';
         });
}

bool SharesSlots(const Member& member, const Members& others) {
  return std::any_of(others.begin(), others.end(),
                     [&](const Member& other) { return other.slots().Overlaps(member.slots()); });
}

bool IsIn(const std::string& id, const Members& members) {
  return std::any_of(members.begin(), members.end(),
                     [&](const Member& member) { return member.id == id; });
}

std::string TextOf(const Member& m) {
  return absl::StrCat("node ", m.id, " at ", m.host, ":", m.port, ", slots ", m.first_slot, "-",
                      m.last_slot);
}

}  // namespace

std::vector<RegisteredNode> NodesIn(const std::vector<EtcdValue>& values) {
  std::vector<RegisteredNode> nodes;
  for (const EtcdValue& value : values) {
    const Json object = Json::parse(value.text, nullptr, false);
    if (!object.is_object()) continue;
    const auto in_cluster = object.find("cluster");
    if (in_cluster == object.end() || *in_cluster != true) continue;
    RegisteredNode found;
    found.revision = value.create_revision;
    Member& node = found.node;
    node.host = TextIn(object, "host");
    const int port = NumberIn(object, "port", UINT16_MAX);
    node.first_slot = NumberIn(object, "first_slot", redis::kSlots - 1);
    node.last_slot = NumberIn(object, "last_slot", redis::kSlots - 1);
    if (!IsHost(node.host) || port <= 0 || node.first_slot < 0 ||
        node.last_slot < node.first_slot || found.revision <= 0) {
      continue;
    }
    node.port = static_cast<uint16_t>(port);
    // Not what the value says, so that no node goes under another one's name.
    node.id = redis::NodeIdOf(node.host, node.port);
    nodes.push_back(std::move(found));
  }
  return nodes;
}

Members MembersOf(const Cluster& cluster, const std::vector<RegisteredNode>& registered,
                  const Members& known) {
  std::vector<RegisteredNode> claims;
  for (const Cluster::Node& node : cluster.nodes()) {
    // Not registered yet, or not any more: after all others.
    claims.push_back({{node, cluster.host(), State::kServes}, INT64_MAX});
  }
  for (const RegisteredNode& other : registered) {
    const auto own = std::find_if(claims.begin(), claims.end(), [&](const RegisteredNode& claim) {
      return claim.node.id == other.node.id;
    });
    if (own == claims.end()) {
      claims.push_back(other);
    } else {
      own->revision = std::min(own->revision, other.revision);
    }
  }
  std::stable_sort(
      claims.begin(), claims.end(),
      [](const RegisteredNode& a, const RegisteredNode& b) { return a.revision < b.revision; });
  Members members;
  Members superseded;
  for (RegisteredNode& claim : claims) {
    const bool late = SharesSlots(claim.node, members);
    claim.node.state = late ? State::kSuperseded : State::kServes;
    (late ? superseded : members).push_back(claim.node);
  }
  for (Member gone : known) {
    if (gone.state == State::kSuperseded || IsIn(gone.id, members) || IsIn(gone.id, superseded) ||
        SharesSlots(gone, members)) {
      continue;
    }
    gone.state = State::kFailed;
    members.push_back(std::move(gone));
  }
  members.insert(members.end(), superseded.begin(), superseded.end());
  std::stable_sort(members.begin(), members.end(),
                   [](const Member& a, const Member& b) { return a.first_slot < b.first_slot; });
  return members;
}

absl::StatusOr<std::unique_ptr<EtcdMembers>> EtcdMembers::Open(const std::string& url,
                                                               std::string prefix,
                                                               Cluster* cluster) {
  PULSE_ASSIGN_OR_RETURN(auto http, HttpClient::Open(url));
  std::unique_ptr<EtcdMembers> members(
      new EtcdMembers(std::move(prefix), cluster, std::move(http)));
  members->thread_ = std::thread([m = members.get()] { m->Run(); });
  return members;
}

EtcdMembers::EtcdMembers(std::string prefix, Cluster* cluster, std::unique_ptr<HttpClient> http)
    : prefix_(std::move(prefix)), cluster_(cluster), http_(std::move(http)) {}

EtcdMembers::~EtcdMembers() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void EtcdMembers::Read() {
  const auto values = ReadEtcd(http_.get(), prefix_, kTimeoutMs, &stopping_);
  if (absl::IsCancelled(values.status())) return;
  if (values.ok() != heard_) {
    Log(LogLevel::kWarn,
        absl::StrCat("etcd at ", http_->url(), ": ",
                     values.ok() ? "tells of the cluster's nodes again"
                                 : absl::StrCat("cannot read the cluster's nodes: ",
                                                values.status().message(),
                                                "; they stay those that were known last")));
    heard_ = values.ok();
  }
  // Who has heard of nobody yet takes its slots.
  const bool first = !std::exchange(heard_once_, true);
  if (!values.ok() && !first) return;
  const auto before = cluster_->members();
  const auto nodes = values.ok() ? NodesIn(*values) : std::vector<RegisteredNode>();
  Members now = MembersOf(*cluster_, nodes, *before);
  if (now == *before) return;
  Tell(first ? Members() : *before, now);
  cluster_->SetMembers(std::move(now));
}

void EtcdMembers::Tell(const Members& before, const Members& now) const {
  for (const Member& member : now) {
    if (std::find(before.begin(), before.end(), member) != before.end()) continue;
    switch (member.state) {
      case State::kServes:
        Log(LogLevel::kInfo, absl::StrCat("cluster: ", TextOf(member), " serves"));
        break;
      case State::kFailed:
        Log(LogLevel::kWarn, absl::StrCat("cluster: ", TextOf(member),
                                          " is gone; nobody serves these slots until a process "
                                          "with the same --cluster-part is there"));
        break;
      case State::kSuperseded:
        Log(LogLevel::kWarn, absl::StrCat("cluster: ", TextOf(member),
                                          " has slots that an older node has, and waits for its "
                                          "end"));
        break;
    }
  }
}

void EtcdMembers::Run() {
  pthread_setname_np(pthread_self(), "pulse-kv-nodes");
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    Read();
    lock.lock();
    wake_.wait_for(lock, kPause, [this] { return stopping_.load(); });
  }
}

}  // namespace pulse::kv
