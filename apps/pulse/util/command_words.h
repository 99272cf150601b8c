// The words of a command line that name commands. CLI11 says of a wrong one only that a subcommand
// is required. Thread-safe; never blocks.
#pragma once

#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace pulse {

// What is wrong with these words, as far as they lead from command to command, with the remedy.
// Empty: nothing.
std::string CommandError(const CLI::App& app, int argc, const char* const* argv);

// The exit code of a command line that is wrong, and that of any other error. `command`: argv[1].
struct ErrorCodes {
  int usage;
  int other;
};
ErrorCodes ErrorCodesOf(const std::string& command);

}  // namespace pulse
