// `pulse kv`: an in-memory store for Redis clients.
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/metrics/endpoint.h"
#include "apps/pulse/server_options.h"
#include "apps/pulse/util/cluster_options.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/option_values.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/machine_memory.h"
#include "base/stop_signal.h"
#include "net/address.h"
#include "services/kv/agent/host_server.h"
#include "services/kv/etcd/http_client.h"
#include "services/kv/etcd/members.h"
#include "services/kv/etcd/registration.h"
#include "services/kv/memcached/flow.h"
#include "services/kv/memory_shares.h"
#include "services/kv/shm/server.h"
#include "services/kv/store.h"
#include "services/kv/udp/server.h"
#include "services/redis/commands/cluster.h"
#include "vdpu/profile.h"

namespace pulse {
namespace {

struct KvArgs : ServerArgs, ClusterArgs {
  std::string memory = "1G";
  std::string policy = "noeviction";
  std::string design = "cpu";
  std::string agent_cpus;
  std::string profile = "none";
  bool hypothetical = false;
  std::string agent_memory;
  std::string memory_file;
  uint16_t announce_port = 0;  // 0: the server's own
  bool announce_tls = false;
  std::string etcd;
  std::string etcd_prefix = "/pulse/kv";
  std::string etcd_ttl = "5s";
  kv::ShmOptions shm;  // with a path: clients that share memory are served
  std::string shm_value = "64K";
  kv::UdpOptions udp;             // with a port of 0 or more: datagrams are served
  kv::AgentServerOptions agents;  // with a path: agents of their own are served
};

constexpr int64_t kMostEtcdTtl = 24 * 60 * 60;
// The memory of a buffer of so many bytes goes back to the system with it. So does what is free at
// the end of a heap: each thread has one, and all together may keep little until TrimHeap comes.
constexpr int kBackAtOnceBytes = 2 << 20;

// Where clients of other machines reach this one; empty when it is not known.
absl::StatusOr<std::string> AnnouncedHost(const KvArgs& args) {
  const std::string& given = args.announce_host;
  if (!given.empty()) {
    const bool fits = std::all_of(given.begin(), given.end(), [](char c) {
      return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
             std::string_view(".-:_").find(c) != std::string_view::npos;
    });
    if (fits) return given;
    return absl::InvalidArgumentError(
        absl::StrCat("--announce-host '", given, "': expected a host name or an address"));
  }
  std::string bind = args.options.bind;
  if (bind.starts_with('[') && bind.ends_with(']')) bind = bind.substr(1, bind.size() - 2);
  const auto address = net::ParseBind(bind, 0);
  // Whoever listens there says what is wrong with it.
  return address.ok() && address->is_any() ? "" : bind;
}

absl::Status CheckAnnounced(const KvArgs& args) {
  if (args.announce_port != 0 && args.cluster) {
    return absl::InvalidArgumentError(
        "--announce-port and --cluster do not go together: each node has a port of its own, to "
        "which its clients have to come; leave one of them out");
  }
  if (args.announce_tls && args.announce_port == 0) {
    return absl::InvalidArgumentError(
        "--announce-tls: it says how --announce-port is spoken to; give that, too");
  }
  return absl::OkStatus();
}

absl::Status CheckCluster(const KvArgs& args, const std::string& host) {
  if (!args.cluster) return absl::OkStatus();
  if (host.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--cluster: clients have to be told where each node is, and --bind ",
                     args.options.bind, " does not say it: add --announce-host"));
  }
  if (!args.options.socket.empty()) {
    return absl::InvalidArgumentError(
        "--cluster: a node is a TCP port, and --socket would be no node's; leave it out");
  }
  return absl::OkStatus();
}

// Below which the server's keys are in etcd.
std::string EtcdPrefix(const KvArgs& args) {
  std::string prefix = args.etcd_prefix;
  while (prefix.ends_with('/')) prefix.pop_back();
  return prefix;
}

