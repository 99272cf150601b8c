// `pulse graph backup`: a copy of a database beside the process that writes to it.
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string>

#include "apps/pulse/commands.h"
#include "apps/pulse/graph/cmd_load.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/progress.h"
#include "base/errors.h"
#include "services/graph/backup/backup.h"

namespace pulse {
namespace {

struct BackupArgs {
  std::string db, to;
  bool link = false;
};

absl::Status RunBackup(const BackupArgs& args) {
  Progress progress(0);
  graph::BackupOptions options;
  options.link = args.link;
  options.progress = [&progress](uint64_t done, uint64_t total) {
    progress.Bytes("copying", done, total);
  };
  options.check = [](const std::string& directory) { return CheckGraph(directory, true); };
  PULSE_ASSIGN_OR_RETURN(const auto report, graph::BackUpGraph(args.db, args.to, options));
  std::printf("%" PRIu64 " files, %s: %s copied, %s from the earlier backup, %s linked; sound\n",
              report.files, FormatBytes(report.bytes).c_str(),
              FormatBytes(report.bytes_copied).c_str(), FormatBytes(report.bytes_kept).c_str(),
              FormatBytes(report.bytes_linked).c_str());
  return absl::OkStatus();
}

}  // namespace

void AddGraphBackupCommand(CLI::App* graph) {
  auto args = std::make_shared<BackupArgs>();
  CLI::App* cmd = graph->add_subcommand(
      "backup",
      "Copy a database, also beside a process that writes to it; the copy is checked, and is a\n"
      "database. To an earlier backup, only what is new is copied.\n"
      "  pulse graph backup my-graph my-backup");
  cmd->add_option("DB", args->db, "directory of the database")->required();
  cmd->add_option("DEST", args->to, "new directory, or an earlier backup")->required();
  cmd->add_flag(
      "--link", args->link,
      "hard links to the database's runs where they are on one file system: no space, but\n"
      "a damage of the device is one of both");
  cmd->callback([args] { Finish(RunBackup(*args)); });
}

}  // namespace pulse
