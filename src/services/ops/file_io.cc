#include "services/ops/file_io.h"

#include <isa-l/crc.h>
#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/shortage.h"

namespace pulse::ops {
namespace {

constexpr size_t kPiecesAhead = 6;
constexpr size_t kPiecesBehind = 4;

}  // namespace

InputReader::InputReader(ByteSource& source, std::string name)
    : source_(source), name_(std::move(name)), size_(source.Left()) {
  buffer_.Resize(kUnread + kPiece);
}

InputReader::~InputReader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<absl::string_view> InputReader::Peek(size_t n) {
  if (end_ - at_ < n && !ended_) PULSE_RETURN_IF_ERROR(Fill(n));
  return buffer_.view().substr(at_, end_ - at_);
}

void InputReader::Consume(size_t n) {
  PULSE_CHECK(n <= end_ - at_);
  at_ += n;
  offset_ += n;
}

void InputReader::Unread(size_t n) {
  PULSE_CHECK(n <= at_ && n <= offset_ && n <= kUnread);
  at_ -= n;
  offset_ -= n;
}

absl::Status InputReader::Fill(size_t n) {
  PULSE_CHECK(n <= kPiece);
  if (hook_) PULSE_RETURN_IF_ERROR(hook_());
  const size_t left = end_ - at_;
  const size_t keep = std::min(at_, kUnread);
  if (left == 0 && thread_.joinable()) {
    // The next piece as it is, with the last bytes of this one in front.
    Buffer next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !full_.empty() || ahead_ended_; });
      if (full_.empty()) {
        ended_ = true;
        return ahead_status_;
      }
      next = std::move(full_.front());
      full_.pop_front();
    }
    std::memcpy(next.data() + kUnread - keep, buffer_.data() + at_ - keep, keep);
    std::swap(next, buffer_);
    at_ = kUnread;
    end_ = buffer_.size();
    {
      const std::lock_guard lock(mutex_);
      empty_.push_back(std::move(next));
    }
    changed_.notify_all();
    if (n <= end_ - at_) return absl::OkStatus();
    return Fill(n);
  }
  // What is left goes to the front, behind the bytes that may be given back.
  std::memmove(buffer_.data() + kUnread - keep, buffer_.data() + at_ - keep, keep + left);
  at_ = kUnread;
  end_ = kUnread + left;
  buffer_.Resize(kUnread + left + kPiece);
  while (end_ - at_ < n) {
    PULSE_ASSIGN_OR_RETURN(const size_t got, Get(buffer_.data() + end_, kPiece));
    if (got == 0) {
      ended_ = true;
      break;
    }
    end_ += got;
    buffer_.Resize(end_ + kPiece);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> InputReader::Get(uint8_t* to, size_t n) {
  if (!thread_.joinable()) return source_.Read(to, n);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !full_.empty() || ahead_ended_; });
  if (full_.empty()) {
    if (!ahead_status_.ok()) return ahead_status_;
    return size_t{0};
  }
  Buffer piece = std::move(full_.front());
  full_.pop_front();
  lock.unlock();
  const size_t got = piece.size() - kUnread;
  PULSE_CHECK(got <= n);
  std::memcpy(to, piece.data() + kUnread, got);
  lock.lock();
  empty_.push_back(std::move(piece));
  changed_.notify_all();
  return got;
}

absl::StatusOr<size_t> InputReader::ReadInto(Buffer& to, size_t n) {
  size_t done = std::min(n, end_ - at_);
  to.Append(buffer_.data() + at_, done);
  Consume(done);
  if (!thread_.joinable() && n - done >= kPiece) {
    // Straight to where it belongs; the end of it may be given back.
    const size_t begin = to.size();
    to.Resize(begin + (n - done));
    PULSE_ASSIGN_OR_RETURN(const size_t got, ReadFully(source_, to.data() + begin, n - done));
    to.Resize(begin + got);
    offset_ += got;
    const size_t keep = std::min(to.size(), kUnread);
    std::memcpy(buffer_.data() + kUnread - keep, to.data() + to.size() - keep, keep);
    at_ = end_ = kUnread;
    return done + got;
  }
  while (done < n) {
    PULSE_ASSIGN_OR_RETURN(const absl::string_view piece, Piece());
    if (piece.empty()) break;
    const size_t take = std::min(piece.size(), n - done);
    to.Append(piece.data(), take);
    Consume(take);
    done += take;
  }
  return done;
}

