// TextFinder: finds a few texts in a large block, all at once, and leaves out what the caller does
// not want to be searched: the rest of a line that has been decided. Vectorscan finds many texts
// faster; it cannot leave out anything, and where most lines match, that is what counts.
//
// Of each text two bytes are compared, the rarest, at as many places at once as a vector of this
// CPU has bytes; where both are right, the whole text is compared. Immutable; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace pulse::filter {

// How rare a byte is in text and logs, roughly; more is rarer.
int Rarity(unsigned char byte);

class TextFinder {
 public:
  static constexpr size_t kMostTexts = 8;
  static constexpr size_t kGoOn = 0;

  // Of a text: what kernels compare. Of a short one a byte is compared more than once.
  static constexpr size_t kCompared = 3;
  struct Pair {
    std::array<size_t, kCompared> offsets;  // in the text
    std::array<uint8_t, kCompared> bytes;
    // The first bytes of the text as one number, and which of its bits count.
    uint64_t start;
    uint64_t start_mask;
  };

  // Compares `width` places at once, at most 64, from `at` on in steps of `width` up to `last`.
  // Returns where it found some, which are the bits of `places`, or where none is left.
  struct Kernel {
    size_t width;
    size_t (*find)(const Pair* pairs, const char* data, size_t at, size_t last, uint64_t* places);
  };
  // Whether these texts can be searched for.
  static bool Fits(const std::vector<std::string>& texts);

  explicit TextFinder(std::vector<std::string> texts);

  // Calls `handler(which text, where it ends)` for each place, in their order. It returns where to
  // search on, behind the place where the text began, or kGoOn: at the next place.
  template <typename Handler>
  void Find(absl::string_view data, Handler&& handler) const {
    size_t at = FindWide(data, handler);
    while (at < data.size()) {
      const size_t next = Compare(data, at, handler);
      at = next == kGoOn ? at + 1 : next;
    }
  }

 private:
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

  // As Compare, where eight bytes and the longest text can be read.
  template <typename Handler>
  size_t CompareWide(absl::string_view data, size_t at, Handler& handler) const {
    uint64_t there;
    std::memcpy(&there, data.data() + at, sizeof(there));
    for (size_t i = 0; i < texts_.size(); ++i) {
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

  // Returns where the rest begins, in which `width` places cannot be compared at once.
  template <typename Handler>
  size_t FindWide(absl::string_view data, Handler& handler) const {
    const size_t width = kernel_.width;
    const size_t margin = std::max(longest_, sizeof(uint64_t)) + width;
    if (data.size() < margin) return 0;
    const size_t last = data.size() - margin;
    size_t at = 0;
    while (at <= last) {  // the caller may have gone beyond any size
      uint64_t places = 0;
      at = kernel_.find(pairs_.data(), data.data(), at, last, &places);
      size_t next = places == 0 ? at : at + width;
      while (places != 0) {
        const size_t place = at + static_cast<size_t>(__builtin_ctzll(places));
        const size_t go_on = CompareWide(data, place, handler);
        places &= places - 1;
        if (go_on == kGoOn) continue;
        if (go_on >= next) {
          next = go_on;
          break;
        }
        places &= ~uint64_t{0} << (go_on - at);
      }
      at = next;
    }
    return at;
  }

  std::vector<std::string> texts_;
  std::vector<Pair> pairs_;  // as many as the kernel compares: the last one is there several times
  size_t longest_ = 0;
  Kernel kernel_ = {};
};

// Where `text` first stands in [from, end), or null. Bytes up to `readable` may be read.
const char* FindText(const char* from, const char* end, const char* readable,
                     absl::string_view text);

}  // namespace pulse::filter
