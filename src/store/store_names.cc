// Directories and names.
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "store/store_impl.h"

namespace pulse::store {
namespace {

absl::Status CheckDirectoryName(absl::string_view name) {
  if (IsDirectoryName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("store: a directory's name has 1 to ",
                                                 kMaxDirectoryName, " bytes and no NUL; this has ",
                                                 name.size()));
}

absl::Status CheckFileName(absl::string_view name) {
  if (IsFileName(name)) return absl::OkStatus();
  if (name.empty() || name.size() > kMaxFileName) {
    return absl::InvalidArgumentError(absl::StrCat("store: a file's name has 1 to ", kMaxFileName,
                                                   " bytes; this has ", name.size()));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("store: no name for a file: \"", name, "\" (no '/', no NUL, not . or ..)"));
}

}  // namespace

int64_t Store::Impl::NowOfDay() { return ClockNanos(CLOCK_REALTIME); }

absl::StatusOr<Directory*> Store::Impl::FindDirectory(absl::string_view name) const {
  Directory* directory = state_->FindDirectory(name);
  if (directory == nullptr) {
    return absl::NotFoundError(absl::StrCat("store ", path_, " has no directory ", name));
  }
  return directory;
}

absl::StatusOr<Entry*> Store::Impl::FindEntry(absl::string_view directory,
                                              absl::string_view name) const {
  PULSE_ASSIGN_OR_RETURN(auto* d, FindDirectory(directory));
  Entry* entry = state_->FindEntry(*d, name);
  if (entry == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("store ", path_, " has no file ", name, " in directory ", directory));
  }
  return entry;
}

absl::StatusOr<File*> Store::Impl::FindFile(FileId id) const {
  File* file = state_->FindFile(id);
  if (file == nullptr) {
    return absl::NotFoundError(absl::StrCat("store ", path_, " has no file with id ", id));
  }
  return file;
}

Attributes Store::Impl::AttributesOf(const File& file) const {
  return {file.id,    file.size,       file.valid, file.segments * segment_bytes_,
          file.links, file.modified_ns};
}

absl::Status Store::Impl::Writable() const {
  if (!failed_.ok()) return failed_;
  if (read_only_) {
    return absl::FailedPreconditionError(absl::StrCat("store ", path_, " is open read-only"));
  }
  return absl::OkStatus();
}

absl::Status Store::Impl::CheckMetadataRoom(uint64_t growth) const {
  if (state_->checkpoint_bytes() + growth <= superblock_.checkpoint_body_capacity()) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "store ", path_, ": the metadata area is full (", state_->files(),
      " files); delete some, or make a store with more: `pulse pool create --metadata SIZE`"));
}

absl::Status Store::Impl::Enter(const Record& record) {
  const absl::Status status = state_->Apply(record);
  if (!status.ok()) {
    // A fault of this program. What was committed is sound; nothing after it is made durable.
    failed_ = absl::InternalError(absl::StrCat("store ", path_, ": ", status.message()));
    return failed_;
  }
  AppendRecord(record, &buffer_);
  ++buffer_records_;
  ++changes_;
  last_length_.reset();
  CollectFreed();
  return absl::OkStatus();
}

void Store::Impl::CollectFreed() {
  for (const Run& run : state_->TakeFreed()) {
    freed_.push_back(run);
    pending_segments_ += run.count;
  }
  if (buffer_records_ == 0 && !in_flight_) ReleaseFreed(&freed_);
}

// --- directories

absl::Status Store::CreateDirectory(absl::string_view name) {
  PULSE_RETURN_IF_ERROR(CheckDirectoryName(name));
  return impl_->Change([&]() -> absl::Status {
    if (impl_->state_->FindDirectory(name) != nullptr) {
      return absl::AlreadyExistsError(
          absl::StrCat("store ", path(), " has a directory ", name, " already"));
    }
    PULSE_RETURN_IF_ERROR(impl_->CheckMetadataRoom(kDirectoryRecordBytes + name.size()));
    return impl_->Enter({.type = RecordType::kCreateDirectory,
                         .directory = impl_->state_->next_id(),
                         .name = name});
  });
}

absl::Status Store::RemoveDirectory(absl::string_view name) {
  return impl_->Change([&]() -> absl::Status {
    PULSE_ASSIGN_OR_RETURN(auto* directory, impl_->FindDirectory(name));
    if (directory->entries.size() != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("store ", path(), ": directory ", name, " is not empty"));
    }
    return impl_->Enter({.type = RecordType::kRemoveDirectory, .directory = directory->id});
  });
}

absl::Status Store::ClearDirectory(absl::string_view name) {
  return impl_->Change([&]() -> absl::Status {
    PULSE_ASSIGN_OR_RETURN(auto* directory, impl_->FindDirectory(name));
    if (directory->entries.size() == 0) return absl::OkStatus();
    return impl_->Enter({.type = RecordType::kClearDirectory, .directory = directory->id});
  });
}

absl::Status Store::RenameDirectory(absl::string_view from, absl::string_view to) {
  PULSE_RETURN_IF_ERROR(CheckDirectoryName(to));
  return impl_->Change([&]() -> absl::Status {
    PULSE_ASSIGN_OR_RETURN(auto* directory, impl_->FindDirectory(from));
    const Directory* target = impl_->state_->FindDirectory(to);
    if (target == directory) return absl::OkStatus();
    if (target != nullptr && target->entries.size() != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("store ", path(), ": directory ", to, " is there, and not empty"));
    }
    PULSE_RETURN_IF_ERROR(impl_->CheckMetadataRoom(to.size()));
    return impl_->Enter({.type = RecordType::kRenameDirectory,
                         .directory = directory->id,
                         .to_directory = target == nullptr ? 0 : target->id,
                         .to_name = to});
  });
}

