#include "bench/macro/bench_data.h"

#include <map>

namespace pulse::bench {

const nlohmann::json& DataOf(const std::string& name) {
  static const auto* const all = [] {
    auto* const parsed = new std::map<std::string, nlohmann::json>;
    for (const auto& [file, text] : AllData()) (*parsed)[file] = nlohmann::json::parse(text);
    return parsed;
  }();
  return all->at(name);
}

}  // namespace pulse::bench
