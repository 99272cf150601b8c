#include "services/graph/core/wal.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/errors.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

constexpr char kMagic[8] = {'P', 'U', 'L', 'S', 'E', 'W', 'A', 'L'};
constexpr uint32_t kVersion = 1;

struct SegmentHeader {
  char magic[8];
  uint32_t version;
  uint32_t crc;  // of the rest
  uint64_t number;
  uint64_t after;  // sequences of the segment are above
};
static_assert(sizeof(SegmentHeader) == kWalSegmentHeader);

// The top bit of `length`: the entry goes on with the next record.
constexpr uint32_t kContinues = uint32_t{1} << 31;

struct RecordHeader {
  uint32_t length;
  uint32_t crc;  // of what stands after it, payload included, and then of `length`
  uint64_t sequence;
  uint64_t durable;
};
static_assert(sizeof(RecordHeader) == kWalRecordHeader);

uint32_t CrcOf(const RecordHeader& header, const char* payload, size_t length) {
  uint32_t crc = Crc32c(&header.sequence, sizeof(header) - offsetof(RecordHeader, sequence));
  crc = ExtendCrc32c(crc, payload, length);
  return ExtendCrc32c(crc, &header.length, sizeof(header.length));
}

uint32_t CrcOf(const SegmentHeader& header) {
  const uint32_t crc = Crc32c(&header, offsetof(SegmentHeader, crc));
  return ExtendCrc32c(crc, &header.number, sizeof(header) - offsetof(SegmentHeader, number));
}

// A segment as it is read: a window of it is in memory, and moves on.
class SegmentReader {
 public:
  SegmentReader(Files* files, std::string path) : files_(files), path_(std::move(path)) {}

  // Bytes from `at` on: `want` or more of them, or fewer where the segment ends. They live until
  // the next call.
  absl::StatusOr<std::string_view> View(uint64_t at, size_t want) {
    if (at < begin_ || at + want > begin_ + window_.size()) {
      begin_ = at;
      window_.clear();
      PULSE_ASSIGN_OR_RETURN(window_, files_->ReadPart(path_, at, std::max(want, kWindow)));
    }
    return std::string_view(window_).substr(at - begin_);
  }

 private:
  static constexpr size_t kWindow = size_t{1} << 20;
  Files* const files_;
  const std::string path_;
  uint64_t begin_ = 0;
  std::string window_;
};

struct Parsed {
  RecordHeader header;
  std::string_view payload;  // in the reader's window
  uint64_t end = 0;
};

// False: there is no whole record.
absl::StatusOr<bool> Parse(SegmentReader* segment, uint64_t at, Parsed* out) {
  PULSE_ASSIGN_OR_RETURN(std::string_view bytes, segment->View(at, sizeof(RecordHeader)));
  if (bytes.size() < sizeof(RecordHeader)) return false;
  std::memcpy(&out->header, bytes.data(), sizeof(RecordHeader));
  const size_t length = out->header.length & ~kContinues;
  if (length == 0 || length > kMaxWalRecord) return false;
  PULSE_ASSIGN_OR_RETURN(bytes, segment->View(at, sizeof(RecordHeader) + length));
  if (bytes.size() < sizeof(RecordHeader) + length) return false;
  out->payload = bytes.substr(sizeof(RecordHeader), length);
  out->end = at + sizeof(RecordHeader) + length;
  return out->header.crc == CrcOf(out->header, out->payload.data(), length);
}

// Whether a record behind a bad one says that the bad one, whose sequence is above `last`, had been
// durable. Sequences are nearly dense, so that hardly a place is looked at more closely by chance.
absl::StatusOr<bool> WasDurable(SegmentReader* segment, uint64_t bad, uint64_t last) {
  constexpr uint64_t kSequences = uint64_t{1} << 32;
  Parsed record;
  for (uint64_t at = bad + 1;;) {
    PULSE_ASSIGN_OR_RETURN(const std::string_view bytes,
                           segment->View(at, sizeof(RecordHeader) + 1));
    if (bytes.size() <= sizeof(RecordHeader)) return false;
    const size_t places = bytes.size() - sizeof(RecordHeader);
    size_t place = 0;
    for (; place < places; ++place) {
      RecordHeader h;
      std::memcpy(&h, bytes.data() + place, sizeof(RecordHeader));
      if (h.sequence <= last || h.sequence > last + kSequences || h.durable >= h.sequence) continue;
      if (h.durable > last) break;
    }
    at += place;
    if (place == places) continue;
    PULSE_ASSIGN_OR_RETURN(const bool whole, Parse(segment, at, &record));
    if (whole) return true;
    ++at;
  }
}

