// The files of `pulse compress` and `pulse decompress`, with gzip's manners: FILE becomes FILE.gz
// and is removed; an output is complete or not there, since it is written under another name first;
// mode, owner and times are kept; nothing is overwritten without --force. Main thread only. Blocks
// on files.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/pulse/util/output_file.h"
#include "base/unique_fd.h"

namespace pulse {

struct FileChoices {
  std::string output;  // -o
  bool to_stdout = false;
  bool keep = false;
  bool force = false;
};

class CodecFiles {
 public:
  // `file` "-" is standard input, and then the output is standard output, unless the choices name
  // one.
  static absl::StatusOr<CodecFiles> ForCompression(const FileChoices& choices,
                                                   const std::string& file,
                                                   const std::string& suffix);
  static absl::StatusOr<CodecFiles> ForDecompression(const FileChoices& choices,
                                                     const std::string& file);
  // Without output.
  static absl::StatusOr<CodecFiles> ForTest(const FileChoices& choices, const std::string& file);

  // Without Commit the output is removed.
  int in() const { return in_.get(); }
  int out() const { return out_.fd(); }
  const std::string& in_name() const { return in_name_; }
  const std::string& out_name() const { return out_name_; }
  // Of the input, for gzip's header: empty and 0 for what is no file.
  std::string base_name() const;
  uint32_t mtime() const;
  uint64_t input_size() const;

  // The output gets its name; then the input is removed, if it is to be, once the output is on its
  // device. Not one that was changed or replaced meanwhile: what it has now is in no other file.
  // The result says this, and what of the output could not be set, and else it is empty.
  absl::StatusOr<std::string> Commit();
  // The output gets its name, the input stays.
  absl::Status CommitSalvaged();

 private:
  CodecFiles() = default;
  absl::Status OpenInput(const FileChoices& choices, const std::string& file);
  // Empty: standard output.
  absl::Status OpenOutput(const FileChoices& choices, const std::string& path, bool compresses);

  UniqueFd in_;
  OutputFile out_;
  std::string in_name_;
  std::string out_name_;
  struct stat info_ {};
  bool is_file_ = false;
  bool remove_input_ = false;
};

}  // namespace pulse
