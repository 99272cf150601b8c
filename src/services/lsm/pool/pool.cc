#include "services/lsm/pool/pool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/errors.h"
#include "base/log.h"
#include "services/lsm/core/host_registry.h"
#include "services/lsm/pool/pool_former.h"
#include "store/late_writers.h"

namespace pulse::lsm {
namespace {

constexpr char kFullRemedy[] =
    "delete data, or move the database to a larger pool: `pulse pool export`, then `pulse pool "
    "import`";

struct Registry {
  std::mutex mu;
  std::map<const store::Store*, std::weak_ptr<Pool>> pools;
};

Registry& Pools() {
  static Registry* registry = new Registry;  // outlives every FileSystem
  return *registry;
}

int64_t LockOf(store::FileId file) {
  // Far fewer files are ever made than fit.
  return store::kLateWriterLocks + static_cast<int64_t>(file & ((uint64_t{1} << 60) - 1));
}

}  // namespace

GuardInfo GuardInfoOf(const store::Store& store) {
  const auto& uuid = store.geometry().uuid;
  return {store.path(), absl::BytesToHexString(absl::string_view(
                            reinterpret_cast<const char*>(uuid.data()), uuid.size()))};
}

absl::Status CheckPoolPath(absl::string_view path) {
  if (!absl::StrContains(path, '&')) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the pool ", path,
                   ": a URI cannot name it, since & separates the options there; "
                   "choose a path without &"));
}

absl::StatusOr<std::shared_ptr<Pool>> Pool::Open(const std::string& given) {
  std::error_code ec;
  std::string path = std::filesystem::canonical(given, ec).string();
  if (ec) path = given;  // the store says what is wrong with it
  std::unique_lock lock(Pools().mu);
  PULSE_ASSIGN_OR_RETURN(auto store, store::Store::Open(path));
  std::weak_ptr<Pool>& known = Pools().pools[store.get()];
  if (std::shared_ptr<Pool> pool = known.lock()) return pool;
  std::shared_ptr<Pool> pool(new Pool(std::move(store)));
  pool->lock_fd_ = pool->OpenDevice(O_RDWR);
  if (pool->lock_fd_.valid()) pool->read_fd_ = pool->OpenDevice(O_RDONLY);
  if (!pool->read_fd_.valid()) {
    absl::Status st = ErrnoError(errno, "opening pool", path);
    lock.unlock();  // the destructor takes it
    return st;
  }
  posix_fadvise(pool->read_fd_.get(), 0, 0, POSIX_FADV_RANDOM);
  known = pool;
  return pool;
}

Pool::~Pool() {
  std::lock_guard lock(Pools().mu);
  const auto it = Pools().pools.find(store_.get());
  if (it != Pools().pools.end() && it->second.expired()) Pools().pools.erase(it);
}

bool Pool::MayHold(absl::string_view name) {
  name = absl::StripSuffix(name, ".tmp");
  name = absl::StripSuffix(name, ".trash");
  return absl::EndsWith(name, ".sst") || absl::EndsWith(name, ".blob");
}

absl::StatusOr<store::FileId> Pool::Find(const std::string& canonical) {
  return store_->Lookup(DirectoryOf(canonical), NameOf(canonical));
}

absl::StatusOr<store::FileId> Pool::Create(const std::string& canonical) {
  Reap();
  const std::string dir = DirectoryOf(canonical);
  const absl::string_view name = NameOf(canonical);
  PULSE_RETURN_IF_ERROR(CheckDirectoryName(dir));
  if (!store_->HasDirectory(dir)) {
    absl::Status made = store_->CreateDirectory(dir);
    if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  }
  absl::Status gone = store_->Unlink(dir, name);
  if (!gone.ok() && !absl::IsNotFound(gone)) return gone;
  return store_->CreateFile(dir, name);
}

absl::StatusOr<FetchInput> Pool::OpenInput(const std::string& canonical, IoMode io) {
  PULSE_ASSIGN_OR_RETURN(auto file, Find(canonical));
  PULSE_ASSIGN_OR_RETURN(auto pin, store_->Pin(file));
  PULSE_ASSIGN_OR_RETURN(auto attributes, store_->Stat(file));
  FetchInput input;
  input.size = attributes.size;
  std::vector<store::Extent> extents;
  PULSE_RETURN_IF_ERROR(store_->MapRead(file, 0, input.size, &extents));
  uint64_t offset = 0;
  for (const store::Extent& e : extents) {
    if (e.hole()) return absl::UnimplementedError(absl::StrCat(canonical, " has holes"));
    input.runs.push_back({offset, e.device_offset, e.length});
    offset += e.length;
  }
  const bool direct = io != IoMode::kBuffered && store_->direct_io();
  input.fd = OpenDevice(O_RDONLY | (direct ? O_DIRECT : 0));
  if (!input.fd.valid()) return ErrnoError(errno, "opening", store_->path());
  input.held = std::make_shared<store::FilePin>(std::move(pin));
  return input;
}

