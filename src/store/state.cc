#include "store/state.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/errors.h"

namespace pulse::store {
namespace {

uint64_t HashName(absl::string_view name) {
  return std::hash<std::string_view>()(std::string_view(name.data(), name.size()));
}

template <typename... Parts>
absl::Status Contradiction(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat(parts...));
}

}  // namespace

State::State(uint64_t segments, uint64_t metadata_segments, uint64_t segment_bytes)
    : segments_(segments),
      segment_bytes_(segment_bytes),
      free_segments_(segments, metadata_segments) {}

File* State::FindFile(uint64_t id) const {
  return files_.Find(File::HashOf(id), [id](const File& f) { return f.id == id; });
}

Directory* State::FindDirectory(absl::string_view name) const {
  const auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? nullptr : it->second.get();
}

Directory* State::DirectoryOf(uint64_t id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : it->second;
}

Entry* State::FindEntry(const Directory& directory, absl::string_view name) const {
  return directory.entries.Find(HashName(name), [name](const Entry& e) { return e.name == name; });
}

void State::ForEachDirectory(const std::function<void(const Directory&)>& visit) const {
  for (const auto& [name, directory] : by_name_) visit(*directory);
}

void State::ForEachFile(const std::function<void(const File&)>& visit) const {
  files_.ForEach(visit);
}

absl::Status State::Apply(const Record& r, Source source) {
  const bool checkpoint = source == Source::kCheckpoint;
  switch (r.type) {
    case RecordType::kLink: {
      File* file = FindFile(r.file);
      if (file == nullptr) return Contradiction("a name for file ", r.file, ", which is not there");
      return Link(file, r.directory, r.name);
    }
    case RecordType::kAddSegments:
      return ChangeSegments(r);
    case RecordType::kDirectory:
    case RecordType::kFile:
      if (!checkpoint) return Contradiction("a checkpoint's record in the journal");
      if (r.file >= next_id_ || r.directory >= next_id_) {
        return Contradiction("an id that is not below the next one, ", next_id_);
      }
      return r.type == RecordType::kFile ? LoadFile(r) : CreateDirectory(r.directory, r.name);
    default:
      break;
  }
  if (checkpoint) return Contradiction("a journal's record in a checkpoint");
  switch (r.type) {
    case RecordType::kCreateDirectory: {
      if (r.directory < next_id_) return Contradiction("id ", r.directory, " is used twice");
      PULSE_RETURN_IF_ERROR(CreateDirectory(r.directory, r.name));
      next_id_ = r.directory + 1;
      return absl::OkStatus();
    }
    case RecordType::kRemoveDirectory:
      return RemoveDirectory(r, /*clear_only=*/false);
    case RecordType::kClearDirectory:
      return RemoveDirectory(r, /*clear_only=*/true);
    case RecordType::kRenameDirectory:
      return RenameDirectory(r);
    case RecordType::kCreateFile:
      return CreateFile(r);
    case RecordType::kUnlink:
      return Unlink(r);
    case RecordType::kRename:
      return Rename(r);
    case RecordType::kSetLength:
      return SetLength(r);
    case RecordType::kTrimSegments:
    case RecordType::kReplaceSegments:
      return ChangeSegments(r);
    default:
      return Contradiction("a record of unknown kind ", static_cast<int>(r.type));
  }
}

absl::Status State::CheckComplete(bool repair) {
  absl::Status status;
  std::vector<File*> nameless;
  files_.ForEach([&](File& f) {
    if (f.links == 0) nameless.push_back(&f);
    const uint64_t allocated = f.segments * segment_bytes_;
    if (f.valid <= allocated) return;
    if (status.ok()) status = Contradiction("file ", f.id, " lacks segments of its data");
    if (repair) f.size = f.valid = allocated;
  });
  if (nameless.empty()) return status;
  if (status.ok()) status = Contradiction("file ", nameless[0]->id, " has no name");
  if (!repair) return status;
  for (File* file : nameless) {
    checkpoint_bytes_ -= FileCheckpointBytes(file->runs.size());
    Destroy(file);
  }
  return status;
}

