// RunInChild: a test case in a process of its own, with a deadline. A case that hangs, crashes or
// aborts becomes an outcome that names it, and the program goes on with the next one.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace pulse::options_test {

struct CaseOutcome {
  enum Kind { kPassed, kSkipped, kFailed, kHung };
  Kind kind;
  std::string message;  // why it did not pass
};

// What a body returns: "" when it has passed, a reason that begins with kSkip, or what is wrong.
inline constexpr char kSkip[] = "skip: ";

// Well above what a case takes. It turns a hang into a failure; nothing is measured with it.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr std::chrono::seconds kCaseDeadline{240};
#else
inline constexpr std::chrono::seconds kCaseDeadline{30};
#endif

// Forks, so the calling process must have one thread only. Blocks until the case has ended or was
// killed at its deadline.
CaseOutcome RunInChild(const std::function<std::string()>& body,
                       std::chrono::seconds deadline = kCaseDeadline);

}  // namespace pulse::options_test
