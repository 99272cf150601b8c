// `pulse bench kv --part model`: measures, runs the model, and prints it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "bench/macro/bench_data.h"
#include "bench/macro/kv/kv_model.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

using Json = nlohmann::json;

std::string Text(const Json& row, const char* key) { return row.at(key).get<std::string>(); }
double Value(const Json& row, const char* key) { return row.at(key).get<double>(); }
std::string Millions(double per_second) { return fmt::format("{:.2f}", per_second / 1e6); }
std::string Titled(const std::string& title, const TextTable& table) {
  return absl::StrCat("\n", title, "\n", table.Render());
}

std::vector<std::string> WorkloadNames() {
  std::vector<std::string> names;
  for (const Json& workload : DataOf("kv-model").at("workloads")) {
    names.push_back(Text(workload, "name"));
  }
  return names;
}

// Rows of one card and inputs, by design in their order.
using Grouped = std::vector<std::pair<std::string, std::vector<Json>>>;
Grouped ByDesign(const Json& rows, const std::string& card, const std::string& inputs,
                 const std::string& workload) {
  Grouped grouped;
  for (const Json& row : rows) {
    if (row.at("card") != card || row.at("inputs") != inputs ||
        (!workload.empty() && row.at("workload") != workload)) {
      continue;
    }
    const std::string design = Text(row, "design");
    auto it = std::find_if(grouped.begin(), grouped.end(),
                           [&](const auto& group) { return group.first == design; });
    if (it == grouped.end()) it = grouped.insert(it, {design, {}});
    it->second.push_back(row);
  }
  return grouped;
}

std::string Costs(const Json& costs) {
  TextTable table({"workload", "receive", "parse", "get, set", "respond", "each batch",
                   "receive, parse, pair", "prepare", "host's half", "send"});
  for (const std::string& name : WorkloadNames()) {
    const auto at = [&](const char* run, const char* metric) {
      return fmt::format("{:.1f}", Value(costs.at(name).at(run), metric));
    };
    table.AddRow({name, at("cpu", "receive_ns"), at("cpu", "parse_ns"), at("cpu", "process_ns"),
                  at("cpu", "respond_ns"),
                  fmt::format("{:.0f}", MeasuredCosts(costs, name).whole.fixed),
                  at("lat", "receive_ns"), at("lat", "prepare_ns"), at("lat", "host_ns"),
                  at("lat", "respond_ns")});
  }
  return Titled(
      fmt::format(
          "Measured, ns a request in batches of 128: of cpu, and of lat's two cores. A batch "
          "takes {:.0f} ns from core to core",
          Value(costs, "transfer_ns")),
      table);
}

std::string Validation(const Json& rows) {
  TextTable table({"this machine's CPUs", "workload", "measured", "model", "error"});
  for (const Json& row : rows) {
    table.AddRow({Text(row, "what"), Text(row, "workload"),
                  fmt::format("{:.2f}", Value(row, "measured")),
                  fmt::format("{:.2f}", Value(row, "model")),
                  fmt::format("{:+.0f} %", Value(row, "error_percent"))});
  }
  return Titled("The model beside what two CPUs measure", table);
}

std::string PeakTable(const Json& model, const std::string& card, const std::string& inputs) {
  std::vector<std::string> head = {"design"};
  for (const std::string& name : WorkloadNames()) head.push_back(name);
  for (const char* what : {"host cores", "busy", "p50 us: 50 %", "80 %", "95 %", "p99 us: 80 %"}) {
    head.push_back(what);
  }
  TextTable table(head);
  const auto latencies = ByDesign(model.at("latency"), card, inputs, "B-uniform");
  for (const auto& [design, rows] : ByDesign(model.at("peaks"), card, inputs, "")) {
    std::vector<std::string> cells = {design};
    for (const Json& row : rows) cells.push_back(Millions(Value(row, "per_second")));
    cells.push_back(fmt::format("{}", rows.front().at("host_cores").get<int>()));
    cells.push_back(fmt::format("{:.1f}", Value(rows.front(), "host_busy")));
    // A design that served nothing within the simulated time has no latencies.
    const auto found =
        std::find_if(latencies.begin(), latencies.end(),
                     [&design = design](const auto& group) { return group.first == design; });
    for (const auto& [load, metric] : {std::pair{0.5, "p50_us"}, std::pair{0.8, "p50_us"},
                                       std::pair{0.95, "p50_us"}, std::pair{0.8, "p99_us"}}) {
      std::string& cell = cells.emplace_back("-");
      if (found == latencies.end()) continue;
      for (const Json& row : found->second) {
        if (Value(row, "load") == load) cell = fmt::format("{:.1f}", Value(row, metric));
      }
    }
    table.AddRow(std::move(cells));
  }
  return Titled(
      fmt::format(
          "{}, inputs {}: million/s with full receive queues; latencies of YCSB B, uniform, at "
          "shares of its own peak",
          card, inputs),
      table);
}

std::string ByCores(const Json& model, const std::string& card, const std::string& inputs) {
  TextTable table({"cores", "1", "2", "3", "4", "5", "6", "7", "8"});
  for (const char* workload : {"B-uniform", "B-zipf"}) {
    for (const auto& [design, rows] : ByDesign(model.at("by_cores"), card, inputs, workload)) {
      std::vector<std::string> cells = {absl::StrCat(design, ", ", workload)};
      for (const Json& row : rows) cells.push_back(Millions(Value(row, "per_second")));
      table.AddRow(std::move(cells));
    }
  }
  return Titled(
      fmt::format("{}, inputs {}: million/s by cores (cpu: of the host, else of the card)", card,
                  inputs),
      table);
}

