// One logger for the whole system, to standard error, each line marked "pulsedb". Library code logs
// only what an operator must know: a degradation (once), a failover, a refused peer. Thread-safe.
// The level comes from the environment variable PULSE_LOG (error, warn, info, debug); default warn.
// With PULSE_LOG_FORMAT=json each line is a JSON object: time (UTC), level, program ("pulsedb"),
// pid, thread, message, and of LogOnce the key.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace pulse {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

void SetLogLevel(LogLevel level);
void Log(LogLevel level, absl::string_view message);

// Logs `message` at kWarn the first time that `key` is seen in this process.
void LogOnce(absl::string_view key, absl::string_view message);

// While there is one, Log's and LogOnce's lines of kWarn and above go to it instead of standard
// error, and others nowhere: what is part of another program prints nothing. Each of several gets
// all of them. `take` is called by any thread, one at a time, and must not log; it may be empty.
class LogTarget {
 public:
  using Take = std::function<void(absl::string_view message)>;
  explicit LogTarget(Take take);
  ~LogTarget();
  LogTarget(const LogTarget&) = delete;
  LogTarget& operator=(const LogTarget&) = delete;
  static bool Give(LogLevel level, absl::string_view message);  // false: there is none

 private:
  const Take take_;
};

// A program's own line, as "pulse agent: listening on PATH": to standard error at every level, as
// it is or, with PULSE_LOG_FORMAT=json, as JSON.
void Say(absl::string_view line, LogLevel level = LogLevel::kInfo);

// The JSON of one line, without its end. `when_millis` since 1970; without `key` there is none.
std::string LogLineAsJson(LogLevel level, int64_t when_millis, absl::string_view message,
                          absl::string_view key = {});

}  // namespace pulse
