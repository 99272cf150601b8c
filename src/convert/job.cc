#include "convert/job.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "lsm/pool.h"
#include "lsm/pool_guard.h"

namespace pulse::convert {

absl::StatusOr<std::unique_ptr<Job>> Job::Open(const Options& options) {
  std::unique_ptr<Job> job(new Job(options));
  auto database = ClosedDatabase::Open(options.database, options.db_paths);
  if (!database.ok()) return database.status();
  job->database_ = *std::move(database);
  // As the plug-in spells it, since the guard shows it.
  std::error_code ec;
  std::string path = std::filesystem::canonical(options.pool, ec).string();
  if (ec) path = options.pool;  // the store says what is wrong with it
  auto store = store::Store::Open(path, {.read_only = options.dry_run, .device = nullptr});
  if (!store.ok()) return store.status();
  job->store_ = *std::move(store);
  job->copy_ = std::make_unique<TableCopy>(*job->store_);
  job->report_.database = job->database_->home();
  job->report_.pool = path;
  const auto& guard = job->database_->guard();
  const lsm::GuardInfo here = lsm::GuardInfoOf(*job->store_);
  if (guard.has_value() && guard->pool_id != here.pool_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the tables of ", job->database_->home(), " are in the pool ", guard->pool, " (",
        guard->pool_id, "), not in ", path, " (", here.pool_id, "); name that one"));
  }
  return job;
}

absl::StatusOr<Job::PlainFiles> Job::Plain(const std::string& dir) const {
  const auto files = ListPlainFiles(dir);
  if (!files.ok()) return files.status();
  PlainFiles found;
  for (const PlainFile& f : *files) {
    if (lsm::Pool::MayHold(f.name)) found[f.name] = f.size;
  }
  return found;
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
  const absl::Status st =
      copy_->CopyOut(file, plain, [this](uint64_t bytes) { return Advance("copying", bytes); });
  if (!st.ok()) {
    unlink(plain.c_str());  // a piece of a table, and the space is needed
    return st;
  }
  ++report_.copied_files;
  report_.copied_bytes += done_ - before;
  return absl::OkStatus();
}

}  // namespace pulse::convert
