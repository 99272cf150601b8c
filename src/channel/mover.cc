#include "channel/mover.h"

#include <sys/uio.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "channel/wire.h"

namespace pulse {
namespace {

class SharedMover : public Mover {
 public:
  SharedMover(char* arena, size_t bytes) : arena_(arena), bytes_(bytes) {}
  char* local() const override { return arena_; }
  size_t size() const override { return bytes_; }
  absl::Status Pull(uint64_t, uint64_t) override { return absl::OkStatus(); }
  absl::Status Push(uint64_t, uint64_t) override { return absl::OkStatus(); }
  MoverKind kind() const override { return MoverKind::kShared; }

 private:
  char* arena_;
  size_t bytes_;
};

class VmReadMover : public Mover {
 public:
  VmReadMover(pid_t peer, uint64_t address, Region mirror, size_t bytes)
      : peer_(peer), address_(address), mirror_(std::move(mirror)), bytes_(bytes) {}
  char* local() const override { return mirror_.data(); }
  size_t size() const override { return bytes_; }
  MoverKind kind() const override { return MoverKind::kVmRead; }

  absl::Status Pull(uint64_t offset, uint64_t length) override {
    return Copy(offset, length, process_vm_readv, "reading");
  }
  absl::Status Push(uint64_t offset, uint64_t length) override {
    return Copy(offset, length, process_vm_writev, "writing");
  }

 private:
  template <typename Call>
  absl::Status Copy(uint64_t offset, uint64_t length, Call call, const char* what) {
    while (length > 0) {
      iovec local{mirror_.data() + offset, length};
      iovec remote{reinterpret_cast<void*>(address_ + offset), length};
      const ssize_t n = call(peer_, &local, 1, &remote, 1, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        return ErrnoError(n < 0 ? errno : EFAULT, absl::StrCat(what, " the memory of process"),
                          absl::StrCat(peer_),
                          "the process is gone, or ptrace rules forbid it: use mover=shared");
      }
      offset += n;
      length -= n;
    }
    return absl::OkStatus();
  }

  pid_t peer_;
  uint64_t address_;
  Region mirror_;
  size_t bytes_;
};

}  // namespace

absl::StatusOr<MoverKind> ParseMoverKind(absl::string_view name) {
  if (name == "shared") return MoverKind::kShared;
  if (name == "vmread") return MoverKind::kVmRead;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown mover \"", name, "\"; known are shared, vmread"));
}

absl::string_view MoverName(MoverKind kind) {
  return kind == MoverKind::kShared ? "shared" : "vmread";
}

std::unique_ptr<Mover> Mover::CreateShared(char* arena, size_t bytes) {
  return std::make_unique<SharedMover>(arena, bytes);
}

absl::StatusOr<std::unique_ptr<Mover>> Mover::CreateVmRead(pid_t peer, uint64_t peer_address,
                                                           size_t bytes) {
  auto mirror = Region::CreatePrivate(bytes);
  if (!mirror.ok()) return mirror.status();
  auto mover = std::make_unique<VmReadMover>(peer, peer_address, *std::move(mirror), bytes);
  // Find out now, not at the first write, whether the kernel lets us.
  PULSE_RETURN_IF_ERROR(mover->Pull(0, wire::kPage));
  return std::unique_ptr<Mover>(std::move(mover));
}

}  // namespace pulse
