// `pulse graph load`, `check`, `salvage` and `changes`.
#pragma once

#include <CLI/CLI.hpp>

namespace pulse {

void AddGraphLoadCommand(CLI::App* graph);
void AddGraphCheckCommand(CLI::App* graph);
void AddGraphChangesCommand(CLI::App* graph);
void AddGraphSalvageCommand(CLI::App* graph);

}  // namespace pulse
