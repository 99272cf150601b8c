// Tables 2 and 3: what the profile of each card has, beside the paper's figure.
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/text_table.h"
#include "bench/macro/bench_data.h"
#include "bench/macro/ops/ops_parts.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

// What a profile says of a row of Table 2; empty: it has no key for it.
std::string HardwareOf(const vdpu::Profile& card, const std::string& what) {
  if (what == "CPU") {
    return absl::StrCat(card.cores, " cores at ", card.core_speed, " of a host core");
  }
  if (what == "Interconnect") {
    return absl::StrCat("DMA, ", card.dma_latency_us, " us and ", card.dma_bandwidth_gb_s, " GB/s");
  }
  return "";
}

std::string EngineOf(const vdpu::Profile& card, const std::string& operation) {
  const vdpu::AcceleratorProfile* engine = card.EngineFor(operation);
  if (engine == nullptr) return "no";
  return absl::StrCat("yes, ", engine->rate_gb_s, " GB/s, buffers to ", engine->largest_buffer_mib,
                      " MiB, ", engine->depth, " tasks");
}

}  // namespace

nlohmann::json CardRows(const vdpu::Profile& card) {
  nlohmann::json rows = nlohmann::json::array();
  for (const nlohmann::json& row : DataOf("ops").at("tables")) {
    const auto what = row.at("what").get<std::string>();
    const int table = row.at("table").get<int>();
    rows.push_back({{"table", table},
                    {"what", what},
                    {"card", card.name},
                    {"profile", table == 2 ? HardwareOf(card, what) : EngineOf(card, what)},
                    {"paper", row.value(card.name, "")}});
  }
  return rows;
}

absl::Status RunCardsPart(OpsBench* bench) {
  std::vector<std::string> header = {""};
  // By table and row, in the order of the first card.
  std::map<int, std::vector<std::vector<std::string>>> tables;
  nlohmann::json all = nlohmann::json::array();
  for (const vdpu::Profile& card : bench->cards) {
    header.push_back(absl::StrCat(card.name, ", profile"));
    header.push_back(absl::StrCat(card.name, ", the paper"));
    std::map<int, size_t> at;
    for (nlohmann::json& row : CardRows(card)) {
      const int number = row.at("table").get<int>();
      auto& table = tables[number];
      const size_t i = at[number]++;
      if (i == table.size()) table.push_back({row.at("what").get<std::string>()});
      table[i].push_back(row.at("profile").get<std::string>());
      table[i].push_back(row.at("paper").get<std::string>());
      all.push_back(std::move(row));
    }
  }
  const std::pair<int, const char*> titles[] = {
      {2, "The cards (Table 2); an empty field has no key in the profile"},
      {3, "Their accelerators (Table 3)"}};
  for (const auto& [number, title] : titles) {
    if (tables[number].empty()) continue;
    TextTable table(header);
    for (size_t column = 1; column < header.size(); ++column) table.AlignLeft(column);
    for (auto& row : tables[number]) table.AddRow(std::move(row));
    fmt::print("\n{}\n{}", title, table.Render());
  }
  bench->report["cards"] = std::move(all);
  return absl::OkStatus();
}

}  // namespace pulse::bench
