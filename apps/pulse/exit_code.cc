#include <cstdio>

#include "apps/pulse/commands.h"

namespace pulse {
namespace {
int exit_code = 0;
}  // namespace

void SetExitCode(int code) { exit_code = code; }
int ExitCode() { return exit_code; }

void Finish(const absl::Status& status) {
  if (status.ok()) return;
  const auto text = status.message();
  std::fprintf(stderr, "pulse: %.*s\n", static_cast<int>(text.size()), text.data());
  SetExitCode(1);
}

}  // namespace pulse
