// A filter, as it is described to an agent that makes the same one: rules and selection in bytes.
// The agent compiles the rules itself, for its own CPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/ops/engine_order.h"
#include "services/ops/filter/filter_engine.h"
#include "services/ops/filter/rule_set.h"

namespace pulse::filter {

ops::EngineOrder FilterOrder(const RuleSet& rules, const Selection& selection,
                             uint64_t chunk_bytes);

struct OrderedFilter {
  std::vector<Rule> rules;
  RuleSetOptions options;
  Selection selection;
};
// What FilterOrder wrote as `text`, which anybody may have changed. InvalidArgument.
absl::StatusOr<OrderedFilter> ReadFilterOrder(absl::string_view text);

}  // namespace pulse::filter
