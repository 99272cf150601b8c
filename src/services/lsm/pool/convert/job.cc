#include "services/lsm/pool/convert/job.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "services/lsm/pool/pool.h"
#include "services/lsm/pool/pool_guard.h"

namespace pulse::convert {

absl::StatusOr<std::unique_ptr<Job>> Job::Open(const Options& options, bool into_pool) {
  std::unique_ptr<Job> job(new Job(options));
  PULSE_ASSIGN_OR_RETURN(job->database_,
                         ClosedDatabase::Open(options.database, options.db_paths, options.dry_run));
  // As the plug-in spells it, since the guard shows it.
  std::error_code ec;
  std::string path = std::filesystem::canonical(options.pool, ec).string();
  if (ec) path = options.pool;  // the store says what is wrong with it
  // What is in there can always be taken out again.
  if (into_pool) PULSE_RETURN_IF_ERROR(lsm::CheckPoolPath(path));
  auto store = store::Store::Open(path, {.read_only = options.dry_run, .device = nullptr});
  if (!store.ok()) return store.status();
  job->store_ = *std::move(store);
  job->copy_ = std::make_unique<TableCopy>(*job->store_);
  job->report_.database = job->database_->home();
  job->report_.pool = path;
  const auto& guard = job->database_->guard();
  job->switched_ = guard.has_value() == into_pool;
  const lsm::GuardInfo here = lsm::GuardInfoOf(*job->store_);
  if (guard.has_value() && guard->pool_id != here.pool_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the tables of ", job->database_->home(), " are in the pool ", guard->pool, " (",
        guard->pool_id, "), not in ", path, " (", here.pool_id, "); name that one"));
  }
  const ClosedDatabase& db = *job->database_;
  for (const std::string& dir : db.dirs()) {
    if (dir.size() + sizeof(kMoving) <= store::kMaxDirectoryName) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        dir, ": the path is too long to move tables between it and a pool, which needs DIR",
        kMoving,
        " besides; rename the directory, through the plug-in if its tables are in a pool"));
  }
  if (db.known()) return job;
  if (db.dirs().size() > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        db.home(),
        ": its MANIFEST has records that are not understood, such as a newer RocksDB's: "
        "which files are the database's in ",
        db.dirs()[1],
        " cannot be told. Nothing was changed; "
        "update pulse, or gather all tables in one directory"));
  }
  if (!options.unchecked) {
    return absl::FailedPreconditionError(absl::StrCat(
        db.home(),
        ": its MANIFEST has records that are not understood, such as a newer RocksDB's: "
        "whether all its tables are there cannot be told. Nothing was changed; update pulse, or go "
        "on with --unchecked, best with --verify"));
  }
  Log(LogLevel::kWarn, absl::StrCat(db.home(),
                                    ": its MANIFEST has records that are not understood: "
                                    "not checked whether all tables are there"));
  return job;
}

absl::StatusOr<Job::PlainFiles> Job::Plain(const std::string& dir) const {
  PULSE_ASSIGN_OR_RETURN(const auto files, ListPlainFiles(dir));
  PlainFiles found;
  for (const PlainFile& f : files) found[f.name] = f.size;
  return found;
}

bool Job::Owns(const std::string& dir, const std::string& name, uint64_t size) const {
  if (dir == database_->home()) return true;
  if (!database_->Owns(name, size)) return false;
  for (const std::string& before : database_->dirs()) {
    if (before == dir) break;
    const auto plain = SizeOfPlain(absl::StrCat(before, "/", name));
    if (plain && database_->Owns(name, *plain)) return false;
    if (!guarded()) continue;
    const auto file = store_->Lookup(before, name);
    const auto stored = file.ok() ? store_->Stat(*file) : file.status();
    if (stored.ok() && database_->Owns(name, stored->size)) return false;
  }
  return true;
}

absl::StatusOr<Job::StoredFiles> Job::Stored(const std::string& dir) const {
  StoredFiles found;
  const auto files = store_->List(dir);
  if (!files.ok()) {
    if (absl::IsNotFound(files.status())) return found;
    return files.status();
  }
  for (const store::DirectoryEntry& f : *files) found[f.name] = f.attributes;
  return found;
}

bool Job::HasMoving() const {
  const auto& dirs = database_->dirs();
  return std::any_of(dirs.begin(), dirs.end(), [this](const std::string& dir) {
    return store_->HasDirectory(dir + kMoving);
  });
}

absl::Status Job::DeleteMoving() {
  for (const std::string& dir : database_->dirs()) {
    const std::string moving = dir + kMoving;
    if (!store_->HasDirectory(moving)) continue;
    PULSE_RETURN_IF_ERROR(store_->ClearDirectory(moving));
    PULSE_RETURN_IF_ERROR(store_->RemoveDirectory(moving));
  }
  return absl::OkStatus();
}

absl::Status Job::Step(const char* what) { return Advance(what, 0); }

absl::Status Job::Advance(const char* what, uint64_t bytes) {
  done_ += bytes;
  if (options_.on_step == nullptr) return absl::OkStatus();
  return options_.on_step({what, done_, report_.bytes, switched_});
}

absl::Status Job::Switched() {
  switched_ = true;
  if (options_.verify == nullptr) return absl::OkStatus();
  PULSE_RETURN_IF_ERROR(Step("verifying"));
  return options_.verify(report_);
}

absl::StatusOr<bool> Job::Same(const std::string& plain, store::FileId file) {
  const uint64_t before = done_;
  PULSE_RETURN_IF_ERROR(Step("comparing"));
  auto same =
      copy_->Same(plain, file, [this](uint64_t bytes) { return Advance("comparing", bytes); });
  if (!same.ok() || !*same) done_ = before;
  return same;
}

absl::Status Job::CopyIn(const std::string& plain, uint64_t size, store::FileId file) {
  PULSE_RETURN_IF_ERROR(Step("copying"));
  PULSE_RETURN_IF_ERROR(copy_->CopyIn(
      plain, size, file, [this](uint64_t bytes) { return Advance("copying", bytes); }));
  ++report_.copied_files;
  report_.copied_bytes += size;
  return absl::OkStatus();
}

absl::Status Job::CopyOut(store::FileId file, const std::string& plain) {
  PULSE_RETURN_IF_ERROR(Step("copying"));
  const uint64_t before = done_;
  const absl::Status st = copy_->CopyOut(file, plain, database_->current(), [this](uint64_t bytes) {
    return Advance("copying", bytes);
  });
  if (!st.ok()) {
    unlink(plain.c_str());  // a piece of a table, and the space is needed
    return st;
  }
  ++report_.copied_files;
  report_.copied_bytes += done_ - before;
  return absl::OkStatus();
}

}  // namespace pulse::convert
