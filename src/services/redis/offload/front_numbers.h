// What the offloaded Redis reads count beside their front, for people and metrics.
#pragma once

#include <vector>

#include "base/numbers.h"
#include "services/redis/offload/resp.h"

namespace pulse::redis {

std::vector<Number> FrontNumbers(const OffloadedResp& reads);

}  // namespace pulse::redis
