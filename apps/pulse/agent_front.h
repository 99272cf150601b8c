// Where an agent meets remote clients: `pulse agent --serve`, `--serve-host`.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/front_status.h"
#include "net/director.h"

namespace pulse {

struct FrontArgs {
  std::vector<std::string> serve;  // [ADDRESS:]PORT, or a Unix socket's path
  std::string host;                // ADDRESS:PORT, or a Unix socket's path
  std::vector<std::string> match;  // rules for which clients the agent looks at; none: all
  bool anywhere = false;           // also beyond loopback
  int spin_us = 0;                 // how long it looks for requests before it sleeps
};

// A director's options for these, without an application. InvalidArgument names the option that is
// missing or wrong.
absl::StatusOr<director::DirectorOptions> FrontOptions(const FrontArgs& args);

// What the director counts, and how it is called.
FrontStatus DirectorStatus(const director::Director& director, std::string service);

}  // namespace pulse
