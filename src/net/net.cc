#include "net/net.h"

#include <sys/socket.h>

#include "absl/strings/str_cat.h"
#include "base/log.h"

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

void Stream::EndSending() { shutdown(fd(), SHUT_WR); }

absl::StatusOr<std::unique_ptr<NetBackend>> CreateNetBackend(const NetOptions& options) {
  if (options.kind == NetKind::kEpoll) return CreateEpollBackend(options);
  auto uring = CreateUringNetBackend(options);
  if (uring.ok() || options.kind == NetKind::kUring) return uring;
  LogOnce("director net",
          absl::StrCat("networking uses epoll instead of io_uring: ", uring.status().message()));
  return CreateEpollBackend(options);
}

}  // namespace pulse::director
