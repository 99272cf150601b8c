// Rule: decides, one compaction at a time, which processor does it.
//
//   Host        the host does all of it, as stock RocksDB
//   OffloadIo   the host merges and encodes; the agent fetches, writes and syncs (PulseDB III)
//   OffloadAll  the agent does all of it (what DComp offloads)
//
// In this order:
//   1. Without an agent, or behind one that is very slow: Host.
//   2. Where the agent cannot take it now: OffloadIo.
//   3. A host that other work keeps busy is spared while the pending compaction is below its limit,
//      since that much may be left for later: OffloadAll, unless writers will soon wait for this
//      very compaction.
//   4. Else whichever processor gives the compaction more of itself now, by the work on both and
//      the speed that the agent tells. This is the co-processing paper's constraint C1 (section
//      3.4) for each compaction; with several at a time it fills both processors, which is C2.
//
// An agent that returns what it has taken is asked less and less often.
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

struct RuleOptions {
  int host_cores = 1;        // that compactions may use
  int agent_tasks = 1;       // compactions that the agent does all of at a time; 0: none
  int agent_cores = 1;       // that they share
  bool keeps_last = false;   // of several tasks, the last is for urgent compactions
  double agent_speed = 1.0;  // of an agent's core, a host's being 1, as the agent tells
};

struct Compaction {
  bool urgent = false;          // from level 0
  bool about_to_stall = false;  // ... and writers will soon wait for it
};

// The state when a compaction begins.
struct Load {
  double host_busy = 0;         // host cores that other work wants
  bool agent = true;            // there is one
  bool can_offload_all = true;  // ... that can do all of this compaction now, on CPUs of its own
  // Pending compaction as a part of its limit. From 1 on nothing may be deferred, nor below 0:
  // unknown.
  double pending_ratio = -1;
};

struct Choice {
  Place place = Place::kHost;
  std::string why;  // when another part of the rule decides than before: for the log
};

class Rule {
 public:
  explicit Rule(const RuleOptions& options) : options_(options) {}

  // What the present agent tells of itself.
  void SetAgent(int tasks, double speed);

  // Compaction `id`, unique among those that run, begins.
  Choice Begin(uint64_t id, const Compaction& job, const Load& load);
  // OffloadAll was decided, and the host does it after all; `End` is still to come. `failed`: the
  // agent took it and did not do it. Else it had no slot free, or the compaction was cancelled.
  void Returned(uint64_t id, bool failed);
  // It has ended, wherever.
  void End(uint64_t id);

  // Whether the agent does I/O that the rule is not asked about: of flushes.
  bool agent_does_io() const { return agent_does_io_; }
  int running(Place place) const { return at_[static_cast<size_t>(place)]; }

 private:
  enum class Part { kNone, kNoAgent, kSpareHost, kMoreOfAProcessor };

  Place Decide(const Compaction& job, const Load& load, Part* part) const;
  bool AgentGivesLargerShare(const Load& load) const;
  std::string Why(Part part) const;

  RuleOptions options_;
  std::map<uint64_t, Place> running_;
  std::array<int, kPlaces> at_ = {};
  bool busy_ = false;       // the host, with other work
  bool may_defer_ = false;  // pending compaction is below its limit
  bool agent_does_io_ = true;
  Part part_ = Part::kNone;
  int failures_ = 0;  // of the agent, in a row
  int to_skip_ = 0;   // compactions, until it is asked again
};

}  // namespace pulse::placement