// None where the members are this process's nodes, or were listed.
absl::StatusOr<std::unique_ptr<kv::EtcdMembers>> WatchMembers(const KvArgs& args,
                                                              redis::Cluster* cluster) {
  if (args.part.empty() || !cluster->spread()) return nullptr;
  auto members = kv::EtcdMembers::Open(args.etcd, EtcdPrefix(args), cluster);
  if (!members.ok()) return OptionError("--etcd", members.status());
  return members;
}

// What --etcd and its options say, before anything listens.
absl::StatusOr<kv::EtcdOptions> ReadEtcd(const KvArgs& args, const std::string& host) {
  kv::EtcdOptions options;
  if (args.etcd.empty()) return options;
  options.url = args.etcd;
  options.prefix = EtcdPrefix(args);
  absl::Duration ttl;
  options.ttl_seconds = absl::ParseDuration(args.etcd_ttl, &ttl) ? absl::ToInt64Seconds(ttl) : 0;
  if (options.ttl_seconds < 1 || options.ttl_seconds > kMostEtcdTtl ||
      absl::Seconds(options.ttl_seconds) != ttl) {
    return absl::InvalidArgumentError(
        absl::StrCat("--etcd-ttl '", args.etcd_ttl, "': expected whole seconds, such as 5s"));
  }
  if (const auto client = kv::HttpClient::Open(args.etcd); !client.ok()) {
    return OptionError("--etcd", client.status());
  }
  if (host.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--etcd: clients have to be told where the server is, and --bind ",
                     args.options.bind, " does not say it: add --announce-host"));
  }
  options.protocols = {"redis"};
  // Which know no passwords.
  if (args.password_file.empty() && args.options.users_file.empty()) {
    options.protocols.push_back("memcached");
  }
  options.tls = args.announce_port == 0 ? !args.options.tls_cert.empty() : args.announce_tls;
  return options;
}

// None without --etcd. `udp_ports`: of the endpoints for datagrams, by partition.
absl::StatusOr<std::unique_ptr<kv::EtcdRegistration>> Register(
    kv::EtcdOptions options, const redis::Cluster& endpoints,
    const std::vector<uint16_t>& udp_ports) {
  if (options.url.empty()) return nullptr;
  options.udp_ports = udp_ports;
  if (!udp_ports.empty()) options.protocols.push_back("udp");
  auto registration = kv::EtcdRegistration::Open(options, endpoints);
  if (!registration.ok()) return OptionError("--etcd", registration.status());
  return registration;
}

// What all clients that share memory may take together.
absl::StatusOr<uint64_t> ReadShm(KvArgs* args, int partitions) {
  if (args->shm.path.empty()) return 0;
  if (args->cluster) {
    return absl::InvalidArgumentError(
        "--shm and --cluster do not go together: a client that shares memory finds a key's "
        "partition by its hash, and a cluster's nodes have slots; leave one of them out");
  }
  PULSE_ASSIGN_OR_RETURN(const uint64_t value,
                         ParseSizeOption("--shm-value", args->shm_value, uint64_t{32} << 20));
  args->shm.value_bytes = static_cast<uint32_t>(value);
  args->shm.cpus = args->options.cpus;
  PULSE_RETURN_IF_ERROR(kv::ShmServer::Check(args->shm));
  return kv::ShmServer::BytesFor(args->shm, partitions);
}

// Datagrams carry no password, no certificate and are not encrypted, so they are not served where
// clients are asked for one of these, nor beyond loopback unless that is asked for by name.
absl::Status CheckUdpAccess(const KvArgs& args) {
  const redis::ServeOptions& o = args.options;
  const std::pair<bool, const char*> given[] = {{!args.password_file.empty(), "--requirepass"},
                                                {!o.users_file.empty(), "--users"},
                                                {!o.tls_ca.empty(), "--tls-ca"}};
  for (const auto& [is_given, name] : given) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--udp-port and ", name,
                     " do not go together: datagrams carry neither passwords nor certificates, and "
                     "whoever sends them may read and write all keys; leave one of them out"));
  }
  if (args.cluster) {
    return absl::InvalidArgumentError(
        "--udp-port and --cluster do not go together: datagrams go to a key's partition by its "
        "hash, and a cluster's nodes have slots; leave one of them out");
  }
  PULSE_ASSIGN_OR_RETURN(const auto address, net::ParseBind(o.bind, 0));
  if (address.is_loopback() || o.insecure) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--udp-port: --bind ", o.bind,
                   " is reached by other machines, and datagrams have no passwords and no TLS: "
                   "leave --udp-port out, or say --insecure"));
}

