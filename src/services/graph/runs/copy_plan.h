// CopyPlan: a list of copies {source, destination, length} which together are a sort, a flush or a
// compaction; PlanExecutor: gives them to a CopyEngine (mover/copy_engine.h) and sees them through.
// Whatever the engine, the bytes are the same; what it does not do in the end, the caller does.
// Sections III-A and III-B of the DSA paper: the order is found by the processor, the data are
// moved by the engine, meanwhile the processor goes on.
//
// Threads: one, for each object. Ownership: nobody's memory; until a plan is done its sources do
// not change and its destinations are not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "mover/copy_engine.h"

namespace pulse::graph {

class CopyPlan {
 public:
  struct Piece {
    const char* source;
    char* destination;
    uint64_t length;
  };
  // A piece that goes on where the last one ends, at both ends, becomes part of it.
  void Add(const void* source, void* destination, uint64_t length) {
    if (length == 0) return;
    ++added_;
    bytes_ += length;
    const auto* from = static_cast<const char*>(source);
    auto* to = static_cast<char*>(destination);
    if (!pieces_.empty()) {
      Piece& last = pieces_.back();
      if (last.source + last.length == from && last.destination + last.length == to) {
        last.length += length;
        return;
      }
    }
    pieces_.push_back({from, to, length});
  }
  const std::vector<Piece>& pieces() const { return pieces_; }
  uint64_t bytes() const { return bytes_; }
  // Before they were joined.
  uint64_t added() const { return added_; }
  bool empty() const { return pieces_.empty(); }
  void clear() {
    pieces_.clear();
    bytes_ = 0;
    added_ = 0;
  }

 private:
  std::vector<Piece> pieces_;
  uint64_t bytes_ = 0;
  uint64_t added_ = 0;
};

struct ExecutorOptions {
  // Shorter pieces are copied by the caller: a descriptor costs more than they do.
  uint64_t min_engine_bytes = 512;
  // Longer ones are cut, so that an engine with several channels has something for each.
  uint64_t max_piece_bytes = uint64_t{1} << 20;
  // How often a piece is given to the engine again after it was Unavailable, without a byte done
  // between; then the caller copies it.
  int attempts = 8;
  // How often, at least 50 us apart, Wait() offers copies to an engine that has none in flight and
  // takes none. From then on the caller copies everything of this executor.
  int refusals = 2000;
};

// Who copied what.
struct ExecutorStats {
  uint64_t pieces = 0;
  uint64_t bytes = 0;
  uint64_t engine_bytes = 0;
  uint64_t small_bytes = 0;     // below min_engine_bytes: by the caller
  uint64_t fallback_bytes = 0;  // by the caller, after the engine had failed
  uint64_t partial = 0;         // completions that left a rest
  uint64_t full = 0;            // submissions that met a full queue
  uint64_t failures = 0;        // completions with an error
  absl::Status last_failure;    // why
};

class PlanExecutor {
 public:
  // The engine outlives the executor and is used by nobody else meanwhile.
  explicit PlanExecutor(CopyEngine* engine, const ExecutorOptions& options = {});
  // Waits until the engine has let go of all memory.
  ~PlanExecutor();
  PlanExecutor(const PlanExecutor&) = delete;
  PlanExecutor& operator=(const PlanExecutor&) = delete;

  // Adds a plan to those that run. Submits what the engine takes and returns: it does not wait.
  void Start(const CopyPlan& plan);
  // Takes completions, submits more; true when everything is done. Never waits.
  bool Poll();
  // Polls until everything is done. OK: all bytes are at their destination. An error is that of a
  // piece that no engine can do (InvalidArgument), and no byte of the plan may be relied on.
  absl::Status Wait();

  const ExecutorStats& stats() const { return stats_; }

 private:
  struct Open {
    CopyItem item;
    int attempts = 0;
  };
  void Submit();
  void CopyQueue();
  void Complete(const CopyCompletion& completion);

  CopyEngine* const engine_;
  const ExecutorOptions options_;
  std::vector<Open> open_;       // by tag
  std::vector<uint64_t> free_;   // tags
  std::vector<CopyItem> queue_;  // not submitted; taken from the end
  std::vector<CopyCompletion> polled_;
  bool deserted_ = false;  // the engine takes no copies
  absl::Status status_;
  ExecutorStats stats_;
};

}  // namespace pulse::graph
