// `pulse graph load` and `pulse graph check`.
#pragma once

#include <CLI/CLI.hpp>

namespace pulse {

void AddGraphLoadCommand(CLI::App* graph);
void AddGraphCheckCommand(CLI::App* graph);

}  // namespace pulse
