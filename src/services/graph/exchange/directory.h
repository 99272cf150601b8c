// Directories that clients name: which may be read or written, and one that appears as a whole.
//
// Below a directory, a path is within it, and no link leads out of it (openat2). Threads: any for
// functions; an object belongs to one. Calls block. Errors are those of the system and name the
// path as the client gave it; PermissionDenied for what is outside.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace pulse::graph {

struct AllowedDirectory {
  std::string path;         // empty and not everywhere: nothing is allowed
  bool everywhere = false;  // then `path` does not count
};

// openat2() of a path without leading slashes, with `flags` of open(). Not valid when it failed:
// errno is EXDEV or ELOOP where it leads out of the directory.
UniqueFd OpenBelow(int directory, const std::string& path, uint64_t flags);

// A directory that is there, O_PATH. `option` is the one that allows more, for the message.
absl::StatusOr<UniqueFd> OpenDirectory(const AllowedDirectory& allowed, std::string_view where,
                                       std::string_view option);
// A file in it, for reading, and no link.
absl::StatusOr<UniqueFd> OpenFileIn(int directory, const std::string& name,
                                    const std::string& shown);

// A directory that gets its name when all that is in it is on the device. What a kill leaves is
// called ".NAME.partial", and the next one of that name removes it.
class NewDirectory {
 public:
  // AlreadyExists: there is something of that name that is no empty directory, and it is not for
  // CommitInPlace(). FailedPrecondition: somebody else is making it.
  static absl::StatusOr<std::unique_ptr<NewDirectory>> Create(const AllowedDirectory& allowed,
                                                              std::string_view where,
                                                              std::string_view option,
                                                              bool in_place = false);
  // Without Commit(), nothing of it stays.
  ~NewDirectory();

  // Empty, for writing; `name` is a plain one.
  absl::StatusOr<UniqueFd> CreateFile(const std::string& name);
  // Every file was synced by who wrote it. Afterwards nothing but the destructor is called.
  absl::Status Commit();
  // The same in place of the directory of that name, whose files are removed afterwards: at every
  // moment one of the two has the name.
  absl::Status CommitInPlace();
  int descriptor() const { return directory_.get(); }
  // Where its files are until it has its name.
  std::string partial_path() const;
  // As it was asked for.
  const std::string& shown() const { return shown_; }

 private:
  NewDirectory() = default;
  // Makes the directory, or takes what a kill left; false: it went meanwhile, try again.
  absl::StatusOr<bool> TakePartial();
  absl::Status Clear();
  absl::Status SyncParent();

  UniqueFd parent_, directory_;
  std::string name_, partial_, shown_;
  bool committed_ = false;
};

}  // namespace pulse::graph
