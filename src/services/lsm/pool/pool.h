// Pool: the store that holds table and blob files with layout=pool, as the plug-in uses it. PulseDB
// III-C. Shared by all FileSystems of the process that name the same one.
//
// A database's directory is a directory of the store, named by its absolute path with symbolic
// links resolved. Only names of table and blob files are looked for in the store (MayHold), under
// the names that RocksDB gives them on their way too (.tmp, .trash).
//
// Late writers. The agent writes to segments through an open file that the host makes for each
// output. Segments must not become another file's while that open file lives anywhere: in the
// agent, on its way there, or in the kernel for the last requests of a process that was killed. So
// each carries a lock on a byte of its own past the end of the device, which the file's number
// chooses (a lock of the open file description, which goes with its last reference), and whoever
// asks for that lock learns whether it lives. Segments that may still be written are in the store's
// quarantine until it does not; and a host that opens the store waits until no such lock of its
// predecessor's is left.
//
// Threads: any. Open and Commit block. Errors as the store's; a full pool is ENOSPC, so that
// RocksDB takes it for a full disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"
#include "services/lsm/core/fetch_input.h"
#include "services/lsm/core/options.h"
#include "services/lsm/pool/pool_guard.h"
#include "store/store.h"

namespace pulse::lsm {

// What a guard says of a database whose tables are in this store.
GuardInfo GuardInfoOf(const store::Store& store);

// InvalidArgument where no URI can name the pool at this path: '&' separates the options there.
absl::Status CheckPoolPath(absl::string_view path);

class Pool {
 public:
  // Opens the store at `path`, or shares it. FailedPrecondition when in use, also by an agent that
  // still writes for a process that has ended.
  static absl::StatusOr<std::shared_ptr<Pool>> Open(const std::string& path);
  ~Pool();

  store::Store& store() { return *store_; }
  GuardInfo guard_info() const { return GuardInfoOf(*store_); }

  // Whether a file of this name is kept in the pool.
  static bool MayHold(absl::string_view name);
  // The file at a canonical path; NotFound.
  absl::StatusOr<store::FileId> Find(const std::string& canonical);
  // A new and empty file at a canonical path, in place of what is there.
  absl::StatusOr<store::FileId> Create(const std::string& canonical);
  // What is to be fetched from the file at a canonical path.
  absl::StatusOr<FetchInput> OpenInput(const std::string& canonical, IoMode io);

  // Where to write [offset, offset + length) of a file: see Store::MapWrite. ENOSPC when full.
  absl::StatusOr<std::vector<store::Extent>> MapWrite(store::FileId file, uint64_t offset,
                                                      uint64_t length, const std::string& path);
  // Whether outputs are written with O_DIRECT: if `io` and the device allow.
  absl::StatusOr<bool> WritesDirect(IoMode io) const;
  // Buffered, for reads at random places.
  int read_fd() const { return read_fd_.get(); }
  // Bytes that new files may have.
  uint64_t FreeBytes();

  // Names were changed in a way that a directory sync must make durable. (Deletions need not be: a
  // file that comes back is RocksDB's to delete, and its segments are not reused until then.)
  void NoteNames() { name_changes_.fetch_add(1, std::memory_order_acq_rel); }
  // Those noted before are durable.
  absl::Status CommitNames();
  // Another open file of the device; invalid, with errno, if that is not what the path leads to.
  UniqueFd OpenDevice(int flags) const;

  // An open file for an agent that is to write `file`; once for each. Invalid when none is to be
  // had.
  UniqueFd OpenForAgent(store::FileId file, bool direct);
  // Whether that still lives anywhere.
  bool MayStillWrite(store::FileId file) const;
  // Keeps the segments that `file` has now until then.
  absl::Status HoldBack(store::FileId file);

 private:
  explicit Pool(std::shared_ptr<store::Store> store) : store_(std::move(store)) {}
  // Ends the quarantine of those whose open file is gone.
  void Reap();

  const std::shared_ptr<store::Store> store_;
  UniqueFd lock_fd_;  // asks for locks, holds none
  UniqueFd read_fd_;
  std::atomic<uint64_t> name_changes_{0};
  std::atomic<uint64_t> committed_names_{0};
  std::mutex mu_;  // taken last, but for the store's own
  struct Held {
    store::FileId file;
    uint64_t quarantine;
  };
  std::vector<Held> held_;
};

}  // namespace pulse::lsm
