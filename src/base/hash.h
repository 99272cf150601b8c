// xxHash, inlined: nothing is linked. Any thread; nothing blocks.
#pragma once

#if defined(__AVX512F__)
// A build for this machine's own CPU, as RocksDB's is: of AVX-512's intrinsics, GCC 12 warns.
#define XXH_VECTOR 2  // AVX2
#endif
#define XXH_INLINE_ALL
#include <xxhash.h>
