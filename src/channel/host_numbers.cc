#include "channel/host_numbers.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/json.h"

namespace pulse {
namespace {

using wire::kHostNames;

// A writing takes a microsecond; a host that is stopped in the middle of one is not waited for.
constexpr int kAttempts = 64;
// Of a longer path its end is shown.
constexpr size_t kMaxName = 255;

const wire::HostNumbers* NumbersOf(const wire::ControlPage* page) {
  return reinterpret_cast<const wire::HostNumbers*>(reinterpret_cast<const char*>(page) +
                                                    wire::kHostNumbersOffset);
}

}  // namespace

void WriteHostNumbers(wire::ControlPage* page, const HostNumbersCopy& copy) {
  auto* to = const_cast<wire::HostNumbers*>(NumbersOf(page));
  std::array<char, kHostNames> text{};
  size_t used = 0;
  for (const std::string& name : copy.names) {
    const std::string shown = name.size() <= kMaxName
                                  ? name
                                  : absl::StrCat("...", name.substr(name.size() - kMaxName + 3));
    if (used + shown.size() + 1 > text.size()) break;
    std::memcpy(text.data() + used, shown.c_str(), shown.size() + 1);
    used += shown.size() + 1;
  }
  const uint64_t sequence = to->sequence.load(std::memory_order_relaxed) | 1;
  to->sequence.store(sequence, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (size_t i = 0; i < copy.numbers.size(); ++i) {
    to->numbers[i].store(copy.numbers[i], std::memory_order_relaxed);
  }
  for (size_t i = 0; i < kHostNames / sizeof(uint64_t); ++i) {
    uint64_t word;
    std::memcpy(&word, text.data() + i * sizeof(word), sizeof(word));
    to->names[i].store(word, std::memory_order_relaxed);
  }
  to->sequence.store(sequence + 1, std::memory_order_release);
}

bool ReadHostNumbers(const wire::ControlPage* page, HostNumbersCopy* copy) {
  const wire::HostNumbers* from = NumbersOf(page);
  std::array<char, kHostNames> text;
  bool whole = false;
  for (int i = 0; i < kAttempts && !whole; ++i) {
    const uint64_t before = from->sequence.load(std::memory_order_acquire);
    if (before == 0) return false;
    if ((before & 1) != 0) {
      CpuPause();
      continue;
    }
    for (size_t n = 0; n < copy->numbers.size(); ++n) {
      copy->numbers[n] = from->numbers[n].load(std::memory_order_relaxed);
    }
    for (size_t n = 0; n < kHostNames / sizeof(uint64_t); ++n) {
      const uint64_t word = from->names[n].load(std::memory_order_relaxed);
      std::memcpy(text.data() + n * sizeof(word), &word, sizeof(word));
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    whole = from->sequence.load(std::memory_order_relaxed) == before;
  }
  if (!whole) return false;
  copy->names.clear();
  for (size_t at = 0; at < text.size();) {
    const size_t length = strnlen(text.data() + at, text.size() - at);
    // An empty one ends the list; one without its end does not count.
    if (length == 0 || at + length == text.size()) break;
    copy->names.push_back(
        CleanText(absl::string_view(text.data() + at, length).substr(0, kMaxName)));
    at += length + 1;
  }
  return true;
}

}  // namespace pulse
