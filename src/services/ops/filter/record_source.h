// RecordSource: chunks of whole records, out of a file or a stream, for the queue.
//
// Lines of a regular file are read by the lanes themselves, several at once: here only the place of
// a newline near each chunk's end is looked up. Everything else is read as a stream, in order; of a
// stream that pauses, the whole records that are there make a chunk, so that nobody waits for a
// chunk to fill. A record that is larger than
// a chunk, and larger than `max_record`, is an error that says where it begins; so memory stays
// bounded.
//
// A file that grows meanwhile is read to the end that it then has; one that becomes shorter is an
// error.
//
// The source does not own its descriptor. One thread at a time, except Load (several) and Stop
// (any).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "services/ops/buffer.h"
#include "services/ops/filter/rule_set.h"
#include "services/ops/queue.h"

namespace pulse::filter {

struct SourceOptions {
  Records records = Records::kLines;
  uint64_t chunk_bytes = 512 << 10;
  uint64_t max_record = 64 << 20;
  // The name by which the caller's users know this limit.
  std::string max_record_option = "--max-line";
  std::string name;  // of the input, for messages
  // What was read from the descriptor before; a stream's only.
  std::string before;
};

class RecordSource : public ops::Source {
 public:
  // `fd` is read from where it is.
  static absl::StatusOr<std::unique_ptr<RecordSource>> Make(int fd, SourceOptions options);

  // What is left of a regular file now; nothing of a stream.
  std::optional<uint64_t> TotalBytes() const;

  absl::StatusOr<bool> Next(ops::Chunk& chunk) override;
  absl::Status Load(ops::Chunk& chunk) override;

  // Next, also one that waits for a stream, returns the end.
  void Stop() override;

  // Behind what was read, as if that had been in order: whoever has the descriptor, too, goes on
  // there. After the end.
  void MoveDescriptor() const;

 private:
  RecordSource(int fd, SourceOptions options) : fd_(fd), options_(std::move(options)) {}

  absl::StatusOr<bool> NextOfFile(ops::Chunk& chunk);
  absl::StatusOr<uint64_t> BehindLastNewline(uint64_t begin, uint64_t wanted);
  absl::StatusOr<uint64_t> EndOfLines(uint64_t begin, uint64_t size);
  absl::StatusOr<bool> NextOfStream(ops::Chunk& chunk);
  // Reads once; 0 at the end. `wait`: else -1 if nothing is there.
  absl::StatusOr<int64_t> ReadSome(uint8_t* to, size_t size, bool wait);
  // How many bytes of `bytes`, from its start, are whole records.
  absl::StatusOr<size_t> WholeRecords(absl::string_view bytes);
  absl::Status TooLong(uint64_t offset) const;

  const int fd_;
  SourceOptions options_;
  bool by_lanes_ = false;
  bool regular_ = false;
  uint64_t offset_ = 0;  // of the next chunk
  uint64_t start_ = 0;   // of the descriptor, when it was given
  uint64_t most_size_ = 0;
  bool ended_ = false;
  ops::Buffer rest_;  // of a stream: what is no whole record yet
  ops::Buffer probe_;
  size_t searched_ = 0;          // bytes of the stream's chunk in which no record ends
  bool first_is_whole_ = false;  // the first line of that chunk
  UniqueFd stop_;                // an eventfd
  std::atomic<bool> stopped_{false};
};

}  // namespace pulse::filter
