#include "services/graph/core/wal.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/errors.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

WalOptions WithBounds(WalOptions options) {
  options.ahead_bytes = std::min(options.ahead_bytes, options.segment_bytes / 2);
  options.ahead_from = std::min(options.ahead_from, options.segment_bytes / 2);
  return options;
}

}  // namespace

Wal::Wal(Files* files, std::string directory, const WalOptions& options)
    : files_(files),
      directory_(std::move(directory)),
      options_(WithBounds(options)),
      zeros_(options_.sync && !options_.read_only ? options_.ahead_bytes : 0, '\0') {}

std::string Wal::PathOf(uint64_t number) const { return WalPath(directory_, number); }

absl::StatusOr<std::unique_ptr<Wal>> Wal::Open(Files* files, const std::string& directory,
                                               uint64_t first_segment, const WalOptions& options,
                                               const Replay& replay) {
  std::unique_ptr<Wal> wal(new Wal(files, directory, options));
  PULSE_RETURN_IF_ERROR(wal->Load(first_segment, replay));
  return wal;
}

Wal::~Wal() {
  // Not needed, and so not reported.
  if (failure_.ok() && file_ != nullptr && ahead_ > segments_.back().bytes) {
    file_->Truncate(segments_.back().bytes).IgnoreError();
  }
}

absl::Status Wal::Load(uint64_t first_segment, const Replay& replay) {
  PULSE_ASSIGN_OR_RETURN(const auto all, ListWalSegments(files_, directory_));
  std::vector<uint64_t> numbers;
  for (const uint64_t number : all) {
    if (number >= first_segment) {
      numbers.push_back(number);
    } else if (!options_.read_only) {
      PULSE_ASSIGN_OR_RETURN(const uint64_t bytes, files_->Size(PathOf(number)));
      kept_.push_back({number, bytes});
      kept_bytes_ += bytes;
    }
  }
  PULSE_RETURN_IF_ERROR(TrimKept());
  uint64_t expected = first_segment;
  for (size_t i = 0; i < numbers.size(); ++i, ++expected) {
    if (numbers[i] != expected) {
      const std::string what = Concat("the log's segment ", PathOf(expected), " is missing");
      if (!options_.allow_damage) return absl::DataLossError(what);
      damage_ = what;
      break;
    }
    // Behind one whose successor was not wholly made, commits may have gone on.
    bool last = i + 1 == numbers.size();
    const bool has_heir = !last;
    WalSegmentReader::Head heir;
    if (i + 2 == numbers.size()) {
      WalSegmentReader next(files_, directory_, numbers[i + 1]);
      PULSE_ASSIGN_OR_RETURN(heir, next.ReadHead());
      last = !heir.has_more;
    }
    // What a run or a later record is to rely on must not go with the power.
    if (!options_.read_only) PULSE_RETURN_IF_ERROR(SyncSegment(numbers[i]));
    PULSE_RETURN_IF_ERROR(ReadSegment(numbers[i], last, replay));
    if (!damage_.empty()) break;
    // What its successor says that there was must not be cut off: that is damage, met next.
    if (last && has_heir && !options_.read_only && !(heir.valid && heir.after > last_sequence_)) {
      PULSE_RETURN_IF_ERROR(OpenAtEnd());  // it is not the last one for long
    }
  }
  if (options_.read_only) return absl::OkStatus();
  if (!damage_.empty()) {
    return absl::FailedPreconditionError("a damaged log can be opened for reading only");
  }
  if (segments_.empty()) return OpenSegment(first_segment);
  PULSE_RETURN_IF_ERROR(OpenAtEnd());
  durable_sequence_ = last_sequence_;
  return absl::OkStatus();
}

absl::Status Wal::SyncSegment(uint64_t number) {
  PULSE_ASSIGN_OR_RETURN(const auto file, files_->OpenForWriting(PathOf(number)));
  return file->Sync();
}

absl::Status Wal::OpenAtEnd() {
  PULSE_ASSIGN_OR_RETURN(file_, files_->OpenForWriting(PathOf(segments_.back().number)));
  // What is behind the end must not come back once records have grown up to it.
  PULSE_RETURN_IF_ERROR(file_->Truncate(segments_.back().bytes));
  return file_->Sync();
}

absl::Status Wal::ReadSegment(uint64_t number, bool last, const Replay& replay) {
  WalSegmentReader segment(files_, directory_, number);
  const auto damaged = [&](uint64_t at) {
    const std::string what = Concat("the log is damaged: ", PathOf(number), " at byte ", at);
    if (!options_.allow_damage) return absl::DataLossError(what);
    damage_ = what;
    return absl::OkStatus();
  };
  PULSE_ASSIGN_OR_RETURN(const WalSegmentReader::Head head, segment.ReadHead());
  if (!head.valid) {
    // Only a power cut while the segment was made leaves this, and nothing in it.
    if (!last || head.has_more) return damaged(0);
    return options_.read_only ? absl::OkStatus() : OpenSegment(number);
  }
  if (head.after < last_sequence_) {
    // A segment whose making failed: the one before was written to, instead.
    if (last && !head.has_more) {
      return options_.read_only ? absl::OkStatus() : OpenSegment(number);
    }
    return damaged(0);
  }
  // What a writer had written before it made a segment is in the ones before.
  if (head.after > last_sequence_ && !segments_.empty()) return damaged(0);
  last_sequence_ = head.after;  // also where the segment has no entry yet
  uint64_t at = kWalSegmentHeader;
  uint64_t end = at;  // of the last whole entry
  std::string parts;
  WalRecord record;
  for (;; at = record.end) {
    bool at_end;
    PULSE_ASSIGN_OR_RETURN(const bool whole, segment.ReadAt(at, &record, &at_end));
    if (at_end) break;
    if (!whole || record.sequence <= last_sequence_) {
      if (!last) return damaged(at);
      PULSE_ASSIGN_OR_RETURN(const bool was_durable,
                             segment.Find(at + 1, last_sequence_, true, &record));
      if (!was_durable) break;
      // A writer may have written here after this place was read, and before those behind it.
      segment.Refresh();
      PULSE_ASSIGN_OR_RETURN(const bool now, segment.ReadAt(at, &record));
      if (!now || record.sequence <= last_sequence_) return damaged(at);
    }
    parts += record.payload;
    if (record.continues) continue;
    PULSE_RETURN_IF_ERROR(replay(record.sequence, parts));
    parts.clear();
    last_sequence_ = record.sequence;
    end = record.end;
  }
  if (!last && end != at) return damaged(end);
  AddSegment({number, end});
  return absl::OkStatus();
}

