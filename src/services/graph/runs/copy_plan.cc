#include "services/graph/runs/copy_plan.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <ctime>

#include "base/check.h"

namespace pulse::graph {
namespace {

constexpr size_t kBatch = 64;

}  // namespace

PlanExecutor::PlanExecutor(CopyEngine* engine, const ExecutorOptions& options)
    : engine_(engine), options_(options), polled_(kBatch) {
  PULSE_CHECK(options.max_piece_bytes > 0, "a piece has bytes");
}

PlanExecutor::~PlanExecutor() {
  queue_.clear();
  while (engine_->in_flight() > 0) {
    if (engine_->Poll(polled_.data(), polled_.size()) == 0) sched_yield();
  }
}

void PlanExecutor::Start(const CopyPlan& plan) {
  for (const CopyPlan::Piece& piece : plan.pieces()) {
    ++stats_.pieces;
    stats_.bytes += piece.length;
    CopyItem whole{piece.source, piece.destination, piece.length, 0};
    if (absl::Status st = CheckCopy(whole); !st.ok()) {
      if (status_.ok()) status_ = std::move(st);
      continue;
    }
    if (piece.length < options_.min_engine_bytes) {
      std::memcpy(piece.destination, piece.source, piece.length);
      stats_.small_bytes += piece.length;
      continue;
    }
    for (; whole.length > options_.max_piece_bytes;
         whole = RestOf(whole, options_.max_piece_bytes)) {
      CopyItem first = whole;
      first.length = options_.max_piece_bytes;
      queue_.push_back(first);
    }
    queue_.push_back(whole);
    if (queue_.size() >= kBatch) Submit();
  }
  Submit();
}

void PlanExecutor::Submit() {
  if (deserted_) CopyQueue();
  while (!queue_.empty()) {
    CopyItem batch[kBatch];
    const size_t n = std::min(kBatch, queue_.size());
    for (size_t i = 0; i < n; ++i) {
      batch[i] = queue_[queue_.size() - 1 - i];
      if (free_.empty()) {
        free_.push_back(open_.size());
        open_.emplace_back();
      }
      batch[i].tag = free_.back();
      free_.pop_back();
      // What was tried before carries its number of attempts until here, in the tag.
      open_[batch[i].tag] = {batch[i], static_cast<int>(queue_[queue_.size() - 1 - i].tag)};
    }
    const size_t taken = engine_->Submit(batch, n);
    queue_.resize(queue_.size() - taken);
    for (size_t i = n; i > taken; --i) free_.push_back(batch[i - 1].tag);
    if (taken < n) {
      ++stats_.full;
      return;
    }
  }
}

void PlanExecutor::CopyQueue() {
  for (const CopyItem& item : queue_) {
    std::memcpy(item.destination, item.source, item.length);
    stats_.fallback_bytes += item.length;
  }
  queue_.clear();
}

void PlanExecutor::Complete(const CopyCompletion& completion) {
  const Open open = open_[completion.tag];
  free_.push_back(completion.tag);
  const uint64_t done = std::min(completion.done, open.item.length);
  stats_.engine_bytes += done;
  CopyItem rest = RestOf(open.item, done);
  if (!completion.status.ok()) {
    ++stats_.failures;
    stats_.last_failure = completion.status;
  }
  if (rest.length == 0) return;
  if (done > 0) ++stats_.partial;
  // An engine that never gets on would be asked for ever.
  const int attempts = done > 0 ? 0 : open.attempts + 1;
  if (attempts >= options_.attempts) {
    std::memcpy(rest.destination, rest.source, rest.length);
    stats_.fallback_bytes += rest.length;
    return;
  }
  rest.tag = static_cast<uint64_t>(attempts);
  queue_.push_back(rest);
}

bool PlanExecutor::Poll() {
  while (true) {
    const size_t n = engine_->Poll(polled_.data(), polled_.size());
    for (size_t i = 0; i < n; ++i) Complete(polled_[i]);
    if (n < polled_.size()) break;
  }
  Submit();
  return queue_.empty() && engine_->in_flight() == 0;
}

absl::Status PlanExecutor::Wait() {
  // An engine that needs longer than this leaves the processor to others: that is what it is for.
  constexpr int kYields = 20;
  constexpr timespec kNap{0, 50'000};
  int refused = 0;  // naps in a row
  for (int looks = 0; !Poll(); ++looks) {
    // One that is full has copies in flight, which end. This one takes none: its queue has gone, or
    // is kept full by others.
    refused = engine_->in_flight() == 0 ? refused + 1 : 0;
    if (refused > kYields + options_.refusals) {
      deserted_ = true;
      ++stats_.failures;
      stats_.last_failure = absl::UnavailableError("the engine takes no copies");
      CopyQueue();
    }
    if (looks < kYields) {
      sched_yield();
    } else {
      nanosleep(&kNap, nullptr);
    }
  }
  return status_;
}

}  // namespace pulse::graph
