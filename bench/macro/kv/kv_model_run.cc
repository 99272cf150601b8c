// The model's runs: cards, inputs, workloads, designs; and the paper's figures beside them.
#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/errors.h"
#include "bench/macro/bench_data.h"
#include "bench/macro/kv/kv_model.h"
#include "bench/macro/workload.h"
#include "bench/macro/ycsb/zipfian.h"

namespace pulse::bench {
namespace {

using kvmodel::Design;
using kvmodel::DesignName;
using kvmodel::Machine;
using kvmodel::Outcome;
using Json = nlohmann::json;

constexpr double kLoads[] = {0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95};
constexpr double kWithin = 0.25;
constexpr uint64_t kPaperItems = 192'000'000;

// Of each of `parts` partitions, the share of the requests.
std::vector<double> PartitionShares(size_t parts, bool zipf) {
  std::vector<double> shares(parts, 1.0 / static_cast<double>(parts));
  if (!zipf) return shares;
  constexpr uint64_t kRanks = 100'000;  // the others spread evenly
  const double zeta = Zipfian().Zeta(kPaperItems);
  std::fill(shares.begin(), shares.end(), 0);
  double rest = 1;
  for (uint64_t rank = 1; rank <= kRanks; ++rank) {
    const double p = std::pow(static_cast<double>(rank), -Zipfian::kYcsbTheta) / zeta;
    shares[Mix(rank) % parts] += p;
    rest -= p;
  }
  for (double& share : shares) share += rest / static_cast<double>(parts);
  return shares;
}

struct Card {
  std::string name;
  vdpu::Profile profile;
  std::vector<Design> designs;
  std::vector<std::string> inputs = {"measured"};
};

// In DPU mode, the only one with cores that a BlueField-3 has, all packets go through its cores.
bool NeedsHostPort(Design design) { return design == Design::kDual || design == Design::kShrd; }

absl::StatusOr<std::vector<Design>> DesignsOn(const std::string& card, const BenchArgs& args) {
  std::vector<Design> wanted;
  for (const auto& name : args.Get<std::vector<std::string>>("designs")) {
    const auto design = kvmodel::ParseDesign(name);
    if (!design.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--designs ", name,
                       ": there is no such design; choose of cpu, dpu, lat, sav, dual, shrd"));
    }
    wanted.push_back(*design);
  }
  std::vector<Design> designs;
  for (const Design design : kvmodel::kDesigns) {
    const bool asked = std::find(wanted.begin(), wanted.end(), design) != wanted.end();
    if (!wanted.empty() && !asked) continue;
    if (card == "bf3" && NeedsHostPort(design) && !args.Get<bool>("hypothetical")) {
      if (!asked) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "--designs ", std::string(DesignName(design)),
          " cannot run on bf3: in DPU mode its host receives no packets of its own (section 2.1 "
          "of the paper); leave it out, or add --hypothetical"));
    }
    designs.push_back(design);
  }
  return designs;
}

absl::StatusOr<std::vector<Card>> CardsOf(const BenchArgs& args) {
  std::vector<Card> cards;
  for (const auto& name : args.Get<std::vector<std::string>>("profiles")) {
    PULSE_ASSIGN_OR_RETURN(auto profile, vdpu::LoadProfile(name));
    Card card{profile.name, profile, {}};
    if (DataOf("kv-model").at("cards").contains(card.name)) card.inputs.push_back("paper");
    PULSE_ASSIGN_OR_RETURN(card.designs, DesignsOn(card.name, args));
    cards.push_back(std::move(card));
  }
  return cards;
}

// A card with certain inputs under a workload.
struct Setting {
  const Card& card;
  std::string inputs;
  const Json& workload;
  kvmodel::StageCosts costs;
  Machine machine;

  Json Row(Design design) const {
    return {{"card", card.name},
            {"inputs", inputs},
            {"workload", workload.at("name")},
            {"design", DesignName(design)}};
  }
};

