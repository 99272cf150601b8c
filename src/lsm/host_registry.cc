#include "lsm/host_registry.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "base/clock.h"

namespace pulse::lsm {
namespace {

// The registry that this thread has created outputs in since it last wrote a MANIFEST.
thread_local const OutputRegistry* writes_for = nullptr;

std::atomic<bool> barrier_disabled{false};

}  // namespace

void DisableBarrierForTesting(bool disabled) { barrier_disabled.store(disabled); }

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string CanonicalPath(const std::string& path) {
  std::error_code ec;
  std::filesystem::path p(path);
  while (!p.has_filename() && p.has_parent_path() && p != p.root_path()) p = p.parent_path();
  const std::filesystem::path dir = p.has_parent_path() ? p.parent_path() : ".";
  std::filesystem::path real = std::filesystem::weakly_canonical(dir, ec);
  if (ec) real = dir.lexically_normal();
  return (real / p.filename()).string();
}

OutputRegistry::~OutputRegistry() {
  // The FileSystem outlives its databases, so what is left here failed or was never waited for. The
  // last references go outside the lock, which an OutputFile's destructor takes.
  std::vector<std::shared_ptr<OutputFile>> left;
  {
    std::lock_guard lock(session_->mu());
    for (auto& [path, file] : files_) left.push_back(file);
  }
  for (auto& f : left) f->WaitDurable().IgnoreError();  // nobody is left to tell
  std::lock_guard lock(session_->mu());
  for (auto& f : graveyard_) left.push_back(std::move(f));
  files_.clear();
  graveyard_.clear();
}

void OutputRegistry::Bury() {
  std::vector<std::shared_ptr<OutputFile>> dead;
  std::lock_guard lock(session_->mu());
  dead.swap(graveyard_);
}

absl::StatusOr<std::shared_ptr<OutputFile>> OutputRegistry::Create(const std::string& path) {
  Bury();
  const std::string canonical = CanonicalPath(path);
  writes_for = this;
  if (Forget(canonical)) unlink(canonical.c_str());
  auto file = OutputFile::Create(canonical, session_, this);
  if (!file.ok()) return file.status();
  std::lock_guard lock(session_->mu());
  files_[canonical] = *file;
  count_.store(files_.size(), std::memory_order_release);
  return file;
}

std::shared_ptr<OutputFile> OutputRegistry::Find(const std::string& path) {
  if (count_.load(std::memory_order_acquire) == 0) return nullptr;
  const std::string canonical = CanonicalPath(path);
  std::lock_guard lock(session_->mu());
  const auto it = files_.find(canonical);
  return it == files_.end() ? nullptr : it->second;
}

bool OutputRegistry::Forget(const std::string& path) {
  if (count_.load(std::memory_order_acquire) == 0) return false;
  const std::string canonical = CanonicalPath(path);
  std::lock_guard lock(session_->mu());
  const auto it = files_.find(canonical);
  if (it == files_.end()) return false;
  const bool in_flight = !it->second->finished_locked();
  // Its completions are still to come: the object must outlive them.
  graveyard_.push_back(it->second);
  files_.erase(it);
  count_.store(files_.size(), std::memory_order_release);
  return in_flight;
}

void OutputRegistry::MarkHome(const std::string& dir) {
  std::lock_guard lock(session_->mu());
  homes_.insert(dir);
}

void OutputRegistry::UnmarkHome(const std::string& dir) {
  std::lock_guard lock(session_->mu());
  homes_.erase(dir);
}

bool OutputRegistry::InScopeLocked(const OutputFile& file, const std::string& dir) const {
  const std::string at = DirectoryOf(file.path());
  return at == dir || homes_.count(at) == 0;
}

void OutputRegistry::DropFailures(absl::FunctionRef<bool(const OutputFile&)> which) {
  std::lock_guard lock(session_->mu());
  for (auto it = files_.begin(); it != files_.end();) {
    const OutputFile& f = *it->second;
    if (!f.error_locked().ok() && f.finished_locked() && which(f)) {
      graveyard_.push_back(std::move(it->second));
      it = files_.erase(it);
    } else {
      ++it;
    }
  }
  count_.store(files_.size(), std::memory_order_release);
}

void OutputRegistry::OnDatabaseOpened(const std::string& dir) {
  DropFailures([&](const OutputFile& f) { return DirectoryOf(f.path()) == dir; });
}

void OutputRegistry::OnNewManifest(const std::string& dir) {
  DropFailures([&](const OutputFile& f) { return f.reported_to_creator && InScopeLocked(f, dir); });
}

absl::Status OutputRegistry::BarrierBefore(const std::string& dir, bool is_directory_sync) {
  if (barrier_disabled.load(std::memory_order_relaxed)) return absl::OkStatus();
  // A directory sync by a thread that has written nothing since the last MANIFEST is not about
  // outputs: the first sync of a new write-ahead log, say, which must not queue behind table files.
  // A compaction's thread has written some, though it waits for its subcompactions' as well.
  const bool concerned = !is_directory_sync || writes_for == this;
  if (!is_directory_sync) writes_for = nullptr;
  if (!concerned) return absl::OkStatus();
  Bury();
  if (count_.load(std::memory_order_acquire) == 0) return absl::OkStatus();
  std::vector<std::shared_ptr<OutputFile>> wait_for;
  absl::Status first;
  {
    std::lock_guard lock(session_->mu());
    for (auto& [path, file] : files_) {
      if (!InScopeLocked(*file, dir) || file->error_seen()) continue;
      if (file->NeedsBarrierLocked() || !file->error_locked().ok()) wait_for.push_back(file);
    }
  }
  if (wait_for.empty()) return absl::OkStatus();
  Add(&session_->counters().barrier_waits, 1);
  const int64_t start = NowNanos();
  for (auto& file : wait_for) {
    absl::Status st = file->WaitDurable();
    if (st.ok()) continue;
    if (is_directory_sync && file->creator() == std::this_thread::get_id()) {
      std::lock_guard lock(session_->mu());
      file->reported_to_creator = true;
    }
    if (first.ok()) first = std::move(st);
  }
  Add(&session_->counters().barrier_nanos, NowNanos() - start);
  return first;
}

void OutputRegistry::OnDurableLocked(OutputFile* file) {
  const auto it = files_.find(file->path());
  if (it == files_.end() || it->second.get() != file) return;
  graveyard_.push_back(std::move(it->second));
  files_.erase(it);
  count_.store(files_.size(), std::memory_order_release);
}

}  // namespace pulse::lsm
