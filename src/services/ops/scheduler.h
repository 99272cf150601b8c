// Scheduler: which chunk a lane of an engine does next. The decisions of the queue without its
// threads: pure, told what happened and what time it is. Not thread-safe.
//
// Engines pull. In place of the paper's fixed percentages (section 4.2, C1 and C2) each chunk is
// decided when a lane is free: the lane takes it if it would finish it no later than the other
// lanes would finish all that is left. A slower engine is thus used as long as that shortens the
// whole, and not for the last chunks, for which everybody would wait. A pipeline (engine.h) is
// given chunks only so far ahead that it has always something to do: what waits in it, nobody else
// can do sooner. A chunk whose lane is late may be done a second time by a lane that would finish
// it sooner; the first result wins. Where the placement names a side of which no engine is left,
// the other side does the rest.
//
// The paper's own rules are a placement, too (kPaper). C1: the agent's side works only while its
// throughput is better than the host's. What is not known is learnt from the next chunk, and
// forgotten after a while (rates.h): so the agent's side is asked again now and then. C2: where C1
// holds, both work unless the agent's side alone has more throughput than both (paper_sharing.h);
// then it works alone, and the host only redoes its late chunks, and serves while it is very late.
//
// What an engine needs before it begins (contexts made or reconfigured) counts as part of its first
// chunk: so a card is set up only for a batch above its break-even, which is what the others would
// do in that time. The first chunks of a run are slow ones: where they cost little beside the
// set-up, it is decided after some more.
//
// Chunks are claimed in the order of their numbers, and lie in a window: a chunk is claimed only if
// it is less than `window` chunks ahead of the next one to deliver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/ops/engine.h"
#include "services/ops/paper_sharing.h"
#include "services/ops/rates.h"

namespace pulse::ops {

struct Placement {
  enum class Kind : uint8_t { kHost, kAgent, kSplit, kAuto, kPaper };
  Kind kind = Kind::kAuto;
  // kSplit: of a hundred chunks, so many go to the agent's side, evenly spread.
  int percent = 0;

  // Of kSplit: the side of the n-th chunk.
  Side SideOf(uint64_t n) const;

  // "host", "agent", "auto", "paper" or "split=PERCENT".
  static absl::StatusOr<Placement> Parse(absl::string_view text);
};

class Scheduler {
 public:
  struct Options {
    Placement placement;
    size_t window = 16;
    uint64_t chunk_bytes = 512 << 10;     // of chunks, until the first ones are claimed
    std::optional<PaperVerdict> verdict;  // of kPaper, of an earlier run
  };
  struct EngineState {
    Side side = Side::kHost;
    int lanes = 1;
    SizedRates rates;
    // Nanoseconds before it would begin with so many bytes; null: none.
    std::function<int64_t(uint64_t bytes)> before;
    bool pipeline = false;
  };
  enum class Act : uint8_t {
    kTake,  // a new chunk: ask the source, then Claimed() or End()
    kDo,    // `chunk`, which was claimed before, for this side or by an engine that is lost
    kRedo,  // `chunk`, at which another lane is late
    kWait,  // until something changes, or for a while: lanes may turn out to be late
    kDone,  // this lane is not needed any more
  };
  struct Decision {
    Act act = Act::kWait;
    uint64_t chunk = 0;
  };

  Scheduler(const Options& options, std::vector<EngineState> engines);

  // The bytes of the whole input, where they are known before its end.
  void SetTotal(uint64_t bytes) { total_ = bytes; }

  Decision Next(int engine, int64_t now);

  // After kTake. The chunk is that of the next number; true if this lane shall do it. Otherwise it
  // is kept for the other side, whose lanes get it by kDo.
  bool Claimed(int engine, uint64_t bytes);
  // After kTake: the source had nothing more. Or: no more shall be claimed.
  void End() { ended_ = true; }

  // A lane begins with a chunk, after kTake, kDo or kRedo. Returns the number of this attempt.
  uint64_t Started(int engine, uint64_t chunk, uint64_t bytes, int64_t now);
  // From now on another lane can redo it: its input is complete. `now`: work begins only here.
  void Loaded(uint64_t attempt, int64_t now);
  // The lane is done with it. True: its result is the first. `before`: of the time that it took,
  // what the engine needed before it began.
  bool Finished(uint64_t attempt, int64_t now, int64_t before = 0);
  // Its engine cannot do this chunk: another one gets it. False: there is none, or its result is
  // there already.
  bool Refused(uint64_t attempt);
  // The engine of this attempt is lost: true if its chunk is to be done by another.
  bool Lost(uint64_t attempt);
  // Chunks below `chunk` have been delivered.
  void Delivered(uint64_t chunk) { delivered_ = chunk; }

