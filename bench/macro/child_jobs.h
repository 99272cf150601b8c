// What a benchmark's child process does. Each job takes its spec as the parent wrote it and returns
// the figures of the run. They throw nlohmann's exceptions on a malformed spec; RunJob catches
// them.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace pulse::bench {

// Fills a new database in "dir", without compacting: all of it ends in level 0.
absl::StatusOr<nlohmann::json> RunLoadJob(const nlohmann::json& spec);

// Times a manual compaction of everything in "dir".
absl::StatusOr<nlohmann::json> RunCompactionJob(const nlohmann::json& spec);

// Times random writes to a new database in "dir", with automatic compactions.
absl::StatusOr<nlohmann::json> RunFillJob(const nlohmann::json& spec);

// Reads all of "dir" on RocksDB's own file system, checks each value and sums the contents up.
absl::StatusOr<nlohmann::json> RunVerifyJob(const nlohmann::json& spec);

// For `pulse bench crash`. Writes to "dir", keeping "ledger", until it is killed; it returns only
// when something went wrong.
absl::StatusOr<nlohmann::json> RunCrashLoadJob(const nlohmann::json& spec);
// Times the opening of "dir".
absl::StatusOr<nlohmann::json> RunCrashOpenJob(const nlohmann::json& spec);
// Compares "dir", read on RocksDB's own file system, with "ledger", and settles the ledger.
absl::StatusOr<nlohmann::json> RunCrashCheckJob(const nlohmann::json& spec);

// For `pulse bench files`: writes the file; reads it at random.
absl::StatusOr<nlohmann::json> RunFilesFillJob(const nlohmann::json& spec);
absl::StatusOr<nlohmann::json> RunFilesReadJob(const nlohmann::json& spec);
// For `pulse bench ring`: one ring, one number of producers.
absl::StatusOr<nlohmann::json> RunRingJob(const nlohmann::json& spec);

// For `pulse bench kv`: one part, one variant.
absl::StatusOr<nlohmann::json> RunKvJob(const nlohmann::json& spec);

// For `pulse bench blocks`: a load on a server, and what its processes use.
absl::StatusOr<nlohmann::json> RunBlocksLoadJob(const nlohmann::json& spec);

// For `pulse bench serve`: fills a server's database through it; a load on the server.
absl::StatusOr<nlohmann::json> RunServeJob(const nlohmann::json& spec);
// For `pulse bench director`: a server, a director in front of it or none, and a load.
absl::StatusOr<nlohmann::json> RunDirectorJob(const nlohmann::json& spec);

// For `pulse bench graph`: logs to a store in "dir", then makes the file "done" and waits to be
// killed; times the opening of "dir".
absl::StatusOr<nlohmann::json> RunGraphLogJob(const nlohmann::json& spec);
absl::StatusOr<nlohmann::json> RunGraphOpenJob(const nlohmann::json& spec);

// Runs one YCSB workload on "dir".
absl::StatusOr<nlohmann::json> RunYcsbJob(const nlohmann::json& spec);

// Runs the job that the JSON text `spec` names.
absl::StatusOr<nlohmann::json> RunJob(const std::string& spec);

}  // namespace pulse::bench
