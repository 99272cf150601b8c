// Plans as drivers show them: a map of operatorType, args, identifiers and children, with `rows`
// also of rows. Any thread;
// nothing blocks.
#pragma once

#include "services/graph/cypher/plan.h"
#include "services/graph/model/value.h"

namespace pulse::cypher {

Value PlanTree(const Plan& plan, const StepRows* rows = nullptr);

}  // namespace pulse::cypher
