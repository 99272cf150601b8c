#include "bench/macro/ycsb/key_chooser.h"

namespace pulse::bench {

KeyChooser::KeyChooser(Distribution distribution, uint64_t records, const InsertCounter* counter,
                       uint64_t seed)
    : distribution_(distribution), records_(records), counter_(counter), random_(Mix(seed + 3)) {
  if (distribution_ == Distribution::kScrambledZipfian) {
    items_ = kUniverse;
    zeta_ = zipfian_.Zeta(items_);
  }
}

uint64_t KeyChooser::Draw(uint64_t present) {
  switch (distribution_) {
    case Distribution::kUniform:
      return random_.Below(records_);
    case Distribution::kScrambledZipfian:
      // Not 0, which Mix() leaves where it is.
      return Mix(zipfian_.Rank(random_.Unit(), items_, zeta_) + 1) % records_;
    case Distribution::kLatest:
      if (items_ != present) {
        items_ = present;
        zeta_ = zipfian_.Zeta(items_);
      }
      return present - 1 - zipfian_.Rank(random_.Unit(), items_, zeta_);
  }
  return 0;
}

uint64_t KeyChooser::Next() {
  for (;;) {
    const uint64_t present = counter_->acknowledged();
    const uint64_t drawn = Draw(present);
    if (drawn < present) return drawn;
  }
}

}  // namespace pulse::bench