bool Store::HasDirectory(absl::string_view name) const {
  std::shared_lock lock(impl_->mu_);
  return impl_->state_->FindDirectory(name) != nullptr;
}

std::vector<std::string> Store::ListDirectories() const {
  std::vector<std::string> names;
  std::shared_lock lock(impl_->mu_);
  names.reserve(impl_->state_->directories());
  impl_->state_->ForEachDirectory([&](const Directory& d) { names.push_back(d.name); });
  return names;
}

absl::StatusOr<std::vector<DirectoryEntry>> Store::List(absl::string_view directory) const {
  std::shared_lock lock(impl_->mu_);
  PULSE_ASSIGN_OR_RETURN(auto* d, impl_->FindDirectory(directory));
  std::vector<DirectoryEntry> entries;
  entries.reserve(d->entries.size());
  d->entries.ForEach([&](const Entry& e) {
    entries.push_back({e.name, impl_->AttributesOf(*e.file)});
  });
  return entries;
}

// --- names

absl::StatusOr<FileId> Store::CreateFile(absl::string_view directory, absl::string_view name) {
  PULSE_RETURN_IF_ERROR(CheckFileName(name));
  FileId id = kNoFile;
  const absl::Status status = impl_->Change([&]() -> absl::Status {
    PULSE_ASSIGN_OR_RETURN(auto* d, impl_->FindDirectory(directory));
    if (impl_->state_->FindEntry(*d, name) != nullptr) {
      return absl::AlreadyExistsError(
          absl::StrCat("store ", path(), " has a file ", name, " in directory ", directory));
    }
    PULSE_RETURN_IF_ERROR(
        impl_->CheckMetadataRoom(FileCheckpointBytes(0) + kLinkRecordBytes + name.size()));
    id = impl_->state_->next_id();
    return impl_->Enter({.type = RecordType::kCreateFile,
                         .directory = d->id,
                         .file = id,
                         .time_ns = Impl::NowOfDay(),
                         .name = name});
  });
  if (!status.ok()) return status;
  return id;
}

absl::StatusOr<FileId> Store::Lookup(absl::string_view directory, absl::string_view name) const {
  std::shared_lock lock(impl_->mu_);
  PULSE_ASSIGN_OR_RETURN(auto* entry, impl_->FindEntry(directory, name));
  return entry->file->id;
}

absl::Status Store::Unlink(absl::string_view directory, absl::string_view name) {
  return impl_->Change([&]() -> absl::Status {
    PULSE_RETURN_IF_ERROR(impl_->FindEntry(directory, name).status());
    return impl_->Enter({.type = RecordType::kUnlink,
                         .directory = impl_->state_->FindDirectory(directory)->id,
                         .name = name});
  });
}

absl::Status Store::Rename(absl::string_view directory, absl::string_view name,
                           absl::string_view to_directory, absl::string_view to_name) {
  PULSE_RETURN_IF_ERROR(CheckFileName(to_name));
  return impl_->Change([&]() -> absl::Status {
    PULSE_ASSIGN_OR_RETURN(auto* entry, impl_->FindEntry(directory, name));
    PULSE_ASSIGN_OR_RETURN(auto* to, impl_->FindDirectory(to_directory));
    const Entry* target = impl_->state_->FindEntry(*to, to_name);
    if (target != nullptr && target->file == entry->file) return absl::OkStatus();
    PULSE_RETURN_IF_ERROR(impl_->CheckMetadataRoom(to_name.size()));
    return impl_->Enter({.type = RecordType::kRename,
                         .directory = impl_->state_->FindDirectory(directory)->id,
                         .to_directory = to->id,
                         .name = name,
                         .to_name = to_name});
  });
}

absl::Status Store::Link(absl::string_view directory, absl::string_view name,
                         absl::string_view to_directory, absl::string_view to_name) {
  PULSE_RETURN_IF_ERROR(CheckFileName(to_name));
  return impl_->Change([&]() -> absl::Status {
    PULSE_ASSIGN_OR_RETURN(auto* entry, impl_->FindEntry(directory, name));
    PULSE_ASSIGN_OR_RETURN(auto* to, impl_->FindDirectory(to_directory));
    if (impl_->state_->FindEntry(*to, to_name) != nullptr) {
      return absl::AlreadyExistsError(
          absl::StrCat("store ", path(), " has a file ", to_name, " in directory ", to_directory));
    }
    PULSE_RETURN_IF_ERROR(impl_->CheckMetadataRoom(kLinkRecordBytes + to_name.size()));
    return impl_->Enter(
        {.type = RecordType::kLink, .directory = to->id, .file = entry->file->id, .name = to_name});
  });
}

absl::StatusOr<Attributes> Store::Stat(FileId id) const {
  std::shared_lock lock(impl_->mu_);
  PULSE_ASSIGN_OR_RETURN(auto* file, impl_->FindFile(id));
  return impl_->AttributesOf(*file);
}

}  // namespace pulse::store
