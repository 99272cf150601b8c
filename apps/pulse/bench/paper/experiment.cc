#include "bench/paper/experiment.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace pulse::bench {

absl::StatusOr<std::vector<const Experiment*>> SelectExperiments(
    const Experiments& all, const std::vector<std::string>& names) {
  std::vector<const Experiment*> chosen;
  const auto is_named = [&names](const Experiment& e) {
    return std::find(names.begin(), names.end(), e.name()) != names.end();
  };
  std::vector<std::string> known;
  for (const auto& experiment : all) {
    known.push_back(experiment->name());
    if (names.empty() || is_named(*experiment)) chosen.push_back(experiment.get());
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--only: there is no experiment \"", name,
                                                     "\"; choose from ",
                                                     absl::StrJoin(known, ", ")));
    }
  }
  return chosen;
}

Needs MostOf(const std::vector<const Experiment*>& experiments, const Size& size) {
  Needs most;
  for (const Experiment* experiment : experiments) {
    const Needs needs = experiment->NeedsAt(size);
    most.disk = std::max(most.disk, needs.disk);
    most.memory = std::max(most.memory, needs.memory);
  }
  return most;
}

double LargestScale(const std::vector<const Experiment*>& experiments, const Needs& there,
                    Size size) {
  const auto fits = [&](double scale) {
    size.scale = scale;
    const Needs needs = MostOf(experiments, size);
    return needs.disk <= there.disk && needs.memory <= there.memory;
  };
  // Two digits: 1, 0.99 ... 0.1, 0.099 ... down to a few megabytes.
  for (double unit = 0.01; unit >= 1e-6; unit /= 10) {
    for (int digits = unit == 0.01 ? 100 : 99; digits >= 10; --digits) {
      if (fits(digits * unit)) return digits * unit;
    }
  }
  return 0;
}

}  // namespace pulse::bench
