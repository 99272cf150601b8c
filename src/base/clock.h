// Times in nanoseconds and the pause instruction. Thread-safe, also for signal handlers; never
// blocks.
#pragma once

#include <cstdint>
#include <ctime>

namespace pulse {

// Of any clock: CLOCK_REALTIME, a thread's CPU time. -1 for one that cannot be read, as that of a
// thread which has ended.
inline int64_t ClockNanos(clockid_t clock) {
  timespec ts;
  if (clock_gettime(clock, &ts) != 0) return -1;
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

// Monotonic.
inline int64_t NowNanos() { return ClockNanos(CLOCK_MONOTONIC); }
inline double NowSeconds() { return static_cast<double>(NowNanos()) * 1e-9; }

// Milliseconds since 1970, UTC.
inline int64_t WallMillis() { return ClockNanos(CLOCK_REALTIME) / 1'000'000; }

// Of the calling thread.
inline int64_t ThreadCpuNanos() { return ClockNanos(CLOCK_THREAD_CPUTIME_ID); }

// Of a thread of this process, by its number: pthread_getcpuclockid needs a pthread_t, which must
// not be used once the thread has ended. As the kernel encodes it (CPUCLOCK_PERTHREAD_MASK |
// CPUCLOCK_SCHED). -1: there is none.
inline int64_t ThreadCpuNanos(int thread) {
  return ClockNanos(static_cast<clockid_t>((~static_cast<uint32_t>(thread) << 3) | 6));
}

// A counter that goes on at a steady rate, whatever that is: for proportions of short times.
inline uint64_t Cycles() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t count;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#else
  return static_cast<uint64_t>(NowNanos());
#endif
}

inline void CpuPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace pulse
