#include "lane.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pulse::nbd {
namespace {

using files::Completion;
using files::File;

constexpr size_t kBatch = 64;
constexpr uint64_t kBlock = 4096;
// Of a long request. Long enough for the device, short enough that the agent works on several.
constexpr uint64_t kPart = uint64_t{512} << 10;
// A full group is tried again after this at the latest: room may come without a completion.
constexpr int64_t kRoomMicros = 1000;

uint64_t PartOf(uint64_t most) { return std::max(kBlock, std::min(kPart, most / kBlock * kBlock)); }

const char* Zeros() {
  alignas(kBlock) static const char zeros[kPart] = {};
  return zeros;
}

bool IsRetry(const absl::Status& st) {
  return st.code() == absl::StatusCode::kUnavailable && st.message().empty();
}

}  // namespace

Lane::Lane(files::Library* library, files::Poll poll)
    : library_(library),
      poll_(poll),
      most_read_(PartOf(library->max_read(poll))),
      most_written_(PartOf(library->max_write(poll))),
      batch_(kBatch) {}

// Completions for everybody, once. The caller is the one that polls.
void Lane::Take(std::unique_lock<std::mutex>& lock, int64_t timeout_us) {
  lock.unlock();
  const absl::StatusOr<size_t> n =
      library_->PollWait(poll_, batch_.data(), batch_.size(), timeout_us);
  // The agent is lost, and what is not yet reported is about to be: by whoever is in a submission.
  if (!n.ok()) std::this_thread::sleep_for(std::chrono::microseconds(kRoomMicros));
  lock.lock();
  for (size_t i = 0; n.ok() && i < *n; ++i) {
    Completion& c = batch_[i];
    Call* const call = reinterpret_cast<Call*>(c.cookie);
    --call->pending;
    call->bytes += c.bytes;
    if (!c.status.ok() && call->status.ok()) call->status = c.status;
    if (call->out != nullptr) *call->out = std::move(c);
    if (call->pending == 0) call->cv.notify_one();
  }
  ++progress_;
  for (Call* call : waiting_) {
    if (call->wants_room) call->cv.notify_one();
  }
}

template <typename Done>
void Lane::Wait(std::unique_lock<std::mutex>& lock, Call* call, Done done) {
  if (done()) return;
  waiting_.push_back(call);
  while (!done()) {
    if (polling_) {
      call->cv.wait(lock);
      continue;
    }
    polling_ = true;
    Take(lock, call->wants_room ? kRoomMicros : files::kForever);
    polling_ = false;
  }
  std::erase(waiting_, call);
  if (!polling_ && !waiting_.empty()) waiting_.front()->cv.notify_one();
}

absl::Status Lane::Issue(Call* call, const Submit& submit) {
  while (true) {
    std::unique_lock lock(mu_);
    const uint64_t seen = progress_;
    // Before the submission: somebody else may take the completion at once.
    ++call->pending;
    lock.unlock();
    const absl::Status st = submit(reinterpret_cast<uint64_t>(call));
    if (st.ok()) return st;
    lock.lock();
    --call->pending;
    if (!IsRetry(st)) return st;
    call->wants_room = true;
    Wait(lock, call, [&] { return progress_ != seen; });
    call->wants_room = false;
  }
}

Completion Lane::Run(const Submit& submit) {
  Completion c;
  Call call;
  call.out = &c;
  absl::Status st = Issue(&call, submit);
  std::unique_lock lock(mu_);
  Wait(lock, &call, [&] { return call.pending == 0; });
  if (!st.ok()) c.status = std::move(st);
  return c;
}

absl::Status Lane::Parts(uint64_t length, uint64_t most, const IssuePart& issue, uint64_t* bytes) {
  Call call;
  absl::Status st;
  for (uint64_t at = 0; at < length && st.ok(); at += most) {
    const uint64_t n = std::min(most, length - at);
    st = Issue(&call, [&](uint64_t cookie) { return issue(at, n, cookie); });
  }
  // Whatever happened: the library has the caller's buffer until the last has completed.
  std::unique_lock lock(mu_);
  Wait(lock, &call, [&] { return call.pending == 0; });
  *bytes = call.bytes;
  return call.status.ok() ? st : call.status;
}

absl::Status Lane::Read(File file, uint64_t offset, char* data, uint64_t length) {
  uint64_t bytes = 0;
  absl::Status st = Parts(
      length, most_read_,
      [&](uint64_t at, uint64_t n, uint64_t cookie) {
        return library_->ReadFile(file, offset + at, data + at, n, cookie);
      },
      &bytes);
  if (st.ok() && bytes < length) {
    return absl::OutOfRangeError(
        absl::StrCat("the file ends inside the ", length, " bytes at offset ", offset,
                     ": somebody has made it shorter; connect again to see its size"));
  }
  return st;
}

absl::Status Lane::Write(File file, uint64_t offset, const char* data, uint64_t length) {
  uint64_t bytes = 0;
  return Parts(
      length, most_written_,
      [&](uint64_t at, uint64_t n, uint64_t cookie) {
        return library_->WriteFile(file, offset + at, data + at, n, cookie);
      },
      &bytes);
}

absl::Status Lane::Zero(File file, uint64_t offset, uint64_t length) {
  uint64_t bytes = 0;
  return Parts(
      length, most_written_,
      [&](uint64_t at, uint64_t n, uint64_t cookie) {
        return library_->WriteFile(file, offset + at, Zeros(), n, cookie);
      },
      &bytes);
}

}  // namespace pulse::nbd
