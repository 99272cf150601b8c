// UndoLog: what a partition's file held before the change that is under way, so that the next
// process can take that change back, where this one was killed in its midst, instead of reading all
// items.
//
// An epoch begins where all that was done is complete: the partition's counters (the head) are
// kept, and then each line of 64 bytes before it is changed. Lines are put back in reverse order,
// so that each becomes what it was when the epoch began. What no line can bring back ends the epoch
// without a way back (Forbid), until the next one begins: memory that is taken or given, a segment
// that is freed, opened or sealed. As with all of a partition's file, a kill leaves the stores of a
// prefix of the program (InOrder).
//
// Not noted is what nothing points to when the epoch begins: new items.
//
// Threads: one, the partition's owner. Nothing blocks. Memory: Area, in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "services/kv/core/item.h"

namespace pulse::kv {

class UndoLog {
 public:
  static constexpr size_t kLineBytes = 64;
  static constexpr uint64_t kLines = 256;
  static constexpr size_t kMostHead = 256;
  static constexpr uint64_t kForbidden = UINT64_MAX;

  struct Line {
    uint64_t at;  // from the mapping's beginning
    char bytes[kLineBytes];
  };
  struct Area {
    uint64_t count;  // of lines; more than kLines: there is no way back
    char head[kMostHead];
    Line lines[kLines];
  };

  // Keeps nothing: what goes with the process needs no way back.
  UndoLog() = default;
  // `area` lies in the mapping.
  UndoLog(Area* area, const char* mapping) : area_(area), mapping_(mapping) {}

  bool is_on() const { return area_ != nullptr; }
  // There is no way back, or no room for much more.
  bool IsSpent() const { return area_->count > kLines / 2; }
  // All is complete, and nobody would look at the log if the process died now.
  void Begin(const void* head, size_t bytes) {
    area_->count = kForbidden;
    InOrder();
    std::memcpy(area_->head, head, bytes);
    InOrder();
    area_->count = 0;
    InOrder();
  }
  // 64 bytes at `at`, of which some are about to change.
  void Note(const void* at) {
    if (area_ != nullptr) NoteLine(static_cast<const char*>(at));
  }
  // The lines of the mapping in which `bytes` at `at` lie.
  void NoteLines(const void* at, size_t bytes) {
    if (area_ == nullptr) return;
    const auto* first = static_cast<const char*>(at);
    const char* const end = first + bytes;
    first -= reinterpret_cast<uintptr_t>(first) % kLineBytes;
    for (; first < end; first += kLineBytes) NoteLine(first);
  }
  void Forbid() {
    if (area_ == nullptr) return;
    area_->count = kForbidden;
    InOrder();
  }

  // Puts all lines of a mapping back, and the head to `head`; its first word, which says that
  // nothing is under way, comes last. False, and nothing is changed: there is no way back, or what
  // is there makes no sense. May be repeated, where the process is killed in its midst.
  static bool PutBack(const Area& area, char* mapping, uint64_t mapping_bytes, void* head,
                      size_t head_bytes) {
    if (area.count > kLines) return false;
    for (uint64_t i = 0; i < area.count; ++i) {
      if (area.lines[i].at > mapping_bytes - kLineBytes) return false;
    }
    for (uint64_t i = area.count; i > 0; --i) {
      const Line& line = area.lines[i - 1];
      std::memcpy(mapping + line.at, line.bytes, kLineBytes);
    }
    char* const to = static_cast<char*>(head);
    std::memcpy(to + sizeof(uint64_t), area.head + sizeof(uint64_t), head_bytes - sizeof(uint64_t));
    InOrder();
    std::memcpy(to, area.head, sizeof(uint64_t));
    InOrder();
    return true;
  }

 private:
  void NoteLine(const char* at) {
    const uint64_t count = area_->count;
    if (count > kLines) return;
    if (count == kLines) return Forbid();
    Line& line = area_->lines[count];
    line.at = static_cast<uint64_t>(at - mapping_);
    std::memcpy(line.bytes, at, kLineBytes);
    InOrder();
    area_->count = count + 1;
    InOrder();
  }

  Area* area_ = nullptr;
  const char* mapping_ = nullptr;
};

}  // namespace pulse::kv
