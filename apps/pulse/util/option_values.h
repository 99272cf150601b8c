// What several commands take as options, from text to values. Errors name the option. Thread-safe;
// never blocks.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/cpu_list.h"
#include "base/option_error.h"
#include "base/uri_options.h"

namespace pulse {

// A check of CLI11's: an empty variable of a script is no name.
inline std::string NotEmpty(const std::string& value) {
  return value.empty() ? "an empty name" : "";
}

// A check of CLI11's, whose Range lets NaN pass.
inline std::string NotNan(const std::string& value) {
  return std::isnan(std::strtod(value.c_str(), nullptr)) ? "not a number" : "";
}

// A size above 0, of which `example` is one.
inline absl::Status ReadSize(const char* option, const std::string& text, const char* example,
                             uint64_t* bytes) {
  const auto size = ParseBytes(text);
  if (!size.ok()) return OptionError(option, size.status());
  if (*size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " 0: expected a size, such as ", example));
  }
  *bytes = *size;
  return absl::OkStatus();
}

// An empty text leaves `cpus` as they are.
inline absl::Status ReadCpus(const char* option, const std::string& text, std::vector<int>* cpus) {
  if (text.empty()) return absl::OkStatus();
  auto list = ParseCpuList(text);
  if (!list.ok()) return OptionError(option, list.status());
  *cpus = *std::move(list);
  return absl::OkStatus();
}

}  // namespace pulse
