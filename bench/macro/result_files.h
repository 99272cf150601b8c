// The results of experiments on disk: one file each, complete or not there, so that a run that was
// interrupted is taken up again. Thread-compatible; blocks on disk.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace pulse::bench {

// Whether it stays when the source changes: "unknown", or of a tree with changes.
bool NamesNoCommit(const std::string& revision);

struct EarlierResult {
  // kOlder: of another version of the program, and else the same.
  enum class Kind { kNone, kSame, kOlder, kOther };
  Kind kind = Kind::kNone;
  // Of the last two: in what it differs, "pairs: 5 there, 3 now".
  std::vector<std::string> differences;
};

// Compares the result in `file` with one that would have these "experiment", "settings", "machine",
// "pulse_version" and "revision"; and "storage", unless one of them says nothing of it, as earlier
// versions did not. A file that cannot be read as a result is another one; one without rows is
// none.
EarlierResult FindResult(const std::string& file, const nlohmann::json& identity);

// Writes all of `result`, or leaves what was there.
absl::Status WriteResult(const std::string& file, const nlohmann::json& result);

// The rows of an experiment while it runs, kept in a file from row to row, so that a run that was
// interrupted goes on with the next one. Main thread only.
class RowLog {
 public:
  RowLog(std::string file, nlohmann::json identity);
  ~RowLog();
  RowLog(RowLog&&) noexcept;

  // Takes up the rows of a run that was interrupted; those of a revision that does not tell one
  // source from another only with `keep_older`. Returns what to say of it, or nothing.
  std::string TakeUp(bool keep_older);

  bool Has(const std::string& label) const;
  // Notes in the file that the experiment runs, so that an interruption before its first row is
  // told from no run at all. Unavailable as below.
  absl::Status Begin() const;
  // Unavailable when it cannot be written.
  absl::Status Add(nlohmann::json row);
  // The same of several: all are kept, or none.
  absl::Status AddAll(const std::vector<nlohmann::json>& more);
  const nlohmann::json& rows() const { return *rows_; }
  // Removes the file.
  void Forget() const;

 private:
  std::string file_;
  std::unique_ptr<nlohmann::json> identity_;
  std::unique_ptr<nlohmann::json> rows_;
};

// What a command with --redo has begun anew, kept in a file until all of it is done: so the same
// command goes on when it was interrupted. Main thread only.
class RedoLog {
 public:
  // `identities`: a list of those of all results that the command makes.
  RedoLog(std::string file, const nlohmann::json& identities);

  // Takes up what the same command has begun and not ended; of a revision that says little about
  // the program only with `keep_older`. Returns what to say of it, or nothing.
  std::string TakeUp(bool keep_older);
  bool Begun(const std::string& experiment) const;
  // Moves an earlier result in `result_file` aside, to RESULT_FILE.old. Returns what to say of it,
  // or nothing.
  absl::StatusOr<std::string> Begin(const std::string& experiment, const std::string& result_file);
  // Removes the file.
  void Forget() const;

 private:
  const std::string file_;
  const bool names_no_commit_;  // the revision
  const std::string command_;   // a text that is the same for the same identities
  std::vector<std::string> begun_;
};

}  // namespace pulse::bench
