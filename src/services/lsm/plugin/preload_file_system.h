// RoutedFileSystem: the FileSystem under RocksDB's default Env in a process whose environment has
// PULSE_URI. What lies in a directory that PULSE_MATCH means goes through pulse://, everything else
// through the FileSystem that was there before.
//
// The FileSystem of pulse:// is opened by the first use that needs it, not before: a process that
// forks its workers first has an agent in each of them. While it cannot be opened, every use that
// needs it fails with the reason, which is also logged; the next try is a second later at the
// earliest. In a process that was forked after it had been opened, it is opened anew; one with a
// pool is refused there, since the parent writes that pool.
//
// Ownership: opened FileSystems live as long as this; those of a parent process are never destroyed
// (their threads are not in the child). Threads: any. Blocks as HostSession::Open.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/lsm/plugin/preload_path_match.h"
#include "services/lsm/plugin/pulse_file_system.h"

namespace pulse::lsm {

class RoutedFileSystem : public FileSystemWrapper {
 public:
  // `uri` and `match`: the values of the variables. What is wrong with them fails each use.
  static std::shared_ptr<RoutedFileSystem> Create(std::string uri, absl::StatusOr<PathMatch> match,
                                                  std::shared_ptr<FileSystem> base);

  // Whether a database in `path` is to be on pulse://, as far as the list says it.
  virtual bool Matches(const std::string& path) const = 0;
  // The FileSystem of pulse://, opened if need be.
  virtual absl::StatusOr<std::shared_ptr<PulseFileSystem>> Pulse() const = 0;

  static const char* kClassName() { return "PulseRoutedFileSystem"; }
  const char* Name() const override { return kClassName(); }

 protected:
  using FileSystemWrapper::FileSystemWrapper;
};

}  // namespace pulse::lsm
