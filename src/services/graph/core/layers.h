// The layers that relationships lie in, for each direction: chunks of layer 0 in memory and sorted
// runs, from the newest to the oldest; and how a snapshot reads one node's relationships out of all
// of them. Section III-A of the DSA paper.
//
// A Layers object never changes, but for what is appended to its newest chunk; who reads keeps the
// object, and with it chunks that were flushed and runs that were merged meanwhile.
//
// Threads: any; nothing blocks but page faults of mapped runs.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "services/graph/model/graph.h"
#include "services/graph/runs/chunk.h"
#include "services/graph/runs/run_reader.h"

namespace pulse::graph {

// A chunk and its memory.
class L0Chunk {
 public:
  explicit L0Chunk(Side side);
  ~L0Chunk();
  L0Chunk(const L0Chunk&) = delete;
  L0Chunk& operator=(const L0Chunk&) = delete;

  const Chunk& chunk() const { return chunk_; }
  static size_t memory() { return Chunk::Bytes(); }
  // The one writer. False: full.
  bool Append(NodeId node, const Record& record);
  // How many records of a node a snapshot sees, where hides() is false.
  uint64_t Count(NodeId node, uint64_t sequence, bool skip_loops,
                 std::span<const Token> types) const;
  // Whether some record hides older ones.
  bool hides() const { return hides_.load(std::memory_order_acquire); }

 private:
  char* const memory_;
  Chunk chunk_;
  std::atomic<bool> hides_{false};
};

// A sorted run, and the file that it is in.
struct Run {
  std::shared_ptr<const RunReader> reader;
  std::string file;
  int level = 1;
  bool hides() const { return reader->info().tombstones + reader->info().updates > 0; }
};

struct SideLayers {
  std::vector<std::shared_ptr<L0Chunk>> chunks;  // the newest first
  std::vector<Run> runs;                         // the newest first
  size_t levels() const { return chunks.size() + runs.size(); }
};

struct Layers {
  SideLayers out, in;
  // All that was committed up to it is in runs.
  uint64_t flushed = 0;
  const SideLayers& side(Side side) const { return side == Side::kOut ? out : in; }
};

// Relationships that a newer layer has a version of.
using HiddenEdges = absl::flat_hash_set<EdgeId>;

// A record that a snapshot sees. `position` in its run, kNoPosition in a chunk.
struct Neighbour {
  NodeId other = 0;
  EdgeId edge = 0;
  Token type = kNoToken;
  uint64_t position = kNoPosition;
};

// One node's relationships of one side as a snapshot sees them, level by level from the newest on.
// One thread.
class NodeReader {
 public:
  NodeReader(const SideLayers& layers, uint64_t sequence) : layers_(layers), sequence_(sequence) {}

  // `level` of `node` comes next, and no newer one hides anything.
  void Start(NodeId node, size_t level = 0) {
    node_ = node;
    level_ = level;
    if (!hidden_.empty()) hidden_.clear();
  }
  // The same where newer ones may: what they hide of these types is found first, as ReadLevel would
  // have found it.
  absl::Status StartAt(NodeId node, size_t level, std::span<const Token> types);
  size_t level() const { return level_; }
  bool done() const { return level_ >= layers_.levels(); }
  // The caller reads the level itself, which hides nothing.
  void SkipLevel() { ++level_; }

  // Appends what the next level has; `types` empty: of all types.
  absl::Status ReadLevel(std::span<const Token> types, std::vector<Neighbour>* out);
  // Whether what a run has of the node can be taken as it is: nothing newer hides any of it, and
  // the snapshot is not older than it.
  bool Plain(const Run& run) const {
    return hidden_.empty() && run.reader->info().max_sequence <= sequence_ && !run.hides();
  }

 private:
  template <typename Emit>
  void ReadChunk(const L0Chunk& chunk, const Emit& emit);
  template <typename Emit>
  absl::Status ReadRun(const Run& run, std::span<const Token> types, const Emit& emit);

  const SideLayers& layers_;
  const uint64_t sequence_;
  NodeId node_ = 0;
  size_t level_ = 0;
  HiddenEdges hidden_;
};

inline bool HasType(std::span<const Token> types, Token type) {
  if (types.empty()) return true;
  for (const Token t : types) {
    if (t == type) return true;
  }
  return false;
}

// Whether a run has a relationship of one of the types.
inline bool HasAny(const RunInfo& info, std::span<const Token> types) {
  const auto& there = info.types;
  return types.empty() || std::any_of(there.begin(), there.end(), [types](const auto& type) {
           return HasType(types, type.first);
         });
}

// Whether all relationships of a run have one of the types; of none asked for, each has.
inline bool HasOnly(const RunInfo& info, std::span<const Token> types) {
  for (const auto& [type, records] : info.types) {
    if (!HasType(types, type)) return false;
  }
  return true;
}

}  // namespace pulse::graph