absl::StatusOr<std::vector<store::Extent>> Pool::MapWrite(store::FileId file, uint64_t offset,
                                                          uint64_t length,
                                                          const std::string& path) {
  std::vector<store::Extent> extents;
  absl::Status st = store_->MapWrite(file, offset, length, &extents);
  if (absl::IsResourceExhausted(st)) {
    Reap();
    extents.clear();
    st = store_->MapWrite(file, offset, length, &extents);
  }
  if (st.ok()) return extents;
  if (!absl::IsResourceExhausted(st)) return st;
  return ErrnoError(ENOSPC, "writing", absl::StrCat(path, " to pool ", store_->path()),
                    kFullRemedy);
}

absl::StatusOr<bool> Pool::WritesDirect(IoMode io) const {
  if (io == IoMode::kDirect && !store_->direct_io()) {
    return ErrnoError(EINVAL, "opening for direct I/O", absl::StrCat("pool ", store_->path()),
                      "what it lies on has no direct I/O: use io=auto or io=buffered");
  }
  return io != IoMode::kBuffered && store_->direct_io();
}

uint64_t Pool::FreeBytes() {
  Reap();  // a database that waits for space asks for nothing else
  const store::Usage usage = store_->usage();
  return (usage.free + usage.pending) * store_->geometry().segment_bytes;
}

absl::Status Pool::CommitNames() {
  const uint64_t changes = name_changes_.load(std::memory_order_acquire);
  if (committed_names_.load(std::memory_order_acquire) >= changes) return absl::OkStatus();
  PULSE_RETURN_IF_ERROR(store_->Commit());
  uint64_t committed = committed_names_.load(std::memory_order_relaxed);
  while (committed < changes &&
         !committed_names_.compare_exchange_weak(committed, changes, std::memory_order_acq_rel)) {
  }
  return absl::OkStatus();
}

UniqueFd Pool::OpenDevice(int flags) const {
  UniqueFd fd(open(store_->path().c_str(), flags | O_CLOEXEC));
  struct stat here {
  }, there{};
  if (!fd.valid() || fstat(fd.get(), &here) != 0 || fstat(store_->device_fd(false), &there) != 0) {
    return UniqueFd();
  }
  const bool block = S_ISBLK(here.st_mode) && S_ISBLK(there.st_mode);
  const bool same = block ? here.st_rdev == there.st_rdev
                          : here.st_dev == there.st_dev && here.st_ino == there.st_ino;
  if (same) return fd;
  errno = ESTALE;  // the pool was moved, and something else is there now
  return UniqueFd();
}

UniqueFd Pool::OpenForAgent(store::FileId file, bool direct) {
  UniqueFd fd = OpenDevice(O_RDWR | (direct ? O_DIRECT : 0));
  if (!fd.valid()) return fd;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = LockOf(file);
  lock.l_len = 1;
  if (fcntl(fd.get(), F_OFD_SETLK, &lock) != 0) {
    LogOnce("pool lock", absl::StrCat("writing to pool ", store_->path(),
                                      " without the agent: its file system has no locks"));
    return UniqueFd();
  }
  return fd;
}

bool Pool::MayStillWrite(store::FileId file) const {
  return store::HasLateWriter(lock_fd_.get(), LockOf(file), 1);
}

absl::Status Pool::HoldBack(store::FileId file) {
  PULSE_ASSIGN_OR_RETURN(auto quarantine, store_->Quarantine(file));
  std::lock_guard lock(mu_);
  held_.push_back({file, quarantine});
  return absl::OkStatus();
}

void Pool::Reap() {
  std::lock_guard lock(mu_);
  std::erase_if(held_, [this](const Held& held) {
    if (MayStillWrite(held.file)) return false;
    store_->ReleaseQuarantine(held.quarantine);
    return true;
  });
}

}  // namespace pulse::lsm
