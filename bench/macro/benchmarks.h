// The benchmarks, and what several of them need. Main thread only.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/macro/session.h"
#include "bench/macro/soak_agent.h"

namespace pulse::bench {

// Each runs the whole benchmark and prints its tables.
absl::Status RunDemo(BenchArgs args);
absl::Status RunCompactionBench(BenchArgs args);
absl::Status RunFillBench(BenchArgs args);
absl::Status RunSoakBench(BenchArgs args);
absl::Status RunCrashBench(BenchArgs args);
absl::Status RunFailoverBench(BenchArgs args);
absl::Status RunFilesBench(BenchArgs args);
absl::Status RunBlocksBench(BenchArgs args);
absl::Status RunServeBench(BenchArgs args);
absl::Status RunDirectorBench(BenchArgs args);
absl::Status RunRingBench(BenchArgs args);
absl::Status RunKvBench(BenchArgs args);
absl::Status RunOpsBench(BenchArgs args);
absl::Status RunGraphBench(BenchArgs args);
absl::Status RunVdpuBench(BenchArgs args);
absl::Status RunYcsbBench(BenchArgs args);
absl::Status RunPaperBench(BenchArgs args);
absl::Status RunAllBenchmarks(BenchArgs args);

// For other benchmarks: a level 0 of `size` in values of 1 KiB, frozen, and compacted by
// `variants` in rounds. Says no tables. The result is a row with "label", "variants" and "runs".
absl::StatusOr<nlohmann::json> RunFrozen(Session* session, uint64_t size, const std::string& label,
                                         const std::vector<Variant>& variants);
uint64_t FrozenSpace(uint64_t size);  // disk that it takes at the most

// A new store "store" in the session's directory, with room for a file of `bytes` in segments.
inline constexpr uint64_t kStoreSegment = uint64_t{1} << 20;
absl::Status MakeStore(const Session& session, uint64_t bytes);
// An agent that answers, on the agent's CPUs; socket and log ("agent.sock", "agent.log") are in the
// session's directory.
absl::StatusOr<std::unique_ptr<SoakAgent>> StartAgent(const Session& session,
                                                      std::vector<std::string> options);
// For a job that has neighbours on the host's CPUs (Neighbours::WorkAsAsked).
nlohmann::json NeighboursOf(const BenchArgs& args, const Session& session);
// Of a result, in words.
std::string OpsAndHostCpu(const nlohmann::json& result);
absl::Status RemoveUnlessKept(const Session& session, std::initializer_list<const char*> names);

}  // namespace pulse::bench
