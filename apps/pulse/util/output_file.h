// OutputFile: an output that is complete or not there: it has no name until all is written, so that
// the kernel removes it however the process ends. Where the file system has no files without names
// (O_TMPFILE), it has another name until then, and a signal that ends the process removes it.
// Nothing is overwritten unless that is asked for; devices and pipes are written as they are. One
// at a time in a process. Main thread only. Blocks on files.
#pragma once

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "base/unique_fd.h"

namespace pulse {

class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(OutputFile&& o) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  // Without Commit the file is removed.
  ~OutputFile();

  enum class Links { kFollow, kReplace };
  // `path` empty, "-", or where standard output goes: standard output. Of a link, what it leads to
  // is replaced, or the link. `input`: the file that is read, which an output must not be, nor
  // standard output: a reader would come upon what it wrote. AlreadyExists: without `overwrite`.
  absl::Status Open(const std::string& path, bool overwrite, const struct stat& input,
                    Links links = Links::kFollow);

  // The file gets its name, with mode, owner and times of `like`; null: those of a new file. If it
  // is to be `durable`, it is on its device then, as far as the file system can do that.
  absl::Status Commit(const struct stat* like, bool durable = false);
  // What the file system did not let Commit set; empty: nothing.
  const std::string& remark() const { return remark_; }

  int fd() const { return fd_.get(); }
  const std::string& name() const { return name_; }

 private:
  absl::Status OpenStandard(const struct stat& input);
  absl::Status OpenUnfinished();
  // A name of its own for what has none, in the folder of `final_`.
  absl::Status NameTemporarily();
  // After a call that failed: an error, or a remark.
  absl::Status CannotSet(const char* what);

  UniqueFd fd_;
  std::string name_;
  std::string final_;      // empty: it has its name
  std::string temporary_;  // empty: it has none
  std::string remark_;
  bool overwrite_ = false;
};

// Removes what an OutputFile has not completed: for what ends the process. Safe in signal handlers.
void RemoveUnfinishedOutput();

}  // namespace pulse