bool ParseName(std::string_view name, uint64_t* number) {
  constexpr std::string_view kSuffix = ".wal";
  if (name.size() <= kSuffix.size() || !name.ends_with(kSuffix)) return false;
  const char* end = name.data() + name.size() - kSuffix.size();
  const auto result = std::from_chars(name.data(), end, *number);
  return result.ec == std::errc() && result.ptr == end;
}

}  // namespace

void AppendWalRecords(uint64_t sequence, uint64_t durable, std::string_view payload,
                      std::string* out) {
  PULSE_CHECK(!payload.empty());
  while (!payload.empty()) {
    const std::string_view part = payload.substr(0, kMaxWalRecord);
    payload.remove_prefix(part.size());
    RecordHeader header{static_cast<uint32_t>(part.size()), 0, sequence, durable};
    if (!payload.empty()) header.length |= kContinues;
    header.crc = CrcOf(header, part.data(), part.size());
    out->append(reinterpret_cast<const char*>(&header), sizeof(header));
    *out += part;
  }
}

std::string Wal::PathOf(uint64_t number) const {
  std::string digits = std::to_string(number);
  digits.insert(0, digits.size() < 8 ? 8 - digits.size() : 0, '0');
  return Concat(directory_, "/", digits, ".wal");
}

absl::StatusOr<std::unique_ptr<Wal>> Wal::Open(Files* files, const std::string& directory,
                                               uint64_t first_segment, const WalOptions& options,
                                               const Replay& replay) {
  std::unique_ptr<Wal> wal(new Wal(files, directory, options));
  PULSE_RETURN_IF_ERROR(wal->Load(first_segment, replay));
  return wal;
}

absl::Status Wal::Load(uint64_t first_segment, const Replay& replay) {
  PULSE_ASSIGN_OR_RETURN(const auto names, files_->List(directory_));
  std::vector<uint64_t> numbers;
  for (const std::string& name : names) {
    uint64_t number;
    if (!ParseName(name, &number)) continue;
    if (number >= first_segment) {
      numbers.push_back(number);
    } else if (!options_.read_only) {
      PULSE_RETURN_IF_ERROR(files_->Remove(PathOf(number)));
    }
  }
  std::sort(numbers.begin(), numbers.end());
  uint64_t expected = first_segment;
  for (size_t i = 0; i < numbers.size(); ++i, ++expected) {
    if (numbers[i] != expected) {
      const std::string what = Concat("the log's segment ", PathOf(expected), " is missing");
      if (!options_.allow_damage) return absl::DataLossError(what);
      damage_ = what;
      break;
    }
    PULSE_RETURN_IF_ERROR(ReadSegment(numbers[i], i + 1 == numbers.size(), replay));
    if (!damage_.empty()) break;
  }
  durable_sequence_ = last_sequence_;
  if (options_.read_only) return absl::OkStatus();
  if (!damage_.empty()) {
    return absl::FailedPreconditionError("a damaged log can be opened for reading only");
  }
  if (segments_.empty()) return OpenSegment(first_segment);
  PULSE_ASSIGN_OR_RETURN(file_, files_->OpenForWriting(PathOf(segments_.back().number)));
  // What is behind the end must not come back once records have grown up to it.
  PULSE_RETURN_IF_ERROR(file_->Truncate(segments_.back().bytes));
  // Also what was read, and may have been written without a sync.
  return file_->Sync();
}

absl::Status Wal::ReadSegment(uint64_t number, bool last, const Replay& replay) {
  SegmentReader segment(files_, PathOf(number));
  const auto damaged = [&](uint64_t at) {
    const std::string what = Concat("the log is damaged: ", PathOf(number), " at byte ", at);
    if (!options_.allow_damage) return absl::DataLossError(what);
    damage_ = what;
    return absl::OkStatus();
  };
  SegmentHeader header{};
  PULSE_ASSIGN_OR_RETURN(const std::string_view begin, segment.View(0, sizeof(header) + 1));
  const bool has_records = begin.size() > sizeof(header);
  std::memcpy(&header, begin.data(), std::min(begin.size(), sizeof(header)));
  if (begin.size() < sizeof(header) || std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 ||
      header.crc != CrcOf(header) || header.number != number) {
    // Only a power cut while the segment was made leaves this, and nothing in it.
    if (!last || has_records) return damaged(0);
    return options_.read_only ? absl::OkStatus() : OpenSegment(number);
  }
  if (header.version != kVersion) {
    return absl::FailedPreconditionError(
        Concat(PathOf(number), " has format ", header.version, ", which this version cannot read"));
  }
  if (header.after < last_sequence_) {
    // A segment whose making failed: the one before was written to, instead.
    if (last && !has_records) {
      return options_.read_only ? absl::OkStatus() : OpenSegment(number);
    }
    return damaged(0);
  }
  uint64_t at = sizeof(header);
  uint64_t end = at;  // of the last whole entry
  std::string parts;
  Parsed record;
  for (;; at = record.end) {
    PULSE_ASSIGN_OR_RETURN(const std::string_view rest, segment.View(at, 1));
    if (rest.empty()) break;
    const uint64_t after = std::max(last_sequence_, header.after);
    PULSE_ASSIGN_OR_RETURN(const bool whole, Parse(&segment, at, &record));
    if (!whole || record.header.sequence <= after) {
      if (!last) return damaged(at);
      PULSE_ASSIGN_OR_RETURN(const bool was_durable, WasDurable(&segment, at, after));
      if (was_durable) return damaged(at);
      break;
    }
    parts += record.payload;
    if ((record.header.length & kContinues) != 0) continue;
    PULSE_RETURN_IF_ERROR(replay(record.header.sequence, parts));
    parts.clear();
    last_sequence_ = record.header.sequence;
    end = record.end;
  }
  if (!last && end != at) return damaged(end);
  AddSegment({number, end});
  return absl::OkStatus();
}

