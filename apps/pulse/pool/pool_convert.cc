// `pulse pool import` and `pulse pool export`.
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/pool/pool_commands.h"
#include "apps/pulse/pool/pool_verify.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/progress.h"
#include "base/errors.h"
#include "fmt/format.h"
#include "services/lsm/pool/convert/convert.h"

namespace pulse::pool {
namespace {

struct ConvertArgs {
  std::string path;
  std::string database;
  std::vector<std::string> db_paths;
  bool dry_run = false;
  bool verify = false;
  bool unchecked = false;
};

struct Direction {
  const char* command;
  absl::StatusOr<convert::Report> (*run)(const convert::Options&);
  bool into_pool;
};

constexpr Direction kImport{"import", &convert::Import, true};
constexpr Direction kExport{"export", &convert::Export, false};

std::string Where(const Direction& direction, const convert::Report& r) {
  return direction.into_pool ? absl::StrCat("in the pool ", r.pool) : "plain files";
}

std::string Files(uint64_t n) { return fmt::format("{} file{}", n, n == 1 ? "" : "s"); }

void PrintPlan(const Direction& direction, const convert::Report& r) {
  fmt::print("{}: {} of {} in all", r.database, Files(r.files), FormatBytes(r.bytes));
  if (r.copied_files < r.files) {
    fmt::print(", of which {} have been copied before", r.files - r.copied_files);
  }
  fmt::print("\n");
  if (r.copied_files > 0) {
    fmt::print("  would copy {} of {}, which need {}; {} are free\n", Files(r.copied_files),
               FormatBytes(r.copied_bytes), FormatBytes(r.needed), FormatBytes(r.room));
  }
  if (!r.switched_before) {
    fmt::print("  would then switch {} to {}\n", r.database, Where(direction, r));
  }
  fmt::print("  would then delete what has been copied {}\n",
             direction.into_pool ? "from the directory" : "from the pool");
}

void PrintResult(const Direction& direction, const convert::Report& r, double seconds) {
  fmt::print("{}: {} of {} are {} now", r.database, Files(r.files), FormatBytes(r.bytes),
             Where(direction, r));
  fmt::print(" ({} copied", FormatBytes(r.copied_bytes));
  if (seconds >= 1) {
    fmt::print(" in {:.0f} s, {}/s", seconds,
               FormatBytes(static_cast<uint64_t>(static_cast<double>(r.copied_bytes) / seconds)));
  }
  if (direction.into_pool) {
    fmt::print("); open it with pulse://?layout=pool&pool={}\n", r.pool);
  } else {
    fmt::print("); any RocksDB opens it\n");
  }
}

absl::Status Stopped(const Direction& direction, bool switched) {
  return absl::CancelledError(
      absl::StrCat("stopped; the database opens ",
                   switched == direction.into_pool ? "with its pool" : "without a pool",
                   ", and nothing is lost: run the same command again to go on"));
}

absl::Status RunConvert(const Direction& direction, const ConvertArgs& args) {
  CatchSignals();  // a process that is ended is safe, too
  convert::Options options;
  options.pool = args.path;
  options.database = args.database;
  options.db_paths = args.db_paths;
  options.dry_run = args.dry_run;
  options.unchecked = args.unchecked;
  Progress progress(1);
  options.on_step = [&](const convert::Progress& p) {
    if (StopAsked()) return Stopped(direction, p.switched);
    progress.Bytes(p.what, p.done, p.total);
    return absl::OkStatus();
  };
  if (args.verify) {
    options.verify = [&](const convert::Report& r) {
      return VerifyDatabase(r.database, args.db_paths, direction.into_pool ? r.pool : "");
    };
  }
  PULSE_ASSIGN_OR_RETURN(const auto report, direction.run(options));
  const convert::Report& r = report;
  if (r.already) {
    fmt::print("{}: its tables are {} already; there is nothing to do\n", r.database,
               Where(direction, r));
  } else if (args.dry_run) {
    PrintPlan(direction, r);
  } else {
    PrintResult(direction, r, progress.Elapsed());
  }
  if (r.foreign_files > 0) {
    fmt::print(
        "the pool has {} under that name which the database does not use, and they were left "
        "there; `pulse pool ls {} {}` lists them, `pulse pool rm` deletes them\n",
        Files(r.foreign_files), r.pool, r.database);
  }
  return absl::OkStatus();
}

absl::Status RunExport(const ConvertArgs& args, bool has_database) {
  if (has_database) {
    if (!args.database.empty()) return RunConvert(kExport, args);
    return absl::InvalidArgumentError("DB is empty; name the directory of the database");
  }
  if (!args.db_paths.empty() || args.dry_run || args.verify || args.unchecked) {
    return absl::InvalidArgumentError(
        "these options go with DB; name the directory of the database after the pool");
  }
  return ListDatabases(args.path);
}

void AddOptions(CLI::App* cmd, ConvertArgs* args) {
  cmd->add_option("--db-path", args->db_paths,
                  "Another directory in which the database has tables (its db_paths and cf_paths); "
                  "once for each. Only files that the MANIFEST names are moved there. For "
                  "--verify: all of db_paths, in their order")
      ->type_name("DIR")
      ->allow_extra_args(false);
  cmd->add_flag("--dry-run", args->dry_run,
                "Check everything, say what would be done, and change nothing");
  cmd->add_flag("--verify", args->verify,
                "Before the originals are deleted, open the database read-only in its new layout "
                "and check the checksums of all its tables. Not with a comparator of your own");
  cmd->add_flag("--unchecked", args->unchecked,
                "Go on though the MANIFEST is not understood, such as a newer RocksDB's, so that "
                "nobody can say whether all tables are there. Not with --db-path");
}

constexpr char kSafety[] =
    "The database must be closed, and no other process may have the pool open. Read-only and "
    "secondary instances take no lock, and are not noticed: close them, too. The originals are "
    "deleted at the end, so both places need the room. Every byte is read back and compared "
    "first.\n"
    "Stopped or killed at any point, also by a power cut, the database opens in one of the two "
    "layouts, and the same command goes on where it was; what was copied is compared, not copied "
    "again.\n"
    "Exit status: 0 done, or nothing to do; 1 an error; 130 stopped by SIGINT or SIGTERM.";

}  // namespace

void AddConvertCommands(CLI::App& pool) {
  auto args = std::make_shared<ConvertArgs>();
  CLI::App* cmd = pool.add_subcommand(
      "import", "Move the tables and blob files of a RocksDB database into a pool");
  cmd->add_option("PATH", args->path, "The pool")->required();
  cmd->add_option("DB", args->database, "The directory of the database")->required();
  AddOptions(cmd, args.get());
  cmd->footer(absl::StrCat(
      "Afterwards the database opens with pulse://?layout=pool&pool=PATH, and not without.\n",
      kSafety,
      "\nIts write-ahead log and everything else stay where they are. To give up an import that "
      "was stopped, run `pulse pool export PATH DB`.\n"
      "Example: pulse pool import /data/pool /data/db"));
  cmd->callback([args] { FinishStoppable(RunConvert(kImport, *args)); });

  cmd = pool.add_subcommand(
      "export", "Move the tables and blob files of a database out of a pool, or list databases");
  cmd->add_option("PATH", args->path, "The pool")->required();
  CLI::Option* const database = cmd->add_option(
      "DB", args->database,
      "The directory of the database. Without it, the databases in the pool are listed");
  AddOptions(cmd, args.get());
  cmd->footer(absl::StrCat("Afterwards the database is plain files, and any RocksDB opens it.\n",
                           kSafety, "\nExample: pulse pool export /data/pool /data/db"));
  cmd->callback([args, database] { FinishStoppable(RunExport(*args, database->count() > 0)); });
}

}  // namespace pulse::pool
