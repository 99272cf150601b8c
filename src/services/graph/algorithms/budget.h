// What bounds an algorithm: memory, time, and somebody who ends it. The caller of an algorithm
// implements it; the query engine's limits are behind it.
//
// Threads: only that one calls it which called the algorithm.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace pulse::graph::algorithms {

class Budget {
 public:
  virtual ~Budget() = default;
  // Memory that is taken, or given back with a negative number. False: it is too much.
  virtual bool Charge(int64_t bytes) = 0;
  // Whether to go on; called every millisecond or so.
  virtual bool Continue() = 0;
  // Why one of these said no.
  virtual absl::Status status() const = 0;
};

// Memory of one algorithm, given back at its end.
class Memory {
 public:
  explicit Memory(Budget* budget) : budget_(budget) {}
  ~Memory() { budget_->Charge(-taken_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  absl::Status Take(uint64_t count, uint64_t bytes_of_one) {
    const auto bytes = static_cast<int64_t>(count * bytes_of_one);
    taken_ += bytes;
    return budget_->Charge(bytes) ? absl::OkStatus() : budget_->status();
  }
  void GiveBack(uint64_t count, uint64_t bytes_of_one) {
    const auto bytes = static_cast<int64_t>(count * bytes_of_one);
    taken_ -= bytes;
    budget_->Charge(-bytes);
  }

 private:
  Budget* const budget_;
  int64_t taken_ = 0;
};

// For long loops of one thread: looks at the budget now and then.
class Pace {
 public:
  explicit Pace(Budget* budget) : budget_(budget) {}
  // `steps` more were made. False: no further; the budget's status says why.
  bool Go(uint64_t steps = 1) {
    made_ += steps;
    if (made_ < kSteps) return true;
    made_ = 0;
    return budget_->Continue();
  }

 private:
  static constexpr uint64_t kSteps = 65536;  // of memory accesses, about
  Budget* const budget_;
  uint64_t made_ = 0;
};

}  // namespace pulse::graph::algorithms
