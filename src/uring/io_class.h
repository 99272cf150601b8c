// IoClass: what a request is part of, which decides when it is served (io_scheduler.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace pulse {

// In the order in which they are served.
enum class IoClass : uint8_t { kFlush, kFiles, kBase, kDeep, kOther };
inline constexpr size_t kIoClasses = 5;
// For people and metrics: flush, files, base, deep, other.
absl::string_view IoClassName(IoClass io_class);

}  // namespace pulse
