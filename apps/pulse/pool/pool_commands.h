// The sub-commands of `pulse pool`, one file each. Main thread only; they block on the device.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace pulse::pool {

void AddCreateCommand(CLI::App& pool);
void AddCheckCommand(CLI::App& pool);
void AddDirectoryCommands(CLI::App& pool);  // ls, mv, rm
void AddConvertCommands(CLI::App& pool);    // import, export

// From now on SIGINT and SIGTERM ask to stop; the second one ends the process.
void CatchSignals();
bool StopAsked();
// Finish() of what may be stopped: Cancelled has a status of its own, as a shell says it of SIGINT.
void FinishStoppable(const absl::Status& status);

// Prints the directories of a pool, and which of them are databases that have their tables there.
absl::Status ListDatabases(const std::string& path);

}  // namespace pulse::pool
