// Overflow: which reads an agent with too much to do leaves to the host. A read of what the agent
// does not know, which it would have to look up in files, costs it several times what passing it on
// does, while a host that is spared its reads may have nothing to do. DDS section 6.2 (requests to
// the host when the engine is full), by measurement.
//
// What came together on a connection goes together. As much of that is at the host as it answers
// within five times the wait:
//   wait     at the agent: half of the turn of its loop in which a request comes, and the whole
//   next
//            one, at whose end the replies leave
//   answer   of the host: from passing on until all is answered, which the loop sees a turn later
// It grows by one while all of it is answered in time, and shrinks by a quarter when an answer is
// late. So both processors have a queue, or none has, and neither is without work while the other
// has too much. (With two waits instead of five the host's CPU was idle beside a full agent, with
// eight the agent's; the p99 of reads was least in between, too.) Nothing goes where nobody waits
// at the agent, nor to a host that is silent. To one that is not quick enough for a single one, one
// goes now and then as a trial; trials that fail come ever later, so that a host that others keep
// busy costs one in seconds. A host that was lost is not tried before it is heard of.
//
// Ownership, threads: one for each loop, on its thread; share() by any. Nothing blocks, allocates
// or reads a clock: times are given, in nanoseconds of one clock that does not go back.
#pragma once

#include <atomic>
#include <cstdint>

namespace pulse::resp {

class Overflow {
 public:
  struct Options {
    int64_t worth = 300'000;      // a wait below is none
    int64_t memory = 10'000'000;  // a wait that was seen so long ago is forgotten
    int64_t least_pause = 50'000'000, most_pause = 3'200'000'000;  // between trials
  };

  Overflow() = default;
  explicit Overflow(const Options& options) : options_(options) {}

  // Of reads that came together, of which at least one would have to be looked up, or to wait for
  // the host: whether they go there. If so, one of Answered, Dropped and Lost follows, with `now`
  // as it was. `last_turn`: what the loop's took; 0 where it has slept since.
  bool Take(int64_t now, int64_t last_turn);
  // The host has answered all.
  void Answered(int64_t now, int64_t passed_at);
  // The client is gone, or what there was to wait for is not the host's fault: it says nothing.
  void Dropped(int64_t now, int64_t passed_at);
  // The host is gone.
  void Lost(int64_t now, int64_t passed_at);
  // It has answered something, whatever that was.
  void Heard() { lost_ = false; }

  // Of the last that Take was asked for, the part that went, from 0 to 1.
  double share() const { return share_.load(std::memory_order_relaxed); }

 private:
  bool Goes(int64_t now) const;
  void Fail(int64_t now);
  bool Returned(int64_t now, int64_t passed_at);

  const Options options_;
  double wait_ = 0;
  double limit_ = 0;  // of what is at the host; below 1: trials
  bool lost_ = false;
  int64_t asked_at_ = 0;
  int64_t in_flight_ = 0;
  int64_t silent_since_ = 0;  // while something is
  int64_t given_up_at_ = 0;   // what was passed on before is not waited for
  int64_t cut_at_ = 0;        // the limit; what was passed on before counts no more against it
  int64_t trial_at_ = 0;
  int64_t pause_ = 0;
  std::atomic<double> share_{0};
};

}  // namespace pulse::resp
