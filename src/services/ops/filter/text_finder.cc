#include "services/ops/filter/text_finder.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"

// What stands between HWY_BEFORE_NAMESPACE and HWY_AFTER_NAMESPACE is compiled once for each kind
// of vectors that the CPU may turn out to have.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "services/ops/filter/text_finder.cc"
#include "hwy/foreach_target.h"  // first
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace pulse::filter::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <size_t kTexts>
size_t FindPlaces(const TextFinder::Pair* pairs, const char* data, size_t at, size_t last,
                  uint64_t* places) {
  const hn::CappedTag<uint8_t, 64> d;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(data);
  for (; at <= last; at += hn::Lanes(d)) {
    auto differs = hn::Set(d, 0xff);  // 0 where both bytes of a text are right
#pragma GCC unroll 8
    for (size_t i = 0; i < kTexts; ++i) {
      const TextFinder::Pair& pair = pairs[i];
      auto of_text = hn::Zero(d);
#pragma GCC unroll 8
      for (size_t k = 0; k < TextFinder::kCompared; ++k) {
        of_text = hn::Or(of_text, hn::Xor(hn::LoadU(d, bytes + at + pair.offsets[k]),
                                          hn::Set(d, pair.bytes[k])));
      }
      differs = hn::Min(differs, of_text);
    }
    const auto found = hn::Eq(differs, hn::Zero(d));
    if (hn::AllFalse(d, found)) continue;
    hn::StoreMaskBits(d, found, reinterpret_cast<uint8_t*>(places));
    break;
  }
  return at;
}

TextFinder::Kernel KernelFor(size_t texts) {
  const size_t width = hn::Lanes(hn::CappedTag<uint8_t, 64>());
  switch (texts) {
    case 1:
      return {width, &FindPlaces<1>};
    case 2:
      return {width, &FindPlaces<2>};
    case 4:
      return {width, &FindPlaces<4>};
    default:
      return {width, &FindPlaces<8>};
  }
}

// `last`: the last place at which the text may stand, which is not empty.
const char* FindOne(const char* from, const char* last, const char* readable,
                    absl::string_view text) {
  const hn::CappedTag<uint8_t, 32> d;
  const size_t needed = hn::Lanes(d) + text.size() - 1;
  const auto front = hn::Set(d, static_cast<uint8_t>(text.front()));
  const auto back = hn::Set(d, static_cast<uint8_t>(text.back()));
  for (; from <= last && static_cast<size_t>(readable - from) >= needed; from += hn::Lanes(d)) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(from);
    const auto found = hn::And(hn::Eq(hn::LoadU(d, bytes), front),
                               hn::Eq(hn::LoadU(d, bytes + text.size() - 1), back));
    if (hn::AllFalse(d, found)) continue;
    uint64_t places = 0;
    hn::StoreMaskBits(d, found, reinterpret_cast<uint8_t*>(&places));
    for (; places != 0; places &= places - 1) {
      const char* const place = from + __builtin_ctzll(places);
      if (place > last) return nullptr;
      if (std::memcmp(place, text.data(), text.size()) == 0) return place;
    }
  }
  if (from > last) return nullptr;
  const auto left = static_cast<size_t>(last - from) + text.size();
  return static_cast<const char*>(memmem(from, left, text.data(), text.size()));
}

}  // namespace pulse::filter::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace pulse::filter {

namespace {

struct Kernels {
  TextFinder::Kernel (*kernel_for)(size_t texts);
  decltype(&FindText) find_one;
};

// Highway's own choice is in its library, which measures the clock for 4 ms whenever a program
// starts; its headers do without.
Kernels Choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
#define PULSE_HAS(feature) (__builtin_cpu_supports(feature) != 0)
  const bool avx2 = PULSE_HAS("avx2") && PULSE_HAS("bmi") && PULSE_HAS("bmi2") && PULSE_HAS("fma");
#if HWY_TARGETS & HWY_AVX3
  if (avx2 && PULSE_HAS("avx512f") && PULSE_HAS("avx512cd") && PULSE_HAS("avx512bw") &&
      PULSE_HAS("avx512dq") && PULSE_HAS("avx512vl")) {
    return {&N_AVX3::KernelFor, &N_AVX3::FindOne};
  }
#endif
#if HWY_TARGETS & HWY_AVX2
  if (avx2) return {&N_AVX2::KernelFor, &N_AVX2::FindOne};
#endif
#if HWY_TARGETS & HWY_SSE4
  if (PULSE_HAS("sse4.2") && PULSE_HAS("pclmul")) return {&N_SSE4::KernelFor, &N_SSE4::FindOne};
#endif
#undef PULSE_HAS
#endif
  return {&HWY_STATIC_DISPATCH(KernelFor), &HWY_STATIC_DISPATCH(FindOne)};
}

const Kernels& Here() {
  static const Kernels kernels = Choose();
  return kernels;
}

}  // namespace

int Rarity(unsigned char byte) {
  if (byte == ' ') return 1;
  if (absl::ascii_isdigit(byte)) return 3;
  if (absl::ascii_islower(byte)) {
    return absl::string_view("etaoinsr").find(static_cast<char>(byte)) == absl::string_view::npos
               ? 4
               : 2;
  }
  return 5;
}

bool TextFinder::Fits(const std::vector<std::string>& texts) {
  return !texts.empty() && texts.size() <= kMostTexts &&
         std::all_of(texts.begin(), texts.end(),
                     [](const std::string& text) { return text.size() >= 2; });
}

TextFinder::TextFinder(std::vector<std::string> texts) : texts_(std::move(texts)) {
  for (const std::string& text : texts_) {
    std::vector<size_t> rarest(text.size());
    std::iota(rarest.begin(), rarest.end(), 0);
    std::stable_sort(rarest.begin(), rarest.end(), [&text](size_t a, size_t b) {
      return Rarity(static_cast<unsigned char>(text[a])) >
             Rarity(static_cast<unsigned char>(text[b]));
    });
    Pair pair{};
    for (size_t k = 0; k < kCompared; ++k) {
      pair.offsets[k] = rarest[k % rarest.size()];
      pair.bytes[k] = static_cast<uint8_t>(text[pair.offsets[k]]);
    }
    const size_t start = std::min(text.size(), sizeof(pair.start));
    const std::string ones(start, '\xff');
    std::memcpy(&pair.start, text.data(), start);
    std::memcpy(&pair.start_mask, ones.data(), start);
    pairs_.push_back(pair);
    longest_ = std::max(longest_, text.size());
  }
  pairs_.resize(std::bit_ceil(pairs_.size()), pairs_.back());
  kernel_ = Here().kernel_for(pairs_.size());
}

const char* FindText(const char* from, const char* end, const char* readable,
                     absl::string_view text) {
  if (text.empty()) return from;
  if (static_cast<size_t>(end - from) < text.size()) return nullptr;
  return Here().find_one(from, end - text.size(), readable, text);
}

}  // namespace pulse::filter
#endif
