// CLUSTER: what a node tells of itself and the others. What would change a cluster is refused: its
// nodes are threads, which have their slots for as long as their process runs.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/redis/commands/cluster.h"
#include "services/redis/commands/handlers.h"
#include "services/redis/commands/subcommands.h"

namespace pulse::redis {
namespace {

using Member = Cluster::Member;
using State = Cluster::State;

// Epochs tell configurations apart that nodes disagree on. These are as a new cluster has them.
size_t EpochOf(const Cluster::Members& members, std::string_view id) {
  size_t place = 0;
  while (place < members.size() && members[place].id != id) ++place;
  return place + 1;
}

void Info(Call& call, const ClusterNode& node) {
  const auto members = node.cluster->members();
  int served = 0;
  int failed = 0;
  size_t masters = 0;  // with slots
  for (const Member& member : *members) {
    if (member.state == State::kServes) served += member.slots().size();
    if (member.state == State::kFailed) failed += member.slots().size();
    masters += member.state != State::kSuperseded ? 1 : 0;
  }
  std::string text;
  const auto add = [&](absl::string_view name, const absl::AlphaNum& value) {
    absl::StrAppend(&text, name, ":", value, "\r\n");
  };
  add("cluster_state", served == kSlots ? "ok" : "fail");
  add("cluster_slots_assigned", served + failed);
  add("cluster_slots_ok", served);
  add("cluster_slots_pfail", 0);
  add("cluster_slots_fail", failed);
  add("cluster_known_nodes", members->size());
  add("cluster_size", masters);
  add("cluster_current_epoch", members->size());
  add("cluster_my_epoch", EpochOf(*members, node.self().id));
  add("cluster_stats_messages_sent", 0);
  add("cluster_stats_messages_received", 0);
  add("total_cluster_links_buffer_limit_exceeded", 0);
  call.reply.Verbatim(text);
}

void Nodes(Call& call, const ClusterNode& node) {
  const auto members = node.cluster->members();
  std::string text;
  for (const Member& member : *members) {
    const bool failed = member.state == State::kFailed;
    // No port of a cluster's bus.
    absl::StrAppend(&text, member.id, " ", member.host, ":", member.port, "@0 ",
                    member.id == node.self().id ? "myself," : "", failed ? "master,fail" : "master",
                    " - 0 0 ", EpochOf(*members, member.id),
                    failed ? " disconnected" : " connected");
    if (member.state != State::kSuperseded) absl::StrAppend(&text, " ", member.first_slot);
    if (member.state != State::kSuperseded && member.last_slot > member.first_slot) {
      absl::StrAppend(&text, "-", member.last_slot);
    }
    text += "\n";
  }
  call.reply.Verbatim(text);
}

// With those that have failed, as in Redis: clients take slots that are missing for a mistake.
void Slots(Call& call, const ClusterNode& node) {
  const auto members = node.cluster->members();
  const auto has_slots = [](const Member& member) { return member.state != State::kSuperseded; };
  call.reply.Array(static_cast<size_t>(std::count_if(members->begin(), members->end(), has_slots)));
  for (const Member& member : *members) {
    if (!has_slots(member)) continue;
    call.reply.Array(3);
    call.reply.Integer(member.first_slot);
    call.reply.Integer(member.last_slot);
    call.reply.Array(4);
    call.reply.Bulk(member.host);
    call.reply.Integer(member.port);
    call.reply.Bulk(member.id);
    call.reply.Map(0);  // other names of it
  }
}

void Shards(Call& call, const ClusterNode& node) {
  const auto field = [&](std::string_view name, std::string_view value) {
    call.reply.Bulk(name);
    call.reply.Bulk(value);
  };
  const auto members = node.cluster->members();
  call.reply.Array(members->size());
  for (const Member& member : *members) {
    call.reply.Map(2);
    call.reply.Bulk("slots");
    call.reply.Array(member.state == State::kSuperseded ? 0 : 2);
    if (member.state != State::kSuperseded) {
      call.reply.Integer(member.first_slot);
      call.reply.Integer(member.last_slot);
    }
    call.reply.Bulk("nodes");
    call.reply.Array(1);
    call.reply.Map(7);
    field("id", member.id);
    call.reply.Bulk("port");
    call.reply.Integer(member.port);
    field("ip", member.host);
    field("endpoint", member.host);
    field("role", "master");
    call.reply.Bulk("replication-offset");
    call.reply.Integer(0);
    field("health", member.state == State::kFailed ? "fail" : "online");
  }
}

// COUNTKEYSINSLOT and, with a third argument, GETKEYSINSLOT. They walk over the node's keys.
void KeysInSlot(Call& call, const ClusterNode& node) {
  const bool list = call.args.size() == 4;
  int64_t slot = 0;
  int64_t most = INT64_MAX;
  if (!ReadInteger(call, call.args[2], &slot)) return;
  if (list && !ReadInteger(call, call.args[3], &most)) return;
  if (slot < 0 || slot >= kSlots || most < 0) {
    return call.reply.Error(list ? "ERR Invalid slot or number of keys" : "ERR Invalid slot");
  }
  std::string body;
  ReplyWriter keys(&body, call.reply.protocol());
  int64_t count = 0;
  const auto use = [&](std::string_view key) {
    if (SlotOf(key) != slot) return true;
    ++count;
    if (list) keys.Bulk(key);
    return count < most && body.size() <= call.view.limits().max_reply;
  };
  // Another node's keys are not here.
  if (most > 0 && node.HasSlot(static_cast<int>(slot)) && !call.view.ForEachKey("", use)) {
    return;
  }
  if (!list) return call.reply.Integer(count);
  if (body.size() > call.view.limits().max_reply) return call.reply.Error(kTooManyValues);
  call.reply.Array(static_cast<size_t>(count));
  call.reply.out()->append(body);
}

void Replicas(Call& call, const ClusterNode& node) {
  const auto members = node.cluster->members();
  for (const Member& member : *members) {
    if (member.id == call.args[2]) return call.reply.Array(0);
  }
  call.reply.Error(absl::StrCat("ERR Unknown node ", AbslOf(call.args[2].substr(0, 128))));
}

struct Subcommand {
  std::string_view name;
  size_t arguments;  // with CLUSTER and the name
  void (*run)(Call&, const ClusterNode&);
};
constexpr Subcommand kSubcommands[] = {
    {"info", 2, Info},
    {"nodes", 2, Nodes},
    {"slots", 2, Slots},
    {"shards", 2, Shards},
    {"help", 2, [](Call& call, const ClusterNode&) { ReplyHelp(call.command, &call.reply); }},
    {"myid", 2, [](Call& call, const ClusterNode& node) { call.reply.Bulk(node.self().id); }},
    {"links", 2, [](Call& call, const ClusterNode&) { call.reply.Array(0); }},
    {"keyslot", 3,
     [](Call& call, const ClusterNode&) { call.reply.Integer(SlotOf(call.args[2])); }},
    {"countkeysinslot", 3, KeysInSlot},
    {"getkeysinslot", 4, KeysInSlot},
    {"replicas", 3, Replicas},
    {"slaves", 3, Replicas},
};

// What would change a cluster.
constexpr std::string_view kRefused[] = {
    "addslots",   "addslotsrange", "bumpepoch",       "count-failure-reports",
    "delslots",   "delslotsrange", "failover",        "flushslots",
    "forget",     "meet",          "replicate",       "reset",
    "saveconfig", "setslot",       "set-config-epoch"};

void ClusterCommand(Call& call) {
  const std::string_view name = call.args[1];
  const ClusterNode node = call.view.node();
  for (const Subcommand& sub : kSubcommands) {
    if (!EqualsIgnoringCase(name, sub.name)) continue;
    if (call.args.size() != sub.arguments) {
      return call.reply.Error(absl::StrCat("ERR wrong number of arguments for 'cluster|",
                                           AbslOf(sub.name), "' command"));
    }
    return node ? sub.run(call, node) : call.reply.Error(kNoCluster);
  }
  for (const std::string_view refused : kRefused) {
    if (!EqualsIgnoringCase(name, refused)) continue;
    return call.reply.Error(
        node ? "ERR the nodes of this cluster are threads of its processes; their slots are fixed "
               "by --threads and --cluster-part when these start"
             : kNoCluster);
  }
  call.reply.Error(absl::StrCat("ERR unknown subcommand '", AbslOf(name.substr(0, 128)),
                                "'. Try CLUSTER HELP."));
}

}  // namespace

absl::Span<const Handling> ClusterCommands() {
  static constexpr Handling kHandlings[] = {{Command::kCluster, ClusterCommand}};
  return kHandlings;
}

}  // namespace pulse::redis
