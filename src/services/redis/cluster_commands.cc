// CLUSTER: what a node tells of itself and the others. What would change a cluster is refused: its
// nodes are threads, which have their slots for as long as the server runs.
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/redis/cluster.h"
#include "services/redis/handlers.h"

namespace pulse::redis {
namespace {

constexpr std::string_view kHelp[] = {
    "CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "COUNTKEYSINSLOT <slot>",
    "    Return the number of keys in <slot>.",
    "GETKEYSINSLOT <slot> <count>",
    "    Return key names stored by current node in a slot.",
    "INFO",
    "    Return information about the cluster.",
    "KEYSLOT <key>",
    "    Return the hash slot for <key>.",
    "LINKS",
    "    Return the links between nodes: none, as they are threads of one process.",
    "MYID",
    "    Return the node id.",
    "NODES",
    "    Return cluster configuration seen by node. Output format:",
    "    <id> <ip:port> <flags> <master> <pings> <pongs> <epoch> <link> <slot> ...",
    "REPLICAS <node-id>",
    "    Return <node-id> replicas: none.",
    "SHARDS",
    "    Return information about slot range mappings and the nodes associated with them.",
    "SLOTS",
    "    Return information about slots range mappings. Each range is made of:",
    "    start, end, and the node's address, port and id",
    "HELP",
    "    Prints this help.",
};

// Epochs tell configurations apart that nodes disagree on. These are as a new cluster has them.
int EpochOf(int node) { return node + 1; }

void Info(Call& call, const ClusterNode& node) {
  const size_t nodes = node.cluster->nodes().size();
  std::string text;
  const auto add = [&](absl::string_view name, const absl::AlphaNum& value) {
    absl::StrAppend(&text, name, ":", value, "\r\n");
  };
  add("cluster_state", "ok");
  add("cluster_slots_assigned", kSlots);
  add("cluster_slots_ok", kSlots);
  add("cluster_slots_pfail", 0);
  add("cluster_slots_fail", 0);
  add("cluster_known_nodes", nodes);
  add("cluster_size", nodes);
  add("cluster_current_epoch", nodes);
  add("cluster_my_epoch", EpochOf(node.index));
  add("cluster_stats_messages_sent", 0);
  add("cluster_stats_messages_received", 0);
  add("total_cluster_links_buffer_limit_exceeded", 0);
  call.reply.Verbatim(text);
}

void Nodes(Call& call, const ClusterNode& node) {
  std::string text;
  for (size_t i = 0; i < node.cluster->nodes().size(); ++i) {
    const int index = static_cast<int>(i);
    const Cluster::Node& other = node.cluster->nodes()[i];
    // No port of a cluster's bus.
    absl::StrAppend(&text, other.id, " ", node.cluster->AddressOf(index), "@0 ",
                    index == node.index ? "myself," : "", "master - 0 0 ", EpochOf(index),
                    " connected ", other.first_slot);
    if (other.last_slot > other.first_slot) absl::StrAppend(&text, "-", other.last_slot);
    text += "\n";
  }
  call.reply.Verbatim(text);
}

void Slots(Call& call, const ClusterNode& node) {
  call.reply.Array(node.cluster->nodes().size());
  for (const Cluster::Node& other : node.cluster->nodes()) {
    call.reply.Array(3);
    call.reply.Integer(other.first_slot);
    call.reply.Integer(other.last_slot);
    call.reply.Array(4);
    call.reply.Bulk(node.cluster->host());
    call.reply.Integer(other.port);
    call.reply.Bulk(other.id);
    call.reply.Map(0);  // other names of it
  }
}

void Shards(Call& call, const ClusterNode& node) {
  const auto field = [&](std::string_view name, std::string_view value) {
    call.reply.Bulk(name);
    call.reply.Bulk(value);
  };
  call.reply.Array(node.cluster->nodes().size());
  for (const Cluster::Node& other : node.cluster->nodes()) {
    call.reply.Map(2);
    call.reply.Bulk("slots");
    call.reply.Array(2);
    call.reply.Integer(other.first_slot);
    call.reply.Integer(other.last_slot);
    call.reply.Bulk("nodes");
    call.reply.Array(1);
    call.reply.Map(7);
    field("id", other.id);
    call.reply.Bulk("port");
    call.reply.Integer(other.port);
    field("ip", node.cluster->host());
    field("endpoint", node.cluster->host());
    field("role", "master");
    call.reply.Bulk("replication-offset");
    call.reply.Integer(0);
    field("health", "online");
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
  if (most > 0 && node.cluster->NodeOf(static_cast<int>(slot)) == node.index &&
      !call.view.ForEachKey("", use)) {
    return;
  }
  if (!list) return call.reply.Integer(count);
  if (body.size() > call.view.limits().max_reply) return call.reply.Error(kTooManyValues);
  call.reply.Array(static_cast<size_t>(count));
  call.reply.out()->append(body);
}

void Replicas(Call& call, const ClusterNode& node) {
  for (const Cluster::Node& other : node.cluster->nodes()) {
    if (other.id == call.args[2]) return call.reply.Array(0);
  }
  call.reply.Error(absl::StrCat("ERR Unknown node ", AbslOf(call.args[2].substr(0, 128))));
}

void Help(Call& call, const ClusterNode&) {
  call.reply.Array(std::size(kHelp));
  for (const std::string_view line : kHelp) call.reply.Simple(line);
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
    {"help", 2, Help},
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
        node ? "ERR the nodes of this cluster are threads of one process; their slots are fixed "
               "by --threads when it starts"
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
