// StreamCopy: copies into memory that this core will not read again, past its caches. A block that
// goes into the queue's arena is next read by a device or another core; ordinary stores would first
// fetch each line of the arena from memory, and push out the compaction's working set.
//
// The stores are weakly ordered: StreamFence() before another processor is told of them. Never
// blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace pulse {

inline void StreamCopy(char* to, const char* from, size_t n) {
#if defined(__SSE2__)
  constexpr size_t kLine = 64;
  if (n >= 8 * kLine) {
    const size_t head = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;
    std::memcpy(to, from, head);
    to += head;
    from += head;
    n -= head;
    for (; n >= kLine; n -= kLine, to += kLine, from += kLine) {
      const __m128i* s = reinterpret_cast<const __m128i*>(from);
      __m128i* d = reinterpret_cast<__m128i*>(to);
      const __m128i a = _mm_loadu_si128(s);
      const __m128i b = _mm_loadu_si128(s + 1);
      const __m128i c = _mm_loadu_si128(s + 2);
      const __m128i e = _mm_loadu_si128(s + 3);
      _mm_stream_si128(d, a);
      _mm_stream_si128(d + 1, b);
      _mm_stream_si128(d + 2, c);
      _mm_stream_si128(d + 3, e);
    }
  }
#endif
  std::memcpy(to, from, n);
}

inline void StreamFence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace pulse
