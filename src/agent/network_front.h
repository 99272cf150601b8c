// NetworkFront: the part of a service that remote clients connect to, as the agent sees it. The
// agent knows no network; src/net and the services do.
//
// Threads: the agent's, in the order Listen, Stop; Status() by any thread between the two.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "agent/front_status.h"

namespace pulse {

class NetworkFront {
 public:
  virtual ~NetworkFront() = default;
  // Begins to accept clients; the agent accepts sessions by then. Blocks until clients can connect.
  virtual absl::Status Listen() = 0;
  // Ends all connections, before the agent's sessions end; no effect before Listen. Blocks while
  // requests that were taken are answered.
  virtual void Stop() = 0;
  virtual FrontStatus Status() const = 0;
  // For the line with which an agent says that it listens. After Listen.
  virtual std::string DescribeFront() const = 0;
};

}  // namespace pulse
