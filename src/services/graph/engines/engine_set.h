// EngineSet: the copy engines that one store may use, and the choice among them: the caller's own
// CPU, threads, an agent, Intel DSA, a simulated one, or `auto`, by measured cost and size. Section
// III-B of the DSA paper.
//
// `auto` takes, of the engines that are there, the one with the least CPU time of this process for
// a byte, of those that are at most kMostSlower times as slow as the fastest. Each is tried first.
// Below kLeastBytes the caller does it: an engine's own costs would be more. One that could not do
// its work rests for a while. Simulated engines and threads are never taken by `auto`: the former
// is none, and the latter cost the process as much CPU as the caller's own copies.
//
// Thread-safe. Open blocks until an agent has answered.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mover/dsa_copy_engine.h"
#include "services/graph/engines/host_merger.h"
#include "services/graph/runs/engines.h"
#include "vdpu/sim_copy_engine.h"

namespace pulse::graph::engines {

enum class EngineKind : uint8_t { kAuto, kInline, kThreads, kAgent, kDsa, kSim };

// InvalidArgument for another name, with those there are.
absl::StatusOr<EngineKind> ParseEngineKind(const std::string& name);
// "auto|inline|threads|agent|dsa|sim".
std::string EngineKindNames();

struct EngineSetOptions {
  EngineKind kind = EngineKind::kAuto;
  // Of an agent process. With kAgent and none: compactions by a thread of this process, on `cpus`.
  std::string agent_socket = {};
  int64_t agent_silence_ms = 10'000;
  int threads = 1;        // of kThreads
  std::string cpus = {};  // of these threads; empty: any
  DsaPaths dsa = {};
  vdpu::SimCopyOptions sim = {};
};

// What one engine has done.
struct EngineUse {
  uint64_t flushes = 0, merges = 0;
  uint64_t bytes = 0;      // of their inputs
  int64_t nanos = 0;       // they took
  int64_t cpu_nanos = 0;   // of the caller's threads
  uint64_t fell_back = 0;  // that it could not do, and the caller did
  std::string last_failure;
};

class EngineSet : public EngineSource {
 public:
  static constexpr uint64_t kLeastBytes = uint64_t{1} << 20;
  static constexpr int64_t kMostSlower = 4;
  // So many works of its kind are not given to an engine that has failed.
  static constexpr int kRest = 8;

  // The engine that was asked for is there, or the error says why not: Unavailable for an agent,
  // NotFound or FailedPrecondition for DSA, InvalidArgument for options that fit no engine. With
  // `auto`, engines that are not there are left out.
  static absl::StatusOr<std::unique_ptr<EngineSet>> Open(EngineSetOptions options);

  absl::StatusOr<EngineChoice> Choose(const EngineWork& work) override;
  void Report(const EngineWork& work, const EngineOutcome& outcome) override;

  // One line: what is used, and by which rule; what `auto` left out, and why.
  std::string Describe() const;
  // One line: what each has done; empty where none has done anything.
  std::string Summary() const;
  std::map<std::string, EngineUse> uses() const;

 private:
  using WorkKind = EngineWork::Kind;
  struct Cost {
    bool tried = false;
    double bytes = 0, nanos = 0, cpu_nanos = 0;
    int rests = 0;
  };
  explicit EngineSet(EngineSetOptions options) : options_(std::move(options)) {}
  absl::Status Prepare();
  // The engines that may do such work, the caller's own first.
  std::vector<EngineKind> Candidates(const EngineWork& work) const;
  EngineKind Cheapest(const EngineWork& work);
  absl::StatusOr<std::unique_ptr<CopyEngine>> MakeEngine(EngineKind kind);

  const EngineSetOptions options_;
  std::unique_ptr<Merger> merger_;
  bool has_dsa_ = false;
  std::string left_out_;
  mutable std::mutex mu_;
  std::map<std::pair<WorkKind, EngineKind>, Cost> costs_;
  std::map<std::string, EngineUse> uses_;
};

}  // namespace pulse::graph::engines