absl::Status Wal::OpenSegment(uint64_t number) {
  PULSE_ASSIGN_OR_RETURN(auto file, files_->Create(PathOf(number)));
  PULSE_RETURN_IF_ERROR(file->WriteAt(WalSegmentHead(number, last_sequence_), 0));
  PULSE_RETURN_IF_ERROR(file->Sync());
  PULSE_RETURN_IF_ERROR(files_->SyncDirectory(directory_));
  file_ = std::move(file);
  ahead_ = 0;
  no_ahead_ = false;
  AddSegment({number, kWalSegmentHeader});
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Wal::Roll() {
  if (segments_.back().bytes > kWalSegmentHeader) {
    PULSE_RETURN_IF_ERROR(CutAhead());
    PULSE_RETURN_IF_ERROR(Sync());  // only the last one may have a torn tail
    const absl::Status opened = OpenSegment(segments_.back().number + 1);
    // Its file may be there: what goes on here is no longer the last segment.
    if (!opened.ok()) no_ahead_ = true;
    PULSE_RETURN_IF_ERROR(opened);
  }
  return segments_.back().number;
}

absl::Status Wal::RemoveBefore(uint64_t segment) {
  while (segments_.size() > 1 && segments_.front().number < segment) {
    kept_.push_back(segments_.front());
    kept_bytes_ += kept_.back().bytes;
    bytes_.fetch_sub(segments_.front().bytes, std::memory_order_relaxed);
    segments_.erase(segments_.begin());
  }
  return TrimKept();
}

absl::Status Wal::TrimKept() {
  // Who follows may be about to read the newest.
  while (kept_.size() > 1 && kept_bytes_ > options_.keep_bytes) {
    const absl::Status removed = files_->Remove(PathOf(kept_.front().number));
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
    kept_bytes_ -= kept_.front().bytes;
    kept_.pop_front();
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

// Behind an entry that ends at `end`, if the next ones are to find them.
void Wal::WriteAhead(uint64_t end, size_t entry) {
  if (!options_.sync || no_ahead_ || end <= ahead_ || end < options_.ahead_from) return;
  if (entry > zeros_.size() / 4) return;  // it has little use of them
  // What is there of them, where this fails, is not counted on: the next entry writes over it.
  no_ahead_ = !file_->WriteAt(zeros_, end).ok();
  ahead_ = end + zeros_.size();
}

// Before there is a next segment: only the last one may have something behind its end, also after
// a power cut.
absl::Status Wal::CutAhead() {
  const uint64_t end = segments_.back().bytes;
  if (ahead_ <= end) return absl::OkStatus();
  PULSE_RETURN_IF_ERROR(file_->Truncate(end));
  PULSE_RETURN_IF_ERROR(file_->Sync());
  ahead_ = 0;
  return absl::OkStatus();
}

absl::Status Wal::WriteAndSync(std::string_view bytes) {
  Segment& segment = segments_.back();
  if (absl::Status status = file_->WriteAt(bytes, segment.bytes); !status.ok()) {
    // Part of it may be there. If it cannot be cut off, what is written next must not follow it.
    ahead_ = 0;
    if (absl::Status cut = file_->Truncate(segment.bytes); !cut.ok()) failure_ = cut;
    return status;
  }
  WriteAhead(segment.bytes + bytes.size(), bytes.size());
  if (options_.sync) PULSE_RETURN_IF_ERROR(SyncFile());
  segment.bytes += bytes.size();
  bytes_.fetch_add(bytes.size(), std::memory_order_relaxed);
  written_.fetch_add(bytes.size(), std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status Wal::SyncFile() {
  const absl::Status status = file_->Sync();
  if (status.ok()) return status;
  failure_ = absl::Status(status.code(),
                          Concat(std::string(status.message()),
                                 "; the database goes on for reading only, since nobody knows what "
                                 "is durable: open it again"));
  return failure_;
}

absl::Status Wal::Sync() {
  PULSE_RETURN_IF_ERROR(failure_);
  if (durable_sequence_ == last_sequence_) return absl::OkStatus();
  PULSE_RETURN_IF_ERROR(SyncFile());
  durable_sequence_ = last_sequence_;
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
  if (options_.sync) durable_sequence_ = last_sequence_;
}

}  // namespace pulse::graph
