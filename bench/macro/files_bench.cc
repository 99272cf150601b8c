// `pulse bench files`: the file library against raw io_uring and pread on the same bytes, and with
// a further copy on the agent.
#include <signal.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "bench/macro/common_options.h"
#include "bench/macro/soak_agent.h"
#include "fmt/format.h"
#include "store/store.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kFilesSize = uint64_t{1} << 30;
constexpr uint64_t kSegment = uint64_t{1} << 20;
constexpr char kUring[] = "io_uring";
constexpr char kPread[] = "pread";
constexpr char kLibrary[] = "library";
constexpr char kInPlace[] = "library-in-place";
constexpr char kCopying[] = "library-copying";

struct FilesArgs {
  CommonArgs common;
  uint32_t depth = 32;
  double seconds = 3;
  std::string mover = "shared";
  std::string part = "all";
};

class FilesBench {
 public:
  FilesBench(Session* session, const FilesArgs& args, uint64_t bytes)
      : session_(session), args_(args), bytes_(bytes), store_(session->dir().Sub("store")) {}

  // A new store, and the file in it, written through the library.
  absl::Status Prepare() {
    PULSE_RETURN_IF_ERROR(session_->dir().Remove("store"));
    store::CreateOptions options;
    options.segment_bytes = kSegment;
    options.size = bytes_ + bytes_ / 8 + (uint64_t{32} << 20);
    options.metadata_bytes = uint64_t{8} << 20;
    const absl::Status made = store::Create(store_, options);
    if (!made.ok()) return made;
    auto agent = StartAgent(false);
    if (!agent.ok()) return agent.status();
    auto filled = session_->Step("writing the file",
                                 {{"job", "files-fill"},
                                  {"socket", (*agent)->socket()},
                                  {"io", kSegment},
                                  {"depth", 1},
                                  {"bytes", bytes_},
                                  {"seed", args_.common.seed}},
                                 session_->host_cpus(),
                                 [](const nlohmann::json&) { return std::string("written"); });
    if (!filled.ok()) return filled.status();
    // Where the data lie; the raw readers read as many bytes from there on.
    (*agent)->Signal(SIGTERM);
    (*agent)->WaitForEnd();
    store::OpenOptions open;
    open.read_only = true;
    auto store = store::Store::Open(store_, open);
    if (!store.ok()) return store.status();
    const auto id = (*store)->Lookup("bench", "data");
    if (!id.ok()) return id.status();
    std::vector<store::Extent> extents;
    PULSE_RETURN_IF_ERROR((*store)->MapRead(*id, 0, bytes_, &extents));
    begin_ = extents.front().device_offset;
    if (extents.size() != 1) return absl::InternalError("the file is in pieces on a new store");
    return absl::OkStatus();
  }

  absl::StatusOr<nlohmann::json> RunOne(const std::string& name, const std::string& label,
                                        uint64_t io, uint32_t depth) {
    const bool library = name != kUring && name != kPread;
    const double seconds = args_.common.tiny ? 0.05 : args_.seconds;
    nlohmann::json spec = {
        {"job", "files-read"},  {"how", name == kLibrary ? "library" : library ? "in-place" : name},
        {"path", store_},       {"begin", begin_},
        {"bytes", bytes_},      {"io", io},
        {"depth", depth},       {"nanos", static_cast<int64_t>(seconds * 1e9)},
        {"mover", args_.mover}, {"seed", args_.common.seed + static_cast<uint64_t>(++runs_)}};
    std::unique_ptr<SoakAgent> agent;
    if (library) {
      auto started = StartAgent(name == kCopying);
      if (!started.ok()) return started.status();
      agent = *std::move(started);
      spec["socket"] = agent->socket();
      spec["agent_pid"] = agent->pid();
    }
    return session_->Step(label, spec, session_->host_cpus(), [](const nlohmann::json& r) {
      return fmt::format("{:.0f} reads/s, host {:.1f} us each", r.value("ops_per_s", 0.0),
                         r.value("host_us", 0.0));
    });
  }

