// Numbers by Zipf's law: of n items the k-th (from 1) is drawn with probability
//   p_k = 1 / (k^theta * zeta(n)),   zeta(n) = sum of 1 / i^theta for i = 1 .. n,
// as YCSB's workloads ask for. YCSB draws by the formula of Gray et al. ("Quickly generating
// billion-record synthetic databases", 1994), which is exact for the first two items and close for
// the others; this one inverts the distribution itself, so all of them follow the law. A draw takes
// one call of pow(), and n may differ from one to the next without anything being summed again.
//
// Thread-compatible: a thread has its own, or shares a const one.
#pragma once

#include <cstdint>
#include <vector>

namespace pulse::bench {

class Zipfian {
 public:
  // `theta` in (0, 1); 0.99 is YCSB's.
  explicit Zipfian(double theta = kYcsbTheta);

  static constexpr double kYcsbTheta = 0.99;

  // zeta(n), to seven digits at least.
  double Zeta(uint64_t n) const;

  // The item, from 0, that `unit` from [0, 1) stands for among `n` with zeta(n) = `zeta`.
  uint64_t Rank(double unit, uint64_t n, double zeta) const;

 private:
  double Integral(double from, double to) const;

  const double theta_;
  std::vector<double> sums_;  // zeta(0), zeta(1), ...
};

}  // namespace pulse::bench