// --- directories

absl::Status State::CreateDirectory(uint64_t id, absl::string_view name) {
  if (id == 0 || DirectoryOf(id) != nullptr || FindDirectory(name) != nullptr) {
    return Contradiction("directory ", id, " is there twice");
  }
  auto directory = std::make_unique<Directory>();
  directory->id = id;
  directory->name = std::string(name);
  by_id_[id] = directory.get();
  checkpoint_bytes_ += kDirectoryRecordBytes + name.size();
  by_name_[directory->name] = std::move(directory);
  return absl::OkStatus();
}

absl::Status State::RemoveDirectory(const Record& r, bool clear_only) {
  Directory* directory = DirectoryOf(r.directory);
  if (directory == nullptr) return Contradiction("directory ", r.directory, " is not there");
  if (clear_only) {
    std::vector<Entry*> entries;
    entries.reserve(directory->entries.size());
    directory->entries.ForEach([&](Entry& e) { entries.push_back(&e); });
    directory->entries = PointerTable<Entry>();
    for (Entry* entry : entries) {
      checkpoint_bytes_ -= kLinkRecordBytes + entry->name.size();
      DropLink(entry->file);
      entry_pool_.Delete(entry);
    }
    return absl::OkStatus();
  }
  if (directory->entries.size() != 0) {
    return Contradiction("directory ", r.directory, " is removed, and not empty");
  }
  checkpoint_bytes_ -= kDirectoryRecordBytes + directory->name.size();
  by_id_.erase(directory->id);
  by_name_.erase(std::string(directory->name));
  return absl::OkStatus();
}

absl::Status State::RenameDirectory(const Record& r) {
  Directory* from = DirectoryOf(r.directory);
  Directory* to = FindDirectory(r.to_name);
  const uint64_t to_id = to == nullptr ? 0 : to->id;
  if (from == nullptr || to == from || to_id != r.to_directory ||
      (to != nullptr && to->entries.size() != 0)) {
    return Contradiction("directory ", r.directory, " cannot be renamed");
  }
  if (to != nullptr) {
    Record remove;
    remove.directory = to_id;
    PULSE_RETURN_IF_ERROR(RemoveDirectory(remove, /*clear_only=*/false));
  }
  auto node = by_name_.extract(from->name);
  checkpoint_bytes_ += r.to_name.size();
  checkpoint_bytes_ -= from->name.size();
  from->name = std::string(r.to_name);
  node.key() = from->name;
  by_name_.insert(std::move(node));
  return absl::OkStatus();
}

// --- names

void State::AddEntry(Directory* directory, File* file, absl::string_view name) {
  Entry* entry = entry_pool_.New();
  entry->name = std::string(name);
  entry->name_hash = HashName(name);
  entry->file = file;
  directory->entries.Insert(entry);
  ++file->links;
  checkpoint_bytes_ += kLinkRecordBytes + name.size();
}

void State::DropLink(File* file) {
  if (--file->links > 0) return;
  file->unlinked = true;
  checkpoint_bytes_ -= FileCheckpointBytes(file->runs.size());
  if (file->pins == 0) Destroy(file);
}

void State::DropEntry(Directory* directory, Entry* entry) {
  checkpoint_bytes_ -= kLinkRecordBytes + entry->name.size();
  directory->entries.Erase(entry);
  DropLink(entry->file);
  entry_pool_.Delete(entry);
}

void State::Destroy(File* file) {
  for (const FileRun& run : file->runs) freed_.push_back({run.first, run.count});
  files_.Erase(file);
  file_pool_.Delete(file);
}

void State::Unpin(File* file) {
  if (--file->pins == 0 && file->links == 0) Destroy(file);
}

