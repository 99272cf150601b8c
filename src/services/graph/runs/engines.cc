#include "services/graph/runs/engines.h"

#include "base/errors.h"

namespace pulse::graph {
namespace {

class Inline : public EngineSource {
 public:
  absl::StatusOr<EngineChoice> Choose(const EngineWork&) override {
    EngineChoice choice;
    choice.name = "inline";
    PULSE_ASSIGN_OR_RETURN(choice.engine, CreateInlineCopyEngine({}));
    return choice;
  }
  void Report(const EngineWork&, const EngineOutcome&) override {}
};

}  // namespace

EngineSource* InlineEngines() {
  static Inline engines;
  return &engines;
}

}  // namespace pulse::graph
