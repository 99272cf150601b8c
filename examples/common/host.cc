#include "examples/common/host.h"

#include <utility>

#include "base/errors.h"

namespace pulse::examples {

absl::Status Host::Listen(const HostOptions& options) {
  net::DirectorOptions d;
  d.listen = {options.listen};
  d.threads = options.threads;
  d.application = this;
  d.limits.max_message = kMaxMessage;
  PULSE_ASSIGN_OR_RETURN(director_, net::Director::Open(std::move(d)));
  return absl::OkStatus();
}

}  // namespace pulse::examples
