// The segments of a foreign gzip file by its index: as chunks that can be decoded at the same time,
// what decodes them, and what checks and writes the data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/ops/engine.h"
#include "services/ops/file_io.h"
#include "services/ops/index/gzip_index.h"
#include "services/ops/queue.h"

namespace pulse::ops {

// A part of the data, in bytes.
struct DataRange {
  uint64_t begin = 0;
  uint64_t size = UINT64_MAX;
};

// Segments that hold a part of the range. A chunk is a window and the bytes behind it; its tag is
// the size of its data, its kind the first bit of the first byte, its checksum that of the data.
class IndexedSource : public Source {
 public:
  // Index and descriptor outlive it; the file is read by offset.
  IndexedSource(const GzipIndex& index, const DataRange& range, int fd, std::string name);
  absl::StatusOr<bool> Next(Chunk& chunk) override;
  absl::Status Load(Chunk& chunk) override;
  // Of the chunks that are to come, in bytes.
  uint64_t TotalBytes() const;
  // Where the data of the first segment begin.
  uint64_t data_begin() const { return data_begin_; }
  size_t first() const { return first_; }

 private:
  // Bytes of the file.
  static uint64_t Begin(const IndexSegment& segment) { return segment.begin_bit / 8; }

  const GzipIndex& index_;
  const int fd_;
  const std::string name_;
  size_t first_ = 0;
  size_t end_ = 0;  // behind the last segment of the range
  size_t next_ = 0;
  uint64_t data_begin_ = 0;
};

// DataLoss: the data are not those of the index.
std::unique_ptr<Engine> MakeIndexedDecoder(EngineTraits traits);

// Writes what lies in the range, and checks what the segments' checksums cannot tell, since whoever
// wrote the index chose them, too: a window is the data before it; in front of a member stands its
// header and nothing else; behind a whole one the trailer of its data; behind the last no further
// one. Where a range begins inside a member, its first window is taken as it is.
class IndexedSink : public Sink {
 public:
  IndexedSink(const GzipIndex& index, const DataRange& range, const IndexedSource& source, int fd,
              std::string name, OutputWriter& out);
  absl::Status Take(const Chunk& chunk, Result& result) override;
  // After all chunks: whether other bytes than zeros follow the last member; as the index has it
  // where the range ends before.
  bool garbage() const { return garbage_; }

 private:
  absl::Status Wrong(uint64_t offset, absl::string_view what) const;
  absl::Status CheckHeader(size_t segment) const;
  absl::Status CheckWindow(const Chunk& chunk);
  absl::Status CheckRest();

  const GzipIndex& index_;
  const DataRange range_;
  const int fd_;
  const std::string name_;
  OutputWriter& out_;
  size_t next_;  // segment
  uint64_t at_;  // of the data
  bool whole_;   // the member was seen from its beginning
  uint32_t crc_ = 0;
  uint64_t member_bytes_ = 0;
  Buffer tail_;  // the last 32 KiB of the member, as far as they are known
  bool first_ = true;
  bool garbage_;
};

}  // namespace pulse::ops
