// `pulse graph load`, `check`, `export`, `import`, `backup`, `salvage` and `changes`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/status.h"
#include "apps/pulse/util/progress.h"
#include "services/graph/load/load.h"

namespace pulse {

void AddGraphLoadCommand(CLI::App* graph);
void AddGraphCheckCommand(CLI::App* graph);
void AddGraphExchangeCommands(CLI::App* graph);
void AddGraphBackupCommand(CLI::App* graph);
void AddGraphChangesCommand(CLI::App* graph);
void AddGraphSalvageCommand(CLI::App* graph);

// Shows what a bulk load does.
void ShowLoad(const graph::LoadProgress& now, Progress* progress);

// --node-memory of commands that write, and its value in bytes; 0: no limit.
void AddNodeMemoryOption(CLI::App* cmd, std::string* text);
absl::Status ReadNodeMemory(const std::string& text, uint64_t* bytes);

// The value of --load-memory; none: no limit.
absl::Status ReadLoadMemory(const std::string& text, graph::LoadOptions* options);

// Reads all of a database. DataLoss names what is damaged; what is sound is printed, unless
// `quiet`.
absl::Status CheckGraph(const std::string& db, bool quiet);

}  // namespace pulse
