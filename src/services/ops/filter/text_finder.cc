#include "services/ops/filter/text_finder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"

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
