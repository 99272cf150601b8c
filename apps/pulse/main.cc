// pulse: the command line of PulseDB. Every sub-command lives in a file of its own.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/util/command_words.h"
#include "apps/pulse/util/uncaught.h"
#include "base/log.h"

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
  const std::string_view command = argc > 1 ? argv[1] : "";
  const bool files = command == "compress" || command == "decompress";
  std::vector<std::string> words;
  for (int i = argc - 1; i > 0; --i) {
    std::string_view word = argv[i];
    // Of --regexp= CLI11 would take the next word for the rule.
    const std::string_view before = argv[i - 1];
    if (command == "filter" && word == "--regexp=" && before != "-e" && before != "--regexp" &&
        std::find(argv, argv + i, std::string_view("--")) == argv + i) {
      words.emplace_back();
      word.remove_suffix(1);
    }
    // CLI11 would take a file named [a,b] for the files a and b.
    const bool list = files && word.starts_with('[') && word.ends_with(']');
    words.push_back((list ? "./" : "") + std::string(word));
  }
  return words;
}

// What has an empty value, as of a variable of a script that is not set: CLI11 would take the next
// word for that of --name=, and commands an empty word for one that is not given. A rule of a
// filter may be empty, and so may what `pulse graph` is told of files.
const char* EmptyValue(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    if (word == "--regexp=") continue;
    if (word == "--regexp" || word == "-e") {
      ++i;  // a rule, which may look like an option
      continue;
    }
    const bool is_short = word.size() == 2 && word[0] == '-';
    if (!word.starts_with("--") && !is_short) continue;
    if (!is_short && word.find('=') == word.size() - 1) return argv[i];
    const bool empty_next = i + 1 < argc && *argv[i + 1] == '\0';
    if (empty_next && command != "graph") return argv[i];
  }
  return nullptr;
}

void PrintError(absl::string_view text) {
  pulse::Say(absl::StrCat("pulse: ", text), pulse::LogLevel::kError);
}

int Run(int argc, char** argv, pulse::ErrorCodes codes) {
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "blocks" || command == "pages") {
    PrintError(absl::StrCat("`pulse ", command, "` is a program of its own now: pulse-", command));
    return codes.usage;
  }
  if (const char* empty = EmptyValue(argc, argv); empty != nullptr) {
    PrintError(absl::StrCat(empty, ": the value is empty; leave the option out, or give it one"));
    return codes.usage;
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
  if (const std::string wrong = pulse::CommandError(app, argc, argv); !wrong.empty()) {
    pulse::Say(wrong, pulse::LogLevel::kError);
    return codes.usage;
  }
  try {
    app.parse(WordsOf(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    std::string path = app.get_name();
    for (const CLI::App* at = &app; !at->get_subcommands().empty();) {
      at = at->get_subcommands().front();
      absl::StrAppend(&path, " ", at->get_name());
    }
    const std::vector<std::string> extra = app.remaining(/*recurse=*/true);
    const bool unexpected = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    PrintError(absl::StrCat(unexpected ? "there is no place for: " + absl::StrJoin(extra, " ")
                                       : std::string(error.what()),
                            "; see ", path, " --help"));
    return codes.usage;
  }
  return pulse::ExitCode();
}

}  // namespace

int main(int argc, char** argv) {
  FillStandardDescriptors();
  if (argc > 1 && std::string_view(argv[1]) == "bench") return pulse::RunBench(argc - 1, argv + 1);
  const pulse::ErrorCodes codes = pulse::ErrorCodesOf(argc > 1 ? argv[1] : "");
  pulse::ReportUncaught(codes.other);
  // The log names values of its variables that have no meaning as it begins, not later or never.
  pulse::Log(pulse::LogLevel::kDebug, "pulse begins");
  return pulse::FinishOutput(Run(argc, argv, codes), codes.other);
}
