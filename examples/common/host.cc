#include "examples/common/host.h"

#include <utility>

namespace pulse::examples {

absl::Status Host::Listen(const HostOptions& options) {
  net::DirectorOptions d;
  d.listen = {options.listen};
  d.threads = options.threads;
  d.application = this;
  d.limits.max_message = kMaxMessage;
  auto director = net::Director::Open(std::move(d));
  if (!director.ok()) return director.status();
  director_ = *std::move(director);
  return absl::OkStatus();
}

}  // namespace pulse::examples
