#include "mover/mover.h"

#include <sys/uio.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/private_memory.h"

namespace pulse {
namespace {

// Enough to find out whether the kernel lets us; no arena is smaller.
constexpr uint64_t kFirstLook = 4096;

class SharedMover : public Mover {
 public:
  SharedMover(char* arena, size_t bytes) : arena_(arena), bytes_(bytes) {}
  char* local() const override { return arena_; }
  size_t size() const override { return bytes_; }
  absl::Status Pull(uint64_t, uint64_t) override { return absl::OkStatus(); }
  absl::Status Push(uint64_t, uint64_t) override { return absl::OkStatus(); }
  absl::Status PullSpans(const MoverSpan*, size_t) override { return absl::OkStatus(); }
  absl::Status PushSpans(const MoverSpan*, size_t) override { return absl::OkStatus(); }
  MoverKind kind() const override { return MoverKind::kShared; }

 private:
  char* arena_;
  size_t bytes_;
};

class VmReadMover : public Mover {
 public:
  VmReadMover(pid_t peer, uint64_t address, PrivateMemory mirror, size_t bytes)
      : peer_(peer), address_(address), mirror_(std::move(mirror)), bytes_(bytes) {}
  char* local() const override { return mirror_.data(); }
  size_t size() const override { return bytes_; }
  MoverKind kind() const override { return MoverKind::kVmRead; }

  absl::Status Pull(uint64_t offset, uint64_t length) override {
    const MoverSpan span{offset, length};
    return Copy(&span, 1, process_vm_readv, "reading");
  }
  absl::Status Push(uint64_t offset, uint64_t length) override {
    const MoverSpan span{offset, length};
    return Copy(&span, 1, process_vm_writev, "writing");
  }
  absl::Status PullSpans(const MoverSpan* spans, size_t n) override {
    return Copy(spans, n, process_vm_readv, "reading");
  }
  absl::Status PushSpans(const MoverSpan* spans, size_t n) override {
    return Copy(spans, n, process_vm_writev, "writing");
  }

 private:
  // The kernel takes the remote vectors one after the other, and the peer's memory lock for each.
  template <typename Call>
  absl::Status Copy(const MoverSpan* spans, size_t count, Call call, const char* what) {
    iovec local[kMaxSpans];
    iovec remote[kMaxSpans];
    size_t n = 0;
    for (size_t i = 0; i < count; ++i) {
      if (spans[i].length == 0) continue;
      if (n == kMaxSpans) return absl::InvalidArgumentError("more spans than a mover takes");
      local[n] = {mirror_.data() + spans[i].offset, spans[i].length};
      remote[n++] = {reinterpret_cast<void*>(address_ + spans[i].offset), spans[i].length};
    }
    for (size_t done = 0; done < n;) {
      ssize_t moved = call(peer_, local + done, n - done, remote + done, n - done, 0);
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0) {
        return ErrnoError(moved < 0 ? errno : EFAULT, absl::StrCat(what, " the memory of process"),
                          absl::StrCat(peer_),
                          "the process is gone, or ptrace rules forbid it: use mover=shared");
      }
      for (; done < n && static_cast<size_t>(moved) >= local[done].iov_len; ++done) {
        moved -= static_cast<ssize_t>(local[done].iov_len);
      }
      if (moved == 0) continue;
      local[done].iov_base = static_cast<char*>(local[done].iov_base) + moved;
      local[done].iov_len -= moved;
      remote[done].iov_base = static_cast<char*>(remote[done].iov_base) + moved;
      remote[done].iov_len -= moved;
    }
    return absl::OkStatus();
  }

  pid_t peer_;
  uint64_t address_;
  PrivateMemory mirror_;
  size_t bytes_;
};

}  // namespace

absl::Status Mover::PullSpans(const MoverSpan* spans, size_t n) {
  for (size_t i = 0; i < n; ++i) PULSE_RETURN_IF_ERROR(Pull(spans[i].offset, spans[i].length));
  return absl::OkStatus();
}

absl::Status Mover::PushSpans(const MoverSpan* spans, size_t n) {
  for (size_t i = 0; i < n; ++i) PULSE_RETURN_IF_ERROR(Push(spans[i].offset, spans[i].length));
  return absl::OkStatus();
}

absl::Status Mover::StartPull(uint64_t offset, uint64_t length, int64_t* there_at) {
  *there_at = 0;
  return Pull(offset, length);
}

absl::Status Mover::StartPush(uint64_t offset, uint64_t length, int64_t* there_at) {
  *there_at = 0;
  return Push(offset, length);
}

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
  PULSE_ASSIGN_OR_RETURN(auto mirror, PrivateMemory::Create(bytes));
  auto mover = std::make_unique<VmReadMover>(peer, peer_address, std::move(mirror), bytes);
  // Find out now, not at the first write, whether the kernel lets us.
  PULSE_RETURN_IF_ERROR(mover->Pull(0, kFirstLook));
  return std::unique_ptr<Mover>(std::move(mover));
}

}  // namespace pulse
