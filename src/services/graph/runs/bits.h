// Unsigned numbers packed to a fixed number of bits, the lowest first: 0 to 56 bits, or 64. Readers
// may touch up to 7 bytes behind the last one. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace pulse::graph {

inline uint64_t LoadWord(const char* p) {
  uint64_t word;
  std::memcpy(&word, p, 8);
  return word;
}

// The width for numbers up to `most`.
inline int BitsFor(uint64_t most) {
  const int bits = most == 0 ? 0 : 64 - __builtin_clzll(most);
  return bits > 56 ? 64 : bits;
}
inline uint64_t PackedBytes(uint64_t n, int width) {
  return (n * static_cast<uint64_t>(width) + 7) / 8;
}
inline uint64_t LowBits(int width) {
  return width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
}

inline uint64_t BitsAt(const char* packed, int width, uint64_t i) {
  const uint64_t bit = i * static_cast<uint64_t>(width);
  return LoadWord(packed + bit / 8) >> (bit % 8) & LowBits(width);
}

// base + number, for each of `n` numbers from the one at `first` on.
void UnpackBits(const char* packed, int width, uint64_t first, size_t n, uint64_t base,
                uint64_t* out);
// out[0] = base, and each further one adds the next of n - 1 numbers.
void UnpackSums(const char* packed, int width, size_t n, uint64_t base, uint64_t* out);

// Appends PackedBytes(n, width) bytes: number(i) less than 2^width for each i.
template <typename Number>
void PackBits(size_t n, int width, const Number& number, std::string* out) {
  if (width == 0) return;
  if (width == 64) {
    for (size_t i = 0; i < n; ++i) {
      const uint64_t value = number(i);
      out->append(reinterpret_cast<const char*>(&value), 8);
    }
    return;
  }
  const size_t begin = out->size();
  out->resize(begin + PackedBytes(n, width) + 8);  // whole words are written
  char* p = out->data() + begin;
  uint64_t word = 0;
  int bits = 0;
  for (size_t i = 0; i < n; ++i) {
    word |= number(i) << bits;
    bits += width;
    std::memcpy(p, &word, 8);
    p += bits / 8;
    word = bits >= 8 ? word >> (bits / 8 * 8) : word;
    bits %= 8;
  }
  out->resize(begin + PackedBytes(n, width));
}

}  // namespace pulse::graph
