// What the project set out to reach, and what a set of results says about it. Plain computation.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/macro/paper/figures.h"

namespace pulse::bench {

struct Aim {
  std::string what;
  std::string experiment;
  std::string row;  // the label
  Quantity quantity;
  Target target;
  std::string needs;  // what it would take to show it, where it cannot be shown
};

// The list, in the order in which it is shown.
const std::vector<Aim>& Aims();

// The target of `quantity` in that row, if it is one of the list.
std::optional<Target> AimFor(const std::string& experiment, const std::string& row,
                             const Quantity& quantity);

enum class Verdict { kHeld, kMissed, kNotClear, kNotMeasured, kNotApplicable };

struct Judgement {
  const Aim* aim = nullptr;
  Verdict verdict = Verdict::kNotMeasured;
  std::optional<Spread> got;
  std::string against;  // of several that it is compared with, the best, or whom it fails against
  std::string why;      // of verdicts but the first two; empty where the experiment has not run
};

// `result_of` gives an experiment's result, null where there is none.
std::vector<Judgement> JudgeAll(
    const std::function<const nlohmann::json*(const std::string& experiment)>& result_of);

const char* VerdictName(Verdict verdict);

}  // namespace pulse::bench
