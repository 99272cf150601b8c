// AdaptiveChoice: which of several designs to run, found by trying them. The DPU-KV paper leaves
// the choice to the operator; this is the rule that `--design adaptive` follows:
//
//   trial    each design runs for an eighth of a second, and its rate of requests and the host's
//            CPU time for a request are measured. Of those within 2 % of the highest rate, the one
//            that takes least of the host's CPU is chosen.
//   settled  the chosen one runs. After a second, those that were near the highest rate have a
//            third of a second each, since a trial is so short that luck decides between them.
//            When the rate has moved by a fifth, or half a minute has passed, there is another
//            trial; never so many that they take more than a few percent of the time.
//
// So where all designs keep up with the clients, the host is spared; where they do not, the fastest
// serves.
//
// Pure: no thread, no clock. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pulse::redis {

class AdaptiveChoice {
 public:
  // Running sums since any time.
  struct Sample {
    int64_t now_nanos = 0;
    uint64_t requests = 0;
    int64_t host_cpu_nanos = 0;
  };

  // How often Next is to be called. Irregular calls are taken as they come.
  static constexpr int64_t kTickNanos = 25'000'000;

  // Of designs 0 to `designs` - 1; `current` is in force.
  AdaptiveChoice(size_t designs, size_t current);

  // What is to be in force from now on.
  size_t Next(const Sample& sample);

  bool in_trial() const { return trying_; }
  uint64_t trials() const { return trials_; }

 private:
  struct Result {
    double rate = 0;      // requests per second
    double host_cpu = 0;  // nanoseconds for a request
  };
  Result Since(const Sample& begin, const Sample& now) const;
  size_t Settle(double rate);
  // The next of those that were near, or the end of it.
  size_t LookAgain(const Sample& now, size_t from);
  size_t EndLook(const Sample& now);
  bool WantsTrial(const Sample& now);
  size_t BeginTrial(const Sample& now);
  double HighestRate() const;
  size_t Best() const;

  std::vector<Result> results_;
  size_t current_;
  bool trying_ = false;
  size_t tried_ = 0;       // designs of this trial that were measured
  int ticks_ = 0;          // since the design in force began its turn, or the window began
  Sample window_;          // where it began
  Sample settled_;         // where the chosen one's second began
  int windows_ = -1;       // of this second; -1: it has passed, or there is none
  bool looking_ = false;   // again, at those that were near
  size_t chosen_ = 0;      // before that
  double settled_at_ = 0;  // the rate that was chosen for; 0: none yet
  int moved_ = 0;          // windows in a row whose rate was another
  int64_t last_trial_ = 0;
  double tokens_;  // trials that may begin at once
  int64_t tokens_at_ = 0;
  uint64_t trials_ = 0;
};

}  // namespace pulse::redis
