// Lengths, segments, maps, pins, quarantine.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "store/store_impl.h"

namespace pulse::store {
namespace {

constexpr uint64_t kMaxFileBytes = INT64_MAX;

absl::Status CheckRange(uint64_t offset, uint64_t length) {
  if (offset > kMaxFileBytes || length > kMaxFileBytes - offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("store: no file has a range of ", length, " bytes at offset ", offset));
  }
  return absl::OkStatus();
}

uint64_t SegmentsFor(uint64_t bytes, uint64_t segment_bytes) {
  return bytes / segment_bytes + (bytes % segment_bytes != 0);
}

absl::Status Relocating(FileId id) {
  return absl::FailedPreconditionError(
      absl::StrCat("store: the segments of file ", id, " are being moved; try again"));
}

}  // namespace

// --- segments

absl::Status Store::Impl::StoreFull(uint64_t segments) const {
  return absl::ResourceExhaustedError(
      absl::StrCat("store ", path_, " is full: ", segments * segment_bytes_, " bytes are needed, ",
                   state_->free_segments().free() * segment_bytes_, " are free",
                   held_free_.empty() ? ""
                                      : absl::StrCat(" (and ", held_free_.size() * segment_bytes_,
                                                     " held back for an agent that was lost)"),
                   "; delete files, or make a larger store"));
}

absl::Status Store::Impl::Allocate(const File& file, uint64_t count, std::vector<Run>* runs) {
  const uint64_t hint = file.runs.empty()
                            ? SegmentMap::kNone
                            : uint64_t{file.runs.back().first} + file.runs.back().count;
  if (state_->free_segments().Allocate(count, hint, runs)) return absl::OkStatus();
  if (state_->free_segments().free() + pending_segments_ >= count) return Retry();
  return StoreFull(count);
}

void Store::Impl::GiveBack(const std::vector<Run>& runs) {
  for (const Run& run : runs) state_->free_segments().Release(run);
}

