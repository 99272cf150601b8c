// Controller: decides, one compaction at a time, which processor does it.
//
//   host   the host does all of it, as stock RocksDB
//   split  the host merges and encodes; the agent fetches, writes and syncs (PulseDB III)
//   whole  the agent does all of it (what DComp offloads)
//
// By measurement. It follows one strategy at a time: everything to one place; or to host or split,
// with what exceeds the host's cores going to the agent as a whole. Of each it knows what all
// compactions together got done in a second while it was followed. That is the throughput that the
// co-processing paper's two constraints (section 3.4) compare: C1, the agent alone only if it is
// faster than the host alone; C2, both only if together they are faster than either. It is kept
// apart for a busy and an idle host, and for one compaction at a time and several, so that a load
// that comes back finds its strategy again.
//
// What is not known, or was not looked at for long, is tried: first with one compaction, then with
// a few. What tries may cost, by what is known or to be feared, is a small part of all time. A
// change of mind needs a gain beyond noise. It begins with split, the mildest; or with whole, where
// the host is busy and the agent's own word makes it much better.
//
// Throughput of compactions is not all. Where the host is busy with other work, and the agent gets
// done what the host did at the time, its processor is left to that work: whole, though split may
// be faster. It is held for a while, in which writers may come to wait for the agent; then, where
// the agent is at its limit, throughput decides again. So it is from the first as long as what is
// left undone may be owed (Load::owed): a busy host is spared, and the debt is paid when it has
// time, or when there is no more to be owed. What writers will soon wait for is not left to a slow
// agent.
//
// Averages are slow, and the load may shift at once: a strategy whose last compactions were all far
// from what it was counts for those alone, and the others may be tried again. Four of them say so,
// or two that are very slow, of which the second may still run.
//
// Pure: no clock, no threads, no I/O; not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace pulse::placement {

enum class Place { kHost = 0, kSplit = 1, kWhole = 2 };
inline constexpr int kPlaces = 3;

enum class Strategy {
  kHost = 0,
  kSplit = 1,
  kWhole = 2,
  kHostOverflow = 3,  // DComp's: beyond the host's cores, whole
  kSplitOverflow = 4,
};
inline constexpr int kStrategies = 5;
const char* StrategyName(Strategy strategy);

struct ControllerOptions {
  int host_cores = 1;        // that compactions may use
  int agent_tasks = 1;       // whole compactions that the agent runs at a time; 0: none
  int agent_cores = 0;       // that they share; 0: one for each
  bool keeps_last = false;   // of several tasks, the last is for urgent jobs
  double agent_speed = 1.0;  // of an agent's core, a host's being 1, as it says itself
  double switch_gain = 0.03;
  double try_share = 0.01;     // of all time, that tries may cost
  double forget_seconds = 60;  // after which a strategy that was not followed is tried again
};

struct Job {
  uint64_t bytes = 0;     // of its inputs
  bool urgent = false;    // from level 0, so that writes stall behind it: never sent to a slower
                          // place for want of cores
  bool pressing = false;  // ... soon
};

// Of the moment.
struct Load {
  double host_busy = 0;  // of the host's cores, what other work keeps busy
  bool agent = true;     // there is one
  bool whole = true;     // ... that could do this compaction as a whole
  bool apart = true;     // ... on processors that are not the host's
  // What is to be compacted already, of what may be left for later; 1 and above: no more. Below 0:
  // not known, and nothing may.
  double owed = -1;
};

struct Choice {
  Place place = Place::kHost;
  std::string why;  // not empty when the strategy has changed: for people
};

class Controller {
 public:
  explicit Controller(const ControllerOptions& options);

  // What the agent of the moment says of itself.
  void SetAgent(int tasks, double speed);

  // Compaction `id`, unique among those that run, begins at `now` (seconds, growing).
  Choice Begin(uint64_t id, const Job& job, const Load& load, double now);
  // It has ended. Not `counts`: it failed, or was done elsewhere in the end.
  void End(uint64_t id, double now, bool counts);

  // It was to be done whole, and is done on the host after all: `End` is still to come. `full`: the
  // agent runs as many as it may, maybe for other processes. That is no failure: what the strategy
  // gets done then, beside such an agent, counts as its rate. Neither is a cancelled one.
  void Returned(uint64_t id, bool full);