// What the server of datagrams may take; 0 without one.
absl::StatusOr<uint64_t> ReadUdp(KvArgs* args, int partitions) {
  if (args->udp.port < 0) return 0;
  PULSE_RETURN_IF_ERROR(CheckUdpAccess(*args));
  args->udp.host = args->options.bind;
  args->udp.cpus = args->options.cpus;
  PULSE_RETURN_IF_ERROR(kv::UdpServer::Check(args->udp, partitions));
  return kv::UdpServer::BytesFor(args->udp, partitions);
}

// What all lanes of agents may take together.
absl::StatusOr<uint64_t> ReadAgents(KvArgs* args) {
  if (args->agents.path.empty()) return 0;
  if (args->cluster) {
    return absl::InvalidArgumentError(
        "--agent-socket and --cluster do not go together: an agent has one port for all keys, and "
        "a cluster's nodes have one each; leave one of them out");
  }
  args->agents.cpus = args->options.cpus;
  args->agents.max_sessions = args->options.max_clients;
  PULSE_RETURN_IF_ERROR(kv::AgentServer::Check(args->agents));
  return kv::AgentServer::BytesFor(args->agents);
}

// What the card admits; nothing else of its profile counts here.
struct Card {
  std::string no_dual;  // see redis::Designs
  uint64_t memory = 0;  // see KvStoreOptions
};

absl::StatusOr<Card> ReadCard(const KvArgs& args) {
  Card card;
  if (args.profile != "none") {
    const auto profile = vdpu::LoadProfile(args.profile);
    if (!profile.ok()) return OptionError("--profile", profile.status());
    card.memory = static_cast<uint64_t>(profile->memory_gib * (1 << 30));
    if (profile->name == "bf3" && !args.hypothetical) {
      card.no_dual =
          "in DPU mode a bf3's host receives no packets of its own (section 2.1 of the DPU-KV "
          "paper); start with --hypothetical to try it";
    }
  }
  if (args.agent_memory.empty()) return card;
  PULSE_RETURN_IF_ERROR(ReadSize("--agent-memory", args.agent_memory, "16G", &card.memory));
  return card;
}