absl::Status State::CreateFile(const Record& r) {
  Directory* directory = DirectoryOf(r.directory);
  if (r.file < next_id_) return Contradiction("id ", r.file, " is used twice");
  if (directory == nullptr || FindEntry(*directory, r.name) != nullptr) {
    return Contradiction("file ", r.file, " cannot be created in directory ", r.directory);
  }
  next_id_ = r.file + 1;
  File* file = file_pool_.New();
  file->id = r.file;
  file->modified_ns = r.time_ns;
  files_.Insert(file);
  checkpoint_bytes_ += FileCheckpointBytes(0);
  AddEntry(directory, file, r.name);
  return absl::OkStatus();
}

absl::Status State::Link(File* file, uint64_t directory_id, absl::string_view name) {
  Directory* directory = DirectoryOf(directory_id);
  if (directory == nullptr || FindEntry(*directory, name) != nullptr) {
    return Contradiction("file ", file->id, " cannot have a name in directory ", directory_id);
  }
  AddEntry(directory, file, name);
  return absl::OkStatus();
}

absl::Status State::Unlink(const Record& r) {
  Directory* directory = DirectoryOf(r.directory);
  Entry* entry = directory == nullptr ? nullptr : FindEntry(*directory, r.name);
  if (entry == nullptr) {
    return Contradiction("a name is unlinked from directory ", r.directory, " and not there");
  }
  DropEntry(directory, entry);
  return absl::OkStatus();
}

absl::Status State::Rename(const Record& r) {
  Directory* from = DirectoryOf(r.directory);
  Directory* to = DirectoryOf(r.to_directory);
  Entry* entry = from == nullptr ? nullptr : FindEntry(*from, r.name);
  if (entry == nullptr || to == nullptr) {
    return Contradiction("a name is renamed from directory ", r.directory, " and not there");
  }
  Entry* target = FindEntry(*to, r.to_name);
  if (target != nullptr && target->file == entry->file) {
    return Contradiction("a file is renamed onto itself in directory ", r.directory);
  }
  File* file = entry->file;
  if (target != nullptr) DropEntry(to, target);
  AddEntry(to, file, r.to_name);
  DropEntry(from, entry);
  return absl::OkStatus();
}

// --- lengths and segments

absl::Status State::LoadFile(const Record& r) {
  if (r.file == 0 || FindFile(r.file) != nullptr) {
    return Contradiction("file ", r.file, " is there twice");
  }
  if (r.valid > r.size || r.size > INT64_MAX) {
    return Contradiction("file ", r.file, " has lengths that make no sense");
  }
  PULSE_RETURN_IF_ERROR(TakeRuns(r.runs));
  File* file = file_pool_.New();
  file->id = r.file;
  file->size = r.size;
  file->valid = r.valid;
  file->modified_ns = r.time_ns;
  file->runs.reserve(r.runs.size());
  for (size_t i = 0; i < r.runs.size(); ++i) AppendRun(file, r.runs[i]);
  files_.Insert(file);
  checkpoint_bytes_ += FileCheckpointBytes(file->runs.size());
  return absl::OkStatus();
}

absl::Status State::SetLength(const Record& r) {
  File* file = FindFile(r.file);
  if (file == nullptr) return Contradiction("a length for file ", r.file, ", which is not there");
  if (r.valid > r.size || r.size > INT64_MAX || r.valid > file->segments * segment_bytes_) {
    return Contradiction("file ", r.file, " gets lengths that make no sense");
  }
  file->size = r.size;
  file->valid = r.valid;
  file->modified_ns = r.time_ns;
  return absl::OkStatus();
}

