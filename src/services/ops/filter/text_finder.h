// TextFinder: finds a few texts in a large block, all at once, and leaves out what the caller does
// not want to be searched: the rest of a line that has been decided. Vectorscan finds many texts
// faster; it cannot leave out anything, and where most lines match, that is what counts.
//
// Of each text two bytes are compared, the rarest, at sixteen places with one instruction each;
// where both are right, the whole text is compared. Immutable; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace pulse::filter {

// How rare a byte is in text and logs, roughly; more is rarer.
int Rarity(unsigned char byte);

class TextFinder {
 public:
  static constexpr size_t kMostTexts = 8;
  static constexpr size_t kGoOn = 0;

  // Whether these texts can be searched for here.
  static bool Fits(const std::vector<std::string>& texts);

  explicit TextFinder(std::vector<std::string> texts);

  // Calls `handler(which text, where it ends)` for each place, in their order. It returns where to
  // search on, behind the place where the text began, or kGoOn: at the next place.
  template <typename Handler>
  void Find(absl::string_view data, Handler&& handler) const {
    size_t at = 0;
#if defined(__SSE2__)
    switch (texts_.size()) {
      case 1:
        at = FindWide<1>(data, handler);
        break;
      case 2:
        at = FindWide<2>(data, handler);
        break;
      case 3:
      case 4:
        at = FindWide<4>(data, handler);
        break;
      default:
        at = FindWide<8>(data, handler);
    }
#endif
    while (at < data.size()) {
      const size_t next = Compare(data, at, handler);
      at = next == kGoOn ? at + 1 : next;
    }
  }

 private:
  struct Pair {
    size_t first;  // offsets in the text
    size_t second;
    char first_byte;
    char second_byte;
    // The first bytes of the text as one number, and which of its bits count.
    uint64_t start;
    uint64_t start_mask;
  };

  // The texts that stand at `at`.
  template <typename Handler>
  size_t Compare(absl::string_view data, size_t at, Handler& handler) const {
    for (size_t i = 0; i < texts_.size(); ++i) {
      const std::string& text = texts_[i];
      if (data.size() - at < text.size() ||
          std::memcmp(data.data() + at, text.data(), text.size()) != 0) {
        continue;
      }
      const size_t next = handler(i, at + text.size());
      if (next != kGoOn) return next;
    }
    return kGoOn;
  }

#if defined(__SSE2__)
  // As Compare, where eight bytes and the longest text can be read.
  template <typename Handler>
  size_t CompareWide(absl::string_view data, size_t at, Handler& handler) const {
    uint64_t there;
    std::memcpy(&there, data.data() + at, sizeof(there));
    const size_t count = texts_.size();
    for (size_t i = 0; i < count; ++i) {
      const Pair& pair = pairs_[i];
      if ((there & pair.start_mask) != pair.start) continue;
      const std::string& text = texts_[i];
      if (text.size() > sizeof(there) &&
          std::memcmp(data.data() + at + sizeof(there), text.data() + sizeof(there),
                      text.size() - sizeof(there)) != 0) {
        continue;
      }
      const size_t next = handler(i, at + text.size());
      if (next != kGoOn) return next;
    }
    return kGoOn;
  }

  // Returns where the rest begins, in which sixteen places cannot be compared at once. With fewer
  // than kTexts texts the last one is compared more than once.
  template <size_t kTexts, typename Handler>
  size_t FindWide(absl::string_view data, Handler& handler) const {
    constexpr size_t kWide = sizeof(__m128i);
    __m128i first_byte[kTexts];
    __m128i second_byte[kTexts];
    size_t first[kTexts];
    size_t second[kTexts];
    for (size_t i = 0; i < kTexts; ++i) {
      const Pair& pair = pairs_[i < pairs_.size() ? i : pairs_.size() - 1];
      first_byte[i] = _mm_set1_epi8(pair.first_byte);
      second_byte[i] = _mm_set1_epi8(pair.second_byte);
      first[i] = pair.first;
      second[i] = pair.second;
    }
    size_t at = 0;
    while (at + std::max(longest_, sizeof(uint64_t)) + kWide <= data.size()) {
      const char* const from = data.data() + at;
      __m128i any = _mm_setzero_si128();
#pragma GCC unroll 8
      for (size_t i = 0; i < kTexts; ++i) {
        const auto* a = reinterpret_cast<const __m128i*>(from + first[i]);
        const auto* b = reinterpret_cast<const __m128i*>(from + second[i]);
        any = _mm_or_si128(any, _mm_and_si128(_mm_cmpeq_epi8(_mm_loadu_si128(a), first_byte[i]),
                                              _mm_cmpeq_epi8(_mm_loadu_si128(b), second_byte[i])));
      }
      auto places = static_cast<unsigned>(_mm_movemask_epi8(any));
      size_t next = at + kWide;
      while (places != 0) {
        const size_t place = at + static_cast<size_t>(__builtin_ctz(places));
        const size_t go_on = CompareWide(data, place, handler);
        places &= places - 1;
        if (go_on == kGoOn) continue;
        if (go_on >= next) {
          next = go_on;
          break;
        }
        places &= ~0U << (go_on - at);
      }
      at = next;
    }
    return at;
  }
#endif

  std::vector<std::string> texts_;
  std::vector<Pair> pairs_;
  size_t longest_ = 0;
};

// Where `text` first stands in [from, end), or null. Bytes up to `readable` may be read.
const char* FindText(const char* from, const char* end, const char* readable,
                     absl::string_view text);

}  // namespace pulse::filter
