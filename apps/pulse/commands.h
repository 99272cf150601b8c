// The sub-commands of `pulse`. Each Add*Command() hangs one on its parent; the work runs in the
// command's callback, which reports its outcome through Finish() or SetExitCode(). Main thread
// only.
#pragma once

#include "absl/status/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace pulse {

void AddAgentCommand(CLI::App& app);
void AddDoctorCommand(CLI::App& app);
void AddServeCommand(CLI::App& app);
void AddTopCommand(CLI::App& app);

// `pulse pool` and everything below it.
void AddPoolCommand(CLI::App& app);

// `pulse bench` and everything below it.
void AddBenchCommand(CLI::App& app);

// What the process will return from main(). 0 until somebody says otherwise.
void SetExitCode(int code);
int ExitCode();

// The end of a command: an error goes to standard error as "pulse: ..." and sets exit code 1.
void Finish(const absl::Status& status);

}  // namespace pulse
