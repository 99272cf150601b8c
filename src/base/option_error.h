// Errors of what a command's options were given.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace pulse {

// The error of what `option` was given, with the option's name.
inline absl::Status OptionError(const char* option, const absl::Status& why) {
  return absl::InvalidArgumentError(absl::StrCat(option, ": ", why.message()));
}

}  // namespace pulse
