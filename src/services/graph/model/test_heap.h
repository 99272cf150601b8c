// How much memory the heap has given out, for tests of what an estimate is worth.
#pragma once

#include <malloc.h>

#include <cstddef>

#include "base/testing.h"

namespace pulse::graph {

// 0 under a sanitizer, which has a heap of its own.
inline size_t HeapBytes() {
  if (testing_util::kAddressSanitizer || testing_util::kThreadSanitizer) return 0;
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

}  // namespace pulse::graph
