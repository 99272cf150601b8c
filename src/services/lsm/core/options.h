// Options of the plug-in: from the URI, over those of the environment variable PULSE_OPTIONS (for
// preloaded programs), over the defaults here. docs/reference/options.md explains each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/session.h"
#include "services/lsm/core/thread_activity.h"
#include "uring/io_backend.h"

namespace pulse::lsm {

enum class SyncMode { kBarrier, kStrict };
enum class IoMode { kAuto, kDirect, kBuffered };
// Where table and blob files are: plain files, or in a pool.
enum class Layout { kFiles, kPool };
// Which processor does compactions: the host alone; the host, with the agent for the I/O; the agent
// alone; or whichever is best (compaction_placer.h).
enum class PlacementMode { kHost, kOffloadIo, kOffloadAll, kAdaptive };
// Which compactions kOffloadAll gives to the agent: all, or those from level 1 on while the host
// has no slot free (DComp).
enum class OffloadAllScope { kAll, kDeep };
// On whose CPUs flushes are made (flush_placement.h). kDefault: adaptive with placement=adaptive,
// else the host.
enum class FlushMode { kHost, kAgent, kAdaptive, kDefault };

struct Options {
  // Empty: an agent embedded in this process.
  std::string socket_path;
  bool fallback_embedded = false;

  Layout layout = Layout::kFiles;
  std::string pool;  // path of the store

  PlacementMode placement = PlacementMode::kOffloadIo;
  OffloadAllScope offload_all = OffloadAllScope::kAll;
  FlushMode flushes = FlushMode::kDefault;
  // Whether the threads that RocksDB starts to compress blocks run on an embedded agent's CPUs
  // (compression_threads.h).
  bool agent_compresses = false;
  // Of placement=adaptive: the bytes of pending compaction up to which it may be deferred, to spare
  // a busy host. kAutoPendingLimit: a quarter of those at which RocksDB begins to slow writers.
  static constexpr uint64_t kAutoPendingLimit = ~uint64_t{0};
  uint64_t pending_limit = kAutoPendingLimit;
  int agent_cores() const { return std::max(1, static_cast<int>(agent_cpus.size())); }
  // Whole compactions of an embedded agent at a time. One more than CPUs: while one waits for the
  // device, another computes.
  int tasks() const { return agent_tasks > 0 ? static_cast<int>(agent_tasks) : agent_cores() + 1; }
  int64_t host_slots = 4;   // of whole=deep: compactions that the host does at a time
  int64_t agent_tasks = 0;  // whole compactions of an embedded agent at a time; 0: one more than
                            // it has CPUs

  SyncMode sync = SyncMode::kBarrier;
  IoMode io = IoMode::kAuto;
  bool fetch = true;
  uint64_t queue_bytes = uint64_t{32} << 20;
  uint64_t write_threshold = uint64_t{1} << 20;
  uint64_t sync_interval = uint64_t{1} << 20;  // buffered I/O only
  uint64_t fetch_bytes = uint64_t{64} << 20;   // all fetch buffers of one session
  uint64_t fetch_chunk = uint64_t{256} << 10;
  uint64_t readahead = uint64_t{256} << 10;  // what RocksDB reads at a time during compaction
  int64_t max_streams = 63;
  // An agent process that shows no sign of life for so long counts as lost.
  int64_t agent_deadline_ms = 10'000;

  int64_t compaction_nice = 0;  // of RocksDB's background threads that compact

  // Where to write a timeline (base/trace.h); empty: nowhere.
  std::string trace;

  // Where an embedded agent tells what it does (agent/status_server.h); empty: nowhere.
  std::string status;

  // Embedded agent only, except that a socket session may ask for its mover.
  std::vector<int> agent_cpus;
  int64_t agent_nice = 0;
  bool agent_background = true;  // SCHED_BATCH: yield to whom it works for
  bool mover_given = false;
  MoverKind mover = MoverKind::kShared;
  bool engine_given = false;
  EngineKind engine = EngineKind::kUring;
  int64_t spin_us = 20;
  IoBackendFactory backend_factory;  // for tests; see IoBackendOptions
};

// Parses "pulse://[SOCKET][?key=value&...]". InvalidArgument names the option and what is expected.
absl::StatusOr<Options> ParseOptions(const std::string& uri);

}  // namespace pulse::lsm
