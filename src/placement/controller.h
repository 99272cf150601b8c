// Controller: decides, one compaction at a time, which processor does it.
//
//   Host        the host does all of it, as stock RocksDB
//   OffloadIo   the host merges and encodes; the agent fetches, writes and syncs (PulseDB III)
//   OffloadAll  the agent does all of it (what DComp offloads)
//
// The controller follows one strategy at a time: all compactions to one place; or to Host or
// OffloadIo, and those that exceed the host's cores to OffloadAll. It measures, for each strategy,
// how many bytes all compactions together got done per second while it was followed. The
// co-processing paper's two constraints (section 3.4) compare the same throughput: C1, the agent
// alone only if it is faster than the host alone; C2, both only if together they are faster than
// either. Measurements are kept separately for a busy and an idle host, and for one compaction at a
// time and several, so that a load that comes back finds its strategy again.
//
// A strategy that is not measured, or was measured long ago, is tried: first with one compaction,
// then with a few. The time that tries may lose, by measurement or by a pessimistic guess, is a
// small part of all time. A change of strategy needs a gain beyond noise. The first strategy is
// OffloadIo, which changes least; or OffloadAll, where the host is busy and the agent tells that it
// is fast.
//
// A busy host is spared. Where the host is busy with other work, and the agent keeps up with the
// compaction that there is to do, OffloadAll leaves the host to that work, though OffloadIo may
// compact faster. It is held for a number of compactions, in which writers may come to wait for the
// agent; then, if the agent is at its limit, throughput decides again. While the pending compaction
// is below its limit (Load::pending_ratio), compaction may be deferred: then a busy host is spared
// even by an agent that does not keep up. The rest is compacted when the host has time, or when the
// limit is reached. A compaction that writers will soon wait for does not go to a slow agent.
//
// Averages adapt slowly, and the load may change at once: when the last compactions of a strategy
// all deviate from its rate to the same side, its rate is set to theirs, and the others may be
// tried again. Four of them are enough, or two that are very slow, of which the second may still
// run.
//
// Pure: no clock, no threads, no I/O; not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace pulse::placement {

enum class Place { kHost = 0, kOffloadIo = 1, kOffloadAll = 2 };
inline constexpr int kPlaces = 3;

enum class Strategy {
  kHost = 0,
  kOffloadIo = 1,
  kOffloadAll = 2,
  kHostOverflow = 3,  // DComp's: what exceeds the host's cores to OffloadAll
  kOffloadIoOverflow = 4,
};
inline constexpr int kStrategies = 5;
const char* StrategyName(Strategy strategy);

struct ControllerOptions {
  int host_cores = 1;        // that compactions may use
  int agent_tasks = 1;       // compactions that the agent does all of at a time; 0: none
  int agent_cores = 0;       // that they share; 0: one for each
  bool keeps_last = false;   // of several tasks, the last is for urgent compactions
  double agent_speed = 1.0;  // of an agent's core, a host's being 1, as the agent tells
  double switch_gain = 0.03;
  double try_share = 0.01;     // of all time, that tries may cost
  double forget_seconds = 60;  // after which a strategy that was not followed is tried again
};

struct Compaction {
  uint64_t bytes = 0;   // of its inputs
  bool urgent = false;  // from level 0: writers stall behind it, so it never goes to a slower place
                        // for want of cores
  bool about_to_stall = false;  // ... soon
};

// The state when a compaction begins.
struct Load {
  double host_busy = 0;         // of the host's cores, what other work keeps busy
  bool agent = true;            // there is one
  bool can_offload_all = true;  // ... that can do all of this compaction now
  bool separate_cpus = true;    // ... on CPUs that are not the host's
  // Pending compaction as a part of its limit. From 1 on nothing may be deferred, nor below 0:
  // unknown.
  double pending_ratio = -1;
};

struct Choice {
  Place place = Place::kHost;
  std::string why;  // when the strategy has changed: for the log
};

class Controller {
 public:
  explicit Controller(const ControllerOptions& options);

  // What the present agent tells of itself. Another agent voids all measurements.
  void SetAgent(int tasks, double speed);

  // Compaction `id`, unique among those that run, begins at `now` (seconds, growing).
  Choice Begin(uint64_t id, const Compaction& job, const Load& load, double now);
  // It has ended. Not `counts`: it failed, or was not done where it was to be.
  void End(uint64_t id, double now, bool counts);

  // OffloadAll was decided, and the host does it after all: `End` is still to come. `full`: the
  // agent had no slot free, maybe because of other processes, or the compaction was cancelled. That
  // is no failure: what the strategy gets done beside such an agent counts as its rate.
  void Returned(uint64_t id, bool full);