  // Of kPaper: for the next run.
  std::optional<PaperVerdict> verdict() const { return sharing_.verdict(); }
  bool ended() const { return ended_; }
  uint64_t claimed() const { return claimed_; }
  // An engine is left, also for each chunk that some have refused.
  bool any_engine() const;
  const EngineState& engine(int i) const { return engines_[static_cast<size_t>(i)]; }
  bool lost(int i) const { return lost_[static_cast<size_t>(i)]; }

 private:
  struct Flight {
    uint64_t attempt;
    int engine;
    uint64_t chunk;
    uint64_t bytes;
    int64_t start;
    bool loaded;
    bool redone;               // a second lane is at it, or this is the second
    bool beaten;               // the other one was first
    int64_t before = 0;        // what its engine needs before it begins
    uint64_t ahead = 0;        // bytes that a pipeline has to do first
    std::vector<int> refused;  // engines that cannot do it
  };
  struct Waiting {
    uint64_t chunk;
    uint64_t bytes;
    std::optional<Side> side;  // for this side only
    std::vector<int> refused;  // not for these engines
  };

  // Whether an engine is left that has not refused.
  bool AnyBut(const std::vector<int>& refused) const;
  bool Alive(Side side) const;
  bool Serves(int engine, int64_t now) const;
  // Of kPaper, where engines of both sides are left: C1, or its agent's rate is to be learnt.
  enum class C1 : uint8_t { kFails, kHolds, kUnknown };
  C1 CheckC1(int64_t now) const;
  // Of kPaper: a chunk of the agent's side takes several times as long as it should.
  bool AgentStalls(int64_t now) const;
  // Bytes per second of all lanes of a side; 0 if one of its engines is not known.
  double RateOf(Side side, uint64_t bytes, int64_t now) const;
  std::vector<Flight>::iterator Find(uint64_t attempt);
  // It took so long, without what its engine needed before.
  void Learn(const Flight& flight, int64_t now, int64_t nanos);
  // Whether a chunk that waits is for this engine.
  bool IsFor(const Waiting& waiting, int engine) const;
  // Nanoseconds that a pipeline takes for a chunk beside its bytes; 0 for all other engines.
  int64_t Latency(int engine, int64_t now) const;
  // Nanoseconds until a pipeline has done what is in it; 0 for all other engines.
  int64_t Backlog(int engine, int64_t now) const;
  // A pipeline has enough to do until more can be given to it.
  bool IsFull(int engine, int64_t now) const;
  // Nanoseconds until a chunk that is begun now would be done, without what the engine needs
  // before; 0 if not known.
  int64_t TimeUntilDone(int engine, uint64_t bytes, int64_t now) const;
  // How long a chunk under way should take in all.
  int64_t Expected(const Flight& flight, int64_t now) const;
  // Nanoseconds that a lane of `engine`, or a pipeline, takes for `bytes`, without what it needs
  // before; 0 if not known.
  int64_t TimeFor(int engine, uint64_t bytes, int64_t now) const;
  int64_t Before(int engine, uint64_t bytes) const;
  // The same; while nothing is known, no less than what its first chunk has taken so far. 0: it has
  // none.
  int64_t TimeAtLeast(int engine, uint64_t bytes, int64_t now) const;
  int64_t Remaining(const Flight& flight, int64_t now) const;
  // Whether the other lanes would do all that is left sooner than this one does the next chunk.
  bool OthersAreFaster(int engine, uint64_t bytes, int64_t now) const;
  // What the next chunk is taken for: the mean of those that were claimed, since chunks of a
  // compressed file have the sizes that it was written with.
  uint64_t NextBytes() const;
  // Chunks that nobody is at; a large number if that is not known.
  uint64_t ChunksLeft() const;
  // `late`: only chunks that should have been done.
  std::optional<uint64_t> Redo(int engine, bool window_full, bool late, int64_t now);

  const Options options_;
  std::vector<EngineState> engines_;
  std::vector<bool> lost_;
  std::vector<int> busy_;           // lanes at work, by engine
  std::vector<uint64_t> finished_;  // chunks, by engine
  // Of a pipeline: when its last chunk was done, and the last one that it had alone.
  struct Pipe {
    int64_t last_done = 0;
    uint64_t alone_bytes = 0;
    int64_t alone_nanos = 0;
  };
  std::vector<Pipe> pipes_;  // by engine
  std::vector<Flight> flights_;
  std::deque<Waiting> waiting_;
  std::vector<int> doing_;  // of the chunk that the last kDo gave: what Waiting::refused had
  std::optional<uint64_t> total_;
  uint64_t attempts_ = 0;
  uint64_t claimed_ = 0;
  uint64_t claimed_bytes_ = 0;
  uint64_t delivered_ = 0;
  bool ended_ = false;
  PaperSharing sharing_;  // of kPaper
};

}  // namespace pulse::ops
