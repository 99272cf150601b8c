// `pulse pool ls`, `pulse pool mv`, `pulse pool rm`.
#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/pool/pool_commands.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "fmt/chrono.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "services/lsm/pool/convert/convert.h"
#include "services/lsm/pool/pool.h"
#include "services/lsm/pool/pool_former.h"
#include "services/lsm/pool/pool_guard.h"
#include "store/store.h"

namespace pulse::pool {
namespace {

struct DirectoryArgs {
  std::string path;
  std::string directory;
  std::string to;  // of mv
  bool json = false;
};

// "2026-01-31 12:00:00", local time.
std::string FormatTime(int64_t nanos_since_1970) {
  const std::time_t seconds = nanos_since_1970 / 1'000'000'000;
  std::tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}", local);
}

absl::StatusOr<std::shared_ptr<store::Store>> OpenToRead(const std::string& path) {
  return store::Store::Open(path, {.read_only = true, .device = nullptr});
}

// What a directory holds, in all.
struct Sums {
  uint64_t files = 0;
  uint64_t size = 0;
  uint64_t allocated = 0;
};

// Calls `row(name, sums)` for each directory, by name.
template <typename Row>
absl::Status ForDirectories(const store::Store& pool, Row row) {
  std::vector<std::string> names = pool.ListDirectories();
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    PULSE_ASSIGN_OR_RETURN(const auto entries, pool.List(name));
    Sums sums{.files = entries.size()};
    for (const auto& e : entries) {
      sums.size += e.attributes.size;
      sums.allocated += e.attributes.allocated;
    }
    row(name, sums);
  }
  return absl::OkStatus();
}

