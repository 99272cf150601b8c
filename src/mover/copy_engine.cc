#include "mover/copy_engine.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "mover/thread_copy_engine.h"

namespace pulse {
namespace {

class InlineCopyEngine : public CopyEngine {
 public:
  explicit InlineCopyEngine(const InlineCopyOptions& options)
      : piece_(options.piece), stream_bytes_(options.stream_bytes), completions_(options.depth) {}

  size_t Submit(const CopyItem* items, size_t n) override {
    n = std::min(n, depth() - in_flight());
    for (size_t i = 0; i < n; ++i) completions_[next_++ % depth()] = Execute(items[i]);
    return n;
  }
  size_t Poll(CopyCompletion* out, size_t max) override {
    const size_t n = std::min(max, in_flight());
    for (size_t i = 0; i < n; ++i) out[i] = std::move(completions_[polled_++ % depth()]);
    return n;
  }
  size_t in_flight() const override { return next_ - polled_; }
  size_t depth() const override { return completions_.size(); }

 private:
  CopyCompletion Execute(const CopyItem& item) const {
    if (absl::Status st = CheckCopy(item); !st.ok()) return {item.tag, 0, std::move(st)};
    const uint64_t bytes = std::min(item.length, piece_);
    if (bytes >= stream_bytes_) {
      CopyPastCaches(item.destination, item.source, bytes);
    } else if (bytes > 0) {
      std::memcpy(item.destination, item.source, bytes);
    }
    return {item.tag, bytes, absl::OkStatus()};
  }

  const uint64_t piece_;
  const uint64_t stream_bytes_;
  std::vector<CopyCompletion> completions_;  // a ring; the counts below run freely
  size_t next_ = 0;
  size_t polled_ = 0;
};

}  // namespace

absl::Status CheckCopy(const CopyItem& item) {
  if (item.length == 0) return absl::OkStatus();
  const auto source = reinterpret_cast<uintptr_t>(item.source);
  const auto destination = reinterpret_cast<uintptr_t>(item.destination);
  if (source == 0 || destination == 0) return absl::InvalidArgumentError("a copy from or to null");
  if (item.length > ~source || item.length > ~destination) {
    return absl::InvalidArgumentError("a copy longer than the address space");
  }
  if (source < destination + item.length && destination < source + item.length) {
    return absl::InvalidArgumentError("a copy whose source and destination overlap");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CopyEngine>> CreateInlineCopyEngine(
    const InlineCopyOptions& options) {
  if (options.depth == 0 || options.piece == 0) {
    return absl::InvalidArgumentError("a copy engine needs a depth and a piece of at least 1");
  }
  return std::make_unique<InlineCopyEngine>(options);
}

}  // namespace pulse
