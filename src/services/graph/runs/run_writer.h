// RunWriter: what RunBuilder and MergeRuns have in common: it lays out a run from blocks of nodes
// and from rows of properties, made anew or taken from other runs, and writes it to a sink.
// Internal.
//
// Bytes of other runs go to the output by copy plans, a buffer at a time: while an engine fills
// one, the next one is planned. One thread; blocks on the sink, and on the engine when both buffers
// are full.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/runs/copy_plan.h"
#include "services/graph/runs/run_builder.h"
#include "services/graph/runs/run_format.h"

namespace pulse::graph {

// The bytes of a run on their way to the sink.
class RunOutput {
 public:
  // Without an executor only Append() may be called.
  RunOutput(RunSink* sink, PlanExecutor* executor, uint64_t buffer_bytes);
  ~RunOutput();

  // So many bytes were appended.
  uint64_t offset() const { return offset_; }
  absl::Status Append(absl::string_view bytes);
  // The same by a plan: `bytes` stay where they are until Finish() returned.
  absl::Status AppendByPlan(absl::string_view bytes);
  // Everything is in the sink.
  absl::Status Finish();
  int64_t waited_ns() const { return waited_ns_; }

 private:
  struct Buffer {
    char* at = nullptr;  // `own`, or a window of the sink
    std::unique_ptr<char[]> own;
    uint64_t used = 0;
  };
  // An empty buffer gets the place of the bytes that follow all others.
  void Place(Buffer* buffer);
  // Begins the copies into the current buffer, and makes the other one current.
  absl::Status Turn();
  absl::Status Write(Buffer* buffer);

  RunSink* const sink_;
  PlanExecutor* const executor_;
  const uint64_t capacity_;
  Buffer buffers_[2];
  int current_ = 0;
  CopyPlan plan_;        // into the current buffer
  uint64_t placed_ = 0;  // where the next buffer's bytes begin
  uint64_t offset_ = 0;
  uint64_t appended_ = 0;  // pieces
  int64_t waited_ns_ = 0;
};

// Values of one key for the segment that is being filled.
class ColumnBuffer {
 public:
  size_t size() const { return size_; }
  // About what its values take in a segment, where they are no numbers; else 0.
  size_t bytes() const { return bytes_; }
  void AppendInts(std::span<const int64_t> values, std::span<const uint8_t> valid);
  void AppendFloats(std::span<const double> values, std::span<const uint8_t> valid);
  void AppendValue(const cypher::Value& value);
  void AppendNulls(size_t n);
  // Appends the segment of the first `n` to *out; the others are what it has then.
  absl::StatusOr<ColumnZone> Encode(size_t n, std::string* out);

 private:
  enum class Mode : uint8_t { kNulls, kInts, kFloats, kValues };
  void BecomeInts();
  void BecomeFloats();
  void BecomeValues();
  void AppendValid(std::span<const uint8_t> valid, size_t n);

  Mode mode_ = Mode::kNulls;
  size_t size_ = 0;
  size_t bytes_ = 0;
  bool nulls_ = false;
  std::vector<uint8_t> valid_;
  std::vector<int64_t> ints_;
  std::vector<double> floats_;
  std::vector<cypher::Value> values_;
};

class RunWriter {
 public:
  // The output outlives the writer.
  RunWriter(const RunOptions& options, RunOutput* output);

  // Encodes a node's lists. Nodes ascend.
  absl::Status AddLists(NodeId node, std::span<const ListInput> lists);
  // A block of another run. Its records have no stamps.
  absl::Status AddBlock(NodeId node, uint64_t count, absl::string_view block);
  // A group of another run, none of whose records has stamps.
  absl::Status AddGroup(const GroupEntry& entry, uint64_t nodes, uint64_t records, NodeId first,
                        NodeId last, absl::string_view bytes);

  // Rows. Each key has as many rows as it was given; the rest is null.
  absl::Status AppendInts(Token key, std::span<const int64_t> values,
                          std::span<const uint8_t> valid);
  absl::Status AppendFloats(Token key, std::span<const double> values,
                            std::span<const uint8_t> valid);
  absl::Status AppendValues(Token key, std::span<const cypher::Value> values);
  absl::Status FillNulls(Token key, uint64_t rows);
  uint64_t rows(Token key) const;
  // A segment begins here: all keys have `rows` rows, or are filled to it.
  absl::Status CutRows(uint64_t rows);
  // A segment of another run: `rows` rows for each of these keys, after CutRows(). Keys that are
  // not among them are null.
  struct RawSegment {
    Token key;
    SegmentEntry entry;
    absl::string_view bytes;
  };
  absl::Status AddSegments(uint64_t rows, std::span<const RawSegment> segments);

  uint64_t records() const { return info_.records; }
  RunInfo* info() { return &info_; }
  void CountType(Token type, uint64_t records) { types_[type] += records; }
  uint64_t bytes_encoded() const { return bytes_encoded_; }
  uint64_t column_bytes_encoded() const { return column_bytes_encoded_; }

  absl::StatusOr<RunInfo> Finish();

 private:
  struct Part {
    uint64_t count;
    uint64_t bytes;
    const char* source;  // or nullptr: the next bytes of scratch_
  };
  struct KeyColumn {
    Token key = kNoToken;
    uint64_t rows = 0;
    ColumnBuffer buffer;
    std::vector<SegmentEntry> entries;  // offsets of pending ones begin at the first pending byte
    std::string pending;
    size_t first_pending = 0;
  };

  absl::Status StartNode(NodeId node);
  absl::Status FlushGroup();
  KeyColumn* ColumnOf(Token key);
  // Where the segment that a column fills ends.
  uint64_t SegmentEnd(const KeyColumn& column);
  absl::Status AfterRows(KeyColumn* column);
  // All keys' segment ends where this column's values have become large.
  absl::Status CutHere(const KeyColumn& column);
  // The first `n` rows of its buffer become its next segment.
  absl::Status EncodeSegment(KeyColumn* column, uint64_t n);
  template <typename Number>
  absl::Status AppendNumbers(Token key, std::span<const Number> values,
                             std::span<const uint8_t> valid,
                             void (ColumnBuffer::*append)(std::span<const Number>,
                                                          std::span<const uint8_t>));
  absl::Status FlushPending(KeyColumn* column);
  std::string MetaBytes() const;

  const RunOptions options_;
  RunOutput* const output_;
  RunInfo info_;
  std::map<Token, uint64_t> types_;

  std::vector<GroupEntry> index_;
  GroupEntry group_;  // being filled; bitmap 0: none
  std::vector<Part> parts_;
  std::string scratch_;

  std::vector<std::unique_ptr<KeyColumn>> columns_;
  std::vector<uint64_t> cuts_;  // ends of segments
  uint64_t bytes_encoded_ = 0;
  uint64_t column_bytes_encoded_ = 0;
};

}  // namespace pulse::graph
