// Errors say what failed, on what, and the remedy. These helpers turn errno values into Abseil
// statuses that keep all three. Thread-safe.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pulse {

// "WHAT TARGET: strerror(err)[; REMEDY]", with the status code that suits `err`. Where the caller
// gives no remedy, one is added for the errors whose remedy is always the same (full disk,
// descriptor limit, permissions).
absl::Status ErrnoError(int err, absl::string_view what, absl::string_view target,
                        absl::string_view remedy = {});

// The errno that ErrnoError() stored in `status`, or 0.
int ErrnoOf(const absl::Status& status);

}  // namespace pulse

#define PULSE_RETURN_IF_ERROR(expr)                 \
  do {                                              \
    if (auto pulse_st_ = (expr); !pulse_st_.ok()) { \
      return pulse_st_;                             \
    }                                               \
  } while (0)

// Assigns the value of a StatusOr to `lhs`, which may declare a variable, or returns its error.
// Several statements: not the only body of an `if`.
#define PULSE_ASSIGN_OR_RETURN(lhs, ...) \
  PULSE_ASSIGN_OR_RETURN_(PULSE_CONCAT_(pulse_or_, __LINE__), lhs, (__VA_ARGS__))
#define PULSE_ASSIGN_OR_RETURN_(or_, lhs, expr)  \
  auto or_ = expr;                               \
  if (!or_.ok()) return std::move(or_).status(); \
  lhs = *std::move(or_)
#define PULSE_CONCAT_(a, b) PULSE_CONCAT_2_(a, b)
#define PULSE_CONCAT_2_(a, b) a##b
