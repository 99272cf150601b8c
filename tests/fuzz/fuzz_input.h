// What every fuzz target shares: taking numbers out of the input, and ending on a broken promise.
// Reading past the end gives zeros, so that every input is a valid one. For tests only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace pulse::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }
  void Bytes(void* out, size_t n) {
    const size_t have = std::min(n, left_);
    if (n > 0) std::memset(out, 0, n);
    if (have > 0) std::memcpy(out, data_, have);
    data_ += have;
    left_ -= have;
  }
  uint8_t Byte() { return Number<uint8_t>(); }
  uint64_t Below(uint64_t n) { return Byte() % n; }
  template <typename T>
  T Number() {
    T value;
    Bytes(&value, sizeof(value));
    return value;
  }
  // A number that an attacker would choose: near a limit, near `near`, small, or anything.
  uint64_t Evil(uint64_t near) {
    const auto by = static_cast<uint64_t>(static_cast<int64_t>(Number<int8_t>()));
    switch (Byte() % 8) {
      case 0:
        return near + by;
      case 1:
        return by;  // around 0, on either side
      case 2:
        return (uint64_t{1} << 32) + by;
      case 3:
        return (uint64_t{1} << 63) + by;
      case 4:
        return near + by * 4096;
      case 5:
        return near;
      case 6:
        return by & 7;
      default:
        return Number<uint64_t>();
    }
  }
  std::string Rest() {
    std::string s(reinterpret_cast<const char*>(data_), left_);
    left_ = 0;
    return s;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

}  // namespace pulse::fuzz

// A promise that no input may break; in every build.
#define FUZZ_CHECK(condition)                                                              \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      std::fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                        \
    }                                                                                      \
  } while (0)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
