// `pulse agent --offload`: remote reads of the store's files that an agent answers, by an offload
// program. A module of the agent's table; opening it loads the program and takes the store's hooks.
#pragma once

#include "agent/service_module.h"

namespace pulse::offload {

// Needs the files service's store, and so comes after it in the table.
extern const ServiceEntry kEntry;

}  // namespace pulse::offload
