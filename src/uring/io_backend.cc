#include "uring/io_backend.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace pulse {
namespace {

int64_t Checked(int64_t rc) { return rc < 0 ? -errno : rc; }

template <typename Call>
int64_t Retry(Call call) {
  int64_t rc;
  do {
    rc = Checked(call());
  } while (rc == -EINTR);
  return rc;
}

}  // namespace

absl::StatusOr<EngineKind> ParseEngineKind(absl::string_view name) {
  for (EngineKind k : {EngineKind::kUring, EngineKind::kThreads}) {
    if (EngineName(k) == name) return k;
  }
  if (name == "libaio" || name == "io_uring_poll") {
    return absl::InvalidArgumentError(
        absl::StrCat("engine \"", name,
                     "\" is a rival that only pulse-bench measures (pulse bench paper --only "
                     "engines); choose io_uring or threads"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown engine \"", name, "\"; choose io_uring or threads"));
}

absl::string_view EngineName(EngineKind kind) {
  switch (kind) {
    case EngineKind::kUring:
      return "io_uring";
    case EngineKind::kThreads:
      return "threads";
  }
  return "unknown";
}

absl::StatusOr<std::unique_ptr<IoBackend>> CreateIoBackend(const IoBackendOptions& options) {
  if (options.factory) return options.factory(options);
  if (options.kind == EngineKind::kThreads) return CreateThreadBackend(options);
  auto made = CreateUringBackend(options);
  if (made.ok()) return made;
  LogOnce("engine io_uring",
          absl::StrCat("engine io_uring is not to be had here (", made.status().message(),
                       "); using engine=threads, which costs more CPU. `pulse doctor` says what to "
                       "change"));
  return CreateThreadBackend(options);
}

int64_t ExecuteBlocking(const IoRequest& r) {
  switch (r.op) {
    case IoOp::kRead:
      return Retry([&] { return pread(r.fd, r.buffer, r.length, r.offset); });
    case IoOp::kWrite:
      return Retry([&] { return pwrite(r.fd, r.buffer, r.length, r.offset); });
    case IoOp::kRangeSync:
      return Retry([&] {
        return sync_file_range(r.fd, r.offset, r.length,
                               SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE);
      });
    case IoOp::kSync:
      return Retry([&] { return fdatasync(r.fd); });
    case IoOp::kFallocate:
      return Retry([&] { return fallocate(r.fd, 0, 0, r.length); });
    case IoOp::kSyncClose: {
      int64_t rc = 0;
      if (r.length != kNoTruncate) rc = Retry([&] { return ftruncate(r.fd, r.length); });
      if (rc == 0) rc = Retry([&] { return fdatasync(r.fd); });
      const int64_t closed = Checked(close(r.fd));
      return rc != 0 ? rc : closed == -EINTR ? 0 : closed;
    }
    case IoOp::kClose: {
      const int64_t rc = Checked(close(r.fd));
      return rc == -EINTR ? 0 : rc;  // Linux has closed the descriptor all the same
    }
  }
  return -EINVAL;
}

}  // namespace pulse
