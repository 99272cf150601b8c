#include "bench/macro/ycsb/zipfian.h"

#include <algorithm>
#include <cmath>

namespace pulse::bench {
namespace {

// Sums up to here are kept. Behind it a term is the integral over the interval of length 1 around
// it but for theta * i^(-theta-2) / 24: all together less than 1e-7.
constexpr uint64_t kSummed = 1024;

}  // namespace

Zipfian::Zipfian(double theta) : theta_(theta), sums_(kSummed + 1, 0.0) {
  for (uint64_t i = 1; i <= kSummed; ++i) {
    sums_[i] = sums_[i - 1] + std::pow(static_cast<double>(i), -theta);
  }
}

// Of x^-theta.
double Zipfian::Integral(double from, double to) const {
  const double power = 1 - theta_;
  return (std::pow(to, power) - std::pow(from, power)) / power;
}

double Zipfian::Zeta(uint64_t n) const {
  if (n <= kSummed) return sums_[n];
  return sums_[kSummed] +
         Integral(static_cast<double>(kSummed) + 0.5, static_cast<double>(n) + 0.5);
}

uint64_t Zipfian::Rank(double unit, uint64_t n, double zeta) const {
  // The first item up to which the sum is above this.
  const double sum = unit * zeta;
  if (sum < sums_[kSummed]) {
    const auto it = std::upper_bound(sums_.begin() + 1, sums_.end(), sum);
    return std::min<uint64_t>(static_cast<uint64_t>(it - sums_.begin()) - 1, n - 1);
  }
  // Zeta() solved for n.
  const double power = 1 - theta_;
  const double start = std::pow(static_cast<double>(kSummed) + 0.5, power);
  const double x = std::pow(start + (sum - sums_[kSummed]) * power, 1 / power);
  return std::min(std::max(static_cast<uint64_t>(x + 0.5) - 1, kSummed), n - 1);
}

}  // namespace pulse::bench
