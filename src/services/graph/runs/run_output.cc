#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "services/graph/runs/run_writer.h"

namespace pulse::graph {

absl::Status FileSink::Append(absl::string_view bytes) {
  return WriteAll(fd_, bytes, "writing", path_);
}

RunOutput::RunOutput(RunSink* sink, PlanExecutor* executor, uint64_t buffer_bytes)
    : sink_(sink), executor_(executor), capacity_(std::max<uint64_t>(buffer_bytes, 4096)) {
  Place(&buffers_[0]);
  if (executor_ != nullptr) Place(&buffers_[1]);
}

void RunOutput::Place(Buffer* buffer) {
  buffer->at = sink_->Window(placed_, capacity_);
  placed_ += capacity_;
  if (buffer->at != nullptr) return;
  if (buffer->own == nullptr) buffer->own.reset(new char[capacity_]);
  buffer->at = buffer->own.get();
}

RunOutput::~RunOutput() {
  // The engine may still write into the buffers. What it says has no one to hear it any more.
  if (executor_ != nullptr) executor_->Wait().IgnoreError();
}

absl::Status RunOutput::Write(Buffer* buffer) {
  if (buffer->used == 0) return absl::OkStatus();
  PULSE_RETURN_IF_ERROR(sink_->Append({buffer->at, buffer->used}));
  buffer->used = 0;
  Place(buffer);
  return absl::OkStatus();
}

absl::Status RunOutput::Turn() {
  if (executor_ == nullptr) return Write(&buffers_[0]);
  // Of copies only those into the other buffer are under way.
  const int64_t begin = NowNanos();
  const absl::Status copied = executor_->Wait();
  waited_ns_ += NowNanos() - begin;
  PULSE_RETURN_IF_ERROR(copied);
  executor_->Start(plan_);
  plan_.clear();
  current_ = 1 - current_;
  return Write(&buffers_[current_]);
}

absl::Status RunOutput::Append(absl::string_view bytes) {
  offset_ += bytes.size();
  while (!bytes.empty()) {
    Buffer* buffer = &buffers_[current_];
    const size_t n = std::min<size_t>(bytes.size(), capacity_ - buffer->used);
    std::memcpy(buffer->at + buffer->used, bytes.data(), n);
    buffer->used += n;
    bytes.remove_prefix(n);
    if (buffer->used == capacity_) PULSE_RETURN_IF_ERROR(Turn());
  }
  return absl::OkStatus();
}

absl::Status RunOutput::AppendByPlan(absl::string_view bytes) {
  PULSE_DCHECK(executor_ != nullptr, "a plan needs an engine");
  offset_ += bytes.size();
  // What did not fit into the engine's queue goes there as soon as it does.
  if (++appended_ % 64 == 0) executor_->Poll();
  while (!bytes.empty()) {
    Buffer* buffer = &buffers_[current_];
    const size_t n = std::min<size_t>(bytes.size(), capacity_ - buffer->used);
    plan_.Add(bytes.data(), buffer->at + buffer->used, n);
    buffer->used += n;
    bytes.remove_prefix(n);
    if (buffer->used == capacity_) PULSE_RETURN_IF_ERROR(Turn());
  }
  return absl::OkStatus();
}

absl::Status RunOutput::Finish() {
  if (executor_ != nullptr) {
    PULSE_RETURN_IF_ERROR(Turn());
    PULSE_RETURN_IF_ERROR(executor_->Wait());
    current_ = 1 - current_;
  }
  return Write(&buffers_[current_]);
}

}  // namespace pulse::graph
