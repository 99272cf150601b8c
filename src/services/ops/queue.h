// Queue: runs an operation, chunk by chunk, on the engines that it is given. It reads numbered
// chunks from a source, lets engines process them, several at once, and delivers the results to a
// sink in the order of their numbers. Which engine does which chunk is the scheduler's decision
// (scheduler.h); this is its threads.
//
// One thread runs for each lane of each engine, from Run() until it returns. A lane reads its
// chunk, processes it, and delivers what is next in the order, so that the bytes are in its caches
// all the way; no other thread handles them. Memory is bounded: at most `window` chunks with their
// results exist, and their memory is used again, unless it is much.
//
// An engine that is lost (Engine::Process returns Unavailable) costs its chunks' time only: others
// do them. Any other error ends the operation; what was before it in the order is delivered first.
// So is an error of the source, and std::bad_alloc in all of them (Internal). An error of the sink
// ends it at once. Where threads cannot be started, an engine has fewer lanes; without one lane for
// each engine Run fails.
//
// Implements sections 4.1 and 4.2 of the co-processing paper: an executor that splits a task
// between host and DPU, with a pull queue in place of percentages.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/ops/engine.h"
#include "services/ops/placement_report.h"
#include "services/ops/rates.h"
#include "services/ops/scheduler.h"

namespace pulse::ops {

// Where chunks come from. Not owned by the queue.
class Source {
 public:
  virtual ~Source() = default;

  // The next chunk, in the order of the input; false at its end. One call at a time, from the
  // lanes' threads. `chunk.number` is set and stays; everything else is as the source last left it
  // in some earlier chunk, and is to be set. A stream is read here. May block.
  virtual absl::StatusOr<bool> Next(Chunk& chunk) = 0;

  // Reads the input of a chunk that Next only described, where that can be done for several chunks
  // at once (pread). May block.
  virtual absl::Status Load(Chunk& chunk) { return absl::OkStatus(); }

  // The operation has failed: a Next that waits should return soon, with anything. Any thread.
  virtual void Stop() {}

  // What the chunk is taken for until its input is loaded, in bytes.
  virtual uint64_t SizeOf(const Chunk& chunk) const { return chunk.size(); }
};

// Where results go. Not owned by the queue.
class Sink {
 public:
  virtual ~Sink() = default;

  // In the order of the numbers, one call at a time, from the lanes' threads. May take the result's
  // memory. May block: other lanes go on until the window is full.
  virtual absl::Status Take(const Chunk& chunk, Result& result) = 0;
};

struct QueueOptions {
  Placement placement;
  // For rates: what is done, "compress/gzip", and at which level.
  std::string operation;
  int level = 0;
  uint64_t chunk_bytes = 512 << 10;
  // Of the input, if known before its end. Without it no engine leaves the last chunks to others.
  std::optional<uint64_t> total_bytes;
  // Chunks that are claimed and not yet delivered; 0: four for each lane, at least eight.
  size_t window = 0;
  // The thread that calls Run is the only lane: for small inputs. One engine with one lane; `tick`
  // is not called.
  bool in_calling_thread = false;
  // What earlier runs learnt, and where this one leaves what it learnt; may be null.
  RateTable* rates = nullptr;
  // Steady nanoseconds.
  std::function<int64_t()> clock;
  // Called by Run's thread now and then while lanes work: progress, signals. May call Cancel().
  std::function<void()> tick;
  std::chrono::milliseconds tick_every{100};
  // Another queue goes on with the operation: no report of this one is the operation's last.
  bool continues = false;
  // What placement decided, by Run's thread: each second, and at the end. Not with
  // `in_calling_thread`, where nothing is decided. May be null.
  std::function<void(const PlacementReport&)> report;
};

struct EngineStats {
  std::string name;
  Side side = Side::kHost;
  int lanes = 0;
  uint64_t chunks = 0;       // whose result was used
  uint64_t bytes = 0;        // of these chunks' input
  uint64_t redone = 0;       // chunks of late lanes that this engine began a second time
  uint64_t discarded = 0;    // results that came second
  uint64_t refused = 0;      // chunks that this engine cannot do, and others did
  int64_t busy_nanos = 0;    // of all lanes, in Process
  int64_t before_nanos = 0;  // of these, what it needed before it could begin
  int64_t most_before_nanos = 0;
  EngineCounts counts;          // Engine::Counts
  double bytes_per_second = 0;  // of one lane, at the end; 0: not known
  bool lost = false;
  uint64_t losses = 0;  // 1: no queue lost it before this one
  absl::Status error;   // why it is lost
};

struct QueueStats {
  std::optional<uint64_t> total_bytes;  // of the input, if known before its end
  uint64_t chunks = 0;
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
  // Of the output, marks that let a reader find chunks and decode each alone (deflate_frame.h), as
  // far as a primed stream does not have them.
  uint64_t mark_bytes = 0;
  double seconds = 0;  // until the last chunk was delivered
  // That Run took: a lane that somebody overtook ends its chunk, unless its engine can be
  // interrupted.
  double run_seconds = 0;
  std::vector<EngineStats> engines;

