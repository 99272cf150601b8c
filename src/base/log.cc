#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace pulse {
namespace {

spdlog::logger& Logger() {
  // Leaked on purpose: agent threads may log while static destructors run.
  static spdlog::logger* logger = [] {
    auto* l = new spdlog::logger("pulsedb", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    l->set_pattern("%Y-%m-%d %H:%M:%S.%e pulsedb %l: %v");
    const char* env = std::getenv("PULSE_LOG");
    // from_str calls an unknown word "off"; only that word itself should silence the log.
    const auto level = spdlog::level::from_str(env == nullptr ? "warning" : env);
    const bool unknown = level == spdlog::level::off && std::string(env) != "off";
    l->set_level(unknown ? spdlog::level::warn : level);
    l->flush_on(spdlog::level::warn);
    return l;
  }();
  return *logger;
}

spdlog::level::level_enum Native(LogLevel level) {
  constexpr spdlog::level::level_enum kNative[] = {spdlog::level::debug, spdlog::level::info,
                                                   spdlog::level::warn, spdlog::level::err};
  return kNative[static_cast<size_t>(level)];
}

}  // namespace

void SetLogLevel(LogLevel level) { Logger().set_level(Native(level)); }

void Log(LogLevel level, absl::string_view message) {
  Logger().log(Native(level), spdlog::string_view_t(message.data(), message.size()));
}

void LogOnce(absl::string_view key, absl::string_view message) {
  static std::mutex* mu = new std::mutex;
  static std::set<std::string>* seen = new std::set<std::string>;
  {
    std::lock_guard lock(*mu);
    if (!seen->insert(std::string(key)).second) return;
  }
  Log(LogLevel::kWarn, message);
}

}  // namespace pulse
