#include "apps/pulse/util/uncaught.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "apps/pulse/util/output_file.h"
#include "base/log.h"
#include "base/shortage.h"

namespace pulse {
namespace {

int uncaught_code = 1;
std::terminate_handler usual_handler = nullptr;
std::atomic<pid_t> ending{0};  // the thread
// Given back before the line is written, which takes memory.
std::unique_ptr<char[]> memory_reserve;
constexpr size_t kReserve = 1 << 20;

void WritePlain(const char* text) {
  if (write(STDERR_FILENO, text, std::strlen(text)) < 0) errno = 0;  // nobody else to tell
}

// Empty: no lack of the machine, but a defect.
std::string CauseOfEnd() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return std::string(NoMemoryError().message());
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::resource_unavailable_try_again) {
      return std::string(NoThreadError().message());
    }
    // fmt::print throws it; where it is of something else, it is a defect.
    if (std::ferror(stdout) == 0) return std::string();
    if (error.code() == std::errc::broken_pipe) _exit(0);  // its reader wants no more
    return absl::StrCat("writing standard output: ", error.code().message());
  } catch (...) {
    return std::string();
  }
}

[[noreturn]] void EndProgram() {
  pid_t other = 0;
  if (!ending.compare_exchange_strong(other, gettid())) {
    while (other != gettid()) pause();  // that thread ends the process
    WritePlain("pulse: no memory is left, not even to say of what\n");
    _exit(uncaught_code);
  }
  RemoveUnfinishedOutput();
  memory_reserve.reset();
  const std::string cause = std::current_exception() == nullptr ? "" : CauseOfEnd();
  if (cause.empty()) usual_handler();
  Say(absl::StrCat("pulse: ", cause), LogLevel::kError);
  _exit(uncaught_code);
}

}  // namespace

void ReportUncaught(int exit_code) {
  uncaught_code = exit_code;
  usual_handler = std::set_terminate(&EndProgram);
  memory_reserve.reset(new (std::nothrow) char[kReserve]);
}

}  // namespace pulse
