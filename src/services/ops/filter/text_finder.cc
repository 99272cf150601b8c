#include "services/ops/filter/text_finder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace pulse::filter {

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
#if defined(__SSE2__)
  return !texts.empty() && texts.size() <= kMostTexts &&
         std::all_of(texts.begin(), texts.end(),
                     [](const std::string& text) { return text.size() >= 2; });
#else
  return false;
#endif
}

#if defined(__SSE2__)
// With fewer than kTexts texts the last one is compared more than once.
template <size_t kTexts>
size_t TextFinder::FindBySse2(const std::vector<Pair>& pairs, const char* data, size_t at,
                              size_t last, uint32_t* places) {
  __m128i first_byte[kTexts];
  __m128i second_byte[kTexts];
  size_t first[kTexts];
  size_t second[kTexts];
  for (size_t i = 0; i < kTexts; ++i) {
    const Pair& pair = pairs[std::min(i, pairs.size() - 1)];
    first_byte[i] = _mm_set1_epi8(pair.first_byte);
    second_byte[i] = _mm_set1_epi8(pair.second_byte);
    first[i] = pair.first;
    second[i] = pair.second;
  }
  for (; at <= last; at += sizeof(__m128i)) {
    __m128i any = _mm_setzero_si128();
#pragma GCC unroll 8
    for (size_t i = 0; i < kTexts; ++i) {
      const auto* a = reinterpret_cast<const __m128i*>(data + at + first[i]);
      const auto* b = reinterpret_cast<const __m128i*>(data + at + second[i]);
      any = _mm_or_si128(any, _mm_and_si128(_mm_cmpeq_epi8(_mm_loadu_si128(a), first_byte[i]),
                                            _mm_cmpeq_epi8(_mm_loadu_si128(b), second_byte[i])));
    }
    *places = static_cast<uint32_t>(_mm_movemask_epi8(any));
    if (*places != 0) break;
  }
  return at;
}

template <size_t kTexts>
__attribute__((target("avx2"))) size_t TextFinder::FindByAvx2(const std::vector<Pair>& pairs,
                                                              const char* data, size_t at,
                                                              size_t last, uint32_t* places) {
  __m256i first_byte[kTexts];
  __m256i second_byte[kTexts];
  size_t first[kTexts];
  size_t second[kTexts];
  for (size_t i = 0; i < kTexts; ++i) {
    const Pair& pair = pairs[std::min(i, pairs.size() - 1)];
    first_byte[i] = _mm256_set1_epi8(pair.first_byte);
    second_byte[i] = _mm256_set1_epi8(pair.second_byte);
    first[i] = pair.first;
    second[i] = pair.second;
  }
  for (; at <= last; at += sizeof(__m256i)) {
    __m256i any = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (size_t i = 0; i < kTexts; ++i) {
      const auto* a = reinterpret_cast<const __m256i*>(data + at + first[i]);
      const auto* b = reinterpret_cast<const __m256i*>(data + at + second[i]);
      any = _mm256_or_si256(
          any, _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_loadu_si256(a), first_byte[i]),
                                _mm256_cmpeq_epi8(_mm256_loadu_si256(b), second_byte[i])));
    }
    *places = static_cast<uint32_t>(_mm256_movemask_epi8(any));
    if (*places != 0) break;
  }
  return at;
}

template <size_t kTexts>
TextFinder::Kernel TextFinder::KernelFor() {
  static const bool avx2 = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") != 0;
  }();
  return avx2 ? Kernel{sizeof(__m256i), &FindByAvx2<kTexts>}
              : Kernel{sizeof(__m128i), &FindBySse2<kTexts>};
}
#endif

TextFinder::TextFinder(std::vector<std::string> texts) : texts_(std::move(texts)) {
  for (const std::string& text : texts_) {
    const auto rarity = [&text](size_t i) { return Rarity(static_cast<unsigned char>(text[i])); };
    size_t first = 0;
    size_t second = 1;
    if (rarity(second) > rarity(first)) std::swap(first, second);
    for (size_t i = 2; i < text.size(); ++i) {
      if (rarity(i) > rarity(first)) {
        second = std::exchange(first, i);
      } else if (rarity(i) > rarity(second)) {
        second = i;
      }
    }
    Pair pair{first, second, text[first], text[second], 0, 0};
    const size_t start = std::min(text.size(), sizeof(pair.start));
    const std::string ones(start, '\xff');
    std::memcpy(&pair.start, text.data(), start);
    std::memcpy(&pair.start_mask, ones.data(), start);
    pairs_.push_back(pair);
    longest_ = std::max(longest_, text.size());
  }
#if defined(__SSE2__)
  kernel_ = texts_.size() == 1   ? KernelFor<1>()
            : texts_.size() == 2 ? KernelFor<2>()
            : texts_.size() <= 4 ? KernelFor<4>()
                                 : KernelFor<8>();
#endif
}

const char* FindText(const char* from, const char* end, const char* readable,
                     absl::string_view text) {
  const size_t size = text.size();
  if (size == 0) return from;
  if (static_cast<size_t>(end - from) < size) return nullptr;
  const char* const last = end - size;  // the last place
#if defined(__SSE2__)
  constexpr std::ptrdiff_t kWide = sizeof(__m128i);
  const __m128i first_byte = _mm_set1_epi8(text.front());
  const __m128i last_byte = _mm_set1_epi8(text.back());
  for (; from <= last && readable - from >= kWide + static_cast<std::ptrdiff_t>(size) - 1;
       from += kWide) {
    const auto* a = reinterpret_cast<const __m128i*>(from);
    const auto* b = reinterpret_cast<const __m128i*>(from + size - 1);
    auto places = static_cast<unsigned>(
        _mm_movemask_epi8(_mm_and_si128(_mm_cmpeq_epi8(_mm_loadu_si128(a), first_byte),
                                        _mm_cmpeq_epi8(_mm_loadu_si128(b), last_byte))));
    for (; places != 0; places &= places - 1) {
      const char* const place = from + __builtin_ctz(places);
      if (place > last) return nullptr;
      if (std::memcmp(place, text.data(), size) == 0) return place;
    }
  }
  if (from > last) return nullptr;
#endif
  return static_cast<const char*>(memmem(from, static_cast<size_t>(end - from), text.data(), size));
}

}  // namespace pulse::filter
