// pulse: the command line of PulseDB. Every sub-command lives in a file of its own.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "apps/pulse/commands.h"

#ifndef PULSE_VERSION
#define PULSE_VERSION "unknown"
#endif

// Tells a preloaded plug-in that this program is PulseDB's own: PULSE_URI is not for it.
extern "C" __attribute__((visibility("default"))) const char pulse_own_program;
const char pulse_own_program = 1;

namespace {

// Where one of these is closed, a file that is opened would get its number, and what is printed
// would be written into it. What takes its place can be neither read nor written.
void FillStandardDescriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

// In the order in which CLI11 wants them, from the last to the first.
std::vector<std::string> WordsOf(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = argc - 1; i > 0; --i) {
    const std::string_view word = argv[i];
    // CLI11 would take a file named [a,b] for the files a and b.
    const bool list = word.starts_with('[') && word.ends_with(']');
    words.push_back((list ? "./" : "") + std::string(word));
  }
  return words;
}

// CLI11 would take the next word for the value that is missing: that of a variable of a script,
// mostly.
const char* EmptyValue(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--") && word.find('=') == word.size() - 1) return argv[i];
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  FillStandardDescriptors();
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "bench") return pulse::RunBench(argc - 1, argv + 1);
  if (command == "blocks" || command == "pages") {
    std::fprintf(stderr, "pulse: `pulse %s` is a program of its own now: pulse-%s\n", argv[1],
                 argv[1]);
    return 1;
  }
  if (const char* empty = EmptyValue(argc, argv); empty != nullptr) {
    std::fprintf(stderr, "pulse: %s: the value is empty\n", empty);
    return command == "filter" ? 2 : 1;
  }
  CLI::App app(
      "PulseDB runs RocksDB's compactions and flushes as a pipeline on two processors: an agent "
      "fetches the inputs and persists the outputs while the host merges. RocksDB stays as it is: "
      "a program opens its database through the file system pulse://.");
  app.name("pulse");
  app.set_version_flag("--version", PULSE_VERSION);
  app.require_subcommand(1);
  app.footer("Start with `pulse doctor`; `pulse bench demo` shows the gain on this machine.");
  pulse::AddAgentCommand(app);
  pulse::AddServeCommand(app);
  pulse::AddKvCommand(app);
  pulse::AddGraphCommand(app);
  pulse::AddCompressCommands(app);
  pulse::AddFilterCommand(app);
  pulse::AddTopCommand(app);
  pulse::AddDoctorCommand(app);
  pulse::AddPoolCommand(app);
  pulse::AddBenchCommand(app);
  try {
    if (command == "compress" || command == "decompress") {
      app.parse(WordsOf(argc, argv));
    } else {
      app.parse(argc, argv);
    }
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    if (code == 0) return 0;
    // Scripts take 1 of a filter for "nothing found", as of grep, and 2 of gzip for a warning.
    if (command == "filter") return 2;
    return command == "compress" || command == "decompress" ? 1 : code;
  }
  return pulse::ExitCode();
}
