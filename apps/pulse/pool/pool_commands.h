// The sub-commands of `pulse pool`, one file each. Main thread only; they block on the device.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace pulse::pool {

void AddCreateCommand(CLI::App& pool);
void AddListCommand(CLI::App& pool);
void AddCheckCommand(CLI::App& pool);
void AddMoveCommand(CLI::App& pool);
void AddRemoveCommand(CLI::App& pool);

// "2026-01-31 12:00:00", local time.
std::string FormatTime(int64_t nanos_since_1970);

}  // namespace pulse::pool
