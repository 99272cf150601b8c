// Rows of values in temporary files: a codec for all values that a row can have, and runs of rows,
// which are written from the first to the last and read in the same order.
//
// A node or relationship is kept as its number, and means the same as before within the execution
// that wrote it. One thread. Writers and readers block on the disk; errors are those of
// spill_file.h, and Internal where bytes are not what was written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/functions/spill_file.h"
#include "services/graph/model/value.h"

namespace pulse::cypher {

// All values, other than AppendValue() of value_codec.h, which knows none of nodes.
void AppendRowValue(const Value& value, std::string* out);
bool ReadRowValue(std::string_view* in, Value* value);
// What a value takes in memory when it was read: with all that it holds, which it shares with
// nobody then. A text of `s` bytes is about as long in a file; a number there takes one byte.
size_t BytesWhenRead(const Value& value);
// In the place of a value: it is that of the row before. A reader takes it off, if it is there.
void AppendSameAsBefore(std::string* out);
bool TakeSameAsBefore(std::string_view* in);

// Rows in a file, in pieces.
struct SpillRun {
  struct Piece {
    uint64_t offset = 0, bytes = 0;
  };
  std::vector<Piece> pieces;
  uint64_t rows = 0;
  size_t largest = 0;  // bytes of a row
  size_t held = 0;     // by the values of a row that was read, the most
};

class SpillWriter {
 public:
  // Writes when `buffer` bytes have come together.
  SpillWriter(SpillFile* file, size_t buffer) : file_(file), buffer_bytes_(buffer) {}
  // A row: any bytes. `held`: by its values when they were read.
  absl::Status Add(std::string_view row, size_t held = 0);
  absl::StatusOr<SpillRun> Finish();
  bool empty() const { return run_.rows == 0; }

 private:
  absl::Status Flush();

  SpillFile* file_;
  size_t buffer_bytes_;
  std::string buffer_;
  SpillRun run_;
};

class SpillReader {
 public:
  SpillReader(SpillFile* file, SpillRun run, size_t buffer);
  bool done() const { return rows_left_ == 0; }
  // The next row, until the next call.
  absl::StatusOr<std::string_view> Next();

 private:
  // Has so many bytes from at_ on in the buffer.
  absl::Status Fill(size_t bytes);

  SpillFile* file_;
  SpillRun run_;
  size_t buffer_bytes_;
  uint64_t rows_left_;
  size_t piece_ = 0;         // that comes next
  uint64_t piece_read_ = 0;  // of it
  std::string buffer_;
  size_t at_ = 0;
};

}  // namespace pulse::cypher
