#include "base/errors.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace pulse {
namespace {

// Not a Status payload: those need Cord, which the preloadable object cannot contain
// (preload_absl.cc).
constexpr char kErrnoMark[] = " (errno ";

struct Meaning {
  int err;
  absl::StatusCode code;
  const char* remedy;
};

constexpr Meaning kMeanings[] = {
    {ENOENT, absl::StatusCode::kNotFound, ""},
    {EEXIST, absl::StatusCode::kAlreadyExists, ""},
    {EACCES, absl::StatusCode::kPermissionDenied,
     "check the permissions and the user this process runs as"},
    {EPERM, absl::StatusCode::kPermissionDenied,
     "check the permissions and the user this process runs as"},
    {EROFS, absl::StatusCode::kPermissionDenied, "use a file system that is mounted read-write"},
    {ENOSPC, absl::StatusCode::kResourceExhausted, "free space on that file system"},
    {EDQUOT, absl::StatusCode::kResourceExhausted, "raise the quota or free space"},
    {EFBIG, absl::StatusCode::kResourceExhausted,
     "raise the limit of the size of files (ulimit -f), or use a file system that takes longer "
     "ones"},
    {ENOMEM, absl::StatusCode::kResourceExhausted,
     "free memory, or raise RLIMIT_MEMLOCK (ulimit -l) if memory was being locked"},
    {EMFILE, absl::StatusCode::kResourceExhausted, "raise the limit of open files (ulimit -n)"},
    {ENFILE, absl::StatusCode::kResourceExhausted, ""},
    {EINVAL, absl::StatusCode::kInvalidArgument, ""},
    {ENOSYS, absl::StatusCode::kUnimplemented, ""},
    {EOPNOTSUPP, absl::StatusCode::kUnimplemented, ""},
    {ECONNREFUSED, absl::StatusCode::kUnavailable, ""},
    {ECONNRESET, absl::StatusCode::kUnavailable, ""},
    {EPIPE, absl::StatusCode::kUnavailable, ""},
    {ENOTCONN, absl::StatusCode::kUnavailable, ""},
    {ETIMEDOUT, absl::StatusCode::kDeadlineExceeded, ""},
};

Meaning MeaningOf(int err) {
  for (const Meaning& m : kMeanings) {
    if (m.err == err) return m;
  }
  return {err, absl::StatusCode::kInternal, ""};
}

}  // namespace

absl::Status ErrnoError(int err, absl::string_view what, absl::string_view target,
                        absl::string_view remedy) {
  const Meaning meaning = MeaningOf(err);
  if (remedy.empty()) remedy = meaning.remedy;
  std::string text = absl::StrCat(what, target.empty() ? "" : " ", target, ": ", strerror(err),
                                  kErrnoMark, err, ")");
  if (!remedy.empty()) absl::StrAppend(&text, "; ", remedy);
  return absl::Status(meaning.code, text);
}

int ErrnoOf(const absl::Status& status) {
  // The last one: a target may be a path that somebody named to look like this.
  const absl::string_view text = status.message();
  const size_t at = text.rfind(kErrnoMark);
  if (at == absl::string_view::npos) return 0;
  absl::string_view number = text.substr(at + sizeof(kErrnoMark) - 1);
  number = number.substr(0, number.find(')'));
  int err = 0;
  return absl::SimpleAtoi(number, &err) ? err : 0;
}

}  // namespace pulse