absl::Status RunKv(KvArgs args) {
  // Each of these by itself ends malloc's way of keeping all that was freed once.
  mallopt(M_MMAP_THRESHOLD, kBackAtOnceBytes);
  mallopt(M_TRIM_THRESHOLD, kBackAtOnceBytes);
  PULSE_ASSIGN_OR_RETURN(const uint64_t memory,
                         ParseSizeOption("--memory", args.memory, uint64_t{1} << 40));
  const bool with_agents = !args.agents.path.empty();
  const bool max_value_given = !args.max_value.empty();
  if (!max_value_given) {
    args.max_value = absl::StrCat(kv::DivideMemory(memory, 0, with_agents).max_value);
  }
  PULSE_RETURN_IF_ERROR(ReadServerArgs(&args));
  const kv::MemoryShares shares =
      kv::DivideMemory(memory, max_value_given ? args.options.limits.max_bulk : 0, with_agents);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a write to a client's memory beyond the limit fails, as others do
  StopSignal stop;           // before any thread starts
  PULSE_RETURN_IF_ERROR(ReadCpus("--agent-cpus", args.agent_cpus, &args.options.agent_cpus));
  PULSE_ASSIGN_OR_RETURN(const Card card, ReadCard(args));
  redis::Designs designs(args.options.threads, args.options.cpus, args.options.agent_cpus,
                         card.no_dual);
  if (const absl::Status status = designs.Set(args.design); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat("--design: ", status.message()));
  }
  args.options.designs = &designs;
  PULSE_ASSIGN_OR_RETURN(const std::string host, AnnouncedHost(args));
  PULSE_RETURN_IF_ERROR(CheckAnnounced(args));
  PULSE_RETURN_IF_ERROR(CheckCluster(args, host));
  PULSE_ASSIGN_OR_RETURN(
      const ClusterShare share,
      ReadClusterShare(args, host, args.options.port, args.options.threads, !args.etcd.empty()));
  PULSE_ASSIGN_OR_RETURN(kv::EtcdOptions etcd, ReadEtcd(args, host));
  redis::Cluster cluster(args.cluster, args.options.threads, host, share.slots);
  if (!args.part.empty()) cluster.WaitForMembers();  // WatchMembers
  if (args.announce_port != 0) cluster.Announce(args.announce_port);
  args.options.cluster = &cluster;
  kv::KvStoreOptions store;
  store.designs = &designs;
  store.cluster = &cluster;
  store.partitions = std::min(args.options.threads, kv::kMostPartitions);
  PULSE_ASSIGN_OR_RETURN(const uint64_t shm_bytes, ReadShm(&args, store.partitions));
  PULSE_ASSIGN_OR_RETURN(const uint64_t udp_bytes, ReadUdp(&args, store.partitions));
  PULSE_ASSIGN_OR_RETURN(const uint64_t agent_bytes, ReadAgents(&args));
  const uint64_t set_aside = shares.set_aside + shm_bytes + udp_bytes + agent_bytes;
  const uint64_t least = set_aside + static_cast<uint64_t>(args.options.threads) * kv::kLeastMemory;
  if (memory < least) {
    constexpr uint64_t kMiB = uint64_t{1} << 20;
    return absl::InvalidArgumentError(
        absl::StrCat("--memory ", args.memory, ": at least ", (least + kMiB - 1) / kMiB,
                     "M are needed with ", args.options.threads, " threads",
                     max_value_given ? absl::StrCat(" and a --max-value of ", args.max_value) : "",
                     shm_bytes == 0 ? "" : " and the clients of --shm",
                     udp_bytes == 0 ? "" : " and those of --udp-port",
                     agent_bytes == 0 ? "" : " and the loops of agents"));
  }
  if (const uint64_t all = MachineMemory(); all != 0 && memory > all) {
    Log(LogLevel::kWarn,
        absl::StrFormat("--memory %s: the machine, or this process's cgroup, has %s; the kernel "
                        "ends the server when that is full",
                        args.memory, FormatBytes(all)));
  }
  const auto policy = kv::ParsePolicy(args.policy);
  if (!policy.ok()) return OptionError("--policy", policy.status());
  store.policy = *policy;
  store.memory_bytes = memory - set_aside;
  store.told_memory_bytes = memory;
  args.options.buffer_bytes = shares.buffers;
  args.agents.buffer_bytes = args.options.buffer_bytes / 4;
  // Connections have half; agents take theirs from the transactions'.
  if (!args.agents.path.empty()) args.options.transaction_bytes = args.options.buffer_bytes / 4;
  store.memory_file = args.memory_file;
  store.agent_memory_bytes = card.memory;
  // They outlive the server.
  std::mutex numbers_mutex;
  const kv::UdpServer* udp_numbers = nullptr;
  const kv::AgentServer* agent_numbers = nullptr;
  store.more_info = [&](std::string* out) {
    const std::lock_guard<std::mutex> lock(numbers_mutex);
    if (udp_numbers != nullptr) udp_numbers->AddInfo(out);
    if (agent_numbers != nullptr) agent_numbers->AddInfo(out);
  };
  kv::memcached::Counters counters;
  std::unique_ptr<kv::memcached::Executor> memcached;
  kv::KvStore* keys = nullptr;  // the server's
  std::mutex running_mutex;     // taken before the other one
  const redis::Server* running = nullptr;
  args.options.keyspace =
      [&](const redis::KeyspaceLimits& limits) -> absl::StatusOr<std::unique_ptr<redis::Keyspace>> {
    store.limits = limits;
    auto opened = kv::KvStore::Open(store);
    if (!opened.ok()) return opened.status();
    stop.Started();
    if ((*opened)->resumed()) {
      Say(absl::StrFormat("pulse kv: goes on with %d keys in %s%s", (*opened)->numbers().items,
                          store.memory_file,
                          (*opened)->recovered() > 0 ? ", whose index it made anew" : ""));
    }
    kv::memcached::ExecutorOptions options;
    options.max_value = (*opened)->options().limits.max_value;
    options.started_ms = (*opened)->now_ms();
    options.endpoints = &cluster;
    options.threads = args.options.threads;
    options.server = [&]() -> std::optional<redis::ServerNumbers> {
      const std::lock_guard<std::mutex> lock(running_mutex);
      if (running == nullptr) return std::nullopt;
      return running->numbers();
    };
    keys = opened->get();
    memcached = std::make_unique<kv::memcached::Executor>(opened->get(), &counters, options);
    return opened;
  };
  args.options.other.is_it = &kv::memcached::LooksLikeMemcached;
  args.options.other.make = [&](net::Connection* connection, WorkerPool* workers) {
    return std::make_unique<kv::memcached::MemcachedFlow>(memcached.get(), workers, &designs,
                                                          connection);
  };
  args.options.other.counts = [&] {
    redis::CommandCounts all = counters.Totals();
    const std::lock_guard<std::mutex> lock(numbers_mutex);
    if (udp_numbers != nullptr) {
      all.commands += udp_numbers->numbers().Get(kv::UdpStats::kRequests);
    }
    return all;
  };
  auto server = redis::Server::Open(args.options);
  if (!server.ok()) return server.status();
  std::unique_ptr<kv::ShmServer> shm;
  if (!args.shm.path.empty()) {
    PULSE_ASSIGN_OR_RETURN(shm, kv::ShmServer::Open(keys, args.shm));
  }
  std::unique_ptr<kv::UdpServer> udp;
  if (args.udp.port >= 0) {
    PULSE_ASSIGN_OR_RETURN(udp, kv::UdpServer::Open(keys, args.udp));
    const std::lock_guard<std::mutex> lock(numbers_mutex);
    udp_numbers = udp.get();
  }
  std::unique_ptr<kv::AgentServer> agents;
  if (!args.agents.path.empty()) {
    PULSE_ASSIGN_OR_RETURN(agents,
                           kv::AgentServer::Open((*server)->host_application(), args.agents));
    const std::lock_guard<std::mutex> lock(numbers_mutex);
    agent_numbers = agents.get();
  }
  {
    const std::lock_guard<std::mutex> lock(running_mutex);
    running = server->get();
  }
  // Clients may ask for these while the server ends, or does not start.
  absl::Cleanup forget = [&] {
    {
      const std::lock_guard<std::mutex> lock(running_mutex);
      running = nullptr;
    }
    const std::lock_guard<std::mutex> lock(numbers_mutex);
    udp_numbers = nullptr;
    agent_numbers = nullptr;
  };
  std::unique_ptr<metrics::Endpoint> metrics;
  if (!args.metrics.empty()) {
    metrics::Sources sources;
    sources.server = [&server] { return (*server)->numbers(); };
    if (udp != nullptr) sources.udp = [&udp] { return udp->numbers(); };
    if (agents != nullptr) sources.kv_agents = [&agents] { return agents->numbers(); };
    PULSE_ASSIGN_OR_RETURN(
        metrics, metrics::Endpoint::Open(args.metrics, args.metrics_anywhere, std::move(sources)));
  }
  Say(absl::StrFormat("pulse kv: %s of memory on %s (process %d, %s, %d partition%s%s)",
                      args.memory, ListenersText(args.options, (*server)->port()), getpid(),
                      args.policy, store.partitions, store.partitions == 1 ? "" : "s",
                      args.options.tls_cert.empty() ? "" : ", TLS"));
  if (!max_value_given) {
    Say(absl::StrFormat(
        "pulse kv: a value may have %d bytes, as %s have room for; --max-value sets another limit",
        keys->options().limits.max_value, args.memory));
  }
  for (size_t i = 0; args.cluster && i < cluster.nodes().size(); ++i) {
    const redis::Cluster::Node& node = cluster.nodes()[i];
    Say(absl::StrFormat("pulse kv: node %s at %s has slots %d-%d", node.id,
                        cluster.AddressOf(static_cast<int>(i)), node.first_slot, node.last_slot));
  }
  if (shm != nullptr) {
    Say(absl::StrFormat("pulse kv: clients that share memory on %s", args.shm.path));
  }
  if (udp != nullptr) {
    Say(absl::StrFormat("pulse kv: datagrams on %s:%s", args.options.bind,
                        absl::StrJoin(udp->ports(), ",")));
  }
  if (agents != nullptr) {
    Say(absl::StrFormat("pulse kv: agents on %s", args.agents.path));
    if (args.memory_file.empty()) {
      Log(LogLevel::kWarn,
          "without --memory-file all keys are lost when this process is killed, while the agent's "
          "clients stay connected and go on with the next, empty one; --memory-file /dev/shm/FILE "
          "keeps them");
    }
  }
  if (metrics != nullptr) {
    Say(absl::StrFormat("pulse kv: metrics at %s", metrics->url()));
  }
  PULSE_ASSIGN_OR_RETURN(
      auto registration,
      Register(std::move(etcd), cluster, udp == nullptr ? std::vector<uint16_t>() : udp->ports()));
  if (!share.members.empty()) cluster.SetMembers(share.members);
  PULSE_ASSIGN_OR_RETURN(auto members, WatchMembers(args, &cluster));
  stop.Wait();
  Say("pulse kv: stopping");
  members.reset();       // whose cluster is about to lose this process
  registration.reset();  // before clients are turned away
  metrics.reset();       // it asks the server
  std::move(forget).Invoke();
  udp.reset();     // it has the server's keys
  shm.reset();     // it has the server's keys
  agents.reset();  // they have its flows
  return (*server)->Stop();
}

}  // namespace

