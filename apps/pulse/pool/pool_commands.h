// The sub-commands of `pulse pool`, one file each. Main thread only; they block on the device.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
}  // namespace CLI

namespace pulse::pool {

void AddCreateCommand(CLI::App& pool);
void AddListCommand(CLI::App& pool);
void AddCheckCommand(CLI::App& pool);
void AddMoveCommand(CLI::App& pool);
void AddRemoveCommand(CLI::App& pool);
void AddImportCommand(CLI::App& pool);
void AddExportCommand(CLI::App& pool);

// Prints the directories of a pool, and which of them are databases that have their tables there.
absl::Status ListDatabases(const std::string& path);

// "2026-01-31 12:00:00", local time.
std::string FormatTime(int64_t nanos_since_1970);

}  // namespace pulse::pool
