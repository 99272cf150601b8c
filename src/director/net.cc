#include "director/net.h"

namespace pulse::director {

std::string_view NetKindName(NetKind kind) {
  switch (kind) {
    case NetKind::kEpoll:
      return "epoll";
    case NetKind::kUring:
      return "io_uring";
    case NetKind::kAuto:
      break;
  }
  return "auto";
}

absl::StatusOr<std::unique_ptr<NetBackend>> CreateNetBackend(const NetOptions& options) {
  return CreateEpollBackend(options);
}

}  // namespace pulse::director