 private:
  absl::StatusOr<std::unique_ptr<SoakAgent>> StartAgent(bool copying) {
    std::vector<std::string> more = {"--store", store_};
    if (copying) more.push_back("--copy-payload");
    auto agent = std::make_unique<SoakAgent>(session_->dir().Sub("agent.sock"),
                                             session_->dir().Sub("agent.log"),
                                             session_->args().agent_cpus, std::move(more));
    PULSE_RETURN_IF_ERROR(agent->Start());
    PULSE_RETURN_IF_ERROR(agent->WaitReady());
    return agent;
  }

  Session* const session_;
  const FilesArgs& args_;
  const uint64_t bytes_;
  const std::string store_;
  uint64_t begin_ = 0;
  int runs_ = 0;
};

Opponent Named(const char* name, const char* meaning, const Session& s) {
  Opponent o;
  o.name = name;
  o.meaning = meaning;
  o.cpus = s.host_cpus();
  return o;
}

std::string FilesTable(const std::vector<Opponent>& opponents, const RunSet& runs) {
  TextTable table({"4 KiB at random (medians)", "reads/s", "host CPU us", "agent CPU us"});
  for (const Opponent& o : opponents) {
    const auto median = [&](const char* metric) { return runs.Of(o.name, metric).median; };
    table.AddRow({o.name, fmt::format("{:.0f}", median("ops_per_s")),
                  fmt::format("{:.2f}", median("host_us")),
                  fmt::format("{:.2f}", median("agent_us"))});
  }
  return table.Render();
}

absl::Status RunFilesBench(const FilesArgs& args) {
  if (!args.common.agent_socket.empty() || !args.common.uri_options.empty() ||
      !args.common.opponents.empty()) {
    return absl::InvalidArgumentError(
        "--agent, --uri, --opponents: not for this benchmark, which starts its own agents");
  }
  if (args.part != "all" && args.part != "reads" && args.part != "copies") {
    return absl::InvalidArgumentError("--part: choose all, reads or copies");
  }
  if (args.mover != "shared" && args.mover != "vmread") {
    return absl::InvalidArgumentError("--mover: choose shared or vmread");
  }
  const auto size = SizeOf(args.common, args.common.tiny ? uint64_t{8} << 20 : kFilesSize);
  if (!size.ok()) return size.status();
  const uint64_t bytes = *size / kSegment * kSegment;
  auto session = Session::Open("files", args.common, bytes * 5 / 4 + (uint64_t{64} << 20));
  if (!session.ok()) return session.status();
  Session& s = **session;
  PULSE_RETURN_IF_ERROR(s.dir().Remove("agent.log"));
  FilesBench bench(&s, args, bytes);
  const std::vector<Opponent> readers = {
      Named(kUring, "raw io_uring, registered file and buffers, O_DIRECT, at equal depth", s),
      Named(kPread, "one pread after the other, O_DIRECT", s),
      Named(kLibrary, "pulse/files.h, into the caller's buffers", s),
      Named(kInPlace, "the same, without the copy out of the response", s)};
  const std::vector<Opponent> copies = {
      Named(kInPlace, "no copy: reads land in the response", s),
      Named(kCopying, "the agent reads into a buffer of its own and copies", s)};
  std::vector<uint64_t> sizes = {4096, 16384, 65536, 262144, 1048576};
  if (args.common.tiny) sizes = {4096, 262144};
  s.Say(Legend(s, readers));
  s.Say(fmt::format("  {}  {}\n", kCopying, copies[1].meaning));
  if (args.part == "reads") sizes.clear();
  const bool reads = args.part != "copies";
  s.ExpectSteps(1 + ((reads ? 4 : 0) + 2 * static_cast<int>(sizes.size())) * s.rounds());
  PULSE_RETURN_IF_ERROR(bench.Prepare());
  nlohmann::json raw = nlohmann::json::array();
  std::string text = "\n";
  std::vector<RatioRow> rows;
  if (reads) {
    const auto runs = s.RunRounds(
        readers, "4 KiB",
        [&](const Opponent& o, const std::string& label, bool) {
          return bench.RunOne(o.name, label, 4096, args.depth);
        },
        &raw);
    if (!runs.ok()) return runs.status();
    std::optional<Target> throughput, cpu;
    if (!args.common.tiny) {
      throughput = Target{Target::Kind::kAtLeast, 0.95};
      cpu = Target{Target::Kind::kAtMost, 0.5};
    }
    rows = {
        {"reads/s, library / io_uring", runs->Ratio(kLibrary, kUring, "ops_per_s"), throughput},
        {"reads/s, in place / io_uring", runs->Ratio(kInPlace, kUring, "ops_per_s"), {}},
        {"host CPU per read, library / pread", runs->Ratio(kLibrary, kPread, "host_us"), cpu},
        {"host CPU per read, in place / pread", runs->Ratio(kInPlace, kPread, "host_us"), {}},
        {"host CPU per read, library / io_uring", runs->Ratio(kLibrary, kUring, "host_us"), {}}};
    text += FilesTable(readers, *runs) + "\n";
    s.report()["opponents"] =
        SpreadsJson(*runs, readers, {"ops_per_s", "mib_per_s", "host_us", "agent_us"});
  }
  TextTable table(
      {"bytes a read (medians)", "no copy MiB/s", "copying MiB/s", "agent CPU us", "copying"});
  for (const uint64_t io : sizes) {
    // As many bytes outstanding as the rings hold well.
    const auto depth =
        static_cast<uint32_t>(std::clamp<uint64_t>((uint64_t{4} << 20) / io, 4, args.depth));
    const auto at = s.RunRounds(
        copies, fmt::format("{} KiB", io >> 10),
        [&](const Opponent& o, const std::string& label, bool) {
          return bench.RunOne(o.name, label, io, depth);
        },
        &raw);
    if (!at.ok()) return at.status();
    const auto median = [&](const char* name, const char* metric) {
      return at->Of(name, metric).median;
    };
    table.AddRow({fmt::format("{} KiB, depth {}", io >> 10, depth),
                  fmt::format("{:.0f}", median(kInPlace, "mib_per_s")),
                  fmt::format("{:.0f}", median(kCopying, "mib_per_s")),
                  fmt::format("{:.1f}", median(kInPlace, "agent_us")),
                  fmt::format("{:.1f}", median(kCopying, "agent_us"))});
    rows.push_back({fmt::format("throughput, no copy / copying, {} KiB", io >> 10),
                    at->Ratio(kInPlace, kCopying, "ops_per_s"),
                    {}});
    rows.push_back({fmt::format("agent CPU, copying / no copy, {} KiB", io >> 10),
                    at->Ratio(kCopying, kInPlace, "agent_us"),
                    {}});
  }
  if (!sizes.empty()) text += table.Render() + "\n";
  s.Say(text + RenderRatios(rows));
  s.report()["settings"]["depth"] = args.depth;
  s.report()["settings"]["bytes"] = bytes;
  s.report()["settings"]["mover"] = args.mover;
  s.report()["ratios"] = ToJson(rows);
  s.report()["runs"] = std::move(raw);
  if (!args.common.keep) PULSE_RETURN_IF_ERROR(s.dir().Remove("store"));
  return s.WriteReport();
}

}  // namespace

