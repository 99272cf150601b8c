// `pulse pages serve` as a whole: a director whose flows ask a PageServer. Behind an agent that
// answers reads, `ordered` makes replies leave in the order of the requests: so the agent knows
// which were answered when it loses this server. Open returns when clients can connect; destruction
// finishes what was asked for. The calls of one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "examples/pages/page_server.h"
#include "net/application.h"
#include "net/director.h"

namespace pulse::pages {

struct HostOptions {
  std::string listen = "127.0.0.1:0";
  int threads = 1;  // of the network
  bool ordered = false;
  PageServerOptions server;
};

class HostProgram : public director::Application {
 public:
  static absl::StatusOr<std::unique_ptr<HostProgram>> Open(const HostOptions& options);
  ~HostProgram() override;

  std::unique_ptr<director::Flow> NewFlow(director::Connection* connection) override;
  director::Ordering ordering() const override {
    return ordered_ ? director::Ordering::kRequest : director::Ordering::kAny;
  }
  uint16_t port() const { return director_->port(); }
  PageServer* server() { return server_.get(); }

 private:
  explicit HostProgram(bool ordered) : ordered_(ordered) {}

  const bool ordered_;
  std::unique_ptr<PageServer> server_;
  std::unique_ptr<director::Director> director_;
};

}  // namespace pulse::pages
