#include "services/ops/ahead/block_finder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace pulse::ops {
namespace {

constexpr int kMostLiteralCodes = 286;
constexpr int kMostDistanceCodes = 30;
constexpr int kEndOfBlock = 256;
constexpr uint32_t kHeaderBits = 17;  // up to the lengths of the code for lengths
constexpr uint32_t kLengthCodes = 19;
constexpr uint32_t kLongestLengthCode = 7;
constexpr uint32_t kLongestCode = 15;
// Sums of 2^(longest - length) over all codes: what a complete code has.
constexpr uint32_t kCompleteLengthCode = 1 << kLongestLengthCode;
constexpr uint32_t kCompleteCode = 1 << kLongestCode;
constexpr std::array<uint8_t, kLengthCodes> kOrder = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                      11, 4,  12, 3, 13, 2, 14, 1, 15};

// Of four lengths of three bits each, their part of the sum.
constexpr std::array<uint16_t, 4096> kFourLengths = [] {
  std::array<uint16_t, 4096> sums{};
  for (uint32_t four = 0; four < sums.size(); ++four) {
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t length = four >> (3 * i) & 7;
      if (length != 0) sums[four] = static_cast<uint16_t>(sums[four] + (128 >> length));
    }
  }
  return sums;
}();

// 64 bits from a byte on; zeros behind the end.
uint64_t LoadBytes(absl::string_view bytes, uint64_t at) {
  uint64_t value = 0;
  if (at + 8 <= bytes.size()) {
    std::memcpy(&value, bytes.data() + at, 8);
  } else if (at < bytes.size()) {
    std::memcpy(&value, bytes.data() + at, bytes.size() - at);
  }
  return value;
}

// 57 bits or more.
uint64_t LoadBits(absl::string_view bytes, uint64_t bit) {
  return LoadBytes(bytes, bit / 8) >> (bit % 8);
}

// Bits of the 48 from a byte on at which the first 13 bits of a header are possible: not final,
// with codes of its own (binary 10), not more codes of a kind than there are.
uint64_t PossibleStarts(uint64_t bits) {
  const uint64_t kind = ~bits & ~(bits >> 1) & (bits >> 2);
  const uint64_t many_literals = bits >> 4 & bits >> 5 & bits >> 6 & bits >> 7;
  const uint64_t many_distances = bits >> 9 & bits >> 10 & bits >> 11 & bits >> 12;
  return kind & ~many_literals & ~many_distances & ((uint64_t{1} << 48) - 1);
}

// The lengths of the code for lengths, three bits each, if they make a complete code; else 0.
uint64_t LengthCode(absl::string_view bytes, uint64_t bit, uint32_t count) {
  const uint64_t lengths = LoadBits(bytes, bit + kHeaderBits) & ((uint64_t{1} << (3 * count)) - 1);
  uint32_t sum = 0;
  for (uint32_t i = 0; i < 5; ++i) sum += kFourLengths[lengths >> (12 * i) & 4095];
  return sum == kCompleteLengthCode ? lengths : 0;
}

// A code for lengths as a table: of the next seven bits, the symbol and how many bits it has.
class LengthDecoder {
 public:
  // `lengths` make a complete code.
  LengthDecoder(uint64_t lengths, uint32_t count) {
    std::array<uint32_t, kLengthCodes> of{};
    for (uint32_t i = 0; i < count; ++i) of[kOrder[i]] = lengths >> (3 * i) & 7;
    uint32_t code = 0;
    for (uint32_t length = 1; length <= kLongestLengthCode; ++length, code <<= 1) {
      for (uint32_t symbol = 0; symbol < kLengthCodes; ++symbol) {
        if (of[symbol] == length) Put(code++, length, symbol);
      }
    }
  }

  struct Entry {
    uint8_t symbol;
    uint8_t bits;
  };
  Entry Next(uint64_t bits) const { return table_[bits & (table_.size() - 1)]; }

 private:
  void Put(uint32_t code, uint32_t length, uint32_t symbol) {
    uint32_t reversed = 0;
    for (uint32_t i = 0; i < length; ++i) reversed |= (code >> i & 1) << (length - 1 - i);
    for (uint32_t i = reversed; i < table_.size(); i += 1u << length) {
      table_[i] = {static_cast<uint8_t>(symbol), static_cast<uint8_t>(length)};
    }
  }

  std::array<Entry, 1 << kLongestLengthCode> table_;
};

// Whether the lengths of all codes follow at `bit`, within the bytes, and make complete codes.
bool AreCodes(absl::string_view bytes, uint64_t bit, const LengthDecoder& decoder, int literals,
              int distances) {
  uint32_t sums[2] = {0, 0};  // of literals and of distances
  int distances_used = 0;
  uint32_t last = 0;
  bool ends = false;
  const int all = literals + distances;
  for (int i = 0; i < all;) {
    const uint64_t bits = LoadBits(bytes, bit);
    const auto [symbol, used] = decoder.Next(bits);
    bit += used;
    int repeat = 1;
    uint32_t length = symbol;
    if (symbol == 16) {
      if (i == 0) return false;
      length = last;
      repeat = 3 + static_cast<int>(bits >> used & 3);
      bit += 2;
    } else if (symbol == 17) {
      length = 0;
      repeat = 3 + static_cast<int>(bits >> used & 7);
      bit += 3;
    } else if (symbol == 18) {
      length = 0;
      repeat = 11 + static_cast<int>(bits >> used & 127);
      bit += 7;
    }
    last = length;
    if (i + repeat > all) return false;
    if (length == 0) {
      i += repeat;
      continue;
    }
    for (; repeat > 0; --repeat, ++i) {
      ends |= i == kEndOfBlock;
      distances_used += i >= literals ? 1 : 0;
      uint32_t& sum = sums[i >= literals ? 1 : 0];
      sum += kCompleteCode >> length;
      if (sum > kCompleteCode) return false;
    }
    // No literals are left to come that could make it complete.
    if (i >= literals && sums[0] != kCompleteCode) return false;
  }
  // One distance alone, or none, has no complete code.
  return ends && sums[0] == kCompleteCode && (sums[1] == kCompleteCode || distances_used <= 1) &&
         bit <= 8 * uint64_t{bytes.size()};
}

bool IsBlock(absl::string_view bytes, uint64_t bit) {
  const uint64_t head = LoadBits(bytes, bit);
  const uint32_t count = 4 + (head >> 13 & 15);
  const uint64_t lengths = LengthCode(bytes, bit, count);
  if (lengths == 0) return false;
  const int literals = 257 + static_cast<int>(head >> 3 & 31);
  const int distances = 1 + static_cast<int>(head >> 8 & 31);
  return literals <= kMostLiteralCodes && distances <= kMostDistanceCodes &&
         AreCodes(bytes, bit + kHeaderBits + 3 * count, LengthDecoder(lengths, count), literals,
                  distances);
}

}  // namespace

std::optional<uint64_t> FindBlock(absl::string_view bytes, uint64_t from, uint64_t to) {
  to = std::min<uint64_t>(to, 8 * uint64_t{bytes.size()});
  for (uint64_t byte = from / 8; 8 * byte < to; byte += 6) {
    uint64_t starts = PossibleStarts(LoadBytes(bytes, byte));
    for (; starts != 0; starts &= starts - 1) {
      const uint64_t bit = 8 * byte + static_cast<uint64_t>(std::countr_zero(starts));
      if (bit < from) continue;
      if (bit >= to) return std::nullopt;
      if (IsBlock(bytes, bit)) return bit;
    }
  }
  return std::nullopt;
}

}  // namespace pulse::ops
