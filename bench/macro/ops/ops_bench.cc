// `pulse bench ops`: the co-processing paper's figures again, and `auto` against fixed splits.
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/option_values.h"
#include "apps/pulse/util/text_table.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/macro/bench_data.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/ops/ops_parts.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

absl::Status Prepare(const BenchArgs& args, OpsBench* bench) {
  uint64_t most = 0;
  PULSE_RETURN_IF_ERROR(ReadSize("--file-size", args.Get<std::string>("file_size"), "16M", &most));
  PULSE_RETURN_IF_ERROR(ReadSize("--chunk", args.Get<std::string>("chunk"), "1M", &bench->chunk));
  // What an engine of ISA-L takes, and a card's smallest buffer.
  if (most < 4096 || bench->chunk < 4096 || bench->chunk > (uint64_t{2} << 20)) {
    return absl::InvalidArgumentError(
        "--file-size is 4K and more, --chunk 4K to 2M, which all engines take");
  }
  const auto seed = args.common.seed;
  PULSE_ASSIGN_OR_RETURN(bench->files, LoadCorpus(args.Get<std::string>("corpus"), most, seed));
  bench->accidents = {"accidents", MakeAccidents(most, seed)};
  for (const std::string& name : args.Get<std::vector<std::string>>("profiles")) {
    if (name == "none") continue;
    PULSE_ASSIGN_OR_RETURN(auto card, vdpu::LoadProfile(name));
    bench->cards.push_back(std::move(card));
  }
  const std::vector<int> mine = MyCpus();
  bench->host_cpus = {mine.empty() ? 0 : mine[0]};
  bench->agent_cpus = {mine.size() > 1 ? mine[1] : bench->host_cpus[0]};
  if (!args.common.host_cpus.empty()) {
    PULSE_ASSIGN_OR_RETURN(bench->host_cpus, ParseCpuList(args.common.host_cpus));
  }
  if (!args.common.agent_cpus.empty()) {
    PULSE_ASSIGN_OR_RETURN(bench->agent_cpus, ParseCpuList(args.common.agent_cpus));
  }
  bench->step = static_cast<int>(args.Get<uint64_t>("step"));
  if (100 % bench->step != 0) {
    return absl::InvalidArgumentError("--step: 100 has to be a multiple of it");
  }
  bench->pairs = args.common.pairs > 0 ? args.common.pairs : args.common.tiny ? 1 : 5;
  bench->seed = seed;
  bench->tiny = args.common.tiny;
  return absl::OkStatus();
}

// What the paper's text states, beside what was found here.
void ShowPaper(OpsBench* bench) {
  TextTable table({"figure", "the paper", "says", "here", "what that is"});
  table.AlignLeft(1);
  table.AlignLeft(4);
  nlohmann::json rows = nlohmann::json::array();
  for (const nlohmann::json& row : DataOf("ops").at("paper")) {
    const auto found = bench->here.find(row.value("here", ""));
    nlohmann::json shown = row;
    std::string here;
    if (found != bench->here.end()) {
      shown["value"] = found->second;
      here = fmt::format("{:.1f}", found->second);
    }
    table.AddRow({row.at("figure").get<std::string>(), row.at("what").get<std::string>(),
                  row.at("says").get<std::string>(), here, row.value("here", "")});
    rows.push_back(std::move(shown));
  }
  fmt::print(
      "\nThe paper's figures, on its cards and hosts, and what stands for them here (MiB/s\n"
      "unless it says otherwise)\n{}",
      table.Render());
  bench->report["paper"] = std::move(rows);
}

}  // namespace

absl::Status RunOpsBench(BenchArgs args) {
  OpsBench bench;
  PULSE_RETURN_IF_ERROR(Prepare(args, &bench));
  const auto part = args.Get<std::string>("part");
  uint64_t bytes = 0;
  for (const CorpusFile& file : bench.files) bytes += file.data.size();
  fmt::print("Operators on {} files, {:.1f} MiB; host on CPU {}, agent on CPU {}\n",
             bench.files.size(), static_cast<double>(bytes) / kMiB, FormatCpuList(bench.host_cpus),
             FormatCpuList(bench.agent_cpus));
  for (const vdpu::Profile& card : bench.cards) {
    fmt::print(
        "Replayed: {}. No card is here: results were computed before, and are handed out at\n"
        "the price of its profile.\n",
        vdpu::Describe(card));
  }
  const std::pair<const char*, absl::Status (*)(OpsBench*)> parts[] = {
      {"cards", RunCardsPart},     {"codecs", RunCodecsPart},  {"tasks", RunTasksPart},
      {"regex", RunRegexPart},     {"dma", RunDmaPart},        {"routing", RunRoutingPart},
      {"offload", RunOffloadPart}, {"changes", RunChangesPart}};
  for (const auto& [name, run] : parts) {
    if (part == "all" || part == name) PULSE_RETURN_IF_ERROR(run(&bench));
  }
  ShowPaper(&bench);
  bench.report["benchmark"] = "ops";
  bench.report["settings"] = {{"corpus", args.Get<std::string>("corpus")},
                              {"files", bench.files.size()},
                              {"bytes", bytes},
                              {"chunk", bench.chunk},
                              {"pairs", bench.pairs},
                              {"tiny", bench.tiny},
                              {"seed", args.common.seed},
                              {"host_cpus", FormatCpuList(bench.host_cpus)},
                              {"agent_cpus", FormatCpuList(bench.agent_cpus)}};
  if (args.common.json_file.empty()) return absl::OkStatus();
  std::ofstream out(args.common.json_file);
  out << bench.report.dump(2) << '\n';
  out.close();
  if (out) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("writing ", args.common.json_file, " failed; choose another --json file"));
}

}  // namespace pulse::bench
