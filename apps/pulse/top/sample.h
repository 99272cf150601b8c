// Two answers of an agent (docs/reference/protocol.md, "Status"), and what went on between them.
// Plain data; any thread; does not block. What the agent says is checked: a member that is missing
// or of another kind is an error, and not a crash.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/pulse/top/cpu_lines.h"
#include "base/cpu_profile.h"

namespace pulse::top {

// One session in one answer.
struct SessionSample {
  uint64_t id = 0;
  uint64_t pid = 0;
  std::string service;
  std::string mover;
  std::vector<std::string> databases;  // by name, as far as the host could say
  std::map<std::string, uint64_t> requests;
  uint64_t failed = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t fetch_busy = 0, fetch_in_flight = 0;
  uint64_t persist_busy = 0, persist_in_flight = 0;
  std::vector<uint64_t> sync_counts;  // [i]: below 2^i microseconds, and not in one before
  bool has_host = false;
  uint64_t host_time = 0;                // nanoseconds, of the agent's clock
  std::map<std::string, uint64_t> host;  // its numbers by name
  uint64_t HostNumber(const char* name) const {
    const auto it = host.find(name);
    return it == host.end() ? 0 : it->second;
  }
};

// What serves remote clients, in one answer.
struct FrontSample {
  std::string service;
  uint64_t connections = 0;
  uint64_t held_bytes = 0;
  uint64_t answered = 0;  // by the agent
  uint64_t to_host = 0;
  uint64_t requests = 0;  // messages of clients
  uint64_t cpu = 0;       // nanoseconds
  // By CpuComponent, nanoseconds; estimated.
  std::array<uint64_t, kCpuComponentNames.size()> components{};
  bool KnowsComponents() const {
    return std::any_of(components.begin(), components.end(), [](uint64_t n) { return n > 0; });
  }
};

// The whole compactions that the agent runs, in one answer.
struct TaskSample {
  uint64_t most = 0;  // at a time
  uint64_t running = 0;
  uint64_t done = 0;
  uint64_t failed = 0;
  uint64_t refused = 0;
  // Whether there is anything to show: most agents never get any.
  bool Any() const { return running + done + failed + refused > 0; }
};

// The operators that the agent offers, in one answer: all tasks together.
struct OpsSample {
  uint64_t threads = 0;
  uint64_t running = 0;  // chunks
  uint64_t waiting = 0;
  uint64_t chunks = 0;
  uint64_t failed = 0;
  uint64_t bytes_in = 0;
  uint64_t busy = 0;  // nanoseconds, of all threads
};

// The compactions of graphs that the agent offers, in one answer.
struct MergeSample {
  uint64_t merges = 0;
  uint64_t failed = 0;
  uint64_t refused = 0;
  uint64_t running = 0;
  uint64_t waiting = 0;
  uint64_t bytes_in = 0;
  uint64_t bytes_out = 0;
  uint64_t cpu = 0;  // nanoseconds
};

// The streams that the agent filters, in one answer; bytes count when a stream has ended.
struct IngestSample {
  uint64_t open = 0;
  uint64_t streams = 0;
  uint64_t failed = 0;
  uint64_t bytes_received = 0;
  uint64_t bytes_filtered = 0;
  uint64_t bytes_sent = 0;
};

struct AgentSample {
  std::string kind;
  std::string engine;
  uint64_t pid = 0;
  uint64_t workers = 0;
  uint64_t now = 0;     // nanoseconds
  uint64_t uptime = 0;  // nanoseconds
  uint64_t cpu = 0;     // nanoseconds
  std::vector<SessionSample> sessions;
  std::optional<FrontSample> front;
  std::optional<TaskSample> tasks;
  std::optional<OpsSample> ops;
  std::optional<MergeSample> merges;
  std::optional<IngestSample> ingest;
};

absl::StatusOr<AgentSample> ParseStatus(const std::string& json);

// What the host said of itself, per second of its own interval. Shares are of that interval and
// summed over threads, so that they can exceed 1.
struct HostRates {
  double merging = 0;         // threads that merged and encoded, on average
  double fetched = 0;         // bytes of input a second that merges took
  double persisted = 0;       // bytes of output a second that went through the agent
  double inline_written = 0;  // ... and that the host wrote by itself
  double backpressure = 0;    // waiting for queue space
  double barrier = 0;
  double fetch_wait = 0;
};

struct SessionRates {
  SessionSample now;
  bool measured = false;   // false: it has just come
  double fetch_share = 0;  // of the interval in which the stage had something under way
  double persist_share = 0;
  double read = 0;  // bytes a second, by the agent
  double written = 0;
  double requests = 0;  // a second
  double syncs = 0;     // a second
  double sync_p50 = 0;  // seconds; 0: there was none
  double sync_p99 = 0;
  HostRates host;
  double host_silent = 0;  // seconds since its numbers, if it has missed several turns; else 0
  // The host writes by itself at the moment, as stock RocksDB would.
  bool IsInline() const { return host.inline_written > 0 && host.persisted == 0; }
};

struct FrontRates {
  double requests = 0;     // a second
  double offloaded = 0;    // the share of them that the agent answered; 0 when there were none
  double cpu_share = 0;    // of one CPU
  CpuShares components{};  // of one CPU, by CpuComponent
  // The front hands all to the host, and has no reasons to count.
  bool hands_all_over = false;
};

struct OpsRates {
  double chunks = 0;  // a second
  double bytes = 0;   // of chunks, a second
  double share = 0;   // of the interval that its threads worked
};

struct MergeRates {
  double merges = 0;     // a second
  double bytes_in = 0;   // a second
  double bytes_out = 0;  // a second
  double cpu_share = 0;  // of one CPU
};

struct IngestRates {
  double streams = 0;   // that ended, a second
  double received = 0;  // bytes a second, as clients sent them
  double filtered = 0;  // bytes a second, after decompression
  double sent = 0;      // bytes a second, to the host
};

struct AgentRates {
  AgentSample now;
  double seconds = 0;    // between the two answers; 0: there is one only
  double cpu_share = 0;  // of one CPU
  std::vector<SessionRates> sessions;
  std::optional<FrontRates> front;  // none before it is measured; see now.front
  OpsRates ops;                     // see now.ops
  MergeRates merges;                // see now.merges
  IngestRates ingest;               // see now.ingest
};

// `before` may be null, and another agent's (by its process): then nothing is measured. `previous`
// is what this gave the last time, or null: a host that has written no new numbers since keeps its
// rates.
AgentRates Compare(const AgentSample* before, AgentSample now, const AgentRates* previous);

}  // namespace pulse::top
