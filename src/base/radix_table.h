// RadixTable: an array of 2^(RootBits + PageBits) entries, of which only the pages that were
// touched take memory; an entry never moves. For what is numbered nearly densely.
//
// Threads: any may call Get and read entries; Make is called by one at a time. T is zero at first,
// and has what atomics its readers need.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "base/check.h"

namespace pulse {

template <typename T, int RootBits, int PageBits>
class RadixTable {
 public:
  static constexpr uint64_t kCapacity = uint64_t{1} << (RootBits + PageBits);
  static constexpr uint64_t kPage = uint64_t{1} << PageBits;

  RadixTable() : root_(static_cast<std::atomic<T*>*>(calloc(kRoot, sizeof(std::atomic<T*>)))) {
    PULSE_CHECK(root_ != nullptr);
  }
  RadixTable(const RadixTable&) = delete;
  RadixTable& operator=(const RadixTable&) = delete;
  ~RadixTable() {
    for (uint64_t i = 0; i < pages_; ++i) free(root_[i].load(std::memory_order_relaxed));
    free(root_);
  }

  // Null where nothing of its page was made.
  T* Get(uint64_t i) const {
    if (i >= kCapacity) return nullptr;
    T* page = root_[i >> PageBits].load(std::memory_order_acquire);
    return page == nullptr ? nullptr : &page[i & kMask];
  }
  T* Make(uint64_t i) {
    PULSE_CHECK(i < kCapacity);
    std::atomic<T*>& slot = root_[i >> PageBits];
    T* page = slot.load(std::memory_order_relaxed);
    if (page == nullptr) {
      page = static_cast<T*>(calloc(kPage, sizeof(T)));
      PULSE_CHECK(page != nullptr);
      slot.store(page, std::memory_order_release);
      if ((i >> PageBits) >= pages_) pages_ = (i >> PageBits) + 1;
    }
    return &page[i & kMask];
  }

 private:
  static constexpr uint64_t kRoot = uint64_t{1} << RootBits;
  static constexpr uint64_t kMask = kPage - 1;

  std::atomic<T*>* const root_;
  uint64_t pages_ = 0;  // none is behind
};

}  // namespace pulse
