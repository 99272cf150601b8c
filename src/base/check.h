// PULSE_CHECK and PULSE_DCHECK: for errors of the programmer only. Never for I/O, configuration or
// what a peer sends: those return errors that say what failed.
//
// PULSE_CHECK is on in every build. PULSE_DCHECK is compiled, but not evaluated, where NDEBUG is
// defined: for loops that run for each byte or descriptor. Both take a message after the condition,
// if there is more to say. What fails is printed to standard error, and the process aborts. Any
// thread.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace pulse::check_internal {

[[noreturn, gnu::cold, gnu::noinline]] inline void Fail(const char* file, int line,
                                                        const char* condition,
                                                        const char* message = nullptr) {
  std::fprintf(stderr, "%s:%d: check failed: %s%s%s\n", file, line, condition,
               message != nullptr ? ": " : "", message != nullptr ? message : "");
  std::abort();
}

}  // namespace pulse::check_internal

#define PULSE_CHECK(condition, ...) \
  (static_cast<bool>(condition)     \
       ? static_cast<void>(0)       \
       : ::pulse::check_internal::Fail(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__))

#ifdef NDEBUG
#define PULSE_DCHECK(condition, ...) \
  (true ? static_cast<void>(0) : PULSE_CHECK(condition __VA_OPT__(, ) __VA_ARGS__))
#else
#define PULSE_DCHECK(condition, ...) PULSE_CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#endif