void InputReader::StartAhead(std::vector<int> cpus) {
  if (thread_.joinable() || ended_) return;
  for (size_t i = 0; i < kPiecesAhead; ++i) empty_.emplace_back();
  try {
    thread_ = std::thread([this, cpus = std::move(cpus)] { ReadAhead(cpus); });
  } catch (const std::system_error&) {
    // Nobody reads ahead: Fill reads.
  }
}

void InputReader::ReadAhead(const std::vector<int>& cpus) {
  // The caller was told before which of these CPUs do not exist.
  SetThreadAffinity(cpus).IgnoreError();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !empty_.empty(); });
    if (stop_) return;
    Buffer piece = std::move(empty_.front());
    empty_.pop_front();
    lock.unlock();
    const absl::StatusOr<size_t> got = CatchNoMemory([&] {
      piece.Resize(kUnread + kPiece);
      return source_.Read(piece.data() + kUnread, kPiece);
    });
    lock.lock();
    if (!got.ok() || *got == 0) {
      ahead_status_ = got.status();
      ahead_ended_ = true;
      changed_.notify_all();
      return;
    }
    piece.Resize(kUnread + *got);
    full_.push_back(std::move(piece));
    changed_.notify_all();
  }
}

OutputWriter::OutputWriter(ByteSink& sink, std::string name, uint64_t limit, bool threaded,
                           std::vector<int> cpus)
    : sink_(sink),
      name_(std::move(name)),
      limit_(limit),
      threaded_(threaded),
      cpus_(std::move(cpus)) {}

OutputWriter::~OutputWriter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status OutputWriter::Write(absl::string_view bytes) {
  if (limit_ != 0 && bytes.size() > limit_ - written()) {
    return absl::ResourceExhaustedError(absl::StrCat(name_, " would become larger than ", limit_,
                                                     " bytes; --max-output sets this limit"));
  }
  PULSE_RETURN_IF_ERROR(sink_.Write(bytes));
  written_.fetch_add(bytes.size(), std::memory_order_relaxed);
  return absl::OkStatus();
}

Buffer OutputWriter::GetBuffer() {
  std::unique_lock lock(mutex_);
  if (empty_.empty() && buffers_ < kPiecesBehind) {
    ++buffers_;
    lock.unlock();
    Buffer buffer;
    buffer.Reserve(kPiece);
    return buffer;
  }
  changed_.wait(lock, [&] { return !empty_.empty(); });
  Buffer buffer = std::move(empty_.front());
  empty_.pop_front();
  buffer.Clear();
  return buffer;
}

absl::Status OutputWriter::Submit(Buffer buffer) {
  std::unique_lock lock(mutex_);
  if (!threaded_) {
    WriteSubmitted(lock, std::move(buffer));
    return status_;
  }
  if (!thread_.joinable() && !StartThread()) {
    WriteSubmitted(lock, std::move(buffer));
    return status_;
  }
  full_.push_back(std::move(buffer));
  changed_.notify_all();
  return status_;
}

bool OutputWriter::StartThread() {
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    threaded_ = false;  // who submits writes
  }
  return threaded_;
}

absl::Status OutputWriter::Flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return full_.empty() && !writing_; });
  return status_;
}

void OutputWriter::StartCheck(Check check, uint32_t initial) {
  const std::lock_guard lock(mutex_);
  check_ = check;
  checksum_ = initial;
}

void OutputWriter::Run() {
  SetThreadAffinity(cpus_).IgnoreError();  // as in ReadAhead
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !full_.empty(); });
    if (full_.empty()) return;
    Buffer buffer = std::move(full_.front());
    full_.pop_front();
    WriteSubmitted(lock, std::move(buffer));
  }
}

void OutputWriter::WriteSubmitted(std::unique_lock<std::mutex>& lock, Buffer buffer) {
  writing_ = true;
  const bool failed = !status_.ok();
  const Check check = check_;
  uint32_t sum = checksum_;
  lock.unlock();
  absl::Status status;
  if (!failed) {
    if (check == Check::kCrc32) sum = crc32_gzip_refl(sum, buffer.data(), buffer.size());
    if (check == Check::kAdler32) sum = libdeflate_adler32(sum, buffer.data(), buffer.size());
    status = CatchNoMemory([&] { return Write(buffer.view()); });
  }
  lock.lock();
  checksum_ = sum;
  if (!status.ok()) status_ = std::move(status);
  writing_ = false;
  empty_.push_back(std::move(buffer));
  changed_.notify_all();
}

}  // namespace pulse::ops
