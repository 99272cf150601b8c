// What a machine may be short of as statuses: std::bad_alloc, and std::system_error of a
// std::thread that cannot be started, say neither what failed nor the remedy. Thread-safe; never
// blocks.
#pragma once

#include <new>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace pulse {

// `for_what` may be empty.
inline absl::Status NoMemoryError(absl::string_view for_what = {}) {
  return absl::InternalError(absl::StrCat(
      for_what, for_what.empty() ? "" : ": ",
      "no memory is left; free some, or raise the limit of address space (ulimit -v)"));
}

inline absl::Status NoThreadError(absl::string_view for_what = {}) {
  return absl::InternalError(
      absl::StrCat(for_what, for_what.empty() ? "" : ": ",
                   "no thread can be started; raise the limit of processes (ulimit -u), or that of "
                   "address space (ulimit -v)"));
}

// Runs `f` on a thread, or says that there is none.
template <typename F, typename Thread>
absl::Status StartThread(absl::string_view for_what, F&& f, Thread* thread) {
  try {
    *thread = Thread(std::forward<F>(f));
    return absl::OkStatus();
  } catch (const std::system_error&) {
    return NoThreadError(for_what);
  }
}

// What `f`, which returns a status or a StatusOr, returns; NoMemoryError() if it throws bad_alloc.
template <typename F>
auto CatchNoMemory(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return NoMemoryError();
  }
}

}  // namespace pulse