  // One line: what each engine did and at which rate. With engines on both sides also the paper's
  // measures: TT, each side's throughput; OT, that of the whole; what they say of C1 and C2; and
  // from how many bytes on the agent's set-up is worth it.
  std::string Explain() const;
  // Bytes per second of all lanes of a side; 0: not known.
  double RateOf(Side side) const;
  // The same as numbers, with all that was counted.
  PlacementReport Report() const;
  // What another queue did with the same kind of engines, after this one.
  void Add(const QueueStats& next);
};

class Queue {
 public:
  // The engines, at least one, outlive the queue.
  Queue(QueueOptions options, std::vector<Engine*> engines);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // Runs the whole operation; blocks until all is delivered or has failed, and until no lane runs
  // any more. Once. Errors: the source's, the sink's or an engine's about a chunk; Unavailable with
  // the last engine's error when none is left; Cancelled.
  absl::Status Run(Source& source, Sink& sink);

  // Ends Run soon, with Cancelled. Any thread, also before Run. A source that blocks is stopped,
  // a sink that blocks is waited for: who cancels wakes it up.
  void Cancel();

  // Delivered so far, for progress. Any thread.
  uint64_t input_bytes() const { return input_bytes_.load(std::memory_order_relaxed); }
  uint64_t output_bytes() const { return output_bytes_.load(std::memory_order_relaxed); }

  // After Run.
  const QueueStats& stats() const { return stats_; }

 private:
  // A chunk on its way, and its place in the order.
  struct Slot {
    std::shared_ptr<Chunk> chunk;
    std::unique_ptr<Result> result;
    absl::Status status;
    bool done = false;
  };

  // Of an engine's lanes that have nothing to do one looks for more, the others sleep.
  struct Looking {
    bool lane = false;
    bool over = false;  // none is needed any more
    std::condition_variable free;
  };

  using Lock = std::unique_lock<std::mutex>;

  // All lanes, or as many as threads can be started.
  void StartLanes(std::vector<std::thread>& threads);
  void RunLane(int engine, int lane);
  // A new chunk from the source. Null: none for this lane now.
  std::shared_ptr<Chunk> Take(Lock& lock, int engine);
  void DoChunk(Lock& lock, int engine, int lane, std::shared_ptr<Chunk> chunk, bool loaded);
  void Deliver(Lock& lock);
  void Fail(Lock& lock, absl::Status status);
  Slot& SlotOf(uint64_t number) { return slots_[number % slots_.size()]; }
  std::shared_ptr<Chunk> NewChunk();
  void Recycle(std::shared_ptr<Chunk> chunk);
  void Recycle(std::unique_ptr<Result> result);
  void FinishStats();
  // Rates and times of the stats, as they are now.
  void UpdateStats(int64_t now);
  // Tells the engines, and who asked for it, what was decided since the last time.
  void Report(Lock& lock, bool ended);

  const QueueOptions options_;
  const std::vector<Engine*> engines_;
  Source* source_ = nullptr;
  Sink* sink_ = nullptr;
  int64_t started_ = 0;
  int64_t last_delivery_ = 0;
  QueueStats stats_;
  PlacementReport reported_;  // counts so far
  int64_t last_report_ = 0;
  std::atomic<uint64_t> input_bytes_{0};
  std::atomic<uint64_t> output_bytes_{0};

  std::mutex mutex_;
  std::condition_variable changed_;     // lanes wait
  std::condition_variable lane_ended_;  // Run waits
  std::vector<Looking> looking_;        // by engine
  Scheduler scheduler_;
  std::vector<Slot> slots_;
  std::vector<std::shared_ptr<Chunk>> free_chunks_;
  std::vector<std::unique_ptr<Result>> free_results_;
  uint64_t delivered_ = 0;  // number of the next chunk to deliver
  int lanes_running_ = 0;
  bool reading_ = false;     // a lane is in Source::Next
  bool delivering_ = false;  // a lane is in Sink::Take
  bool stopped_ = false;     // no lane shall begin anything
  absl::Status status_;      // of Run
  // The source failed; said once all before it has been delivered.
  absl::Status source_status_;
};

}  // namespace pulse::ops
