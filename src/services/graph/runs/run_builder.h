// RunBuilder: writes one run from sorted relationships: a flush, a bulk load. Memory: one megabyte,
// the index (48 bytes for 64 nodes), and for each property some thousand values, of which a few
// megabytes at most, and 40 bytes for each segment of them.
//
// Threads: one for each builder. Blocks where the sink does. After an error only the destructor.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"
#include "services/graph/runs/list.h"
#include "services/graph/runs/run_format.h"

namespace pulse::graph {

// Where a run goes: bytes in order, in large pieces.
class RunSink {
 public:
  virtual ~RunSink() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // Memory of the sink's own for `size` bytes from `offset` of the run on: who puts them there
  // gives that memory to Append(), which then has nothing to copy. Null: it has none.
  virtual char* Window(uint64_t /*offset*/, uint64_t /*size*/) { return nullptr; }
  // Asked now and then by work that appends nothing for a while; an error ends it.
  virtual absl::Status Continue() { return absl::OkStatus(); }
};

class StringSink : public RunSink {
 public:
  absl::Status Append(absl::string_view bytes) override {
    bytes_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

// A file; not synced.
class FileSink : public RunSink {
 public:
  // `path` is for errors. Writes from the descriptor's position on.
  FileSink(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  absl::Status Append(absl::string_view bytes) override;

 private:
  const int fd_;
  const std::string path_;
};

struct RunOptions {
  Side side = Side::kOut;
  // No snapshot older than this is read any more: records up to it are stored without a sequence.
  uint64_t horizon = 0;
  uint32_t rows_per_segment = 4096;  // 64 to 2^20
  // A segment ends before that where its values take more: with each property's, up to twice as
  // much and one value are in memory.
  uint64_t segment_bytes = uint64_t{1} << 20;
};

class RunOutput;
class RunWriter;

class RunBuilder {
 public:
  // The sink outlives the builder.
  static absl::StatusOr<std::unique_ptr<RunBuilder>> Create(const RunOptions& options,
                                                            RunSink* sink);
  ~RunBuilder();

  // The relationships of one node, as EncodeBlock wants them. Nodes ascending. InvalidArgument for
  // what is out of order.
  absl::Status Add(NodeId node, std::span<const ListInput> lists);

  // Properties, for side kOut: the next rows of a key, in the order of Add's records. A key may
  // come at any time and be behind the others: what it did not say is null. Never more rows than
  // records. Values of one segment that are of one type are stored as such.
  absl::Status AppendInts(Token key, std::span<const int64_t> values,
                          std::span<const uint8_t> valid = {});
  absl::Status AppendFloats(Token key, std::span<const double> values,
                            std::span<const uint8_t> valid = {});
  absl::Status AppendValues(Token key, std::span<const cypher::Value> values);
  // Nulls until the key has `rows` rows.
  absl::Status FillNulls(Token key, uint64_t rows);
  // Rows that a key has; records that were added.
  uint64_t rows(Token key) const;
  uint64_t records() const;

  absl::StatusOr<RunInfo> Finish();

 private:
  RunBuilder(std::unique_ptr<RunOutput> output, std::unique_ptr<RunWriter> writer);
  std::unique_ptr<RunOutput> output_;
  std::unique_ptr<RunWriter> writer_;
};

}  // namespace pulse::graph
