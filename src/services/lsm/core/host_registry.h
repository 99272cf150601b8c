// OutputRegistry: the outputs of one FileSystem that are not durable yet, by path; and the barrier
// that durable metadata waits at (docs/internals/lsm.md, "The barrier").
//
// Invariant: before a MANIFEST write, BeforeMetadata(dir, named) returns OK only when every output
// that metadata in `dir` could name is durable, or is known to have failed and not among those that
// the write names. An output that failed after Close stays here until its file is deleted or
// replaced, or until no database is left that could name it; meanwhile it fails the metadata that
// names it, and once the directory sync of the job that wrote it, and nothing else.
//
// A directory sync waits only when its thread has written outputs since it last wrote a MANIFEST,
// that is, in a job that will name some: errors then reach that job before its MANIFEST record.
// Others, such as the first sync of a new write-ahead log, pass; the MANIFEST waits for all in any
// case.
//
// Which outputs a directory's metadata could name: those in the directory itself, and those in
// directories that are not the home of an open database (db_paths, cf_paths). A home is a directory
// whose LOCK is held. Outputs of another database are not waited for.
//
// Thread-safe; barriers block. Guarded by HostSession::mu().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/lsm/core/barrier_rules.h"
#include "services/lsm/core/host_output.h"

namespace pulse::lsm {

// One spelling for a path: directory resolved, file name appended.
std::string CanonicalPath(const std::string& path);
// The same for a directory: what CanonicalPath puts before the names of its files.
std::string CanonicalDirectory(const std::string& dir);
std::string DirectoryOf(const std::string& path);
absl::string_view NameOf(const std::string& path);

// Makes every barrier pass without waiting, so that the power-cut tests can show that they would
// find its absence. Nothing but a test linked to this library can reach it.
void DisableBarrierForTesting(bool disabled);

// The files that a metadata write names, as far as that is known.
struct NamedFiles {
  bool all = false;  // it could name any
  std::vector<uint64_t> numbers;
};

class OutputRegistry : public OutputOwner {
 public:
  explicit OutputRegistry(std::shared_ptr<HostSession> session) : session_(std::move(session)) {}
  ~OutputRegistry() override;

  // Starts an output at `path`. Unlinks a file of that name first, since an agent may still write
  // to it; then `make` makes the new target.
  absl::StatusOr<std::shared_ptr<OutputFile>> Create(
      const std::string& path, TargetMaker make,
      OutputFile::Writer writer = OutputFile::Writer::kAgent);
  // The output at `path` if it is not durable yet, or null. Cheap when the registry is empty.
  std::shared_ptr<OutputFile> Find(const std::string& path);
  // The file of `output` has been deleted or replaced; another output may have its path by now.
  void Forget(const std::shared_ptr<OutputFile>& output);
  // Drops the references that must not be dropped under the lock, and with them the space of what
  // was forgotten. Waits for rescues under way.
  void DropReleased();
  // True while the agent works on it: until then its inode must not be used for another file.
  bool InFlight(const OutputFile& output) const;

  // A database in `dir` has taken its lock, or is about to release it. No metadata can name outputs
  // that failed for it before, so they are forgotten.
  void OnLocked(const std::string& dir);
  void OnUnlocked(const std::string& dir);

  // Before a sync of the directory `dir`.
  absl::Status BeforeDirectorySync(const std::string& dir);
  // Before metadata of `dir` that names `named` is written. `ends_job`: a MANIFEST's record, after
  // which the thread's outputs are no longer its job's.
  absl::Status BeforeMetadata(const std::string& dir, const NamedFiles& named, bool ends_job);

  void OnDurableLocked(OutputFile* file) override;

 private:
  struct Output {
    std::shared_ptr<OutputFile> file;
    // The databases that were open when it was created: its own is among them, if any was.
    barrier::Homes owners;
    // True once the thread that created it has ended: a subcompaction's. No error can be reported
    // on that thread any more.
    std::shared_ptr<const std::atomic<bool>> creator_ended;
    bool reported = false;  // at a directory sync
  };

  // Waits for the outputs in scope of `dir`. Returns those that failed.
  std::vector<std::shared_ptr<Output>> WaitFor(const std::string& dir);
  bool CouldBeNamedLocked(const Output& output, const std::string& dir) const;
  // Forgets failed outputs that only a database in `dir` could name.
  void DropFailuresLocked(const std::string& dir);
  std::unordered_map<std::string, std::shared_ptr<Output>>::iterator EraseLocked(
      std::unordered_map<std::string, std::shared_ptr<Output>>::iterator it);

  const std::shared_ptr<HostSession> session_;
  std::unordered_map<std::string, std::shared_ptr<Output>> files_;
  std::vector<std::shared_ptr<OutputFile>> released_;
  barrier::Homes homes_;
  std::atomic<size_t> count_{0};
};

}  // namespace pulse::lsm
