// Ingest as an agent offers it: `pulse agent --ingest PORT --filter FILE --to HOST:PORT`. Hosts
// never attach to it.
#pragma once

#include "agent/service_module.h"

namespace pulse::ingest {

extern const ServiceEntry kEntry;

}  // namespace pulse::ingest
