// `pulse pool`: stores of files that host and agent share without a file system between them.
#include <csignal>

#include "CLI/CLI.hpp"
#include "apps/pulse/commands.h"
#include "apps/pulse/pool/pool_commands.h"

namespace pulse {
namespace pool {
namespace {

constexpr int kStopped = 130;

volatile std::sig_atomic_t stop_asked = 0;

}  // namespace

void CatchSignals() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_asked = 1; };
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool StopAsked() { return stop_asked != 0; }

void FinishStoppable(const absl::Status& status) {
  Finish(status);
  if (absl::IsCancelled(status)) SetExitCode(kStopped);
}

}  // namespace pool

void AddPoolCommand(CLI::App& app) {
  CLI::App* pool = app.add_subcommand(
      "pool",
      "Make, list and check a pool, a preallocated file or block device full of files; move "
      "databases in and out");
  pool->require_subcommand(1);
  // A write beyond a limit of files is an error.
  pool->preparse_callback([](size_t) { std::signal(SIGXFSZ, SIG_IGN); });
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
