// Opening a store, and sharing it within the process.
#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "store/store_impl.h"

namespace pulse::store {
namespace {

constexpr uint64_t kBufferLimit = uint64_t{1} << 20;

// The stores that are open in this process. An entry outlives its store until the lock is released:
// whoever opens in between waits.
class Registry {
 public:
  static Registry& Get() {
    static auto* const registry = new Registry;  // stores may be closed by destructors of statics
    return *registry;
  }

  static RegistryKey KeyOf(const std::string& path) {
    struct stat st {};
    if (stat(path.c_str(), &st) != 0) return std::nullopt;
    const bool block = S_ISBLK(st.st_mode);
    return block ? std::tuple(true, uint64_t{st.st_rdev}, uint64_t{0})
                 : std::tuple(false, uint64_t{st.st_dev}, uint64_t{st.st_ino});
  }

  // The store, or null when the caller is to open it, and then to call Put() or Remove().
  std::shared_ptr<Store> Claim(const RegistryKey& key) {
    std::unique_lock lock(mu_);
    for (;;) {
      const auto it = open_.find(key);
      if (it == open_.end()) {
        open_[key] = {};
        return nullptr;
      }
      if (auto store = it->second.lock()) return store;
      changed_.wait(lock);
    }
  }
  void Put(const RegistryKey& key, const std::shared_ptr<Store>& store) {
    std::lock_guard lock(mu_);
    open_[key] = store;
    changed_.notify_all();
  }
  void Remove(const RegistryKey& key) {
    std::lock_guard lock(mu_);
    open_.erase(key);
    changed_.notify_all();
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::map<RegistryKey, std::weak_ptr<Store>> open_;
};

}  // namespace

Store::Impl::Impl(std::string path, std::shared_ptr<Device> device, bool read_only,
                  Recovered recovered)
    : path_(std::move(path)),
      device_(std::move(device)),
      read_only_(read_only),
      superblock_(recovered.superblock),
      geometry_(GeometryOf(recovered.superblock)),
      segment_bytes_(recovered.superblock.segment_bytes),
      buffer_limit_(std::min(kBufferLimit, recovered.superblock.journal_bytes / 4)),
      state_(std::move(recovered.state)),
      generation_(recovered.generation),
      sequence_(recovered.last_sequence),
      journal_used_(recovered.journal_used),
      checkpoint_generation_(recovered.checkpoint_generation),
      clean_(recovered.clean) {
  buffer_.assign(sizeof(BatchHeader), '\0');
}

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Store::~Store() {
  const RegistryKey key = impl_->registry_key_;
  impl_.reset();
  if (key.has_value()) Registry::Get().Remove(key);
}

absl::StatusOr<std::shared_ptr<Store>> Store::OpenDevice(const std::string& path,
                                                         std::shared_ptr<Device> device,
                                                         const OpenOptions& options) {
  PULSE_ASSIGN_OR_RETURN(auto recovered, Recover(*device));
  auto impl =
      std::make_unique<Impl>(path, std::move(device), options.read_only, std::move(recovered));
  if (!options.read_only) PULSE_RETURN_IF_ERROR(impl->Start());
  return std::shared_ptr<Store>(new Store(std::move(impl)));
}

absl::StatusOr<std::shared_ptr<Store>> Store::Open(const std::string& path,
                                                   const OpenOptions& options) {
  if (options.device != nullptr) return OpenDevice(path, options.device, options);
  const RegistryKey key = Registry::KeyOf(path);
  if (!key.has_value()) {
    return ErrnoError(errno, "store", path, "`pulse pool create PATH --size SIZE` makes one");
  }
  if (auto store = Registry::Get().Claim(key)) {
    if (store->read_only() && !options.read_only) {
      return absl::FailedPreconditionError(
          absl::StrCat("store ", path, " is open read-only in this process; close that first"));
    }
    return store;
  }
  auto device = FileDevice::Open(path, options.read_only);
  if (!device.ok()) {
    Registry::Get().Remove(key);
    return device.status();
  }
  auto store = OpenDevice(path, *std::move(device), options);
  if (!store.ok()) {
    Registry::Get().Remove(key);
    return store;
  }
  (*store)->impl_->registry_key_ = key;
  Registry::Get().Put(key, *store);
  return store;
}

const Geometry& Store::geometry() const { return impl_->geometry_; }
const std::string& Store::path() const { return impl_->path_; }
bool Store::read_only() const { return impl_->read_only_; }

absl::Status Store::status() const {
  std::shared_lock lock(impl_->mu_);
  return impl_->failed_;
}

int Store::device_fd(bool direct) const {
  const int fd = direct ? impl_->device_->fd(true) : -1;
  return fd >= 0 ? fd : impl_->device_->fd(false);
}

bool Store::direct_io() const { return impl_->device_->fd(/*direct=*/true) >= 0; }

Usage Store::usage() const {
  Usage u;
  {
    std::lock_guard lock(impl_->commit_mu_);
    u.commits = impl_->commits_;
  }
  std::shared_lock lock(impl_->mu_);
  const State& state = *impl_->state_;
  u.segments = impl_->geometry_.segments - impl_->geometry_.metadata_segments;
  u.free = state.free_segments().free();
  u.pending = impl_->pending_segments_;
  u.quarantined = impl_->held_free_.size();
  u.files = state.files();
  u.directories = state.directories();
  u.metadata_bytes = state.checkpoint_bytes();
  u.metadata_capacity = impl_->superblock_.checkpoint_body_capacity();
  u.batches = impl_->batches_;
  std::lock_guard work(impl_->work_mu_);
  u.checkpoints = impl_->checkpoints_;
  return u;
}

absl::Status Store::SyncData() {
  const absl::Status status = impl_->device_->Sync();
  return status.ok() ? status : impl_->Fail(status);
}

absl::Status Store::Commit() { return impl_->Commit(/*release=*/false); }

void Store::CommitLater(std::function<void(const absl::Status&)> done) {
  impl_->CommitLater(std::move(done));
}

}  // namespace pulse::store
