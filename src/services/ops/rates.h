// Rates of engines, learnt from what they did: bytes per second of one lane, by operation, level,
// size class and engine. New samples push out old ones, and an estimate that is not renewed is
// forgotten, since the load of a machine changes. Implements the feedback of section 4.2 of the
// co-processing paper (the task throughput TT) without its probe tasks: chunks of the work itself
// are the probes.
//
// Rate is a value. RateTable is thread-safe and never blocks for long. Times are nanoseconds of any
// steady clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>

#include "services/ops/paper_sharing.h"

namespace pulse::ops {

class Rate {
 public:
  // Each sample weighs so much against the sum of those before it.
  static constexpr double kKeep = 0.75;
  static constexpr int64_t kHalfLife = 10'000'000'000;
  // Less than this share of a sample is left: nothing is known.
  static constexpr double kForgotten = 0.02;

  void Add(uint64_t bytes, int64_t nanos, int64_t now);
  bool Known(int64_t now) const;
  // 0: not known.
  double BytesPerSecond(int64_t now) const;

 private:
  double Decay(int64_t now) const;

  double bytes_ = 0;
  double nanos_ = 0;
  double weight_ = 0;
  int64_t last_ = 0;
};

// By the size of chunks, since what a task costs beside its bytes counts more for small ones.
class SizedRates {
 public:
  static constexpr int kClasses = 8;  // up to 32 KiB, 64 KiB ... 2 MiB, larger
  static int ClassOf(uint64_t bytes);

  void Add(uint64_t bytes, int64_t nanos, int64_t now);
  // Of the class of `bytes`, or of the nearest one that is known. 0: none is.
  double BytesPerSecond(uint64_t bytes, int64_t now) const;

 private:
  std::array<Rate, kClasses> rates_;
};

struct RateKey {
  std::string operation;
  int level = 0;
  std::string engine;

  bool operator<(const RateKey& o) const {
    return std::tie(operation, level, engine) < std::tie(o.operation, o.level, o.engine);
  }
};

// What earlier operations of this process learnt.
class RateTable {
 public:
  SizedRates Get(const RateKey& key) const;
  void Put(const RateKey& key, const SizedRates& rates);
  // What placement `paper` found about C2; the key has no engine.
  std::optional<PaperVerdict> GetVerdict(const RateKey& key) const;
  void PutVerdict(const RateKey& key, const PaperVerdict& verdict);

 private:
  mutable std::mutex mutex_;
  std::map<RateKey, SizedRates> rates_;
  std::map<RateKey, PaperVerdict> verdicts_;
};

}  // namespace pulse::ops
