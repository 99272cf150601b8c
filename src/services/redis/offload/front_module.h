// `pulse agent --serve-db`: the reads of `pulse serve`'s clients, answered by an agent in a process
// of its own, before a server that runs with --host-socket. A module of the agent's table.
#pragma once

#include "agent/front_status.h"
#include "agent/service_module.h"
#include "net/director.h"
#include "services/redis/offload/resp.h"

namespace pulse::redis {

extern const ServiceEntry kEntry;

// What a front counts, be it this one or that of an agent within the server's process. Any thread.
FrontStatus FrontStatusOf(const net::Director& director, const OffloadedResp& reads);

}  // namespace pulse::redis