Setting MakeSetting(const Card& card, const std::string& inputs, const Json& workload,
                    const Json& costs) {
  const Json& cards = DataOf("kv-model").at("cards");
  const bool paper = inputs == "paper";
  const auto name = workload.at("name").get<std::string>();
  Setting setting{card,
                  inputs,
                  workload,
                  paper ? PaperCosts(costs, name, card.name) : MeasuredCosts(costs, name),
                  {}};
  Machine& m = setting.machine;
  m.agent_speed = card.profile.core_speed;
  if (paper) {
    m.agent_speed = cards.at(card.name).at("speed").get<double>();
    const double scale = PaperHostScale(costs);
    for (auto* cost : {&setting.costs.whole, &setting.costs.receive, &setting.costs.prepare,
                       &setting.costs.process, &setting.costs.send}) {
      cost->fixed *= scale;
      cost->each *= scale;
    }
  }
  m.agent_cores = std::min(m.agent_cores, card.profile.cores);
  m.dma_latency = card.profile.dma_latency_us * 1e3;
  m.dma_rate = card.profile.dma_bandwidth_gb_s;
  m.pcie_rate = 16 * 8 * 128.0 / 130 / 8;  // PCIe 3.0 x16, in bytes a nanosecond
  const auto sets = workload.at("set_share").get<double>();
  // What the queue pair saves of a packet's bytes, of a GET and of a SET (section 4.2.1).
  m.packet_request_bytes = (1 - sets) * 32 / (1 - 0.6367) + sets * 32 / (1 - 0.6667);
  m.packet_response_bytes = (1 - sets) * 16 / (1 - 0.833) + sets * 16 / (1 - 0.8181);
  if (cards.contains(card.name)) m.burst = cards[card.name].at("burst").get<size_t>();
  return setting;
}

class ModelRunner {
 public:
  ModelRunner(Json* model, bool tiny, uint64_t seed) : model_(*model) {
    load_.seed = seed;
    load_.warm_up = tiny ? 1e5 : 3e5;
    load_.length = tiny ? 2e5 : 3e6;
  }

  void RunAll(const Setting& setting) {
    for (const Design design : setting.card.designs) {
      const Outcome peak = Run(setting, design, load_);
      Json row = setting.Row(design);
      row.update({{"per_second", peak.per_second},
                  {"latency_us", peak.mean_us},
                  {"p99_us", peak.p99_us},
                  {"host_cores", peak.host_cores},
                  {"host_busy", peak.host_busy},
                  {"agent_busy", peak.agent_busy},
                  {"transfer_us", peak.transfer_us},
                  {"pcie_share", peak.pcie_share}});
      model_["peaks"].push_back(std::move(row));
      Latencies(setting, design, peak);
      if (setting.workload.at("ycsb") == "B") ByCores(setting, design);
    }
    const auto& designs = setting.card.designs;
    if (setting.workload.at("name") != "C-uniform") return;
    if (std::find(designs.begin(), designs.end(), Design::kDual) != designs.end()) {
      Congestion(setting);
    }
    Queues(setting);
    if (std::find(designs.begin(), designs.end(), Design::kLat) != designs.end()) {
      Sensitivity(setting);
    }
  }

 private:
  static Outcome Run(const Setting& setting, Design design, const kvmodel::Load& load) {
    return kvmodel::Simulate(design, setting.machine, setting.costs, load);
  }

  // Open loop. Clients give each endpoint of what it can take the same share; with zipf some keys'
  // partitions get more of it.
  void Latencies(const Setting& setting, Design design, const Outcome& peak) {
    const size_t endpoints = peak.endpoint_rates.size();
    std::vector<double> weights =
        PartitionShares(endpoints, setting.workload.at("zipf").get<bool>());
    double sum = 0;
    for (size_t i = 0; i < endpoints; ++i) sum += weights[i] *= peak.endpoint_rates[i];
    // So slow that it has served nothing within the simulated time: no share of that is a load.
    if (sum <= 0) return;
    for (const double share : kLoads) {
      kvmodel::Load load = load_;
      // So many requests are enough for a p99.
      load.length = std::min(load_.length, 1e5 / (share * peak.per_second) * 1e9);
      for (const double weight : weights) {
        // A rate of 0 would stand for a queue that is always full.
        load.rates.push_back(std::max(1.0, share * peak.per_second * weight / sum));
      }
      const Outcome o = Run(setting, design, load);
      Json row = setting.Row(design);
      row.update({{"load", share},
                  {"offered_per_s", share * peak.per_second},
                  {"per_second", o.per_second},
                  {"p50_us", o.p50_us},
                  {"p99_us", o.p99_us},
                  {"dropped_share", static_cast<double>(o.dropped) /
                                        static_cast<double>(std::max<uint64_t>(1, o.arrived))}});
      model_["latency"].push_back(std::move(row));
    }
  }

  // The paper varies the host's cores for cpu, and the card's for the others (6.4).
  void ByCores(const Setting& setting, Design design) {
    const int most =
        design == Design::kCpu ? setting.machine.host_cores : setting.machine.agent_cores;
    for (int cores = 1; cores <= most; ++cores) {
      Setting fewer = setting;
      (design == Design::kCpu ? fewer.machine.host_cores : fewer.machine.agent_cores) = cores;
      Json row = setting.Row(design);
      row.update({{"cores", cores}, {"per_second", Run(fewer, design, load_).per_second}});
      model_["by_cores"].push_back(std::move(row));
    }
  }

