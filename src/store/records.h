// Records: what a batch of the journal and the body of a checkpoint consist of. Each is a change,
// or, in a checkpoint, a thing that exists. docs/reference/store-format.md has every field.
//
// A Record is a view: names and runs lie in the buffer that it was decoded from, or with the
// caller. Thread-safe; never blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace pulse::store {

enum class RecordType : uint16_t {
  // In the journal.
  kCreateDirectory = 1,
  kRemoveDirectory = 2,
  kRenameDirectory = 3,  // onto an empty directory, too: to_directory is its id, or 0
  kClearDirectory = 4,
  kCreateFile = 5,
  kUnlink = 6,
  kRename = 7,
  kSetLength = 8,
  kTrimSegments = 9,
  kReplaceSegments = 10,
  // In both.
  kLink = 11,
  kAddSegments = 12,
  // In a checkpoint.
  kDirectory = 13,
  kFile = 14,
};

// Consecutive segments.
struct Run {
  uint32_t first = 0;
  uint32_t count = 0;
  bool operator==(const Run&) const = default;
};

// Runs anywhere in memory, aligned or not.
class RunView {
 public:
  RunView() = default;
  RunView(const Run* runs, size_t n) : bytes_(reinterpret_cast<const char*>(runs)), size_(n) {}
  RunView(const char* bytes, size_t n) : bytes_(bytes), size_(n) {}

  size_t size() const { return size_; }
  Run operator[](size_t i) const {
    Run run;
    std::memcpy(&run, bytes_ + i * sizeof(Run), sizeof(Run));
    return run;
  }
  const char* bytes() const { return bytes_; }

 private:
  const char* bytes_ = nullptr;
  size_t size_ = 0;
};

struct Record {
  RecordType type{};
  uint64_t directory = 0;
  uint64_t to_directory = 0;
  uint64_t file = 0;
  uint64_t size = 0;
  uint64_t valid = 0;
  int64_t time_ns = 0;
  uint32_t keep = 0;  // segments
  absl::string_view name = {};
  absl::string_view to_name = {};
  RunView runs = {};
};

// A record has this before its payload.
struct RecordHeader {
  uint16_t type;
  uint16_t payload_bytes;
};
static_assert(sizeof(RecordHeader) == 4);

// The most runs that one record holds.
inline constexpr size_t kMaxRunsInRecord = (65535 - 40) / sizeof(Run);

// What the things of a checkpoint take there, headers included.
inline constexpr uint64_t kDirectoryRecordBytes = 4 + 8;    // and the name
inline constexpr uint64_t kLinkRecordBytes = 4 + 16;        // and the name
inline constexpr uint64_t kFileRecordBytes = 4 + 32;        // and the runs
inline constexpr uint64_t kAddSegmentsRecordBytes = 4 + 8;  // and the runs

constexpr uint64_t FileCheckpointBytes(uint64_t runs) {
  const uint64_t more = runs <= kMaxRunsInRecord ? 0 : (runs - 1) / kMaxRunsInRecord;
  return kFileRecordBytes + more * kAddSegmentsRecordBytes + runs * sizeof(Run);
}

void AppendRecord(const Record& record, std::string* out);

// Takes one record off the front of [*at, end). False when what is there is none; nothing is
// changed then. The fields' meaning is not checked, except that names have lengths that names can
// have.
bool DecodeRecord(const char** at, const char* end, Record* record);

// Whether a file or directory may be called so.
bool IsFileName(absl::string_view name);
bool IsDirectoryName(absl::string_view name);

}  // namespace pulse::store
