// `pulse bench`: runs pulse-bench, which is built from bench/ and lies beside this program, or in
// libexec/pulsedb of an installation.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "apps/pulse/commands.h"
#include "base/sibling_program.h"

namespace pulse {

void AddBenchCommand(CLI::App& app) {
  app.add_subcommand("bench", "Measure PulseDB against stock RocksDB, tuned, on this machine");
}

int RunBench(int argc, char** argv) {
  const std::string program = SiblingProgram("pulse-bench");
  std::vector<char*> words(argv, argv + argc);
  words.push_back(nullptr);
  execv(program.c_str(), words.data());
  std::fprintf(stderr,
               "pulse: running the benchmarks (%s) failed: %s. Build them with `cmake --build "
               "--preset release --target pulse_bench`, or install the package that has them\n",
               program.c_str(), std::strerror(errno));
  return 1;
}

}  // namespace pulse