  // Figure 10(c) and (d): dual with transfers of other sizes, and with other numbers of spare
  // cores.
  void Congestion(const Setting& setting) {
    const auto add = [&](const Setting& changed, const char* what, int value) {
      const Outcome o = Run(changed, Design::kDual, load_);
      double host = 0;
      for (int i = 0; i < changed.machine.spare_cores; ++i) {
        host += o.endpoint_rates[static_cast<size_t>(i)];
      }
      Json row = setting.Row(Design::kDual);
      row.update({{"what", what},
                  {"value", value},
                  {"per_second", o.per_second},
                  {"agent_per_second", o.per_second - host},
                  {"transfer_us", o.transfer_us},
                  {"pcie_share", o.pcie_share}});
      model_["congestion"].push_back(std::move(row));
    };
    for (const int spare : {0, 1, 2, 3, 5, 7}) {
      Setting changed = setting;
      changed.machine.spare_cores = spare;
      add(changed, "spare host cores", spare);
    }
    for (const int bytes : {512, 1024, 2048, 4096}) {
      Setting changed = setting;
      changed.machine.burst = static_cast<size_t>(bytes / 32);
      add(changed, "bytes of a transfer", bytes);
    }
  }

  // Figure 5: cpu at its peak with receive queues of 128 and of 256.
  void Queues(const Setting& setting) {
    for (const size_t places : {128, 256}) {
      Setting changed = setting;
      changed.machine.receive_queue = places;
      const Outcome o = Run(changed, Design::kCpu, load_);
      Json row = setting.Row(Design::kCpu);
      row.update(
          {{"receive_queue", places}, {"per_second", o.per_second}, {"latency_us", o.mean_us}});
      model_["queues"].push_back(std::move(row));
    }
  }

  // lat with other numbers of batches under way (a paper's core has one buffer, section 6.1) and
  // other latencies of a transfer (the profiles' is an upper bound).
  void Sensitivity(const Setting& setting) {
    for (const size_t slots : {1, 2, 4}) {
      for (const double latency : {1e3, 3e3, setting.machine.dma_latency}) {
        Setting changed = setting;
        changed.machine.slots = slots;
        changed.machine.dma_latency = latency;
        const Outcome o = Run(changed, Design::kLat, load_);
        Json row = setting.Row(Design::kLat);
        row.update({{"slots", slots},
                    {"dma_us", latency / 1e3},
                    {"per_second", o.per_second},
                    {"latency_us", o.mean_us}});
        model_["sensitivity"].push_back(std::move(row));
      }
    }
  }

  Json& model_;
  kvmodel::Load load_;
};

// Figures at the peak, by workload; of `over`, ratios to it.
std::vector<double> FiguresOf(const Json& peaks, const std::string& card, const std::string& inputs,
                              const std::string& workloads, const std::string& metric,
                              const std::string& of, const std::string& over) {
  std::map<std::string, std::map<std::string, double>> by;
  for (const Json& row : peaks) {
    const auto workload = row.at("workload").get<std::string>();
    if (row.at("card") != card || row.at("inputs") != inputs ||
        (workloads != "all" && workload.find(workloads) == std::string::npos)) {
      continue;
    }
    by[workload][row.at("design").get<std::string>()] =
        metric == "rate" ? row.at("per_second").get<double>() / 1e6
                         : row.at("latency_us").get<double>();
  }
  std::vector<double> figures;
  for (auto& [unused, designs] : by) {
    if (!designs.contains(of) || (!over.empty() && !designs.contains(over))) continue;
    figures.push_back(designs[of] / (over.empty() ? 1 : designs[over]));
  }
  return figures;
}

// Each figure of the paper's text beside ours.
Json ComparePaper(const Json& peaks, const std::vector<Card>& cards) {
  Json rows = Json::array();
  for (const Card& card : cards) {
    for (const std::string& inputs : card.inputs) {
      for (Json row : DataOf("kv-model").at("paper")) {
        const auto word = [&row](const char* key) { return row.at(key).get<std::string>(); };
        if (word("card") != card.name) continue;
        const auto figures = FiguresOf(peaks, card.name, inputs, word("workloads"), word("metric"),
                                       word("of"), word("over"));
        if (figures.empty()) continue;
        const auto [least, most] = std::minmax_element(figures.begin(), figures.end());
        double low = *least;
        double high = *most;
        const std::string kind = word("kind");
        if (kind == "least") high = low;
        if (kind == "most") low = high;
        if (kind == "mean") {
          low = 0;
          for (const double figure : figures) low += figure / static_cast<double>(figures.size());
          high = low;
        }
        const double ratios[] = {low / row.at("low").get<double>(),
                                 high / row.at("high").get<double>()};
        const bool within = std::all_of(std::begin(ratios), std::end(ratios), [](double ratio) {
          return std::abs(ratio - 1) <= kWithin;
        });
        row.update({{"inputs", inputs},
                    {"ours_low", low},
                    {"ours_high", high},
                    {"ratio_low", ratios[0]},
                    {"ratio_high", ratios[1]},
                    {"verdict", within ? "within 25 %" : "missed"}});
        // Of these inputs it follows directly, and shows nothing.
        row["input"] = row.at("input").get<bool>() && inputs == "paper";
        rows.push_back(std::move(row));
      }
    }
  }
  return rows;
}