void AddKvCommand(CLI::App& app) {
  auto args = std::make_shared<KvArgs>();
  CLI::App* cmd = app.add_subcommand(
      "kv",
      "Keep keys and values in memory, for clients of Redis (RESP2, RESP3: strings, bits, expiry,\n"
      "SCAN, MULTI) and of memcached (text and meta commands), on one port.\n"
      "  pulse kv --memory 4G &   redis-cli set greeting hello\n"
      "Nothing is written to disk. Stops on SIGTERM or SIGINT; ignores SIGHUP.");
  AddListenOptions(cmd, args.get());
  cmd->add_option(
         "--memory", args->memory,
         "what the process may take in all, fixed from the start: index, keys, values and\n"
         "buffers")
      ->capture_default_str();
  cmd->add_option(
      "--memory-file", args->memory_file,
      "keep index, keys and values in this file on a tmpfs (/dev/shm/...), so that the\n"
      "next server with the same --memory, --max-value, --threads, --cluster, --shm, --udp\n"
      "and --agent options goes on, however this one ends; made when it is missing");
  cmd->add_option("--policy", args->policy,
                  "when memory is full: noeviction (writes get an error), or allkeys-lfu,\n"
                  "allkeys-lru or allkeys-random (old items go); CONFIG SET maxmemory-policy\n"
                  "changes it")
      ->capture_default_str();
  cmd->add_option(
         "--design", args->design,
         "which processor does what: cpu: all on the host; lat: connections on the agent's\n"
         "CPUs, commands on the host's; sav: the same, with one thread of the host; dual: as\n"
         "sav, with a quarter of the threads on the host; dpu: all on the agent's CPUs, items in\n"
         "its memory; shrd: half of the threads, and of the items, on either side; adaptive:\n"
         "cpu, lat, sav or dual, by measurement. CONFIG SET design changes it")
      ->capture_default_str();
  cmd->add_option("--agent-cpus", args->agent_cpus,
                  "CPUs of the agent, for the designs that have one");
  cmd->add_option("--profile", args->profile,
                  "the card, bf2 or bf3 (or FILE.toml), that says which designs there are and how\n"
                  "much memory for items; nothing is slowed down or priced by it")
      ->capture_default_str();
  cmd->add_flag("--hypothetical", args->hypothetical,
                "with --profile bf3, also designs that such a card cannot run: dual and shrd");
  cmd->add_option(
      "--agent-memory", args->agent_memory,
      "what dpu and shrd may keep in the agent's memory (default: the profile's memory,\n"
      "or as much as the store has)");
  AddClusterOptions(cmd, args.get());
  CLI::Option* const etcd = cmd->add_option("--etcd", args->etcd,
                                            "register the server's endpoints in etcd, as "
                                            "http://HOST:PORT or https://HOST:PORT, by its JSON\n"
                                            "gateway (version 3)");
  cmd->add_option("--etcd-prefix", args->etcd_prefix, "what their keys begin with")
      ->needs(etcd)
      ->capture_default_str();
  cmd->add_option("--etcd-ttl", args->etcd_ttl,
                  "seconds after which etcd drops them when the server has died")
      ->needs(etcd)
      ->capture_default_str();
  CLI::Option* const shm = cmd->add_option(
      "--shm", args->shm.path,
      "Unix socket, of mode 0600, for programs of this machine and user that share\n"
      "memory with the server (pulse/kv_client.h); it knows no passwords");
  cmd->add_option("--shm-clients", args->shm.max_clients,
                  "such clients at a time; memory is set aside for all of them")
      ->needs(shm)
      ->capture_default_str();
  cmd->add_option("--shm-value", args->shm_value,
                  "of such clients: the most that a pipelined key and its value may have together")
      ->needs(shm)
      ->capture_default_str();
  cmd->add_option("--shm-threads", args->shm.threads,
                  "threads that serve such clients, and divide the partitions among them")
      ->needs(shm)
      ->capture_default_str();
  CLI::Option* const udp =
      cmd->add_option(
             "--udp-port", args->udp.port,
             "serve batches of requests in datagrams, too (pulse/kv_udp_client.h): the first\n"
             "partition's UDP port, the others have those that follow; 0: ports that the\n"
             "kernel chooses. No passwords, so loopback only unless --insecure")
          ->check(CLI::Range(0, 65535));
  cmd->add_option("--udp-threads", args->udp.threads,
                  "threads that serve datagrams, and divide the partitions among them")
      ->needs(udp)
      ->capture_default_str();
  cmd->add_option("--udp-clients", args->udp.clients,
                  "clients of each partition's port at a time; memory is set aside for all")
      ->needs(udp)
      ->capture_default_str();
  CLI::Option* const agents = cmd->add_option(
      "--agent-socket", args->agents.path,
      "Unix socket, of mode 0600, for agents in processes of their own, which serve\n"
      "clients of this store: pulse agent --serve-kv SOCKET --serve PORT");
  cmd->add_option("--agent-loops", args->agents.max_lanes,
                  "loops of such agents at a time; memory is set aside for all of them")
      ->needs(agents)
      ->capture_default_str();
  cmd->add_option("--agent-threads", args->agents.threads,
                  "threads that carry out what agents hand over; each has a part of their loops")
      ->needs(agents)
      ->capture_default_str();
  cmd->add_option("--announce-port", args->announce_port,
                  "the port that etcd and memcached's clients are told, where that is not --port:\n"
                  "of an agent in front of this store (pulse agent --serve-kv)")
      ->check(CLI::Range(1, 65535));
  cmd->add_flag("--announce-tls", args->announce_tls,
                "etcd is told that --announce-port speaks TLS (the agent's --serve-kv-tls-cert)");
  AddAccessOptions(cmd, &args->options, &args->password_file);
  args->max_value.clear();
  AddConnectionOptions(cmd, args.get());
  cmd->get_option("--max-value")
      ->description(
          "the longest value; a request (MSET, MGET) has 128 KiB more in all; of --memory, twice\n"
          "as much is set aside for what is on its way (default: as long as what is set aside\n"
          "in any case has room for, 32M at most)");
  cmd->callback([args] { Finish(RunKv(*args)); });
}

}  // namespace pulse