absl::Status Wal::OpenSegment(uint64_t number) {
  PULSE_ASSIGN_OR_RETURN(auto file, files_->Create(PathOf(number)));
  SegmentHeader header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.number = number;
  header.after = last_sequence_;
  header.crc = CrcOf(header);
  PULSE_RETURN_IF_ERROR(file->WriteAt({reinterpret_cast<const char*>(&header), sizeof(header)}, 0));
  PULSE_RETURN_IF_ERROR(file->Sync());
  PULSE_RETURN_IF_ERROR(files_->SyncDirectory(directory_));
  file_ = std::move(file);
  AddSegment({number, sizeof(header)});
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Wal::Roll() {
  if (segments_.back().bytes > kWalSegmentHeader) {
    PULSE_RETURN_IF_ERROR(OpenSegment(segments_.back().number + 1));
  }
  return segments_.back().number;
}

absl::Status Wal::RemoveBefore(uint64_t segment) {
  while (segments_.size() > 1 && segments_.front().number < segment) {
    PULSE_RETURN_IF_ERROR(files_->Remove(PathOf(segments_.front().number)));
    bytes_.fetch_sub(segments_.front().bytes, std::memory_order_relaxed);
    segments_.erase(segments_.begin());
  }
  return absl::OkStatus();
}

void Wal::AddSegment(Segment segment) {
  segments_.push_back(segment);
  bytes_.fetch_add(segment.bytes, std::memory_order_relaxed);
}

absl::Status Wal::RollIfFull() {
  return segments_.back().bytes < options_.segment_bytes ? absl::OkStatus() : Roll().status();
}

absl::Status Wal::WriteAndSync(std::string_view bytes) {
  Segment& segment = segments_.back();
  if (absl::Status status = file_->WriteAt(bytes, segment.bytes); !status.ok()) {
    // Part of it may be there. If it cannot be cut off, what is written next must not follow it.
    if (absl::Status cut = file_->Truncate(segment.bytes); !cut.ok()) failure_ = cut;
    return status;
  }
  if (options_.sync) {
    if (absl::Status status = file_->Sync(); !status.ok()) {
      failure_ = absl::Status(
          status.code(), Concat(std::string(status.message()),
                                "; the database goes on for reading only, since nobody knows what "
                                "is durable: open it again"));
      return failure_;
    }
  }
  segment.bytes += bytes.size();
  bytes_.fetch_add(bytes.size(), std::memory_order_relaxed);
  return absl::OkStatus();
}

void Wal::Write(std::span<WalEntry*> entries) {
  if (entries.empty()) return;
  PULSE_CHECK(!options_.read_only);
  absl::Status status = failure_;
  if (status.ok()) status = RollIfFull();
  if (status.ok()) {
    buffer_.clear();
    for (const WalEntry* entry : entries) {
      PULSE_CHECK(entry->sequence > last_sequence_);
      AppendWalRecords(entry->sequence, durable_sequence_, entry->payload, &buffer_);
    }
    status = WriteAndSync(buffer_);
    // What one huge transaction took is given back.
    if (buffer_.capacity() > 2 * kMaxWalRecord) std::string().swap(buffer_);
  }
  if (!status.ok() && failure_.ok() && entries.size() > 1) {
    // Each alone: who asks for too much has the error, and the others go on.
    for (WalEntry*& entry : entries) Write({&entry, 1});
    return;
  }
  for (WalEntry* entry : entries) entry->result = status;
  if (!status.ok()) return;
  last_sequence_ = entries.back()->sequence;
  durable_sequence_ = last_sequence_;
}

}  // namespace pulse::graph
