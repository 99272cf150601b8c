// Profile: what a virtual DPU is like, so that an agent on spare cores behaves as one on a card
// would: the speed and number of its cores, its DMA engine, and what it costs to set that up. The
// figures of the built-in ones come from the papers, line by line, in src/vdpu/profiles.
//
// A plain value. Thread-safe. Loading blocks for the reading of a file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pulse::vdpu {

// An accelerator of the card for one operation of services/ops.
struct AcceleratorProfile {
  std::string operation;          // "compress-deflate", "decompress-lz4", "regex" ...
  double rate_gb_s = 1;           // 10^9 bytes a second, of the larger of input and output
  double latency_us = 0;          // of a task, without the time for its bytes
  double setup_ms = 0;            // a context is made
  double reconfigure_ms = 0;      // a context is stopped and started for buffers of another size
  double largest_buffer_mib = 1;  // of input and of output
  int depth = 1;                  // tasks in flight
  // Of regular expressions: the rate for one of the paper's queries alone, by its name. May be
  // empty: `rate_gb_s` then.
  std::map<std::string, double> query_rate_gb_s;
};

struct Profile {
  std::string name;
  std::string description;
  double core_speed = 1;  // of one core, against one host core
  int cores = 1;
  double memory_gib = 16;  // of the card; `pulse kv` alone asks for it
  double dma_latency_us = 0;
  double dma_bandwidth_gb_s = 1;  // 10^9 bytes a second
  double dma_operation_us = 0;
  double setup_ms = 0;        // a session's first queue
  double reconfigure_ms = 0;  // each further one
  // What the card has; an operation that is not here it cannot do.
  std::vector<AcceleratorProfile> engines;

  // Null: it has none.
  const AcceleratorProfile* EngineFor(absl::string_view operation) const;
};

// The operations that a profile may have tables [engine.OPERATION] for.
const std::vector<std::string>& AcceleratedOperations();

struct BuiltInProfile {
  std::string name;
  std::string text;  // as a file would have it
};
// The last is "none", for those who print it: it has the bounds that a file may have at the most.
const std::vector<BuiltInProfile>& BuiltInProfiles();
// "bf2, bf3, none".
std::string KnownProfiles();

// `origin` names the text in errors. InvalidArgument, as "ORIGIN:LINE: what, and what is expected",
// for what is no TOML, and for keys that are unknown, missing, of another type or out of range.
absl::StatusOr<Profile> ParseProfile(absl::string_view text, absl::string_view origin);

// A built-in one by its name, or the file at a path: what has a slash or ends in ".toml". NotFound
// for another name, also for "none", with the list of those known.
absl::StatusOr<Profile> LoadProfile(const std::string& name_or_path);

// The text of a built-in profile, to start a file from; of "none" one that slows nothing down.
// NotFound as above.
absl::StatusOr<std::string> ProfileText(const std::string& name);

// One line: "bf2 (8 cores at 0.455 of a host core, DMA 7.8 us and 8 GB/s)".
std::string Describe(const Profile& profile);

// What an agent that may use `cpus` host CPUs cannot show of `profile`; empty when it can show all.
std::string Shortfall(const Profile& profile, int cpus);

}  // namespace pulse::vdpu
