// Why an agent turned a file down for want of descriptors, and the remedy. Host side; pure.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace pulse::lsm {

// Its own descriptors, or those on the way to it: the host works on the file itself.
inline bool IsRefusal(int err) { return err == EBADF || err == ENFILE || err == EMFILE; }

// To follow "the agent, which ", for any error number.
inline std::string WhyRefused(int err) {
  switch (err) {
    case ENFILE:
      return "has no descriptors left for this process; raise its --max-files, or its limit of "
             "open files (ulimit -n)";
    case EMFILE:
      return "has no descriptors left; raise its limit of open files (ulimit -n)";
    default:
      return absl::StrCat("could not open it: ", std::strerror(err));
  }
}

}  // namespace pulse::lsm
