#include "apps/nbd/lane.h"

#include <algorithm>
#include <chrono>
#include <cstring>
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

}  // namespace

Lane::Lane(files::Library* library, files::Poll poll, Heartbeat* heartbeat)
    : library_(library),
      poll_(poll),
      heartbeat_(heartbeat),
      most_read_(PartOf(library->max_read(poll))),
      most_written_(PartOf(library->max_write(poll))),
      batch_(kBatch) {}

// Completions for everybody, once; how many. The caller is the one that polls, so no call is given
// up meanwhile.
size_t Lane::Take(std::unique_lock<std::mutex>& lock, int64_t timeout_us) {
  lock.unlock();
  const absl::StatusOr<size_t> n =
      library_->PollWait(poll_, batch_.data(), batch_.size(), timeout_us);
  // The agent is lost, and what is not yet reported is about to be: by whoever is in a submission.
  if (!n.ok()) std::this_thread::sleep_for(std::chrono::microseconds(kRoomMicros));
  const size_t count = n.ok() ? *n : 0;
  for (size_t i = 0; i < count; ++i) {
    Completion& c = batch_[i];
    const Part* const part = reinterpret_cast<Part*>(c.cookie);
    if (part != nullptr && c.data != nullptr && !part->call->given_up) {
      std::memcpy(part->to, c.data, c.bytes);
    }
    library_->Release(poll_, &c);
  }
  lock.lock();
  for (size_t i = 0; i < count; ++i) Account(&batch_[i]);
  ++progress_;
  for (Call* call : waiting_) {
    if (call->wants_room) call->cv.notify_one();
  }
  return count;
}

void Lane::Account(Completion* c) {
  const Part* const part = reinterpret_cast<Part*>(c->cookie);
  if (part == nullptr) return;  // nobody wants to know
  Call* const call = part->call;
  --call->pending;
  if (call->given_up) {
    // A file that nobody waits for any more. If this finds no room it stays open, until the end.
    if (c->status.ok() && c->file != File::kNone) library_->CloseFile(c->file, 0).IgnoreError();
    if (call->pending == 0) std::erase_if(given_up_, [&](auto& g) { return g.get() == call; });
    return;
  }
  call->bytes += c->bytes;
  if (!c->status.ok() && call->status.ok()) call->status = c->status;
  call->out = std::move(*c);
  if (call->pending == 0) call->cv.notify_one();
}

// Nobody polls, so nobody copies into what callers have lent.
void Lane::GiveUp() {
  if (!heartbeat_->GiveUp()) return;
  for (Call* call : waiting_) {
    if (call->pending == 0 && !call->wants_room) continue;  // was answered just before
    call->given_up = true;
    call->cv.notify_one();
  }
}

template <typename Done>
void Lane::Wait(std::unique_lock<std::mutex>& lock, Call* call, Done done) {
  const auto over = [&] { return done() || call->given_up; };
  if (over()) return;
  waiting_.push_back(call);
  while (!over()) {
    if (polling_) {
      call->cv.wait(lock);
      continue;
    }
    if (heartbeat_->silent()) {
      GiveUp();
      continue;
    }
    polling_ = true;
    const int64_t beat = heartbeat_->beat_us();
    const bool soon = call->wants_room && (beat == files::kForever || beat > kRoomMicros);
    const size_t taken = Take(lock, soon ? kRoomMicros : beat);
    if (taken == 0) heartbeat_->Look();
    polling_ = false;
  }
  std::erase(waiting_, call);
  if (!polling_ && !waiting_.empty()) waiting_.front()->cv.notify_one();
}

bool Lane::Drain() {
  std::unique_lock lock(mu_);
  while (!polling_ && library_->outstanding(poll_) > 0) {
    polling_ = true;
    const size_t taken = Take(lock, 0);
    polling_ = false;
    if (taken == 0) break;
  }
  if (!polling_ && !waiting_.empty()) waiting_.front()->cv.notify_one();
  return library_->outstanding(poll_) == 0;
}

absl::Status Lane::Issue(Call* call, Part* part, const Submit& submit) {
  while (true) {
    std::unique_lock lock(mu_);
    if (call->given_up) return heartbeat_->Error();
    const uint64_t seen = progress_;
    // Before the submission: somebody else may take the completion at once.
    ++call->pending;
    lock.unlock();
    const absl::Status st = submit(reinterpret_cast<uint64_t>(part));
    if (st.ok()) return st;
    lock.lock();
    --call->pending;
    if (!files::IsRetry(st)) return st;
    call->wants_room = true;
    Wait(lock, call, [&] { return progress_ != seen; });
    call->wants_room = false;
  }
}

// Whatever happened: until the last has completed, or the call is given up.
absl::Status Lane::Finish(std::unique_ptr<Call> call, absl::Status issued, Completion* out) {
  std::unique_lock lock(mu_);
  Wait(lock, call.get(), [&] { return call->pending == 0; });
  if (call->given_up) {
    if (call->pending > 0) given_up_.push_back(std::move(call));
    return heartbeat_->Error();
  }
  *out = std::move(call->out);
  out->bytes = call->bytes;
  return call->status.ok() ? issued : call->status;
}

Completion Lane::Run(const Submit& submit) {
  auto call = std::make_unique<Call>();
  call->parts.push_back({call.get()});
  absl::Status st = Issue(call.get(), call->parts.data(), submit);
  Completion c;
  st = Finish(std::move(call), std::move(st), &c);
  c.status = std::move(st);
  return c;
}

absl::Status Lane::Parts(uint64_t length, uint64_t most, char* to, const IssuePart& issue,
                         uint64_t* bytes) {
  auto call = std::make_unique<Call>();
  call->parts.reserve((length + most - 1) / most);
  absl::Status st;
  for (uint64_t at = 0; at < length && st.ok(); at += most) {
    const uint64_t n = std::min(most, length - at);
    call->parts.push_back({call.get(), to == nullptr ? nullptr : to + at});
    st = Issue(call.get(), &call->parts.back(),
               [&](uint64_t cookie) { return issue(at, n, cookie); });
  }
  Completion c;
  st = Finish(std::move(call), std::move(st), &c);
  *bytes = c.bytes;
  return st;
}

absl::Status Lane::Read(File file, uint64_t offset, char* data, uint64_t length) {
  uint64_t bytes = 0;
  absl::Status st = Parts(
      length, most_read_, data,
      [&](uint64_t at, uint64_t n, uint64_t cookie) {
        return library_->ReadInPlace(file, offset + at, n, cookie);
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
      length, most_written_, nullptr,
      [&](uint64_t at, uint64_t n, uint64_t cookie) {
        const char* const from = data == nullptr ? Zeros() : data + at;
        return library_->WriteFile(file, offset + at, from, n, cookie);
      },
      &bytes);
}

}  // namespace pulse::nbd
