// Tasks: the operations by what does them, as metrics have them: compression by each codec,
// decompression by what decodes, the filter. Pure.
#pragma once

#include <cstddef>

#include "services/ops/engine_order.h"

namespace pulse::ops {

inline constexpr size_t kTasks = 9;
// "compress_isal", "decompress_deflate", "filter" ...
const char* TaskName(size_t task);
size_t TaskOf(const EngineOrder& order);

}  // namespace pulse::ops
