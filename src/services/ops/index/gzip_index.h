// GzipIndex: where the DEFLATE blocks of a foreign gzip file can be entered. The first pass of
// `pulse decompress --index FILE` writes it; later ones decode its segments at the same time, and
// can begin in the middle.
//
// A segment begins with a block's header, at any bit, and needs the 32 KiB of data before it, which
// the index keeps (compressed). Its length and CRC-32 are those of the first pass, whose result the
// members' own checksums have confirmed.
//
// The file: "PULSEIDX", numbers (little-endian) and windows, and a CRC-32 of all before it. Anybody
// may have written it: Decode checks everything that is relied on. Whether it is of the file at
// hand, Matches says by size, time of change and a checksum of the first and last bytes.
//
// Plain data and functions; those with a descriptor or a path block on I/O.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pulse::ops {

struct IndexSegment {
  uint64_t begin_bit = 0;  // of the file
  uint64_t end = 0;  // bytes from here on are not needed; of the last one, the trailer's place
  uint64_t data_bytes = 0;
  uint32_t crc = 0;  // of the data
  bool ends_member = false;
  uint32_t window_bytes = 0;  // before it, in the member; at most 32 KiB
  std::string window;         // as DEFLATE data
};

struct GzipIndex {
  // Of the file of which it is.
  uint64_t file_bytes = 0;
  int64_t changed_nanos = 0;
  uint32_t sample_crc = 0;

  uint64_t data_bytes = 0;  // of all segments
  // Where the last member ends; and whether what follows is more than zeros.
  uint64_t end = 0;
  bool garbage = false;
  std::vector<IndexSegment> segments;

  uint64_t members() const;
};

std::string EncodeIndex(const GzipIndex& index);
// Whether an index of `index_bytes` that begins with `head` can be one of an input of `file_bytes`;
// what it says of itself bounds what is read of it. As DecodeIndex; FailedPrecondition also for an
// input of another size.
absl::Status CheckIndexHead(absl::string_view head, uint64_t index_bytes, uint64_t file_bytes);
// DataLoss: it is damaged, or none. FailedPrecondition: of another version.
absl::StatusOr<GzipIndex> DecodeIndex(absl::string_view bytes);

// Fills in what says of which file it is.
absl::Status Describe(int fd, const std::string& name, GzipIndex* index);
// FailedPrecondition: it is of another file, or of this one before it was changed.
absl::Status Matches(const GzipIndex& index, int fd, const std::string& name);

// `fd` is the input, `name` its name. NotFound: there is none. InvalidArgument: the path is the
// input, or has something that is no index. Else as DecodeIndex and Matches say, naming the index.
absl::StatusOr<GzipIndex> LoadIndex(const std::string& path, int fd, const std::string& name);
// Under a temporary name until it is complete. Replaces an index or an empty file, nothing else:
// InvalidArgument. `fd` is the input, whose readers and writers are the index's.
absl::Status SaveIndex(const std::string& path, const GzipIndex& index, int fd);

// DEFLATE data of a window, and back: exactly `size` bytes to `to`. False: it is damaged.
std::string PackWindow(absl::string_view window);
bool UnpackWindow(const IndexSegment& segment, uint8_t* to);

}  // namespace pulse::ops