absl::Status State::ChangeSegments(const Record& r) {
  File* file = FindFile(r.file);
  if (file == nullptr) return Contradiction("segments of file ", r.file, ", which is not there");
  if (r.type == RecordType::kTrimSegments) {
    if (r.keep > file->segments || file->valid > r.keep * segment_bytes_) {
      return Contradiction("file ", r.file, " cannot give back segments");
    }
    TrimTo(file, r.keep);
    return absl::OkStatus();
  }
  if (r.type == RecordType::kReplaceSegments) {
    uint64_t count = 0;
    for (size_t i = 0; i < r.runs.size(); ++i) count += r.runs[i].count;
    if (count != file->segments) return Contradiction("file ", r.file, " cannot be moved");
  }
  PULSE_RETURN_IF_ERROR(TakeRuns(r.runs));
  std::vector<Run> runs;
  for (size_t i = 0; i < r.runs.size(); ++i) runs.push_back(r.runs[i]);
  if (r.type == RecordType::kReplaceSegments) TrimTo(file, 0);
  AddRuns(file, runs);
  return absl::OkStatus();
}

absl::Status State::TakeRuns(const RunView& runs) {
  for (size_t i = 0; i < runs.size(); ++i) {
    const Run run = runs[i];
    if (run.count != 0 && uint64_t{run.first} + run.count <= segments_ &&
        free_segments_.Take(run)) {
      continue;
    }
    for (size_t k = 0; k < i; ++k) free_segments_.Release(runs[k]);
    return Contradiction("segments ", run.first, " to ", uint64_t{run.first} + run.count - 1,
                         " are used twice, or not for data");
  }
  return absl::OkStatus();
}

void State::AccountRuns(const File& file, uint64_t runs_before) {
  if (file.unlinked) return;
  checkpoint_bytes_ += FileCheckpointBytes(file.runs.size());
  checkpoint_bytes_ -= FileCheckpointBytes(runs_before);
}

void State::AppendRun(File* file, Run run) {
  if (!file->runs.empty()) {
    FileRun& last = file->runs.back();
    if (uint64_t{last.first} + last.count == run.first) {
      last.count += run.count;
      file->segments += run.count;
      return;
    }
  }
  file->runs.push_back({file->segments, run.first, run.count});
  file->segments += run.count;
}

void State::AddRuns(File* file, const std::vector<Run>& runs) {
  const uint64_t before = file->runs.size();
  for (const Run& run : runs) AppendRun(file, run);
  AccountRuns(*file, before);
}

void State::TrimTo(File* file, uint32_t keep) {
  const uint64_t before = file->runs.size();
  while (file->segments > keep) {
    FileRun& last = file->runs.back();
    const uint32_t drop = std::min(last.count, file->segments - keep);
    freed_.push_back({last.first + last.count - drop, drop});
    last.count -= drop;
    file->segments -= drop;
    if (last.count == 0) file->runs.pop_back();
  }
  AccountRuns(*file, before);
}

void State::ReleaseFreed() {
  for (const Run& run : freed_) free_segments_.Release(run);
  freed_.clear();
}

// --- checkpoints

uint64_t State::Serialize(std::string* out) const {
  uint64_t records = 0;
  std::vector<Run> runs;
  out->reserve(out->size() + checkpoint_bytes_);
  const auto append = [&](const Record& r) {
    AppendRecord(r, out);
    ++records;
  };
  files_.ForEach([&](const File& file) {
    if (file.unlinked) return;
    runs.clear();
    for (const FileRun& run : file.runs) runs.push_back({run.first, run.count});
    size_t at = std::min(runs.size(), kMaxRunsInRecord);
    append({.type = RecordType::kFile,
            .file = file.id,
            .size = file.size,
            .valid = file.valid,
            .time_ns = file.modified_ns,
            .runs = RunView(runs.data(), at)});
    while (at < runs.size()) {
      const size_t n = std::min(runs.size() - at, kMaxRunsInRecord);
      append({.type = RecordType::kAddSegments,
              .file = file.id,
              .runs = RunView(runs.data() + at, n)});
      at += n;
    }
  });
  for (const auto& [name, directory] : by_name_) {
    const uint64_t id = directory->id;
    append({.type = RecordType::kDirectory, .directory = id, .name = name});
    directory->entries.ForEach([&](const Entry& entry) {
      append(
          {.type = RecordType::kLink, .directory = id, .file = entry.file->id, .name = entry.name});
    });
  }
  return records;
}

}  // namespace pulse::store
