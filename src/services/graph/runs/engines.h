// Who carries out the copies of flushes and compactions: EngineSource chooses a copy engine for
// each of them, or a Merger that does a compaction elsewhere. Whoever it is, the bytes are the
// same. The store knows these interfaces only; services/graph/engines has what is behind them.
// "On-chip acceleration" of sorts, flushes and compactions: section III-B of the DSA paper.
//
// Threads: any. Choose may block for milliseconds (an engine is opened); Merge blocks until the
// compaction is done.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mover/copy_engine.h"
#include "services/graph/runs/merge.h"

namespace pulse::graph {

// A compaction for somebody else.
struct MergeJob {
  // The newest first. The same runs as files, in the same order; empty: they are in no files.
  std::span<const std::shared_ptr<const RunReader>> runs;
  std::span<const int> files;
  MergeOptions options;
  // Where the result goes. `output`: the descriptor of the file behind `sink`, which is empty and
  // written from its beginning; -1: there is none.
  RunSink* sink = nullptr;
  int output = -1;
};

class Merger {
 public:
  virtual ~Merger() = default;
  // Unavailable: it cannot, or could not to the end, and why. What it has written to the output is
  // then worth nothing, and it may go on to write to that file: who merges by himself takes
  // another. Any other error is the merge's own.
  virtual absl::StatusOr<MergeStats> Merge(const MergeJob& job) = 0;
};

// A flush or a compaction.
struct EngineWork {
  enum class Kind : uint8_t { kFlush, kMerge };
  Kind kind = Kind::kMerge;
  uint64_t bytes = 0;    // of its inputs
  bool in_files = true;  // a compaction whose inputs and output have descriptors
};

struct EngineChoice {
  std::string name;
  // Does a compaction; null: the caller does it, with `engine`.
  Merger* merger = nullptr;
  // Never null: also for who must do himself what `merger` could not.
  std::unique_ptr<CopyEngine> engine;
};

// How it went.
struct EngineOutcome {
  std::string name;
  int64_t nanos = 0;
  int64_t cpu_nanos = 0;   // of the caller's thread
  absl::Status fell_back;  // why the caller did himself what it could not
};

class EngineSource {
 public:
  virtual ~EngineSource() = default;
  virtual absl::StatusOr<EngineChoice> Choose(const EngineWork& work) = 0;
  virtual void Report(const EngineWork& work, const EngineOutcome& outcome) = 0;
};

// The caller's own CPU, always.
EngineSource* InlineEngines();

}  // namespace pulse::graph
