#include "services/graph/runs/bits.h"

#include <array>
#include <utility>

namespace pulse::graph {
namespace {

// Eight numbers of `kWidth` bits lie in kWidth bytes: for each group of them every offset and shift
// is a constant.
template <int kWidth>
void UnpackWidth(const char* packed, size_t n, uint64_t base, uint64_t* out) {
  constexpr uint64_t kMask = (uint64_t{1} << kWidth) - 1;
  size_t i = 0;
  for (; i + 8 <= n; i += 8, packed += kWidth, out += 8) {
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) {
      out[k] = base + (LoadWord(packed + k * kWidth / 8) >> (k * kWidth % 8) & kMask);
    }
  }
  for (int k = 0; i < n; ++i, ++k) {
    out[k] = base + (LoadWord(packed + k * kWidth / 8) >> (k * kWidth % 8) & kMask);
  }
}

template <int kWidth>
void SumWidth(const char* packed, size_t n, uint64_t base, uint64_t* out) {
  constexpr uint64_t kMask = (uint64_t{1} << kWidth) - 1;
  size_t i = 0;
  for (; i + 8 <= n; i += 8, packed += kWidth, out += 8) {
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) {
      base += LoadWord(packed + k * kWidth / 8) >> (k * kWidth % 8) & kMask;
      out[k] = base;
    }
  }
  for (int k = 0; i < n; ++i, ++k) {
    base += LoadWord(packed + k * kWidth / 8) >> (k * kWidth % 8) & kMask;
    out[k] = base;
  }
}

using Kernel = void (*)(const char*, size_t, uint64_t, uint64_t*);

template <int... kWidths>
constexpr std::array<Kernel, sizeof...(kWidths)> Unpackers(
    std::integer_sequence<int, kWidths...> /*all*/) {
  return {&UnpackWidth<kWidths>...};
}
template <int... kWidths>
constexpr std::array<Kernel, sizeof...(kWidths)> Summers(
    std::integer_sequence<int, kWidths...> /*all*/) {
  return {&SumWidth<kWidths>...};
}
constexpr auto kUnpack = Unpackers(std::make_integer_sequence<int, 57>());
constexpr auto kSum = Summers(std::make_integer_sequence<int, 57>());

}  // namespace

void UnpackBits(const char* packed, int width, uint64_t first, size_t n, uint64_t base,
                uint64_t* out) {
  if (width == 0) {
    for (size_t i = 0; i < n; ++i) out[i] = base;
    return;
  }
  if (width == 64) {
    for (size_t i = 0; i < n; ++i) out[i] = base + LoadWord(packed + 8 * (first + i));
    return;
  }
  // To where a group of eight begins.
  while (n > 0 && first % 8 != 0) {
    *out++ = base + BitsAt(packed, width, first);
    ++first;
    --n;
  }
  kUnpack[static_cast<size_t>(width)](packed + first / 8 * static_cast<uint64_t>(width), n, base,
                                      out);
}

void UnpackSums(const char* packed, int width, size_t n, uint64_t base, uint64_t* out) {
  if (n == 0) return;
  *out++ = base;
  --n;
  if (width == 64) {
    for (size_t i = 0; i < n; ++i) out[i] = base += LoadWord(packed + 8 * i);
    return;
  }
  kSum[static_cast<size_t>(width)](packed, n, base, out);
}

}  // namespace pulse::graph
