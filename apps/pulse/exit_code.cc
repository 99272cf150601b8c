#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "base/log.h"

namespace pulse {
namespace {
int exit_code = 0;
}  // namespace

void SetExitCode(int code) { exit_code = code; }
int ExitCode() { return exit_code; }

void Finish(const absl::Status& status) {
  if (status.ok()) return;
  Say(absl::StrCat("pulse: ", status.message()), LogLevel::kError);
  SetExitCode(1);
}

}  // namespace pulse
