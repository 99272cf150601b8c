// `pulse serve` as an object: a RocksDB opened, a Redis-protocol server on it, and with offload on
// the agent in front of it, embedded in this process. DDS sections 5 and 6.
//
// Offload off: the public listener is the host server's own.
// Offload on: the public listener belongs to a director whose application `OffloadFactory` makes
// (OffloadedResp), and whose host is the server, on the private Unix socket `host_socket`. Threads
// that serve requests on the host are named pulse-host-*, the agent's pulse-agent-*, so that CPU
// time can be told apart.
//
// Threads: Open, Stop and the destructor are for one thread; the rest is for any. Open and Stop
// block. Errors say what failed, on what, and the remedy.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "net/access.h"
#include "services/redis/commands/codec.h"

namespace pulse {
class WorkerPool;
}  // namespace pulse

namespace pulse::net {
class Application;
class Connection;
class Director;
class Flow;
struct DirectorLimits;
}  // namespace pulse::net

namespace pulse::redis {

enum class SyncMode { kAlways, kEverySecond, kNo };
// What to do where the database's log is damaged before its end: say so, or go on with what is
// before the damage and keep a copy of the log.
enum class DamagedLog { kRefuse, kCut };

class Cluster;
class Designs;
class HostApplication;
class Keyspace;
struct CommandCounts;
struct KeyspaceLimits;
// Makes what holds the keys.
using KeyspaceFactory =
    std::function<absl::StatusOr<std::unique_ptr<Keyspace>>(const KeyspaceLimits&)>;

// Another protocol on the public listeners, chosen by a connection's first bytes. It knows no
// passwords: it is there only for clients who need none for reading and writing.
struct OtherProtocol {
  using IsIt = std::function<bool(std::string_view first_bytes, bool* undecided)>;
  IsIt is_it;  // null: there is none
  // `workers` are for what has to wait.
  std::function<std::unique_ptr<net::Flow>(net::Connection*, WorkerPool* workers)> make;
  // What its clients have asked, ever: commands, hits, misses. Any thread; null: it is not told.
  std::function<CommandCounts()> counts;
};

// With who may reach the server.
struct ServeOptions : net::AccessOptions {
  KeyspaceFactory keyspace;  // instead of a RocksDB, of which db to sync tell
  OtherProtocol other;
  // For keys in memory: the server's endpoints; outlives it. In cluster mode each thread is a node,
  // with a port of its own and Keyspace::Node. Null: not in cluster mode.
  Cluster* cluster = nullptr;
  Designs* designs = nullptr;  // for keys in memory: who carries commands out; outlives the server
  std::string db;              // directory of the database; made when it is missing
  std::string uri;             // pulse://... to run its compactions on; empty: RocksDB alone
  uint64_t cache_bytes = uint64_t{256} << 20;
  uint64_t hot_bytes = uint64_t{64} << 20;  // for values that were read lately; 0: none
  SyncMode sync = SyncMode::kEverySecond;
  DamagedLog damaged_log = DamagedLog::kRefuse;

  std::string bind = "127.0.0.1";
  uint16_t port = 0;  // 0: chosen by the kernel, see Server::port()
  bool listen_tcp = true;
  std::string socket;           // a public Unix socket too, or empty
  int threads = 1;              // loops of the public listener
  int workers = 8;              // threads for what has to wait for the device
  std::vector<int> cpus;        // of the host's threads; empty: all
  std::vector<int> agent_cpus;  // of the agent's
  int agent_spin_us = 0;        // how long the agent looks for requests before it sleeps
  uint32_t max_clients = 10000;
  // Of requests and replies on their way and of queued transactions, of all clients together; of
  // those that do not fit one goes on at a time, but in a transaction. 0: the usual bounds, some
  // hundred MiB.
  uint64_t buffer_bytes = 0;
  uint64_t transaction_bytes = 0;  // of these, for transactions and watches; 0: half of them
  // Who has been silent for so long while others wait for the room that it has is cut off.
  int64_t patience_ms = 3'000;
  uint32_t idle_seconds = 0;  // a client that asks nothing for so long is cut off; 0: never
  Limits limits;

  // A Unix socket for directors, beside the public listeners: PULSE.* allowed, and before AUTH;
  // mode 0600, no TLS. Made up when offload is on and this is empty.
  std::string host_socket;
  bool offload = false;
};

// What the agent in front of the server is given. Its reads are to be of the database's files only.
struct OffloadSetup {
  std::string db;
  std::string secondary_dir;  // for the secondary's own files; exists, and is removed afterwards
  std::string host_socket;
  uint64_t cache_bytes = 0;
  std::vector<int> cpus;
  Limits limits;
  bool needs_auth = false;  // nothing is answered before the host has answered a read
  bool wants_password = false;
};
using OffloadFactory =
    std::function<absl::StatusOr<std::shared_ptr<net::Application>>(const OffloadSetup&)>;

// Of the host server alone, since its start: not of an agent in front of it, whose connections and
// forwarded commands these are.
struct ServerNumbers {
  uint64_t connections = 0;  // now
  uint64_t connections_total = 0;
  uint64_t commands = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t errors = 0;
  uint64_t waited = 0;          // times that a connection's commands needed a thread that may wait
  uint64_t rejected = 0;        // passwords
  uint64_t held_bytes = 0;      // now: for requests and replies on their way
  uint64_t received_bytes = 0;  // by its sockets, since CONFIG RESETSTAT
  uint64_t sent_bytes = 0;
  int64_t loop_cpu_nanos = 0;  // of the threads that serve connections
};

// What a director that is to take such requests, and to pass on the host's replies, takes.
void LimitMessages(const Limits& limits, net::DirectorLimits* of_director);

class Server {
 public:
  // `offload` is needed when options.offload is set.
  static absl::StatusOr<std::unique_ptr<Server>> Open(const ServeOptions& options,
                                                      OffloadFactory offload = {});
  virtual ~Server() = default;

  // The port of the public listener; 0 when there is none.
  virtual uint16_t port() const = 0;
  virtual const std::string& host_socket() const = 0;
  // Takes no lock that serving needs. Not during Stop, nor after it.
  virtual ServerNumbers numbers() const = 0;
  // The agent's, with offload on; else null. It goes with Stop.
  virtual const net::Director* agent() const = 0;
  // For connections that arrive in other processes, and are carried out on a thread that makes and
  // calls their flows. They all end before Stop.
  virtual HostApplication* host_application() = 0;
  // Stops accepting, answers what is outstanding, closes the database. Once.
  virtual absl::Status Stop() = 0;
};

}  // namespace pulse::redis
