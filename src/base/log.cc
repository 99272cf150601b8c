#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json.h"

namespace pulse {
namespace {

std::string FormatAsked() {
  const char* const format = std::getenv("PULSE_LOG_FORMAT");
  return format == nullptr || *format == '\0' ? "text" : format;
}

bool AsJson() {
  static const bool json = FormatAsked() == "json";
  return json;
}

int64_t MillisNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

spdlog::level::level_enum Native(LogLevel level) {
  constexpr spdlog::level::level_enum kNative[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  return kNative[static_cast<size_t>(level)];
}

void WriteTo(spdlog::logger* logger, LogLevel level, absl::string_view message,
             absl::string_view key = {}) {
  if (!AsJson()) {
    logger->log(Native(level), spdlog::string_view_t(message.data(), message.size()));
    return;
  }
  if (!logger->should_log(Native(level))) return;
  logger->log(Native(level), LogLineAsJson(level, MillisNow(), message, key));
}

spdlog::logger& Logger() {
  // Leaked on purpose: agent threads may log while static destructors run.
  static spdlog::logger* logger = [] {
    auto* l = new spdlog::logger("pulsedb", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    l->set_pattern(AsJson() ? "%v" : "%Y-%m-%d %H:%M:%S.%e pulsedb %l: %v");
    const char* env = std::getenv("PULSE_LOG");
    // from_str calls an unknown word "off"; only that word itself should silence the log.
    const auto level = spdlog::level::from_str(env == nullptr ? "warning" : env);
    const bool unknown = level == spdlog::level::off && std::string(env) != "off";
    l->set_level(unknown ? spdlog::level::warn : level);
    l->flush_on(spdlog::level::warn);
    if (unknown) {
      WriteTo(l, LogLevel::kWarn,
              absl::StrCat("PULSE_LOG=", env,
                           " is no level; expected error, warn, info, debug or off; ",
                           "taken for warn"));
    }
    if (const std::string format = FormatAsked(); format != "text" && format != "json") {
      WriteTo(l, LogLevel::kWarn,
              absl::StrCat("PULSE_LOG_FORMAT=", format,
                           " is no format; expected text or json; taken for text"));
    }
    return l;
  }();
  return *logger;
}

// Leaked, as the logger is.
struct Targets {
  std::mutex mutex;
  std::set<const LogTarget*> targets;
  std::set<std::string> seen;  // LogOnce's keys; a new target has been told nothing
};
Targets& AllTargets() {
  static auto* const targets = new Targets;
  return *targets;
}

}  // namespace

void SetLogLevel(LogLevel level) { Logger().set_level(Native(level)); }

std::string LogLineAsJson(LogLevel level, int64_t when_millis, absl::string_view message,
                          absl::string_view key) {
  constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  const std::time_t seconds = when_millis / 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char time[40];
  const size_t length = std::strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(time + length, sizeof(time) - length, ".%03dZ",
                static_cast<int>(when_millis % 1000));
  char thread[17] = "";
  prctl(PR_GET_NAME, thread);
  JsonWriter line;
  line.Open('{').Add("time", time).Add("level", kNames[static_cast<size_t>(level)]);
  line.Add("program", "pulsedb").Add("pid", static_cast<uint64_t>(getpid()));
  line.Add("thread", thread);
  if (!key.empty()) line.Add("key", key);
  line.Add("message", message).Close('}');
  return line.text();
}

void Say(absl::string_view line, LogLevel level) {
  const std::string text = AsJson() ? LogLineAsJson(level, MillisNow(), line) : std::string(line);
  std::fprintf(stderr, "%s\n", text.c_str());
}

LogTarget::LogTarget(Take take) : take_(std::move(take)) {
  const std::lock_guard lock(AllTargets().mutex);
  AllTargets().targets.insert(this);
  AllTargets().seen.clear();
}

LogTarget::~LogTarget() {
  const std::lock_guard lock(AllTargets().mutex);
  AllTargets().targets.erase(this);
}

bool LogTarget::Give(LogLevel level, absl::string_view message) {
  const std::lock_guard lock(AllTargets().mutex);
  for (const LogTarget* target : AllTargets().targets) {
    if (level >= LogLevel::kWarn && target->take_) target->take_(message);
  }
  return !AllTargets().targets.empty();
}

void Log(LogLevel level, absl::string_view message) {
  if (!LogTarget::Give(level, message)) WriteTo(&Logger(), level, message);
}

void LogOnce(absl::string_view key, absl::string_view message) {
  {
    const std::lock_guard lock(AllTargets().mutex);
    if (!AllTargets().seen.insert(std::string(key)).second) return;
  }
  if (!LogTarget::Give(LogLevel::kWarn, message)) {
    WriteTo(&Logger(), LogLevel::kWarn, message, key);
  }
}

}  // namespace pulse
