// IoClass: how soon a request is served, beside others (io_scheduler.h). Services map what they do
// onto these classes; ServiceSpec::io_classes says how, for people and metrics.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pulse {

// In the order in which they are served.
enum class IoClass : uint8_t {
  kCritical,     // many wait for it, and stand behind it
  kInteractive,  // somebody waits for each request
  kElevated,     // background work that others will wait for, or do already
  kBackground,
  kUnknown,  // nothing is known of it
};
inline constexpr size_t kIoClasses = 5;

}  // namespace pulse