  // Between host and split, for work of which the controller is not asked: flushes.
  Place local() const { return local_; }
  int running(Place place) const { return at_[static_cast<size_t>(place)]; }
  // Bytes of input in a second of all compactions under a strategy, by the context of the last
  // compaction; 0 when not known.
  double rate(Strategy strategy) const;

 private:
  struct Known {
    double bytes = 0;  // decaying sums
    double seconds = 0;
    int samples = 0;
    double at = 0;    // the last sample
    double wait = 0;  // until it is tried again; grows with each try that showed nothing
    // The last samples, all far from the rate before them, on the same side.
    int far = 0;  // how far, together; below: negative
    double far_bytes = 0;
    double far_seconds = 0;
    double far_at = -1;       // the last one's end: those beside it are slow for the same reason
    int returns = 0;          // of its whole compactions, one after the other
    double returned_at = -1;  // the last one that was begun after the one before had come back
    double Rate() const { return seconds > 0 ? bytes / seconds : 0; }
  };
  static constexpr int kContexts = 4;  // busy or idle host, one or several compactions
  struct Context {
    std::array<Known, kStrategies> known;
    Strategy current = Strategy::kSplit;
    bool begun = false;
    bool owes_split = false;   // begun with whole: split is tried once, whatever that costs
    int held = 0;              // compactions since the last change
    int spare_hold = 0;        // compactions for which a host is spared at least
    double changed_at = -1e9;  // when others were last to be tried again for that
    bool left_whole = false;   // ... to look whether it is still better
    int not_whole = 0;         // compactions in a row that cannot be
    int overflows = 0;         // ... that the agent was too full for
    // A try under way: jobs that it still gets.
    Strategy tried = Strategy::kSplit;
    int tries_left = 0;
    int tries_mixed = 0;  // ... of which the first are not counted
    int tries_out = 0;    // of those it got, not ended
  };
  struct Running {
    Job job;
    Place place;
    int context;
    Strategy strategy;
    bool is_try = false;
    bool counts = true;
    bool returned = false;
    bool overflowed = false;  // the agent was full
    double begun = 0;
    int agent = 0;    // which one it was begun with
    double cost = 0;  // its share of the time in which anything ran
  };

  bool Allowed(Strategy s, const Load& load) const;
  Strategy First(const Load& load) const;
  double LeftOnHost(const Load& load) const;
  double Relative(Strategy s, const Load& load) const;
  double Expected(const Context& c, Strategy s, const Load& load) const;
  double Worth(const Context& c, Strategy s, const Load& load) const;
  bool SparesHost(const Context& c, double best_rate, const Load& load) const;
  // ... while more may be owed, to an agent that pays at all.
  bool MayOwe(const Context& c) const;
  void NoteDebt(double owed);
  bool IsSlower(const Context& c, const Load& load) const;
  void Account(double now);
  void ForgetDemand();
  void TryLater(Known* k, double now) const;
  static int HowFar(const Known& k, const Running& r);
  // By the last of its compactions, whether a strategy that is followed is another than it was.
  bool HasChanged(Context* c, Known* k, const Running& r, double now);
  void LookAtOverdue(Context* c, double now);
  void Change(Context* c, Known* k, double bytes, double seconds, double now);
  void PickTry(Context* c, const Job& job, const Load& load, double now);
  std::string Reconsider(Context* c, const Load& load);
  Place PlaceOf(Strategy s, const Job& job, const Load& load) const;

  ControllerOptions options_;
  std::array<Context, kContexts> contexts_;
  std::map<uint64_t, Running> running_;
  std::array<int, kPlaces> at_ = {};
  int context_ = 0;
  int agent_ = 0;  // grows with each other agent
  Place local_ = Place::kSplit;
  double now_ = 0;
  double budget_ = 0;  // seconds that tries may still cost
  // What there was to do, by its end, and in what time, pauses included: decaying sums.
  double demand_bytes_ = 0;
  double demand_seconds_ = 0;
  int demand_jobs_ = 0;
  bool busy_ = false;   // the host, with other work
  bool slack_ = false;  // more may be owed
};

}  // namespace pulse::placement
