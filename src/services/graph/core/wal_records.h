// The bytes of the log, read: what opening a log (wal.h), following it (change_feed.h) and salvage
// have in common. docs/internals/graph-store.md specifies them.
//
// Any bytes are taken: what is no record is none. Threads: one for each reader. Blocks on I/O;
// errors are those of reading the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "services/graph/core/files.h"
#include "services/graph/core/prefix_sums.h"

namespace pulse::graph {

inline constexpr size_t kMaxWalRecord = size_t{16} << 20;
inline constexpr size_t kWalRecordHeader = 24;
inline constexpr size_t kWalSegmentHeader = 32;

std::string WalName(uint64_t number);
std::string WalPath(const std::string& directory, uint64_t number);
// The numbers of the segments that a directory has, ascending.
absl::StatusOr<std::vector<uint64_t>> ListWalSegments(Files* files, const std::string& directory);

// What a segment begins with.
std::string WalSegmentHead(uint64_t number, uint64_t after);
// Appends the records of one entry.
void AppendWalRecords(uint64_t sequence, uint64_t durable, std::string_view payload,
                      std::string* out);

struct WalRecord {
  uint64_t begin = 0, end = 0;  // in the segment
  uint64_t sequence = 0;
  uint64_t durable = 0;      // everything up to it was, when this was written
  bool continues = false;    // the entry goes on with the next record
  std::string_view payload;  // in the reader's window, until its next call
};

// One segment as it is read: a window of it, of up to twice 1 MiB or a record that is longer, is in
// memory and moves on. Reading places that ascend, each byte is read once, and the work on
// checksums is in proportion to the bytes, whatever these are.
class WalSegmentReader {
 public:
  WalSegmentReader(Files* files, const std::string& directory, uint64_t number)
      : files_(files), path_(WalPath(directory, number)), number_(number) {}

  struct Head {
    bool valid = false;     // it is this segment's; else nothing below but has_more
    bool has_more = false;  // bytes behind it
    uint64_t after = 0;     // sequences of the segment are above
  };
  // FailedPrecondition: of a format that this version cannot read.
  absl::StatusOr<Head> ReadHead();
  // False: there is no whole record. at_end: nor any byte.
  absl::StatusOr<bool> ReadAt(uint64_t at, WalRecord* out, bool* at_end = nullptr);
  // The next whole record from `at` on with a sequence above `last`; `durable`: and that says that
  // something above `last` had been durable. False: none. Sequences are nearly dense, so that
  // hardly a place is looked at more closely by chance.
  absl::StatusOr<bool> Find(uint64_t at, uint64_t last, bool durable, WalRecord* out);
  // What was read is forgotten: the segment may have grown.
  void Refresh();
  const std::string& path() const { return path_; }
  uint64_t number() const { return number_; }
  // Bytes that were read, and that went through a checksum.
  uint64_t bytes_read() const { return bytes_read_; }
  uint64_t bytes_summed() const { return bytes_summed_ + sums_.summed(); }

 private:
  // Bytes from `at` on: `want` or more of them, or fewer where the segment ends. They live until
  // the next call.
  absl::StatusOr<std::string_view> View(uint64_t at, size_t want);
  // Whether the record there, which the window has, has this checksum.
  bool HasSum(uint64_t at, uint32_t length, uint32_t crc);

  static constexpr size_t kWindow = size_t{1} << 20;
  Files* files_;
  std::string path_;
  uint64_t number_;
  uint64_t begin_ = 0;
  std::string window_;
  bool ended_ = false;  // the segment ends where the window does
  uint64_t bytes_read_ = 0, bytes_summed_ = 0;
  PrefixSums sums_;  // from where more was summed than there is
};

}  // namespace pulse::graph
