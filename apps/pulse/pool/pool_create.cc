// `pulse pool create`.
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/pool/pool_commands.h"
#include "apps/pulse/util/disk.h"
#include "apps/pulse/util/option_values.h"
#include "apps/pulse/util/progress.h"
#include "base/errors.h"
#include "fmt/format.h"
#include "services/lsm/pool/pool.h"
#include "store/store.h"

namespace pulse::pool {
namespace {

struct CreateArgs {
  std::string path;
  std::string size;
  std::string segment = "64M";
  std::string metadata;
  bool no_prefill = false;
  bool force = false;
};

// One step of the progress display is this part of the whole.
constexpr int kSteps = 10;

absl::Status RunCreate(const CreateArgs& args) {
  store::CreateOptions options;
  const auto read_size = [](const char* option, const std::string& text, uint64_t* bytes) {
    return text.empty() ? absl::OkStatus() : ReadSize(option, text, "4G", bytes);
  };
  PULSE_RETURN_IF_ERROR(read_size("--size", args.size, &options.size));
  PULSE_RETURN_IF_ERROR(read_size("--segment", args.segment, &options.segment_bytes));
  PULSE_RETURN_IF_ERROR(read_size("--metadata", args.metadata, &options.metadata_bytes));
  std::error_code ec;
  const bool existed = std::filesystem::exists(args.path, ec);
  if (args.size.empty() && !existed) {
    throw CLI::RequiredError("--size of a new file");
  }
  const auto path = std::filesystem::weakly_canonical(args.path, ec);
  PULSE_RETURN_IF_ERROR(lsm::CheckPoolPath(ec ? args.path : path.string()));
  options.prefill = !args.no_prefill;
  options.force = args.force;
  Progress progress(kSteps);
  int step = -1;
  CatchSignals();
  options.progress = [&](uint64_t done, uint64_t total) -> absl::Status {
    if (StopAsked()) return absl::CancelledError("stopped");
    const int now =
        static_cast<int>(static_cast<double>(done) / static_cast<double>(total) * kSteps);
    if (step < 0) {
      step = 0;
      progress.Begin("writing zeros");
    }
    for (; step < now && step < kSteps; ++step) {
      progress.End(fmt::format("{} of {}", FormatBytes(done), FormatBytes(total)));
      if (step + 1 < kSteps) progress.Begin("writing zeros");
    }
    progress.Tick();
    return absl::OkStatus();
  };
  const absl::Status created = store::Create(args.path, options);
  if (!created.ok() && StopAsked()) {  // it may also have broken off a call
    return absl::CancelledError(existed
                                    ? absl::StrCat("stopped; what ", args.path, " had may be lost")
                                    : absl::StrCat("stopped; nothing is left of ", args.path));
  }
  PULSE_RETURN_IF_ERROR(created);
  PULSE_ASSIGN_OR_RETURN(const auto opened,
                         store::Store::Open(args.path, {.read_only = true, .device = nullptr}));
  const store::Geometry& g = opened->geometry();
  fmt::print("{}: {} for files, in {} segments of {}; {} for metadata\n", args.path,
             FormatBytes((g.segments - g.metadata_segments) * g.segment_bytes),
             g.segments - g.metadata_segments, FormatBytes(g.segment_bytes),
             FormatBytes(g.metadata_segments * g.segment_bytes));
  return absl::OkStatus();
}

}  // namespace

void AddCreateCommand(CLI::App& pool) {
  auto args = std::make_shared<CreateArgs>();
  CLI::App* cmd = pool.add_subcommand("create", "Make a pool in a new file or on a block device");
  cmd->add_option("PATH", args->path, "The file or block device")->required()->check(NotEmpty);
  cmd->add_option("--size", args->size,
                  "Its size, such as 20G; of a block device, all of it if not given")
      ->type_name("SIZE");
  cmd->add_option("--segment", args->segment,
                  "The unit in which files take space, a power of two from 4K to 1G. The size of "
                  "RocksDB's tables, or a bit more, suits layout=pool; less suits small files")
      ->type_name("SIZE")
      ->capture_default_str();
  cmd->add_option(
         "--metadata", args->metadata,
         "Space for names and lists of segments. The default suits one file per segment; a "
         "file takes about 100 bytes, twice")
      ->type_name("SIZE");
  cmd->add_flag(
      "--no-prefill", args->no_prefill,
      "Do not write zeros to all of it. Quicker now, slower later: the first write to each "
      "block then changes metadata of the file system");
  cmd->add_flag("--force", args->force, "Replace what is there, and lose it");
  cmd->footer(
      "Stopped by SIGINT or SIGTERM, it leaves nothing of a new file, and ends with status 130.\n"
      "Example: pulse pool create /data/pool --size 20G\n"
      "RocksDB then uses it by fs_uri=pulse://?layout=pool&pool=/data/pool");
  cmd->callback([args] { FinishStoppable(RunCreate(*args)); });
}

}  // namespace pulse::pool