Json CompareOrderings(const Json& peaks, const std::vector<Card>& cards) {
  Json rows = Json::array();
  for (const Card& card : cards) {
    if (!DataOf("kv-model").at("orderings").contains(card.name)) continue;
    for (const std::string& inputs : card.inputs) {
      for (const Json& relation : DataOf("kv-model").at("orderings").at(card.name)) {
        const auto ratios =
            FiguresOf(peaks, card.name, inputs, "all", "rate", relation[0].get<std::string>(),
                      relation[2].get<std::string>());
        if (ratios.empty()) continue;
        const auto sign = relation[1].get<std::string>();
        const auto holds = std::count_if(ratios.begin(), ratios.end(), [&](double ratio) {
          if (sign == "~") return std::abs(ratio - 1) <= kWithin;
          return sign == ">=" ? ratio >= 1 : ratio > 1;
        });
        const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
        rows.push_back({{"card", card.name},
                        {"inputs", inputs},
                        {"relation", absl::StrJoin(relation.get<std::vector<std::string>>(), " ")},
                        {"holds", holds},
                        {"of", ratios.size()},
                        {"ratio_low", *least},
                        {"ratio_high", *most}});
      }
    }
  }
  return rows;
}

// At how many of the card's cores sav reaches 97 % of what it has with all.
Json SaturationOfSav(const Json& by_cores) {
  Json rows = Json::array();
  for (const Json& full : by_cores) {
    if (full.at("design") != "sav" || full.at("cores") != 8) continue;
    for (const Json& row : by_cores) {
      const bool same = row.at("design") == "sav" && row.at("card") == full.at("card") &&
                        row.at("inputs") == full.at("inputs") &&
                        row.at("workload") == full.at("workload");
      if (!same ||
          row.at("per_second").get<double>() < 0.97 * full.at("per_second").get<double>()) {
        continue;
      }
      rows.push_back(row);
      break;
    }
  }
  return rows;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> KvDesignsOn(const std::string& card,
                                                     const BenchArgs& args) {
  PULSE_ASSIGN_OR_RETURN(const auto designs, DesignsOn(card, args));
  std::vector<std::string> names;
  for (const Design design : designs) names.emplace_back(DesignName(design));
  return names;
}

absl::Status CheckKvModelArgs(const BenchArgs& args) { return CardsOf(args).status(); }

absl::StatusOr<Json> RunKvModel(const Json& costs, const BenchArgs& args) {
  PULSE_ASSIGN_OR_RETURN(const auto cards, CardsOf(args));
  Json model = {{"costs", costs},
                {"parameters", DataOf("kv-model").at("parameters")},
                {"validation", ValidateKvModel(costs)}};
  for (const char* rows :
       {"peaks", "latency", "by_cores", "congestion", "queues", "sensitivity", "stages"}) {
    model[rows] = Json::array();
  }
  ModelRunner runner(&model, args.common.tiny, args.common.seed);
  for (const Card& card : cards) {
    for (const std::string& inputs : card.inputs) {
      for (const Json& workload : DataOf("kv-model").at("workloads")) {
        const Setting setting = MakeSetting(card, inputs, workload, costs);
        const auto ns = [](const kvmodel::StageCost& c) { return Json{c.fixed, c.each}; };
        model["stages"].push_back({{"card", card.name},
                                   {"inputs", inputs},
                                   {"workload", workload.at("name")},
                                   {"whole", ns(setting.costs.whole)},
                                   {"receive", ns(setting.costs.receive)},
                                   {"prepare", ns(setting.costs.prepare)},
                                   {"process", ns(setting.costs.process)},
                                   {"send", ns(setting.costs.send)},
                                   {"agent_speed", setting.machine.agent_speed}});
        runner.RunAll(setting);
      }
    }
  }
  model["paper"] = ComparePaper(model["peaks"], cards);
  model["orderings"] = CompareOrderings(model["peaks"], cards);
  model["saturation"] = SaturationOfSav(model["by_cores"]);
  return model;
}

}  // namespace pulse::bench
