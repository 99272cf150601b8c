// Engine: what processes chunks. The interface that operators implement for each processor or
// library (ISA-L, zlib, Vectorscan, an accelerator ...) and that the queue (queue.h) drives. It
// implements the targets between which the co-processing paper places tasks (section 4.2).
//
// An engine has lanes. A lane is one thread of the queue that processes one chunk at a time; an
// engine whose answers take long has as many lanes as chunks must be in flight to hide that. Lanes
// are processors of their own, as the threads of a library are, or, of a `pipeline`, places of one
// processor, which does their chunks one after the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/ops/buffer.h"

namespace pulse::ops {

struct PlacementReport;  // placement_report.h

// A piece of input. `input` holds `prefix` bytes of what came before (a dictionary; may be none)
// and then the data of the chunk. Read-only while engines process it: two may do so at once.
struct Chunk {
  uint64_t number = 0;  // from 0, without gaps
  uint64_t offset =
      0;  // of the data in the operation's input; what it means is the source's choice
  size_t prefix = 0;
  bool last =
      false;  // the source knew that nothing follows; never set by a source that cannot know
  // For the operation: sizes that a container announces and the like. The queue does not look.
  uint64_t tag = 0;
  uint32_t checksum = 0;
  uint32_t kind = 0;
  Buffer input;

  const uint8_t* data() const { return input.data() + prefix; }
  size_t size() const { return input.size() - prefix; }
};

// What an engine made of a chunk. Members other than `bytes` mean what the operation says.
struct Result {
  Buffer bytes;
  size_t skip = 0;  // bytes at the front of `bytes` that are not part of the result
  uint32_t checksum = 0;
  uint64_t count = 0;
  // Of the time that the engine took, what it needed before it could begin: NanosBefore.
  int64_t before_nanos = 0;
  std::vector<uint64_t> marks;

  absl::string_view payload() const { return bytes.view().substr(skip); }
  void Clear() {
    bytes.Clear();
    skip = 0;
    checksum = 0;
    count = 0;
    before_nanos = 0;
    marks.clear();
  }
};

// Where an engine's lanes run: placement is between these two.
enum class Side : uint8_t { kHost, kAgent };

struct EngineTraits {
  std::string name;  // of the engine, as in reports: "isal", "isal@agent"
  Side side = Side::kHost;
  int lanes = 1;
  // CPUs for its lanes' threads; empty: any.
  std::vector<int> cpus;
  bool pipeline = false;
};

// What a device counts.
struct EngineCounts {
  uint64_t pieces = 0;   // as which it was given chunks
  uint64_t retries = 0;  // with more room for the result
};

class Engine {
 public:
  explicit Engine(EngineTraits traits) : traits_(std::move(traits)) {}
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const EngineTraits& traits() const { return traits_; }

  // Processes `chunk` into `result`, which is cleared and whose memory may be reused. Called by the
  // thread of `lane`, by several lanes at once. May block until done or interrupted. Unavailable
  // means that the engine is lost: the queue gives its chunks to others and asks it no more.
  // Unimplemented means that it cannot do this chunk, which another engine gets. Every other error
  // is about the chunk, and ends the operation once all before it has been delivered.
  virtual absl::Status Process(int lane, const Chunk& chunk, Result& result) = 0;

  // Before it would begin with a chunk of this size: contexts to be made or reconfigured. Any
  // thread.
  virtual int64_t NanosBefore(uint64_t bytes) const { return 0; }

  // A queue begins to use it; before its first call of Process.
  virtual void Begin() {}
  // Nobody waits for results any more: a Process that blocks should return soon, with any status.
  // Any thread.
  virtual void Interrupt() {}
  // What it alone has counted since Begin. Any thread.
  virtual EngineCounts Counts() const { return {}; }
  // What its queue decided, now and then and at its end: for those who watch the other side. One
  // call at a time. Blocks for a quarter of a second at most.
  virtual void Explain(const PlacementReport& report) {}
  // True the first time: an engine that several queues use, one after the other, is reported as
  // lost by the first of them that loses it.
  bool ReportLoss() { return !loss_reported_.exchange(true); }

 private:
  std::atomic<bool> loss_reported_{false};
  const EngineTraits traits_;
};

}  // namespace pulse::ops
