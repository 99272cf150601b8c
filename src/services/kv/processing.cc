#include "services/kv/processing.h"

#include "services/kv/processing.inc"

namespace pulse::kv {

BatchResult ProcessBatch(Partition* partition, const BatchBuffers& buffers, const BatchRules& rules,
                         BatchCounts* counts) {
  return ProcessOn(partition, buffers, rules, counts);
}

}  // namespace pulse::kv
