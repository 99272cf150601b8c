// The keys and values of the benchmarks: 16-byte keys as db_bench makes them, and values of which
// all but the first 8 bytes follow from the key, so that a scan can check them. The same seed gives
// the same stream everywhere. Not thread-safe: one stream per thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace pulse::bench {

inline constexpr size_t kKeyBytes = 16;

using Key = std::array<char, kKeyBytes>;

// A bijection that scatters: the finaliser of splitmix64.
uint64_t Mix(uint64_t x);

// splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() { return Mix(state_ += 0x9e3779b97f4a7c15); }
  // Uniform in [0, num), of which there is at least one.
  uint64_t Below(uint64_t num) {
    // The usual reduction of 64 random bits without a division.
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * num) >> 64);
  }
  // Uniform in [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

// Big-endian number, then '0' to the full length: numeric order is byte order.
Key EncodeKey(uint64_t number);
uint64_t DecodeKey(std::string_view key);

enum class KeyOrder {
  kRandom,  // drawn with repeats from [0, num), as db_bench fillrandom does
  kUnique,  // each number in [0, num) once, shuffled
};

class KeyStream {
 public:
  KeyStream(KeyOrder order, uint64_t num, uint64_t seed);
  uint64_t Next();

 private:
  uint64_t Permute(uint64_t x) const;

  const KeyOrder order_;
  const uint64_t num_;
  const uint64_t seed_;
  const int bits_;  // of the power of two that holds num
  Random random_;
  uint64_t position_ = 0;
};

class ValueMaker {
 public:
  // `text`: records of named fields, such as services log, which compress; else random bytes.
  ValueMaker(size_t value_bytes, uint64_t seed, bool text = false);

  // The value of `key` as written by operation `stamp`. Valid until the next call.
  std::string_view Make(uint64_t key, uint64_t stamp);

  // Whether `value` is one that Make() returns for `key` and some stamp.
  bool Matches(uint64_t key, std::string_view value) const;

 private:
  std::string_view Body(uint64_t key) const;

  const size_t value_bytes_;
  const size_t stamp_bytes_;
  std::string pool_;
  std::string scratch_;
};

// An order-sensitive 64-bit checksum of a sequence of strings.
class Checksum {
 public:
  void Add(std::string_view bytes);
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0x9e3779b97f4a7c15;
};

}  // namespace pulse::bench