  // Host or OffloadIo, for I/O that the controller is not asked about: flushes.
  Place local() const { return local_; }
  int running(Place place) const { return at_[static_cast<size_t>(place)]; }
  // Bytes of input per second of all compactions under a strategy, in the context of the last
  // compaction; 0 when not measured.
  double rate(Strategy strategy) const;

 private:
  struct Measured {
    double bytes = 0;  // decaying sums
    double seconds = 0;
    int samples = 0;
    double at = 0;    // the last sample
    double wait = 0;  // until it is tried again; grows with each try that gained nothing
    // The last samples, if all deviate from the rate before them to the same side.
    int deviation = 0;  // the sum of theirs; slower: negative
    double deviation_bytes = 0;
    double deviation_seconds = 0;
    double deviation_at = -1;  // the end of the last one: those beside it deviate for one reason
    int returns = 0;           // compactions in a row that the agent returned
    double returned_at = -1;   // the last one that began after the one before had returned
    double Rate() const { return seconds > 0 ? bytes / seconds : 0; }
  };
  static constexpr int kContexts = 4;  // busy or idle host, one or several compactions
  struct Context {
    std::array<Measured, kStrategies> measured;
    Strategy current = Strategy::kOffloadIo;
    bool begun = false;
    // The first strategy was OffloadAll: OffloadIo is tried once, whatever that costs.
    bool must_try_offload_io = false;
    int held = 0;                   // compactions since the last change of strategy
    int spare_hold = 0;             // compactions for which a busy host is spared at least
    double changed_at = -1e9;       // when a changed rate last allowed other tries
    bool left_offload_all = false;  // ... to see whether it is still better
    int not_offloadable = 0;        // compactions in a row that the agent cannot do
    int overflows = 0;              // ... that the agent was too full for
    // The try under way.
    Strategy tried = Strategy::kOffloadIo;
    int tries_left = 0;   // compactions that it still gets
    int tries_mixed = 0;  // ... of which the first are not counted
    int tries_out = 0;    // of those it got, not ended
  };
  // Whether a compaction of OffloadAll came back to the host.
  enum class Return { kNone, kFailed, kAgentFull };
  struct Running {
    Compaction job;
    Place place;
    int context;
    Strategy strategy;
    bool is_try = false;
    bool counts = true;
    Return returned = Return::kNone;
    double begun = 0;
    int agent = 0;    // the number of the agent when it began
    double cost = 0;  // its part of the time in which compactions ran
  };

  bool Allowed(Strategy s, const Load& load) const;
  Strategy First(const Load& load) const;
  double HostSpeedLeft(const Load& load) const;
  double Relative(Strategy s, const Load& load) const;
  double Expected(const Context& c, Strategy s, const Load& load) const;
  double Worth(const Context& c, Strategy s, const Load& load) const;
  bool SparesHost(const Context& c, double best_rate, const Load& load) const;
  // ... because compaction may be deferred, and the agent is not too slow for that.
  bool MayDefer(const Context& c) const;
  void UpdateMayDefer(double pending_ratio);
  bool IsOffloadAllSlower(const Context& c, const Load& load) const;
  void Account(double now);
  void ForgetDemand();
  void TryLater(Measured* k, double now) const;
  static int Deviation(const Measured& k, const Running& r);
  // Whether the last compactions of a strategy show that its rate has changed.
  bool HasChanged(Context* c, Measured* k, const Running& r, double now);
  void CheckOverdue(Context* c, double now);
  void Change(Context* c, Measured* k, double bytes, double seconds, double now);
  void PickTry(Context* c, const Compaction& job, const Load& load, double now);
  std::string Reconsider(Context* c, const Load& load);
  Place PlaceOf(Strategy s, const Compaction& job, const Load& load) const;

  ControllerOptions options_;
  std::array<Context, kContexts> contexts_;
  std::map<uint64_t, Running> running_;
  std::array<int, kPlaces> at_ = {};
  int context_ = 0;
  int agent_ = 0;  // the number of the present agent
  Place local_ = Place::kOffloadIo;
  double now_ = 0;
  double budget_ = 0;  // seconds that tries may still cost
  // The demand: what was compacted, and in what time, pauses included. Decaying sums.
  double demand_bytes_ = 0;
  double demand_seconds_ = 0;
  int demand_jobs_ = 0;
  bool busy_ = false;       // the host, with other work
  bool may_defer_ = false;  // pending compaction is below its limit
};

}  // namespace pulse::placement
