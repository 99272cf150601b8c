#include "bench/macro/targets.h"

#include "bench/macro/bench_data.h"

namespace pulse::bench {

std::optional<Target> AimFor(const std::string& experiment, const std::string& row,
                             const Quantity& quantity) {
  for (const nlohmann::json& aim : DataOf("experiments").at("targets")) {
    const nlohmann::json& q = aim.at("quantity");
    if (aim.at("experiment") != experiment || aim.at("row") != row ||
        q.at("metric") != quantity.metric || q.at("of") != quantity.of ||
        q.value("over", "") != quantity.over || q.value("points", false) != quantity.points) {
      continue;
    }
    const nlohmann::json& t = aim.at("target");
    if (t.at("kind") == "within") return Target{Target::Kind::kWithin, t.at("value"), t.at("most")};
    return ParseTarget(t.at("kind").get<std::string>() + " " + t.at("value").dump());
  }
  return std::nullopt;
}

}  // namespace pulse::bench
