// ServiceModules: the services of one agent process that its command line asks for, opened in the
// table's order and closed in the opposite one.
//
// Open may block on disk I/O. One thread opens and closes them; Numbers() may be called by any
// thread in between. They outlive the agent's sessions.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/service_module.h"

namespace pulse {

class ServiceModules {
 public:
  // Errors are those of the services' open functions. `facts.opened` is filled here.
  static absl::StatusOr<std::unique_ptr<ServiceModules>> Open(
      std::span<const ServiceEntry* const> entries, const OptionValues& options, AgentFacts facts);
  ~ServiceModules();
  ServiceModules(const ServiceModules&) = delete;
  ServiceModules& operator=(const ServiceModules&) = delete;

  // What hosts may attach to.
  ServiceTable Offered() const;
  // All services that this release knows, whether or not they are open.
  std::vector<const ServiceSpec*> Known() const;
  std::vector<NumberGroup> Numbers() const;
  std::string Describe() const;
  void Stop();
  // Of the service that serves remote clients; null: there is none.
  NetworkFront* front() const;

 private:
  explicit ServiceModules(std::span<const ServiceEntry* const> entries) : entries_(entries) {}

  const std::span<const ServiceEntry* const> entries_;
  std::vector<std::unique_ptr<ServiceModule>> modules_;
};

}  // namespace pulse