void AddFilesBench(CLI::App& bench) {
  auto args = std::make_shared<FilesArgs>();
  CLI::App* cmd = bench.add_subcommand(
      "files", "Random reads through the file library, against io_uring, pread and a copy more");
  AddCommonOptions(cmd, &args->common);
  cmd->add_option("--size", args->common.size, "Of the file that is read; powers of 1024 [1G]");
  cmd->add_option("--depth", args->depth, "Reads outstanding at a time")
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  cmd->add_option("--seconds", args->seconds, "Length of a run")
      ->check(CLI::Range(0.1, 600.0))
      ->capture_default_str();
  cmd->add_option("--mover", args->mover, "How the library and the agent share data")
      ->capture_default_str();
  cmd->add_option("--part", args->part,
                  "reads: against io_uring and pread; copies: against an agent that copies; or all")
      ->capture_default_str();
  cmd->add_option("--host-cpus", args->common.host_cpus,
                  "CPUs of the readers [the first that may be used]");
  cmd->add_option("--agent-cpus", args->common.agent_cpus, "CPUs of the agents [the second]");
  cmd->footer(
      "All read the same bytes of the same store. The raw readers have the host's CPU only, the "
      "library has the agent's besides.");
  cmd->callback([args] { Finish(RunFilesBench(*args)); });
}

}  // namespace pulse::bench
