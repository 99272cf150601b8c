#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace pulse {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // bits reversed
using Table = std::array<uint32_t, 256>;

// kTables[k][b]: what byte b adds to the checksum when k zero bytes follow it.
constexpr std::array<Table, 8> MakeTables() {
  std::array<Table, 8> tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t b = 0; b < 256; ++b) {
      const uint32_t before = tables[k - 1][b];
      tables[k][b] = (before >> 8) ^ tables[0][before & 255];
    }
  }
  return tables;
}
constexpr std::array<Table, 8> kTables = MakeTables();

// On states, which are checksums with all bits inverted.
uint32_t UpdatePortable(uint32_t state, const unsigned char* p, size_t n) {
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    word ^= state;
    state = 0;
    for (size_t k = 0; k < 8; ++k) state ^= kTables[7 - k][(word >> (8 * k)) & 255];
  }
  for (; n > 0; --n, ++p) state = (state >> 8) ^ kTables[0][(state ^ *p) & 255];
  return state;
}

#if defined(__x86_64__)

// The instruction takes three cycles, and one can begin in each: three parts of the input are
// summed side by side, and joined by what a state becomes when the following part is zeros.
constexpr size_t kPart = 1024;

// kShift[k][b]: what byte k of a state, being b, becomes after kPart zero bytes.
using ShiftTables = std::array<Table, 4>;
ShiftTables MakeShift() {
  const std::array<unsigned char, kPart> zeros{};
  ShiftTables tables{};
  for (size_t k = 0; k < 4; ++k) {
    for (size_t bit = 0; bit < 8; ++bit) {
      tables[k][size_t{1} << bit] =
          UpdatePortable(uint32_t{1} << (8 * k + bit), zeros.data(), kPart);
    }
    for (size_t b = 1; b < 256; ++b) {
      const size_t low = b & (~b + 1);
      if (b != low) tables[k][b] = tables[k][low] ^ tables[k][b ^ low];
    }
  }
  return tables;
}

uint32_t Shift(const ShiftTables& t, uint64_t state) {
  return t[0][state & 255] ^ t[1][(state >> 8) & 255] ^ t[2][(state >> 16) & 255] ^
         t[3][(state >> 24) & 255];
}

__attribute__((target("sse4.2"))) uint32_t UpdateSse42(uint32_t state, const unsigned char* p,
                                                       size_t n) {
  static const ShiftTables shift = MakeShift();
  const auto word = [](const unsigned char* at) {
    uint64_t w;
    std::memcpy(&w, at, 8);
    return w;
  };
  uint64_t a = state;
  for (; n >= 3 * kPart; n -= 3 * kPart, p += 3 * kPart) {
    uint64_t b = 0, c = 0;
    for (size_t i = 0; i < kPart; i += 8) {
      a = _mm_crc32_u64(a, word(p + i));
      b = _mm_crc32_u64(b, word(p + kPart + i));
      c = _mm_crc32_u64(c, word(p + 2 * kPart + i));
    }
    a = Shift(shift, Shift(shift, a) ^ b) ^ c;
  }
  for (; n >= 8; n -= 8, p += 8) a = _mm_crc32_u64(a, word(p));
  auto narrow = static_cast<uint32_t>(a);
  for (; n > 0; --n, ++p) narrow = _mm_crc32_u8(narrow, *p);
  return narrow;
}

#endif

// kZeros[k][bit]: what a checksum of this one bit becomes when 2^k zero bytes follow.
using Matrix = std::array<uint32_t, 32>;
constexpr uint32_t Times(const Matrix& matrix, uint32_t sum) {
  uint32_t out = 0;
  for (size_t bit = 0; sum != 0; ++bit, sum >>= 1) out ^= (sum & 1) != 0 ? matrix[bit] : 0;
  return out;
}
constexpr std::array<Matrix, 64> MakeZeros() {
  std::array<Matrix, 64> zeros{};
  for (size_t bit = 0; bit < 32; ++bit) {
    const uint32_t sum = uint32_t{1} << bit;
    zeros[0][bit] = (sum >> 8) ^ kTables[0][sum & 255];
  }
  for (size_t k = 1; k < 64; ++k) {
    for (size_t bit = 0; bit < 32; ++bit) zeros[k][bit] = Times(zeros[k - 1], zeros[k - 1][bit]);
  }
  return zeros;
}
constexpr std::array<Matrix, 64> kZeros = MakeZeros();

}  // namespace

// Sums are linear: that of two texts is that of the first, as zeros behind it leave it, and that of
// the second.
uint32_t Crc32cOfLast(uint32_t whole, uint32_t front, uint64_t n) {
  for (size_t k = 0; n != 0; ++k, n >>= 1) {
    if ((n & 1) != 0) front = Times(kZeros[k], front);
  }
  return whole ^ front;
}

uint32_t ExtendCrc32cPortable(uint32_t crc, const void* data, size_t n) {
  return ~UpdatePortable(~crc, static_cast<const unsigned char*>(data), n);
}

uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t n) {
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("sse4.2") != 0;
  if (fast) return ~UpdateSse42(~crc, static_cast<const unsigned char*>(data), n);
#endif
  return ExtendCrc32cPortable(crc, data, n);
}

}  // namespace pulse
