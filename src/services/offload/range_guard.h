// RangeGuard: tells whether a range of a file was changed while somebody read it past the file
// service. What keeps offloaded reads from being stale or torn.
//
// A fixed array of slots; (file, 64 KiB range) and (file) hash to one each. A slot counts the
// changes under way and those that have begun. A change counts in its slots before the device hears
// of it, until the device has done it. A reader takes the slots' values, asks the store where the
// bytes are, reads them, and looks again: the read counts only if no change was under way at the
// first look and none had begun by the second. Files that share a slot disturb each other's reads,
// which then go to the host, and nothing else.
//
// Why that is enough. Let R be a read that counts, W a change of the same block.
//   - W ended before R's first look. Then the device had done W before R asked it: R has W's bytes,
//     or those of a later change; never a mixture, as W is over.
//   - W began after R's second look. Then the device had answered R before it heard of W: R has
//     none of W's bytes.
//   - Neither: W was under way at the first look, or had begun by the second. R does not count.
// So R's bytes are those that the last change which ended before R's first look has left, at one
// instant between the looks; as W is acknowledged after it has ended, that is linearizable. A host
// that reads through the file service may see W's bytes before W is acknowledged, but then W is
// still under way, or has ended, and no R that starts later can have the bytes before W.
// Where bytes lie is part of what is read: cuts, removals, and the giving back of segments are
// changes of the whole file, whose slot each reader takes too. So a map that R has from the store
// is right until R's second look, or R does not count. Bytes of segments that a file gets anew are
// visible in the store's map only below the valid length, which covers what has been written and
// synced; reads beyond it are not for here.
//
// Order. Begin is a read-modify-write before the request is handed to the kernel; the reader's
// second look is after the kernel has handed it the result. If the device had W's bytes before it
// answered R, then by that chain R's second look sees W's Begin.
//
// Threads: any; never blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "store/store.h"

namespace pulse::offload {

class RangeGuard {
 public:
  static constexpr uint64_t kRange = uint64_t{64} << 10;
  // Longer changes count for the whole file.
  static constexpr uint64_t kMostRanges = 256;
  static constexpr size_t kMostLooks = 34;  // a read of 2 MiB

  explicit RangeGuard(size_t slots = size_t{1} << 16)  // a power of two
      : mask_(slots - 1), slots_(new std::atomic<uint64_t>[slots]) {
    for (size_t i = 0; i < slots; ++i) slots_[i].store(0, std::memory_order_relaxed);
  }

  void Begin(store::FileId file, uint64_t begin, uint64_t end) {
    ForEach(file, begin, end, [](std::atomic<uint64_t>& s) { s.fetch_add(kBegun + 1); });
  }
  void End(store::FileId file, uint64_t begin, uint64_t end) {
    ForEach(file, begin, end, [](std::atomic<uint64_t>& s) { s.fetch_sub(1); });
  }
  void BeginFile(store::FileId file) { Slot(file, kWhole).fetch_add(kBegun + 1); }
  void EndFile(store::FileId file) { Slot(file, kWhole).fetch_sub(1); }

  // What a reader remembers.
  struct Look {
    store::FileId file = store::kNoFile;
    uint64_t first = 0;  // range
    uint64_t ranges = 0;
    uint64_t values[kMostLooks];
  };
  // The first look. False: a change is under way, or the read is too long for this.
  bool Before(store::FileId file, uint64_t offset, uint64_t size, Look* look) const {
    look->file = file;
    look->first = offset / kRange;
    look->ranges = size == 0 ? 0 : (offset + size - 1) / kRange - look->first + 1;
    if (look->ranges > kMostLooks - 1) return false;
    look->values[0] = Slot(file, kWhole).load();
    bool busy = UnderWay(look->values[0]);
    for (uint64_t i = 0; i < look->ranges; ++i) {
      look->values[i + 1] = Slot(file, look->first + i).load();
      busy |= UnderWay(look->values[i + 1]);
    }
    return !busy;
  }
  // The second. True: the read counts.
  bool After(const Look& look) const {
    bool same = Same(Slot(look.file, kWhole).load(), look.values[0]);
    for (uint64_t i = 0; i < look.ranges; ++i) {
      same &= Same(Slot(look.file, look.first + i).load(), look.values[i + 1]);
    }
    return same;
  }

 private:
  // A slot: changes under way in the low 24 bits, how many have begun above. 2^40 of these do not
  // begin during one read.
  static constexpr uint64_t kBegun = uint64_t{1} << 24;
  static constexpr uint64_t kWhole = ~uint64_t{0};

  static bool UnderWay(uint64_t value) { return (value & (kBegun - 1)) != 0; }
  static bool Same(uint64_t now, uint64_t then) { return now == then; }
  std::atomic<uint64_t>& Slot(store::FileId file, uint64_t range) const {
    uint64_t h = (file * 0x9e3779b97f4a7c15) ^ (range + 0x7f4a7c15) * 0xff51afd7ed558ccd;
    h = (h ^ h >> 32) * 0xc4ceb9fe1a85ec53;
    return slots_[(h ^ h >> 29) & mask_];
  }
  template <typename F>
  void ForEach(store::FileId file, uint64_t begin, uint64_t end, F change) {
    const uint64_t first = begin / kRange;
    const uint64_t last = end <= begin ? first : (end - 1) / kRange;
    if (last - first >= kMostRanges) return change(Slot(file, kWhole));
    for (uint64_t r = first; r <= last; ++r) change(Slot(file, r));
  }

  const size_t mask_;
  const std::unique_ptr<std::atomic<uint64_t>[]> slots_;
};

}  // namespace pulse::offload
