#include "bench/macro/paper/experiments.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "bench/macro/bench_data.h"

namespace pulse::bench {

std::vector<Variant> ExperimentVariants(const nlohmann::json& names, const Session& session,
                                        const PulseTarget& target) {
  std::vector<Variant> all;
  const std::vector<int>& host = session.host_cpus();
  for (const nlohmann::json& name : names) {
    const nlohmann::json& o = DataOf("experiments").at("variants").at(name.get<std::string>());
    if (name == kStockDefault || name == kStock2Cpu) {
      all.push_back(name == kStockDefault ? StockVariants(host).front()
                                          : StockOnBothProcessors(session.both_cpus()).front());
      continue;
    }
    PulseTarget reached = target;
    if (o.value("on_host", false)) reached.agent_cpus = FormatCpuList(host);
    if (const auto option = o.value("option", ""); !option.empty()) {
      absl::StrAppend(&reached.extra, reached.extra.empty() ? "" : "&", option);
    }
    Variant variant = o.value("pool", false) ? PulsePoolVariant(reached, host, session.pool_path())
                                             : PulseVariant(reached, host);
    variant.name = o.value("name", name.get<std::string>());
    variant.rival_engine = o.value("engine", "");
    if (o.contains("meaning")) {
      variant.meaning = absl::StrCat(o["meaning"].get<std::string>(), ": ", variant.uri);
    }
    all.push_back(std::move(variant));
  }
  return all;
}

const Experiments& AllExperiments() {
  static const Experiments* const all = [] {
    auto* list = new Experiments();
    std::map<std::string, nlohmann::json> specs;
    for (const nlohmann::json& listed : DataOf("experiments").at("experiments")) {
      nlohmann::json spec =
          listed.contains("like") ? specs.at(listed["like"].get<std::string>()) : listed;
      spec.merge_patch(listed);
      specs[spec.at("name").get<std::string>()] = spec;
      const auto kind = spec.value("kind", "fill");
      list->push_back(kind == "ycsb"        ? MakeYcsbExperiment(spec)
                      : kind == "emulation" ? MakeEmulationExperiment(spec)
                                            : MakeFillExperiment(spec));
    }
    return list;
  }();
  return *all;
}

nlohmann::json MetricUnits() { return DataOf("experiments").at("units"); }

}  // namespace pulse::bench
