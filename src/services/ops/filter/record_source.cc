#include "services/ops/filter/record_source.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "services/ops/byte_stream.h"
#include "services/ops/filter/matcher.h"
#include "services/ops/format.h"

namespace pulse::filter {
namespace {

// Read at a chunk's end to find a newline; where there is none, the next step is longer.
constexpr uint64_t kProbe = 4 << 10;
constexpr uint64_t kLongestProbe = 1 << 20;
constexpr size_t kLengthBytes = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<RecordSource>> RecordSource::Make(int fd, SourceOptions options) {
  std::unique_ptr<RecordSource> source(new RecordSource(fd, std::move(options)));
  struct stat st;
  if (fstat(fd, &st) != 0) return ErrnoError(errno, "reading", source->options_.name);
  source->options_.max_record = std::max(source->options_.max_record, source->options_.chunk_bytes);
  if (S_ISDIR(st.st_mode)) return ErrnoError(EISDIR, "reading", source->options_.name);
  const off_t at = lseek(fd, 0, SEEK_CUR);
  source->regular_ = ops::HasTrueSize(st) && at >= 0;
  source->by_lanes_ = source->regular_ && source->options_.records == Records::kLines;
  if (at >= 0) source->start_ = source->offset_ = static_cast<uint64_t>(at);
  if (!source->options_.before.empty()) {
    source->rest_.Append(source->options_.before);
    source->regular_ = source->by_lanes_ = false;
    source->offset_ = 0;
  }
  source->stop_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!source->stop_.valid())
    return ErrnoError(errno, "making an eventfd for", source->options_.name);
  return source;
}

std::optional<uint64_t> RecordSource::TotalBytes() const {
  struct stat st;
  if (!regular_ || fstat(fd_, &st) != 0) return std::nullopt;
  const auto size = static_cast<uint64_t>(st.st_size);
  return size > start_ ? size - start_ : 0;
}

void RecordSource::Stop() {
  stopped_.store(true);
  eventfd_write(stop_.get(), 1);
}

absl::StatusOr<bool> RecordSource::Next(ops::Chunk& chunk) {
  if (ended_ || stopped_.load()) return false;
  chunk.prefix = 0;
  chunk.last = false;
  return by_lanes_ ? NextOfFile(chunk) : NextOfStream(chunk);
}

absl::Status RecordSource::TooLong(uint64_t offset) const {
  return absl::OutOfRangeError(
      absl::StrCat(options_.name, ": the ", options_.records == Records::kLines ? "line" : "record",
                   " that begins at byte ", offset, " is longer than ", options_.max_record,
                   " bytes", options_.max_record < kMostRecordBytes ? "; " : ", the most that ",
                   options_.max_record_option,
                   options_.max_record < kMostRecordBytes ? " allows longer ones" : " allows"));
}

// --- Files ---------------------------------------------------------------------------------------

absl::StatusOr<bool> RecordSource::NextOfFile(ops::Chunk& chunk) {
  struct stat st;
  if (fstat(fd_, &st) != 0) return ErrnoError(errno, "reading", options_.name);
  const auto size = static_cast<uint64_t>(st.st_size);
  if (size < most_size_) {
    ended_ = true;
    return absl::DataLossError(absl::StrCat(options_.name,
                                            ": became shorter while it was read: it had ",
                                            most_size_, " bytes, and now has ", size));
  }
  most_size_ = size;
  if (size <= offset_) {
    ended_ = true;
    return false;
  }
  PULSE_ASSIGN_OR_RETURN(const uint64_t end, EndOfLines(offset_, size));
  chunk.offset = offset_;
  chunk.input.Resize(end - offset_);
  offset_ = end;
  return true;
}

// Behind the last newline before `wanted`; `begin` if there is none.
absl::StatusOr<uint64_t> RecordSource::BehindLastNewline(uint64_t begin, uint64_t wanted) {
  uint64_t step = kProbe;
  for (uint64_t end = wanted; end > begin; step = std::min(step * 4, kLongestProbe)) {
    const uint64_t from = end - std::min(step, end - begin);
    probe_.Resize(end - from);
    PULSE_ASSIGN_OR_RETURN(
        const size_t n, ReadAt(fd_, probe_.data(), probe_.size(), from, "reading", options_.name));
    const void* newline = memrchr(probe_.data(), '\n', n);
    if (newline != nullptr) {
      return from + static_cast<uint64_t>(static_cast<const uint8_t*>(newline) - probe_.data()) + 1;
    }
    end = from;
  }
  return begin;
}

// Where the lines end that begin at `begin` and fit into a chunk. A last line without a newline,
// which may still be written, is a chunk of its own.
absl::StatusOr<uint64_t> RecordSource::EndOfLines(uint64_t begin, uint64_t size) {
  const uint64_t wanted = std::min(begin + options_.chunk_bytes, size);
  PULSE_ASSIGN_OR_RETURN(const uint64_t behind, BehindLastNewline(begin, wanted));
  if (behind > begin) return behind;
  // One line fills the chunk: to its end.
  for (uint64_t from = wanted; from < size; from += kLongestProbe) {
    probe_.Resize(kLongestProbe);
    PULSE_ASSIGN_OR_RETURN(
        const size_t n, ReadAt(fd_, probe_.data(), kLongestProbe, from, "reading", options_.name));
    const void* newline = memchr(probe_.data(), '\n', n);
    const uint64_t seen =
        newline == nullptr
            ? from + n
            : from + static_cast<uint64_t>(static_cast<const uint8_t*>(newline) - probe_.data());
    if (seen - begin > options_.max_record) return TooLong(begin);
    if (newline != nullptr) return seen + 1;
    if (n < kLongestProbe) break;
  }
  if (size - begin > options_.max_record) return TooLong(begin);
  ended_ = true;  // what is written to this line later is no line of its own
  return size;
}

absl::Status RecordSource::Load(ops::Chunk& chunk) {
  if (!by_lanes_) return absl::OkStatus();
  PULSE_ASSIGN_OR_RETURN(const size_t n, ReadAt(fd_, chunk.input.data(), chunk.input.size(),
                                                chunk.offset, "reading", options_.name));
  if (n == chunk.input.size()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(options_.name, ": became shorter while it was read: only ", n, " of ",
                   chunk.input.size(), " bytes are left at byte ", chunk.offset));
}

void RecordSource::MoveDescriptor() const {
  if (by_lanes_) lseek(fd_, static_cast<off_t>(offset_), SEEK_SET);
}

// --- Streams -------------------------------------------------------------------------------------

absl::StatusOr<int64_t> RecordSource::ReadSome(uint8_t* to, size_t size, bool wait) {
  while (!stopped_.load()) {
    if (!regular_) {
      pollfd fds[2] = {{.fd = fd_, .events = POLLIN, .revents = 0},
                       {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
      const int ready = poll(fds, 2, wait ? -1 : 0);
      if (ready < 0 && errno == EINTR) continue;
      if (ready < 0) return ErrnoError(errno, "reading", options_.name);
      if (ready == 0) return -1;
      if (fds[0].revents == 0) continue;  // stopped
    }
    const ssize_t n = read(fd_, to, size);
    if (n >= 0) return n;
    if (errno == EINTR) continue;
    if (errno == EAGAIN && !wait) return -1;
    if (errno != EAGAIN) return ErrnoError(errno, "reading", options_.name);
  }
  return 0;
}

absl::StatusOr<size_t> RecordSource::WholeRecords(absl::string_view bytes) {
  if (options_.records == Records::kLines) {
    const size_t newline = bytes.substr(searched_).rfind('\n');
    const size_t whole = newline == absl::string_view::npos ? 0 : searched_ + newline + 1;
    // Of a line that is not whole yet, or was not before.
    const size_t first = whole == 0 ? bytes.size() : bytes.find('\n', searched_);
    searched_ = bytes.size();
    if (first > options_.max_record && !first_is_whole_) return TooLong(offset_);
    first_is_whole_ = first_is_whole_ || whole > 0;
    return whole;
  }
  // Records that were counted before are not looked at again.
  while (bytes.size() - searched_ >= kLengthBytes) {
    const uint32_t length = ops::LoadLe32(bytes.data() + searched_);
    if (length > options_.max_record) return TooLong(offset_ + searched_);
    if (bytes.size() - searched_ - kLengthBytes < length) break;
    searched_ += kLengthBytes + length;
  }
  return searched_;
}

absl::StatusOr<bool> RecordSource::NextOfStream(ops::Chunk& chunk) {
  std::swap(chunk.input, rest_);
  rest_.Clear();
  searched_ = 0;
  first_is_whole_ = false;
  ops::Buffer& input = chunk.input;
  size_t whole = 0;
  if (input.size() > 0) {
    PULSE_ASSIGN_OR_RETURN(whole, WholeRecords(input.view()));
  }
  size_t have = input.size();
  while (have < options_.chunk_bytes || whole == 0) {
    const size_t more = have < options_.chunk_bytes ? options_.chunk_bytes - have
                                                    : std::min<size_t>(have, kLongestProbe);
    input.Resize(have);  // Reserve copies what counts
    input.Resize(have + more);
    PULSE_ASSIGN_OR_RETURN(const int64_t n, ReadSome(input.data() + have, more, whole == 0));
    if (n < 0) break;  // nothing more for now
    have += static_cast<size_t>(n);
    if (n == 0) {
      ended_ = true;
      break;
    }
    input.Resize(have);
    PULSE_ASSIGN_OR_RETURN(const size_t now, WholeRecords(input.view()));
    if (now > 0) whole = now;
  }
  if (stopped_.load()) return false;
  if (ended_) {
    if (options_.records == Records::kPrefixed && have > whole) {
      return absl::DataLossError(absl::StrCat(options_.name, ": the record that begins at byte ",
                                              offset_ + whole, " is cut off"));
    }
    whole = have;
  }
  input.Resize(have);
  rest_.Append(input.data() + whole, have - whole);
  input.Resize(whole);
  chunk.offset = offset_;
  offset_ += whole;
  return whole > 0;
}

}  // namespace pulse::filter
