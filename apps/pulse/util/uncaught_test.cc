#include "apps/pulse/util/uncaught.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <system_error>
#include <thread>

namespace pulse {
namespace {

void ThrowNoMemory() { throw std::bad_alloc(); }
void ThrowNoThread() {
  throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
}
void ThrowDefect() { throw 1; }

// In a process of its own.
void Throw(int exit_code, void (*what)()) {
  ReportUncaught(exit_code);
  std::thread thread(what);
  pause();
}

TEST(UncaughtTest, NoMemory_PrintsWhyAndExitsWithTheCode) {
  EXPECT_EXIT(Throw(2, &ThrowNoMemory), testing::ExitedWithCode(2),
              "^pulse: no memory is left.*ulimit -v");
}

TEST(UncaughtTest, NoThread_PrintsWhyAndExitsWithTheCode) {
  EXPECT_EXIT(Throw(1, &ThrowNoThread), testing::ExitedWithCode(1),
              "^pulse: no thread can be started.*ulimit -u");
}

TEST(UncaughtTest, Defect_Aborts) {
  EXPECT_EXIT(Throw(1, &ThrowDefect), testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace pulse
