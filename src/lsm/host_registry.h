// OutputRegistry: the outputs of one FileSystem that are not durable yet, by path; and the barrier
// that durable metadata waits at (docs/architecture.md, "The barrier").
//
// Invariant: before a MANIFEST or CURRENT write, BarrierBefore(dir) returns OK only when every
// output that metadata in `dir` could name is durable, or is known by its writer to have failed. An
// output that failed after Close stays here, and fails every barrier, until its file is deleted or
// replaced, or a database takes the lock of its directory; or until its own creator has seen the
// error at a directory sync and the database then starts a new MANIFEST, which is how RocksDB
// resumes.
//
// A directory sync waits only when its thread has written outputs since it last wrote a MANIFEST,
// that is, in a job that will name some: errors, also of its subcompactions' outputs, then reach
// that job before its MANIFEST record. Others, such as the first sync of a new write-ahead log,
// pass; the MANIFEST waits for all in any case.
//
// Which outputs a directory's metadata could name: those in the directory itself, and those in
// directories that hold no database of their own (db_paths, cf_paths). Outputs of another database
// are not waited for.
//
// Thread-safe; barriers block. Guarded by HostSession::mu().
#pragma once

#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lsm/host_output.h"

namespace pulse::lsm {

// One spelling for a path: directory resolved, file name appended.
std::string CanonicalPath(const std::string& path);
std::string DirectoryOf(const std::string& path);

// Makes every barrier pass without waiting, so that the power-cut tests can show that they would
// find its absence. Nothing but a test linked to this library can reach it.
void DisableBarrierForTesting(bool disabled);

class OutputRegistry : public OutputOwner {
 public:
  explicit OutputRegistry(std::shared_ptr<HostSession> session) : session_(std::move(session)) {}
  ~OutputRegistry() override;

  absl::StatusOr<std::shared_ptr<OutputFile>> Create(const std::string& path);
  // The output at `path` if it is not durable yet, or null. Cheap when there is none at all.
  std::shared_ptr<OutputFile> Find(const std::string& path);
  // The file at `path` is deleted or replaced. True when the agent still works on it: then its
  // inode must not become another file's.
  bool Forget(const std::string& path);

  // `dir` holds a MANIFEST or CURRENT.
  void MarkHome(const std::string& dir);
  // The database in `dir` is destroyed.
  void UnmarkHome(const std::string& dir);
  // A database in `dir` took its lock: nobody is left who could name what failed there before.
  void OnDatabaseOpened(const std::string& dir);
  // A new MANIFEST is created in `dir`.
  void OnNewManifest(const std::string& dir);

  absl::Status BarrierBefore(const std::string& dir, bool is_directory_sync);

  void OnDurableLocked(OutputFile* file) override;

 private:
  // Forgets the failed outputs, with nothing in flight, that `which` holds for.
  void DropFailures(absl::FunctionRef<bool(const OutputFile&)> which);
  bool InScopeLocked(const OutputFile& file, const std::string& dir) const;
  // Drops the references that OnDurableLocked could not, outside the lock.
  void Bury();

  const std::shared_ptr<HostSession> session_;
  std::unordered_map<std::string, std::shared_ptr<OutputFile>> files_;
  std::vector<std::shared_ptr<OutputFile>> graveyard_;
  std::set<std::string> homes_;
  std::atomic<size_t> count_{0};
};

}  // namespace pulse::lsm
