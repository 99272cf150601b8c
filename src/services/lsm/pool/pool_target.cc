#include "services/lsm/pool/pool_target.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "services/lsm/core/host_registry.h"
#include "services/lsm/core/wire.h"
#include "services/lsm/pool/pool_io.h"

namespace pulse::lsm {
namespace {

constexpr uint64_t kPoolCopyBuffer = uint64_t{1} << 20;

// Copies the first `length` bytes that `from` names to where `to` says; whole pages.
absl::Status CopyExtents(int fd, const std::vector<store::Extent>& from,
                         const std::vector<store::Extent>& to, uint64_t length,
                         const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> buffer(
      static_cast<char*>(std::aligned_alloc(wire::kPage, kPoolCopyBuffer)), &std::free);
  if (buffer == nullptr) return ErrnoError(ENOMEM, "copying", path);
  for (uint64_t at = 0; at < length;) {
    const uint64_t part = std::min(kPoolCopyBuffer, length - at);
    PULSE_RETURN_IF_ERROR(ReadExtents(fd, from, at, part, buffer.get(), path));
    PULSE_RETURN_IF_ERROR(WriteExtents(fd, to, at, part, buffer.get(), path));
    at += part;
  }
  return absl::OkStatus();
}

class PoolTarget final : public OutputTarget {
 public:
  PoolTarget(std::shared_ptr<Pool> pool, std::string path, store::FilePin pin, IoMode io,
             bool direct)
      : pool_(std::move(pool)),
        path_(std::move(path)),
        pin_(std::move(pin)),
        io_(io),
        direct_(direct) {}

  ~PoolTarget() override {
    // Deleted or given up while the agent was at it.
    if (!given_ || !pool_->MayStillWrite(pin_.file())) return;
    if (absl::Status st = pool_->HoldBack(pin_.file()); !st.ok()) {
      Log(LogLevel::kError, absl::StrCat(path_,
                                         ": an agent may still write to its segments, which "
                                         "could not be kept apart: ",
                                         st.message()));
    }
  }

  UniqueFd OpenForAgent() override {
    UniqueFd fd = pool_->OpenForAgent(pin_.file(), direct_);
    given_ = fd.valid();
    return fd;
  }

  uint64_t Preallocate(uint64_t expected) override {
    // Advice: a pool that is full shows at the write itself.
    if (expected > 0) pool_->store().Reserve(pin_.file(), expected).IgnoreError();
    return 0;
  }

  uint64_t FinalSize(uint64_t) const override { return ~uint64_t{0}; }
  bool WantsWriteBack() const override { return !direct_; }
  bool ServesReads() const override { return true; }
  absl::StatusOr<OutputTarget::Place> PlaceOf(uint64_t offset, uint64_t length) override {
    PULSE_ASSIGN_OR_RETURN(const auto extents, Map(offset, length));
    return Place{extents.front().device_offset, extents.front().length};
  }

  absl::Status TakeOver() override {
    if (!HostWritesDirect()) direct_ = false;
    return absl::OkStatus();
  }

  bool HostWritesDirect() const override { return direct_ && io_ == IoMode::kDirect; }
  void StartWriteBack(uint64_t offset, uint64_t length) override {
    const auto extents = Map(offset, length);
    if (!extents.ok()) return;
    for (const store::Extent& e : *extents) {
      (void)sync_file_range(fd(), static_cast<off_t>(e.device_offset), static_cast<off_t>(e.length),
                            SYNC_FILE_RANGE_WRITE);
    }
  }

  absl::Status Write(uint64_t offset, const char* data, uint64_t length) override {
    PULSE_ASSIGN_OR_RETURN(const auto extents, Map(offset, length));
    return WriteExtents(fd(), extents, 0, length, data, path_);
  }

  absl::Status Read(uint64_t offset, char* data, uint64_t length) override {
    // As for writing: the store knows nothing yet of what was written.
    PULSE_ASSIGN_OR_RETURN(const auto extents, Map(offset, length));
    // Buffered: the caller's memory has any alignment.
    return ReadExtents(pool_->store().device_fd(false), extents, 0, length, data, path_);
  }

