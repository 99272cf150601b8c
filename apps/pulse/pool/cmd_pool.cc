// `pulse pool`: stores of files that host and agent share without a file system between them.
#include "CLI/CLI.hpp"
#include "apps/pulse/commands.h"
#include "apps/pulse/pool/pool_commands.h"

namespace pulse {

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
  pool::AddDirectoryCommands(*pool);
  pool::AddCheckCommand(*pool);
  pool::AddConvertCommands(*pool);
}

}  // namespace pulse
