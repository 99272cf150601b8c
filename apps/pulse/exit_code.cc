#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/util/terminal_text.h"
#include "base/errors.h"
#include "base/log.h"

namespace pulse {
namespace {
int exit_code = 0;
}  // namespace

void SetExitCode(int code) { exit_code = code; }
int ExitCode() { return exit_code; }

void Finish(const absl::Status& status) {
  if (status.ok()) return;
  Say(absl::StrCat("pulse: ", CleanLines(status.message())), LogLevel::kError);
  SetExitCode(1);
}

int FinishOutput(int code, int error_code) {
  errno = 0;
  // An earlier error is remembered, but not which.
  const bool failed = std::ferror(stdout) != 0;
  if (std::fflush(stdout) == 0 && !failed) return code;
  const int error = errno;
  // A reader that has enough ends no command, also where an earlier write has found that.
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  const bool gone = error == 0 && poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
  if (error == EPIPE || gone) return code;
  Finish(error != 0 ? ErrnoError(error, "writing", "standard output")
                    : absl::DataLossError("writing standard output failed: part of it is lost"));
  return code != 0 ? code : error_code;
}

}  // namespace pulse
