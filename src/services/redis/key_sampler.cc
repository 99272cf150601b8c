#include "services/redis/key_sampler.h"

#include <algorithm>
#include <string_view>

#include "services/redis/store_view.h"

namespace pulse::redis {
namespace {

// A bisection ends in a range of one block of a table: its keys fit into a window.
constexpr uint64_t kBlockBytes = 4096;
// Eight bytes of the key are decided in each.
constexpr int kMostBisections = 4;

// A number made of the eight bytes of `key` from `at` on.
uint64_t NumberAt(std::string_view key, size_t at) {
  uint64_t number = 0;
  for (size_t i = at; i < at + 8; ++i) {
    number = number << 8 | (i < key.size() ? static_cast<unsigned char>(key[i]) : 0);
  }
  return number;
}

std::string KeyOf(std::string_view prefix, uint64_t number) {
  std::string key(prefix);
  for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(number >> shift));
  return key;
}

size_t CommonPrefix(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + most, b.begin()).first -
                             a.begin());
}

// A key before which there are about as many bytes as a random number says.
bool FindBySize(StoreView* view, std::mt19937_64* random, std::string* key) {
  std::string low;
  std::string high;
  if (!view->Narrow(&low, &high)) return false;
  uint64_t low_size = 0;
  uint64_t high_size = view->BytesBefore(high);
  *key = low;
  if (high_size == 0) return true;
  const uint64_t target = std::uniform_int_distribution<uint64_t>(0, high_size - 1)(*random);
  for (int i = 0; i < kMostBisections && low < high; ++i) {
    const std::string prefix = low.substr(0, CommonPrefix(low, high));
    uint64_t from = NumberAt(low, prefix.size());
    uint64_t to = NumberAt(high, prefix.size());
    while (to - from > 1 && high_size - low_size > kBlockBytes) {
      const uint64_t middle = from + (to - from) / 2;
      const std::string at = KeyOf(prefix, middle);
      const uint64_t size = view->BytesBefore(at);
      // Estimates may be out of order; these stay on both sides of the target.
      if (size > target) {
        to = middle;
        high = at;
        high_size = size;
      } else {
        from = middle;
        low = at;
        low_size = size;
      }
    }
    *key = low;
    if (high_size - low_size <= kBlockBytes) break;
    // The keys between these agree in the bytes that were decided, and maybe in more.
    if (!view->Narrow(&low, &high)) return false;
  }
  return true;
}

// Any key of the window that begins at `from`, which ends before `*next`.
bool SampleWindow(StoreView* view, std::string_view from, std::mt19937_64* random,
                  std::optional<std::string>* key, std::string* next) {
  uint64_t existing = 0;
  size_t bytes = 0;
  bool wrapped = false;
  const auto use = [&](std::string_view at, const Value& value) {
    if (wrapped && at >= from) return false;
    // Each of n keys stays with a probability of 1/n.
    if (std::uniform_int_distribution<uint64_t>(0, existing++)(*random) == 0) *key = at;
    bytes += at.size() + value.data.size();
    if (bytes < KeySampler::kWindowBytes) return true;
    *next = at;
    next->push_back('\0');
    return false;
  };
  next->clear();
  if (!view->ForEach(from, "", use, KeySampler::kWindow, next)) return false;
  if (!next->empty() || from.empty()) return true;
  wrapped = true;
  return view->ForEach("", "", use, KeySampler::kWindow, next);
}

}  // namespace

bool KeySampler::Choose(StoreView* view, std::optional<std::string>* key) {
  key->reset();
  if (!view->MayBlock()) return false;
  uint64_t seed = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    seed = random_();
  }
  std::mt19937_64 random(seed);
  bool by_size = random() % 2 == 0;
  for (int i = 0; i < kMostWindows && !key->has_value(); ++i, by_size = false) {
    std::string from;
    std::string next;
    if (by_size) {
      if (!FindBySize(view, &random, &from)) return false;
    } else {
      const std::lock_guard<std::mutex> lock(mutex_);
      from = cursor_;
    }
    if (!SampleWindow(view, from, &random, key, &next)) return false;
    if (by_size) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    cursor_ = next;
  }
  return true;
}

}  // namespace pulse::redis
