#include "services/graph/runs/run_builder.h"

#include <utility>

#include "base/errors.h"
#include "services/graph/runs/run_writer.h"

namespace pulse::graph {
namespace {

constexpr uint64_t kBufferBytes = uint64_t{1} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<RunBuilder>> RunBuilder::Create(const RunOptions& options,
                                                               RunSink* sink) {
  if (options.rows_per_segment < 64 || options.rows_per_segment > uint32_t{1} << 20 ||
      options.segment_bytes == 0) {
    return absl::InvalidArgumentError(
        "rows_per_segment of a run is between 64 and 2^20, segment_bytes above 0");
  }
  auto output = std::make_unique<RunOutput>(sink, nullptr, kBufferBytes);
  auto writer = std::make_unique<RunWriter>(options, output.get());
  return std::unique_ptr<RunBuilder>(new RunBuilder(std::move(output), std::move(writer)));
}

RunBuilder::RunBuilder(std::unique_ptr<RunOutput> output, std::unique_ptr<RunWriter> writer)
    : output_(std::move(output)), writer_(std::move(writer)) {}
RunBuilder::~RunBuilder() = default;

absl::Status RunBuilder::Add(NodeId node, std::span<const ListInput> lists) {
  return writer_->AddLists(node, lists);
}
absl::Status RunBuilder::AppendInts(Token key, std::span<const int64_t> values,
                                    std::span<const uint8_t> valid) {
  return writer_->AppendInts(key, values, valid);
}
absl::Status RunBuilder::AppendFloats(Token key, std::span<const double> values,
                                      std::span<const uint8_t> valid) {
  return writer_->AppendFloats(key, values, valid);
}
absl::Status RunBuilder::AppendValues(Token key, std::span<const cypher::Value> values) {
  return writer_->AppendValues(key, values);
}
absl::Status RunBuilder::FillNulls(Token key, uint64_t rows) {
  return writer_->FillNulls(key, rows);
}
uint64_t RunBuilder::rows(Token key) const { return writer_->rows(key); }
uint64_t RunBuilder::records() const { return writer_->records(); }
absl::StatusOr<RunInfo> RunBuilder::Finish() { return writer_->Finish(); }

}  // namespace pulse::graph