  absl::Status Truncate(uint64_t from, uint64_t size) override {
    // Segments are given back at the end. What was cut off reads as zeros should the file grow
    // again.
    const std::vector<char> zeros(std::min(kPoolCopyBuffer, size > from ? size - from : 0));
    while (from < size) {
      const uint64_t part = std::min<uint64_t>(zeros.size(), size - from);
      PULSE_ASSIGN_OR_RETURN(const auto extents, Map(from, part));
      PULSE_RETURN_IF_ERROR(
          WriteExtents(pool_->store().device_fd(false), extents, 0, part, zeros.data(), path_));
      from += part;
    }
    return absl::OkStatus();
  }

  absl::Status Sync(uint64_t size) override {
    store::Store& store = pool_->store();
    // The data first: any commit, also another's, carries the size from when it is entered.
    PULSE_RETURN_IF_ERROR(store.SyncData());
    {
      std::lock_guard lock(mu_);
      // Its writer may have closed it meanwhile, with more in it.
      if (!final_ && size > 0) PULSE_RETURN_IF_ERROR(store.Wrote(pin_.file(), 0, size));
    }
    return store.Commit();
  }

  absl::Status SyncClose(uint64_t) override { return pool_->store().SyncData(); }

  absl::StatusOr<bool> MoveAside(uint64_t size) override {
    PULSE_RETURN_IF_ERROR(pool_->HoldBack(pin_.file()));
    PULSE_ASSIGN_OR_RETURN(auto now, pool_->store().Stat(pin_.file()));
    if (now.allocated == 0) return false;
    const uint64_t written =
        std::min((size + wire::kPage - 1) / wire::kPage * wire::kPage, now.allocated);
    const absl::Status moved = pool_->store().Relocate(
        pin_.file(),
        [&](const std::vector<store::Extent>& from, const std::vector<store::Extent>& to) {
          PULSE_RETURN_IF_ERROR(CopyExtents(fd(), from, to, written, path_));
          return pool_->store().SyncData();  // some of it may have been promised
        });
    if (absl::IsResourceExhausted(moved)) {
      return ErrnoError(ENOSPC, "moving aside", path_, "the pool is full");
    }
    if (!moved.ok()) return moved;
    given_ = false;  // what it has is not this output's any more
    return true;
  }

  bool OnDataDurableLocked(uint64_t size) override {
    store::Store& store = pool_->store();
    const store::FileId file = pin_.file();
    std::lock_guard lock(mu_);
    final_ = true;
    if (size > 0) entered_ = store.Wrote(file, 0, size);
    // More was there, and synced, before it was truncated.
    const auto now = store.Stat(file);
    if (entered_.ok() && now.ok() && now->size > size) entered_ = store.SetSize(file, size);
    if (entered_.ok()) entered_ = store.Trim(file);
    return false;
  }

  void OnAgentClosedLocked() override { given_ = false; }
  absl::Status Commit() override {
    {
      std::lock_guard lock(mu_);
      PULSE_RETURN_IF_ERROR(entered_);
    }
    return pool_->store().Commit();
  }

 private:
  int fd() const { return pool_->store().device_fd(direct_); }
  absl::StatusOr<std::vector<store::Extent>> Map(uint64_t offset, uint64_t length) const {
    return pool_->MapWrite(pin_.file(), offset, length, path_);
  }

  const std::shared_ptr<Pool> pool_;
  const std::string path_;
  const store::FilePin pin_;  // deleted or not, its segments are its own until the last write
  const IoMode io_;
  std::atomic<bool> direct_;  // how it is written
  bool given_ = false;        // an agent may have the file open, and write to its segments
  std::mutex mu_;             // taken before the store's, after HostSession::mu()
  bool final_ = false;        // the size that was entered is the last
  absl::Status entered_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<OutputTarget>> CreatePoolTarget(std::shared_ptr<Pool> pool,
                                                               const std::string& path, IoMode io) {
  // As in a plain directory, which has to be there.
  const std::string dir = DirectoryOf(path);
  if (access(dir.c_str(), W_OK) != 0) return ErrnoError(errno, "creating", path);
  PULSE_ASSIGN_OR_RETURN(auto direct, pool->WritesDirect(io));
  PULSE_ASSIGN_OR_RETURN(auto file, pool->Create(path));
  PULSE_ASSIGN_OR_RETURN(auto pin, pool->store().Pin(file));
  return std::make_shared<PoolTarget>(std::move(pool), path, std::move(pin), io, direct);
}

}  // namespace pulse::lsm
