// The host program of `pages`: flows ask a PageServer. Open returns when clients can connect;
// destruction finishes what was asked for. The calls of one thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "examples/common/host.h"
#include "examples/pages/page_server.h"

namespace pulse::pages {

struct HostOptions : examples::HostOptions {
  PageServerOptions server;  // but for its files
};

class HostProgram : public examples::Host {
 public:
  static absl::StatusOr<std::unique_ptr<HostProgram>> Open(const HostOptions& options);
  ~HostProgram() override;

  std::unique_ptr<net::Flow> NewFlow(net::Connection* connection) override;
  std::string Describe() override;
  PageServer* server() { return server_.get(); }

 private:
  using Host::Host;

  std::unique_ptr<PageServer> server_;
};

}  // namespace pulse::pages
