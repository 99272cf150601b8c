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
    : source_(source), name_(std::move(name)), size_(source.Left()), buffer_(pool_.Get()) {
  buffer_->Resize(kUnread + kPiece);
}

InputReader::~InputReader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (!thread_.joinable()) return;
  source_.Stop();
  thread_.join();
}

absl::StatusOr<absl::string_view> InputReader::Peek(size_t n) {
  if (end_ - at_ < n && !ended_) PULSE_RETURN_IF_ERROR(Fill(n));
  return buffer_->view().substr(at_, end_ - at_);
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
    std::shared_ptr<Buffer> next = NextPiece();
    if (next == nullptr) {
      ended_ = true;
      return ahead_status_;
    }
    std::memcpy(next->data() + kUnread - keep, buffer_->data() + at_ - keep, keep);
    buffer_ = std::move(next);
    at_ = kUnread;
    end_ = buffer_->size();
    if (n <= end_ - at_) return absl::OkStatus();
    return Fill(n);
  }
  // What is left goes to the front of another one, behind the bytes that may be given back: who
  // looked ahead may hold this one.
  std::shared_ptr<Buffer> next = pool_.Get();
  next->Clear();
  next->Resize(kUnread + left + kPiece);
  std::memcpy(next->data() + kUnread - keep, buffer_->data() + at_ - keep, keep + left);
  buffer_ = std::move(next);
  at_ = kUnread;
  end_ = kUnread + left;
  while (end_ - at_ < n) {
    PULSE_ASSIGN_OR_RETURN(const size_t got, Get(buffer_->data() + end_, kPiece));
    if (got == 0) {
      ended_ = true;
      break;
    }
    end_ += got;
    buffer_->Resize(end_ + kPiece);
  }
  return absl::OkStatus();
}

std::shared_ptr<Buffer> InputReader::NextPiece() {
  std::shared_ptr<Buffer> next;
  if (!looked_at_.empty()) {
    next = std::move(looked_at_.front());
    looked_at_.pop_front();
    looked_at_bytes_ -= next->size() - kUnread;
    return next;
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !full_.empty() || ahead_ended_; });
  if (full_.empty()) return nullptr;
  next = std::move(full_.front());
  full_.pop_front();
  changed_.notify_all();
  return next;
}

absl::StatusOr<size_t> InputReader::Get(uint8_t* to, size_t n) {
  if (!thread_.joinable()) return source_.Read(to, n);
  const std::shared_ptr<Buffer> piece = NextPiece();
  if (piece == nullptr) {
    if (!ahead_status_.ok()) return ahead_status_;
    return size_t{0};
  }
  const size_t got = piece->size() - kUnread;
  PULSE_CHECK(got <= n);
  std::memcpy(to, piece->data() + kUnread, got);
  return got;
}

std::optional<InputReader::Ahead> InputReader::LookAhead() {
  const std::lock_guard lock(mutex_);
  if (full_.empty()) return std::nullopt;
  Ahead ahead{offset_ + (end_ - at_) + looked_at_bytes_, full_.front()};
  looked_at_.push_back(std::move(full_.front()));
  full_.pop_front();
  looked_at_bytes_ += ahead.bytes().size();
  changed_.notify_all();
  return ahead;
}

bool InputReader::SeesEnd() {
  const std::lock_guard lock(mutex_);
  return full_.empty() && ahead_ended_;
}

absl::StatusOr<size_t> InputReader::ReadInto(Buffer& to, size_t n) {
  size_t done = std::min(n, end_ - at_);
  to.Append(buffer_->data() + at_, done);
  Consume(done);
  if (!thread_.joinable() && n - done >= kPiece) {
    // Straight to where it belongs; the end of it may be given back.
    const size_t begin = to.size();
    to.Resize(begin + (n - done));
    PULSE_ASSIGN_OR_RETURN(const size_t got, ReadFully(source_, to.data() + begin, n - done));
    to.Resize(begin + got);
    offset_ += got;
    const size_t keep = std::min(to.size(), kUnread);
    std::memcpy(buffer_->data() + kUnread - keep, to.data() + to.size() - keep, keep);
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
    changed_.wait(lock, [&] { return stop_ || full_.size() < kPiecesAhead; });
    if (stop_) return;
    lock.unlock();
    std::shared_ptr<Buffer> piece;
    const absl::StatusOr<size_t> got = CatchNoMemory([&] {
      piece = pool_.Get();
      piece->Clear();
      piece->Resize(kUnread + kPiece);
      return source_.Read(piece->data() + kUnread, kPiece);
    });
    lock.lock();
    if (!got.ok() || *got == 0) {
      ahead_status_ = got.status();
      ahead_ended_ = true;
      changed_.notify_all();
      return;
    }
    piece->Resize(kUnread + *got);
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

absl::Status OutputWriter::Submit(Buffer buffer) { return Submit({std::move(buffer), nullptr}); }

absl::Status OutputWriter::SubmitLate(Late late) { return Submit({Buffer(), std::move(late)}); }

absl::Status OutputWriter::Submit(Submitted submitted) {
  std::unique_lock lock(mutex_);
  if (!threaded_ || (!thread_.joinable() && !StartThread())) {
    WriteSubmitted(lock, std::move(submitted));
    return status_;
  }
  full_.push_back(std::move(submitted));
  changed_.notify_all();
  return status_;
}

bool OutputWriter::IsBehind() {
  const std::lock_guard lock(mutex_);
  return full_.size() + 1 >= kPiecesBehind;
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
    Submitted submitted = std::move(full_.front());
    full_.pop_front();
    WriteSubmitted(lock, std::move(submitted));
  }
}

absl::Status OutputWriter::WriteLate(Submitted& submitted, Check check, uint32_t& sum) {
  absl::string_view bytes = submitted.late(check, sum);
  while (!bytes.empty()) {
    // In pieces as all the rest: a limit on the output is felt in the same steps.
    const absl::string_view piece = bytes.substr(0, kPiece);
    PULSE_RETURN_IF_ERROR(Write(piece));
    bytes.remove_prefix(piece.size());
  }
  return absl::OkStatus();
}

void OutputWriter::WriteSubmitted(std::unique_lock<std::mutex>& lock, Submitted submitted) {
  writing_ = true;
  const bool failed = !status_.ok();
  const bool late = submitted.late != nullptr;
  const Check check = check_;
  uint32_t sum = checksum_;
  lock.unlock();
  absl::Status status;
  if (!failed && late) {
    status = CatchNoMemory([&] { return WriteLate(submitted, check, sum); });
  } else if (!failed) {
    const Buffer& buffer = submitted.buffer;
    if (check == Check::kCrc32) sum = crc32_gzip_refl(sum, buffer.data(), buffer.size());
    if (check == Check::kAdler32) sum = libdeflate_adler32(sum, buffer.data(), buffer.size());
    status = CatchNoMemory([&] { return Write(buffer.view()); });
  }
  submitted.late = nullptr;
  lock.lock();
  checksum_ = sum;
  if (!status.ok()) status_ = std::move(status);
  writing_ = false;
  if (!late) empty_.push_back(std::move(submitted.buffer));
  changed_.notify_all();
}

}  // namespace pulse::ops