void PrintListJson(const nlohmann::json& json) {
  // A name may hold bytes that are no UTF-8: show them as replacement characters.
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

// Control characters would confuse a terminal.
std::string Printable(const std::string& name) {
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  return text;
}

absl::Status ListPool(const store::Store& pool, bool as_json) {
  TextTable table({"directory", "files", "size", "allocated"});
  nlohmann::json list = nlohmann::json::array();
  PULSE_RETURN_IF_ERROR(ForDirectories(pool, [&](const std::string& name, const Sums& sums) {
    table.AddRow({Printable(name), std::to_string(sums.files), FormatBytes(sums.size),
                  FormatBytes(sums.allocated)});
    list.push_back({{"directory", name},
                    {"files", sums.files},
                    {"size", sums.size},
                    {"allocated", sums.allocated}});
  }));
  const store::Geometry& g = pool.geometry();
  const store::Usage usage = pool.usage();
  if (as_json) {
    PrintListJson({{"pool", pool.path()},
                   {"segment_bytes", g.segment_bytes},
                   {"segments", usage.segments},
                   {"free_segments", usage.free},
                   {"files", usage.files},
                   {"metadata_bytes", usage.metadata_bytes},
                   {"metadata_capacity", usage.metadata_capacity},
                   {"created_ns", g.created_ns},
                   {"directories", list}});
    return absl::OkStatus();
  }
  fmt::print("{}: {} of {} free, segments of {}, {} files, made {}\n", pool.path(),
             FormatBytes(usage.free * g.segment_bytes),
             FormatBytes(usage.segments * g.segment_bytes), FormatBytes(g.segment_bytes),
             usage.files, FormatTime(g.created_ns));
  if (!list.empty()) fmt::print("{}", table.Render());
  return absl::OkStatus();
}

absl::Status ListDirectory(const store::Store& pool, const std::string& directory, bool as_json) {
  auto entries = pool.List(directory);
  if (absl::IsNotFound(entries.status())) {
    return absl::NotFoundError(absl::StrCat(pool.path(), " has no directory ", directory,
                                            "; `pulse pool ls ", pool.path(), "` lists them"));
  }
  if (!entries.ok()) return entries.status();
  std::sort(entries->begin(), entries->end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  if (as_json) {
    nlohmann::json list = nlohmann::json::array();
    for (const auto& e : *entries) {
      list.push_back({{"name", e.name},
                      {"id", e.attributes.id},
                      {"size", e.attributes.size},
                      {"valid", e.attributes.valid},
                      {"allocated", e.attributes.allocated},
                      {"links", e.attributes.links},
                      {"modified_ns", e.attributes.modified_ns}});
    }
    PrintListJson({{"pool", pool.path()}, {"directory", directory}, {"files", list}});
    return absl::OkStatus();
  }
  TextTable table({"file", "size", "allocated", "names", "modified"});
  for (const auto& e : *entries) {
    table.AddRow({Printable(e.name), std::to_string(e.attributes.size),
                  FormatBytes(e.attributes.allocated), std::to_string(e.attributes.links),
                  FormatTime(e.attributes.modified_ns)});
  }
  fmt::print("{}", table.Render(0));
  return absl::OkStatus();
}

absl::Status RunList(const DirectoryArgs& args) {
  PULSE_ASSIGN_OR_RETURN(const auto pool, OpenToRead(args.path));
  return args.directory.empty() ? ListPool(*pool, args.json)
                                : ListDirectory(*pool, args.directory, args.json);
}

// Whether the directory is a database whose guard names this pool.
std::string KindOf(const std::string& directory, const lsm::GuardInfo& pool) {
  if (absl::StrContains(directory, lsm::kFormer)) return "left by a former database";
  if (absl::EndsWith(directory, convert::kMoving)) return "import or export that was stopped";
  const auto guard = lsm::ReadGuard(directory);
  if (absl::IsNotFound(guard.status())) return "-";
  if (!guard.ok()) return "cannot be read";
  return guard->pool_id == pool.pool_id ? "database" : "database, in another pool";
}

absl::Status WithHint(const absl::Status& st, const std::string& path) {
  if (!absl::IsNotFound(st)) return st;
  return absl::NotFoundError(absl::StrCat(st.message(), "; `pulse pool ls ", path, "` lists them"));
}

absl::Status RunMove(const DirectoryArgs& args) {
  PULSE_ASSIGN_OR_RETURN(const auto pool, store::Store::Open(args.path));
  PULSE_RETURN_IF_ERROR(WithHint(pool->RenameDirectory(args.directory, args.to), args.path));
  return pool->Commit();
}

absl::Status RunRemove(const DirectoryArgs& args) {
  PULSE_ASSIGN_OR_RETURN(const auto pool, store::Store::Open(args.path));
  const auto files = pool->List(args.directory);
  PULSE_RETURN_IF_ERROR(WithHint(files.status(), args.path));
  PULSE_RETURN_IF_ERROR(pool->ClearDirectory(args.directory));
  PULSE_RETURN_IF_ERROR(pool->RemoveDirectory(args.directory));
  PULSE_RETURN_IF_ERROR(pool->Commit());
  fmt::print("{}: {} files of {} deleted\n", args.path, files->size(), Printable(args.directory));
  return absl::OkStatus();
}

}  // namespace

absl::Status ListDatabases(const std::string& path) {
  PULSE_ASSIGN_OR_RETURN(const auto pool, OpenToRead(path));
  const lsm::GuardInfo info = lsm::GuardInfoOf(*pool);
  TextTable table({"directory", "files", "size", "what it is"});
  table.AlignLeft(3);
  bool any = false;
  PULSE_RETURN_IF_ERROR(ForDirectories(*pool, [&](const std::string& name, const Sums& sums) {
    any = true;
    table.AddRow(
        {Printable(name), std::to_string(sums.files), FormatBytes(sums.size), KindOf(name, info)});
  }));
  fmt::print("{}", any ? table.Render(0) : absl::StrCat(path, " has no tables\n"));
  return absl::OkStatus();
}

void AddDirectoryCommands(CLI::App& pool) {
  auto args = std::make_shared<DirectoryArgs>();
  CLI::App* cmd = pool.add_subcommand("ls", "List a pool's directories, or the files of one");
  cmd->add_option("PATH", args->path, "The pool")->required();
  cmd->add_option("DIR", args->directory,
                  "A directory of it. RocksDB's are called by the path of the database");
  cmd->add_flag("--json", args->json, "Print it as JSON");
  cmd->footer("The pool must not be in use by another process.");
  cmd->callback([args] { Finish(RunList(*args)); });

  cmd = pool.add_subcommand("mv",
                            "Give a directory another name, such as after its database was moved");
  cmd->add_option("PATH", args->path, "The pool")->required();
  cmd->add_option("OLDDIR", args->directory, "The directory")->required();
  cmd->add_option("NEWDIR", args->to, "Its new name; a directory of that name must be empty")
      ->required();
  cmd->footer("Example: mv /data/db /archive/db && pulse pool mv /data/pool /data/db /archive/db");
  cmd->callback([args] { Finish(RunMove(*args)); });

  cmd = pool.add_subcommand(
      "rm", "Delete a directory and all its files, such as what a former database has left");
  cmd->add_option("PATH", args->path, "The pool")->required();
  cmd->add_option("DIR", args->directory, "The directory, as `pulse pool ls` shows it")->required();
  cmd->footer(
      "A database whose directory was deleted without the plug-in leaves DIR#former-N here.");
  cmd->callback([args] { Finish(RunRemove(*args)); });
}

}  // namespace pulse::pool
