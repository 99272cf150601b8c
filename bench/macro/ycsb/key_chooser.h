// Which record an operation of a YCSB workload asks for. The same seed gives the same choices, as
// long as the same inserts have been acknowledged. Not thread-safe: one for each thread, over an
// InsertCounter that all share.
#pragma once

#include <cstdint>

#include "bench/macro/workload.h"
#include "bench/macro/ycsb/insert_counter.h"
#include "bench/macro/ycsb/zipfian.h"

namespace pulse::bench {

enum class Distribution {
  kUniform,
  // Zipf's law over kUniverse items, scattered over the records by a hash: some records are hot
  // wherever they lie, and more records do not change which. As YCSB does it.
  kScrambledZipfian,
  // Zipf's law from the newest record backwards.
  kLatest,
};

class KeyChooser {
 public:
  // What YCSB's scrambled distribution draws from before it scatters.
  static constexpr uint64_t kUniverse = 10'000'000'000;

  // `records` is how many there may be in the end: all choices are made among so many, and what is
  // not there yet is drawn again, so that inserts do not move what is hot. (For kLatest it does not
  // matter.) `counter` has at least one record, and outlives this.
  KeyChooser(Distribution distribution, uint64_t records, const InsertCounter* counter,
             uint64_t seed);

  // A record below counter->acknowledged().
  uint64_t Next();

 private:
  uint64_t Draw(uint64_t present);

  const Distribution distribution_;
  const uint64_t records_;
  const InsertCounter* const counter_;
  const Zipfian zipfian_;
  Random random_;
  uint64_t items_ = 0;  // of which zeta_ is
  double zeta_ = 0;
};

}  // namespace pulse::bench
