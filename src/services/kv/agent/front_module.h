// `pulse agent --serve-kv`: the communication engine of `pulse kv --agent-socket`, in a process of
// its own (DPU-KV paper, section 4): clients connect to the agent, and the host's CPU has their
// requests' arguments. A module of the agent's table.
#pragma once

#include "agent/service_module.h"

namespace pulse::kv {

extern const ServiceEntry kEntry;

}  // namespace pulse::kv