absl::Status Store::Impl::ReserveSegments(FileId id, uint64_t count) {
  for (bool done = false; !done;) {
    const absl::Status status = Change([&]() -> absl::Status {
      PULSE_ASSIGN_OR_RETURN(auto* file, FindFile(id));
      if (file->segments >= count) {
        done = true;
        return absl::OkStatus();
      }
      if (file->relocating) return Relocating(id);
      std::vector<Run> runs;
      PULSE_RETURN_IF_ERROR(Allocate(*file, count - file->segments, &runs));
      if (file->unlinked) {
        state_->AddToUnlinked(file, runs);
        done = true;
        return absl::OkStatus();
      }
      GiveBack(runs);  // the record takes them
      // What one record cannot hold is for the next round.
      runs.resize(std::min(runs.size(), kMaxRunsInRecord));
      PULSE_RETURN_IF_ERROR(CheckMetadataRoom(FileCheckpointBytes(file->runs.size() + runs.size()) -
                                              FileCheckpointBytes(file->runs.size())));
      PULSE_RETURN_IF_ERROR(Enter({.type = RecordType::kAddSegments,
                                   .file = id,
                                   .runs = RunView(runs.data(), runs.size())}));
      done = file->segments >= count;
      return absl::OkStatus();
    });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Store::Reserve(FileId id, uint64_t bytes) {
  PULSE_RETURN_IF_ERROR(CheckRange(0, bytes));
  return impl_->ReserveSegments(id, SegmentsFor(bytes, impl_->segment_bytes_));
}

absl::Status Store::Impl::EnterTrim(File* file, uint64_t keep) {
  if (file->segments <= keep) return absl::OkStatus();
  if (file->unlinked) {
    state_->TrimUnlinked(file, static_cast<uint32_t>(keep));
    CollectFreed();
    return absl::OkStatus();
  }
  return Enter(
      {.type = RecordType::kTrimSegments, .file = file->id, .keep = static_cast<uint32_t>(keep)});
}

absl::Status Store::Trim(FileId id) {
  return impl_->Change([&]() -> absl::Status {
    PULSE_ASSIGN_OR_RETURN(auto* file, impl_->FindFile(id));
    if (file->relocating) return Relocating(id);
    return impl_->EnterTrim(file, SegmentsFor(file->size, impl_->segment_bytes_));
  });
}

// --- lengths

absl::Status Store::Impl::EnterLength(File* file, uint64_t size, uint64_t valid) {
  if (file->unlinked) {
    file->size = size;
    file->valid = valid;
    file->modified_ns = NowOfDay();
    return absl::OkStatus();
  }
  const auto last = last_length_;
  if (last.has_value() && last->second == file->id) {
    buffer_.resize(last->first);
    --buffer_records_;
  }
  const size_t at = buffer_.size();
  PULSE_RETURN_IF_ERROR(Enter({.type = RecordType::kSetLength,
                               .file = file->id,
                               .size = size,
                               .valid = valid,
                               .time_ns = NowOfDay()}));
  last_length_ = std::pair(at, file->id);
  return absl::OkStatus();
}

absl::Status Store::SetSize(FileId id, uint64_t size) {
  PULSE_RETURN_IF_ERROR(CheckRange(0, size));
  return impl_->Change([&]() -> absl::Status {
    PULSE_ASSIGN_OR_RETURN(auto* file, impl_->FindFile(id));
    if (size == file->size) return absl::OkStatus();
    const bool shrinks = size < file->size;
    if (shrinks && file->relocating) return Relocating(id);
    PULSE_RETURN_IF_ERROR(impl_->EnterLength(file, size, std::min(file->valid, size)));
    return shrinks ? impl_->EnterTrim(file, SegmentsFor(size, impl_->segment_bytes_))
                   : absl::OkStatus();
  });
}

absl::Status Store::Wrote(FileId id, uint64_t offset, uint64_t length) {
  PULSE_RETURN_IF_ERROR(CheckRange(offset, length));
  if (length == 0) return absl::OkStatus();
  const uint64_t end = offset + length;
  {
    // Overwriting changes nothing.
    std::shared_lock lock(impl_->mu_);
    PULSE_ASSIGN_OR_RETURN(auto* file, impl_->FindFile(id));
    if (end <= file->valid) return impl_->Writable();
  }
  return impl_->Change([&]() -> absl::Status {
    PULSE_ASSIGN_OR_RETURN(auto* file, impl_->FindFile(id));
    if (offset > file->valid) {
      return absl::FailedPreconditionError(absl::StrCat("store: file ", id, " has ", file->valid,
                                                        " valid bytes; a write at ", offset,
                                                        " leaves a gap, which must be zeroed"));
    }
    if (end > file->segments * impl_->segment_bytes_) {
      return absl::FailedPreconditionError(
          absl::StrCat("store: file ", id, " has no segments up to byte ", end));
    }
    if (end <= file->valid) return absl::OkStatus();
    return impl_->EnterLength(file, std::max(file->size, end), end);
  });
}

// --- maps

void Store::Impl::Map(const File& file, uint64_t offset, uint64_t length,
                      std::vector<Extent>* extents) const {
  if (length == 0) return;
  const uint64_t segment = offset / segment_bytes_;
  auto run = std::upper_bound(file.runs.begin(), file.runs.end(), segment,
                              [](uint64_t s, const FileRun& r) { return s < r.logical; });
  --run;  // the first run begins at 0
  while (length > 0) {
    const uint64_t run_start = run->logical * segment_bytes_;
    const uint64_t within = offset - run_start;
    const uint64_t n = std::min(length, run->count * segment_bytes_ - within);
    extents->push_back({run->first * segment_bytes_ + within, n});
    offset += n;
    length -= n;
    ++run;
  }
}

absl::Status Store::MapRead(FileId id, uint64_t offset, uint64_t length,
                            std::vector<Extent>* extents, uint32_t* links) const {
  std::shared_lock lock(impl_->mu_);
  PULSE_ASSIGN_OR_RETURN(auto* file, impl_->FindFile(id));
  if (links != nullptr) *links = file->links;
  if (offset >= file->size) return absl::OkStatus();
  length = std::min(length, file->size - offset);
  const uint64_t data = offset >= file->valid ? 0 : std::min(length, file->valid - offset);
  impl_->Map(*file, offset, data, extents);
  if (length > data) extents->push_back({Extent::kHole, length - data});
  return absl::OkStatus();
}

absl::Status Store::MapWrite(FileId id, uint64_t offset, uint64_t length,
                             std::vector<Extent>* extents) {
  PULSE_RETURN_IF_ERROR(CheckRange(offset, length));
  const uint64_t segments = SegmentsFor(offset + length, impl_->segment_bytes_);
  // A second round only when somebody truncates the file meanwhile.
  for (;;) {
    {
      std::shared_lock lock(impl_->mu_);
      PULSE_RETURN_IF_ERROR(impl_->Writable());
      PULSE_ASSIGN_OR_RETURN(auto* file, impl_->FindFile(id));
      if (file->segments >= segments) {
        impl_->Map(*file, offset, length, extents);
        return absl::OkStatus();
      }
    }
    PULSE_RETURN_IF_ERROR(impl_->ReserveSegments(id, segments));
  }
}

absl::Status Store::MapAllocated(FileId id, std::vector<Extent>* extents) const {
  std::shared_lock lock(impl_->mu_);
  PULSE_ASSIGN_OR_RETURN(auto* file, impl_->FindFile(id));
  impl_->Map(*file, 0, file->segments * impl_->segment_bytes_, extents);
  return absl::OkStatus();
}

// --- pins

absl::StatusOr<FilePin> Store::Pin(FileId id) {
  std::unique_lock lock(impl_->mu_);
  PULSE_ASSIGN_OR_RETURN(auto* file, impl_->FindFile(id));
  ++file->pins;
  return FilePin(shared_from_this(), id);
}

void Store::Unpin(FileId id) {
  std::unique_lock lock(impl_->mu_);
  impl_->state_->Unpin(impl_->state_->FindFile(id));
  impl_->CollectFreed();
}

void FilePin::Reset() {
  if (store_ == nullptr) return;
  store_->Unpin(file_);
  store_.reset();
  file_ = kNoFile;
}

// --- quarantine

absl::StatusOr<uint64_t> Store::Quarantine(FileId id) {
  std::unique_lock lock(impl_->mu_);
  PULSE_ASSIGN_OR_RETURN(auto* file, impl_->FindFile(id));
  std::vector<Run> runs;
  for (const FileRun& run : file->runs) {
    runs.push_back({run.first, run.count});
    for (uint32_t i = 0; i < run.count; ++i) ++impl_->held_[run.first + i];
  }
  const uint64_t token = impl_->next_token_++;
  impl_->quarantines_[token] = std::move(runs);
  return token;
}

void Store::ReleaseQuarantine(uint64_t token) {
  std::unique_lock lock(impl_->mu_);
  const auto quarantine = impl_->quarantines_.find(token);
  if (quarantine == impl_->quarantines_.end()) return;
  for (const Run& run : quarantine->second) {
    for (uint32_t i = 0; i < run.count; ++i) {
      const uint32_t segment = run.first + i;
      const auto held = impl_->held_.find(segment);
      if (--held->second > 0) continue;
      impl_->held_.erase(held);
      // Its freeing was durable when it came here.
      if (impl_->held_free_.erase(segment) > 0)
        impl_->state_->free_segments().Release({segment, 1});
    }
  }
  impl_->quarantines_.erase(quarantine);
}

absl::Status Store::Relocate(FileId id, const CopyFunction& copy) {
  std::vector<Extent> from;
  std::vector<Extent> to;
  std::vector<Run> runs;
  FilePin pin;
  const absl::Status prepared = impl_->Change([&]() -> absl::Status {
    PULSE_ASSIGN_OR_RETURN(auto* file, impl_->FindFile(id));
    if (file->relocating) return Relocating(id);
    PULSE_RETURN_IF_ERROR(impl_->Allocate(File(), file->segments, &runs));
    if (runs.size() > kMaxRunsInRecord) {
      impl_->GiveBack(runs);
      return absl::ResourceExhaustedError(
          absl::StrCat("store ", path(), " is too fragmented to move file ", id));
    }
    impl_->Map(*file, 0, file->segments * impl_->segment_bytes_, &from);
    for (const Run& run : runs) {
      to.push_back({run.first * impl_->segment_bytes_, run.count * impl_->segment_bytes_});
    }
    file->relocating = true;
    ++file->pins;
    pin = FilePin(shared_from_this(), id);
    return absl::OkStatus();
  });
  if (!prepared.ok()) return prepared;
  const absl::Status copied = copy(from, to);
  const auto finish = [&]() -> absl::Status {
    File* file = impl_->state_->FindFile(id);  // pinned
    PULSE_RETURN_IF_ERROR(copied);
    if (file->unlinked) {
      impl_->state_->TrimUnlinked(file, 0);
      impl_->state_->AddToUnlinked(file, runs);
      impl_->CollectFreed();
      runs.clear();
      return absl::OkStatus();
    }
    const uint64_t before = FileCheckpointBytes(file->runs.size());
    const uint64_t after = FileCheckpointBytes(runs.size());
    if (after > before) PULSE_RETURN_IF_ERROR(impl_->CheckMetadataRoom(after - before));
    impl_->GiveBack(runs);  // the record takes them
    const absl::Status entered = impl_->Enter({.type = RecordType::kReplaceSegments,
                                               .file = id,
                                               .runs = RunView(runs.data(), runs.size())});
    runs.clear();
    return entered;
  };
  const absl::Status status = impl_->Change(finish);
  std::unique_lock lock(impl_->mu_);
  impl_->GiveBack(runs);
  impl_->state_->FindFile(id)->relocating = false;
  lock.unlock();
  return status;
}

}  // namespace pulse::store
