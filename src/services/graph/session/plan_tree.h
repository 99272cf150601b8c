// Plans as drivers show them: a map of operatorType, args, identifiers and children, with `profile`
// also of rows and dbHits; args then have what was read. Any thread; nothing blocks.
#pragma once

#include "services/graph/cypher/plan.h"
#include "services/graph/model/value.h"

namespace pulse::cypher {

Value PlanTree(const Plan& plan, const Profile* profile = nullptr);

}  // namespace pulse::cypher
