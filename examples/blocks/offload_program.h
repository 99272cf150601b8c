// The offload functions of `blocks`, for the agent: reads are answered there, all else goes to the
// host. Without a cache table: a request says where its bytes are. DDS sections 6.1 and 8.2.
#pragma once

#include "pulse/offload.h"

namespace pulse::blocks {

const offload::Program& OffloadProgram();
// The same protocol, and all goes to the host: what forwarding costs. "blocks-forward".
const offload::Program& ForwardingProgram();

}  // namespace pulse::blocks
