// `pulse pool`: stores of files that host and agent share without a file system between them.
#include <ctime>

#include "CLI/CLI.hpp"
#include "apps/pulse/commands.h"
#include "apps/pulse/pool/pool_commands.h"
#include "fmt/chrono.h"
#include "fmt/format.h"

namespace pulse {

std::string pool::FormatTime(int64_t nanos) {
  const std::time_t seconds = nanos / 1'000'000'000;
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

void AddPoolCommand(CLI::App& app) {
  CLI::App* pool = app.add_subcommand(
      "pool",
      "Make, list and check a pool, a preallocated file or block device full of files; move "
      "databases in and out");
  pool->require_subcommand(1);
  pool->footer(
      "A pool is cut into segments, and files are lists of segments, so that writing them changes "
      "no "
      "metadata of a file system. Only one process can have it open for writing.");
  pool::AddCreateCommand(*pool);
  pool::AddListCommand(*pool);
  pool::AddCheckCommand(*pool);
  pool::AddImportCommand(*pool);
  pool::AddExportCommand(*pool);
  pool::AddMoveCommand(*pool);
  pool::AddRemoveCommand(*pool);
}

}  // namespace pulse
