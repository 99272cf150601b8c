// The plug-in's parameters on nbdkit's command line. Thread-compatible, never blocks; errors name
// the parameter and what it takes.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pulse::nbd {

struct PluginOptions {
  std::string socket;  // absolute
  std::string directory;
  std::string file;       // empty: every file of the directory is an export
  uint64_t size = 0;      // 0: not given
  uint32_t timeout = 30;  // seconds that the agent may be silent; 0: for ever
  bool create = false;
  bool readonly = false;
};

// The name under which nbdkit hands over a parameter without "=".
inline constexpr char kBareWord[] = "flag";

extern const char kPluginHelp[];

// One parameter.
absl::Status SetOption(absl::string_view key, absl::string_view value, PluginOptions* options);
// All were given: do they go together?
absl::Status CheckOptions(const PluginOptions& options);

}  // namespace pulse::nbd