std::string Congestion(const Json& model) {
  TextTable table({"dual, YCSB C, uniform", "card", "inputs", "million/s", "by the card",
                   "transfer us", "PCIe in use"});
  for (const Json& row : model.at("congestion")) {
    table.AddRow({fmt::format("{} {}", row.at("value").get<int>(), Text(row, "what")),
                  Text(row, "card"), Text(row, "inputs"), Millions(Value(row, "per_second")),
                  Millions(Value(row, "agent_per_second")),
                  fmt::format("{:.2f}", Value(row, "transfer_us")),
                  fmt::format("{:.0f} %", 100 * Value(row, "pcie_share"))});
  }
  if (model.at("congestion").empty()) return "";
  return Titled(
      "Figure 10(c), (d). The paper: from some spare cores on the card's throughput falls by 36.6 "
      "% "
      "and a transfer takes 3.1 times as long",
      table);
}

std::string Queues(const Json& model) {
  TextTable table({"cpu, YCSB C, uniform", "card", "inputs", "million/s", "latency us"});
  for (const Json& row : model.at("queues")) {
    table.AddRow({fmt::format("receive queues of {}", row.at("receive_queue").get<int>()),
                  Text(row, "card"), Text(row, "inputs"), Millions(Value(row, "per_second")),
                  fmt::format("{:.1f}", Value(row, "latency_us"))});
  }
  return Titled("Figure 5. The paper: twice the receive queue, 41 % less latency", table);
}

std::string Sensitivity(const Json& model) {
  TextTable table({"lat, YCSB C, uniform", "card", "inputs", "million/s", "latency us"});
  for (const Json& row : model.at("sensitivity")) {
    table.AddRow({fmt::format("{} batches under way, transfers of {:.1f} us",
                              row.at("slots").get<int>(), Value(row, "dma_us")),
                  Text(row, "card"), Text(row, "inputs"), Millions(Value(row, "per_second")),
                  fmt::format("{:.1f}", Value(row, "latency_us"))});
  }
  return model.at("sensitivity").empty() ? "" : Titled("What lat depends on", table);
}

std::string Range(double low, double high) {
  return low == high ? fmt::format("{:.2f}", low) : fmt::format("{:.2f} - {:.2f}", low, high);
}

std::string Paper(const Json& rows) {
  TextTable table({"the paper's text", "section", "inputs", "paper", "model", "model / paper", ""});
  for (const Json& row : rows) {
    std::string verdict = Text(row, "verdict");
    if (row.at("input").get<bool>()) verdict = "an input";
    table.AddRow({fmt::format("{}: {}", Text(row, "card"), Text(row, "what")), Text(row, "where"),
                  Text(row, "inputs"), Range(Value(row, "low"), Value(row, "high")),
                  Range(Value(row, "ours_low"), Value(row, "ours_high")),
                  Range(Value(row, "ratio_low"), Value(row, "ratio_high")), verdict});
  }
  table.AlignLeft(6);
  return Titled("The paper's figures beside the model's, at the peak", table);
}

std::string Orderings(const Json& model) {
  TextTable table({"ordering of throughput", "inputs", "holds in", "ratio"});
  for (const Json& row : model.at("orderings")) {
    table.AddRow({fmt::format("{}: {}", Text(row, "card"), Text(row, "relation")),
                  Text(row, "inputs"),
                  fmt::format("{} of {}", row.at("holds").get<int>(), row.at("of").get<int>()),
                  Range(Value(row, "ratio_low"), Value(row, "ratio_high"))});
  }
  std::string text = Titled("Orderings over the six workloads (~: within 25 %)", table);
  for (const Json& row : model.at("saturation")) {
    absl::StrAppend(&text,
                    fmt::format("  {}, inputs {}, {}: sav is saturated from {} cores of the "
                                "card on, at {} million/s\n",
                                Text(row, "card"), Text(row, "inputs"), Text(row, "workload"),
                                row.at("cores").get<int>(), Millions(Value(row, "per_second"))));
  }
  return text;
}

}  // namespace

std::string DescribeKvModel(const Json& costs, const Json& model) {
  std::string text = Costs(costs) + Validation(model.at("validation"));
  std::string last;
  for (const Json& stage : model.at("stages")) {
    const std::string card = Text(stage, "card");
    const std::string inputs = Text(stage, "inputs");
    if (last == card + inputs) continue;
    last = card + inputs;
    text += PeakTable(model, card, inputs) + ByCores(model, card, inputs);
  }
  return text + Queues(model) + Congestion(model) + Sensitivity(model) + Paper(model.at("paper")) +
         Orderings(model);
}

absl::Status RunKvModelPart(Session* session, const BenchArgs& args) {
  PULSE_RETURN_IF_ERROR(CheckKvModelArgs(args));
  session->Say(
      "Six designs on 8 host and 8 agent cores, simulated. Inputs measured: stages as measured "
      "here, "
      "cores as fast as the profile says.\nInputs paper: get, set and the host's half of lat as "
      "measured "
      "here, communication in the proportion of the paper's\nTable 1, all as much slower as its "
      "host "
      "is, cores as its section 3.2.\n");
  for (const auto& name : args.Get<std::vector<std::string>>("profiles")) {
    if (name != "bf3" || args.Get<bool>("hypothetical")) continue;
    session->Say("bf3 leaves out dual and shrd, which it cannot run (--hypothetical adds them).\n");
  }
  PULSE_ASSIGN_OR_RETURN(const auto costs, KvCosts(session, args));
  PULSE_ASSIGN_OR_RETURN(session->report()["model"], RunKvModel(costs, args));
  session->Say(DescribeKvModel(costs, session->report()["model"]));
  return session->WriteReport();
}

}  // namespace pulse::bench
