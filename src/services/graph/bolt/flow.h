// A Bolt connection as a director's flow: handshake, messages out of chunks, and answers from the
// thread that makes them. Of a connection's loop.
#pragma once

#include <memory>

#include "net/application.h"
#include "services/graph/bolt/shared.h"

namespace pulse::bolt {

class BoltApplication : public net::Application {
 public:
  // Which outlives it. `room`: bytes of answers that a connection may hold unsent.
  BoltApplication(BoltShared* shared, size_t room) : shared_(shared), room_(room) {}
  std::unique_ptr<net::Flow> NewFlow(net::Connection* connection) override;

 private:
  BoltShared* const shared_;
  const size_t room_;
};

}  // namespace pulse::bolt
