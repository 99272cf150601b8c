// One logger for the whole system, to standard error, each line marked "pulsedb". Library code logs
// only what an operator must know: a degradation (once), a failover, a refused peer. Thread-safe.
// The level comes from the environment variable PULSE_LOG (error, warn, info, debug); default warn.
#pragma once

#include "absl/strings/string_view.h"

namespace pulse {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

void SetLogLevel(LogLevel level);
void Log(LogLevel level, absl::string_view message);

// Logs `message` at kWarn the first time that `key` is seen in this process.
void LogOnce(absl::string_view key, absl::string_view message);

}  // namespace pulse
