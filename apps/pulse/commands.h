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
// `pulse compress` and `pulse decompress`.
void AddCompressCommands(CLI::App& app);
void AddDoctorCommand(CLI::App& app);
// Exits as grep does: 0, 1 without a match, 2 after an error.
void AddFilterCommand(CLI::App& app);
// `pulse graph` and what is below it.
void AddGraphCommand(CLI::App& app);
void AddKvCommand(CLI::App& app);
void AddServeCommand(CLI::App& app);
void AddTopCommand(CLI::App& app);

// `pulse pool` and everything below it.
void AddPoolCommand(CLI::App& app);

// `pulse bench` in the list of commands. The benchmarks are a program of their own, pulse-bench,
// which RunBench replaces this process by: it is looked for beside this program. `argv` begins with
// "bench". Returns, with an exit code, only if that program cannot be run.
void AddBenchCommand(CLI::App& app);
int RunBench(int argc, char** argv);

// What the process will return from main(). 0 until somebody says otherwise.
void SetExitCode(int code);
int ExitCode();

// The end of a command: an error goes to standard error as "pulse: ..." and sets exit code 1.
void Finish(const absl::Status& status);

// The end of a program: what it printed goes to standard output. Returns `code`, or, after an error
// that nobody has said, `error_code`. A reader that wants no more is none.
int FinishOutput(int code, int error_code);

}  // namespace pulse
