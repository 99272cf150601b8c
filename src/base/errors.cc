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

absl::StatusCode CodeOf(int err) {
  switch (err) {
    case ENOENT:
      return absl::StatusCode::kNotFound;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return absl::StatusCode::kResourceExhausted;
    case EINVAL:
      return absl::StatusCode::kInvalidArgument;
    case ENOSYS:
    case EOPNOTSUPP:
      return absl::StatusCode::kUnimplemented;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ENOTCONN:
      return absl::StatusCode::kUnavailable;
    case ETIMEDOUT:
      return absl::StatusCode::kDeadlineExceeded;
    default:
      return absl::StatusCode::kInternal;
  }
}

absl::string_view UsualRemedy(int err) {
  switch (err) {
    case ENOSPC:
      return "free space on that file system";
    case EDQUOT:
      return "raise the quota or free space";
    case EMFILE:
      return "raise the limit of open files (ulimit -n)";
    case ENOMEM:
      return "free memory, or raise RLIMIT_MEMLOCK (ulimit -l) if memory was being locked";
    case EACCES:
    case EPERM:
      return "check the permissions and the user this process runs as";
    case EROFS:
      return "use a file system that is mounted read-write";
    default:
      return {};
  }
}

}  // namespace

absl::Status ErrnoError(int err, absl::string_view what, absl::string_view target,
                        absl::string_view remedy) {
  if (remedy.empty()) remedy = UsualRemedy(err);
  std::string text = absl::StrCat(what, target.empty() ? "" : " ", target, ": ", strerror(err),
                                  kErrnoMark, err, ")");
  if (!remedy.empty()) absl::StrAppend(&text, "; ", remedy);
  return absl::Status(CodeOf(err), text);
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
