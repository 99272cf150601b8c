#include "services/lsm/core/host_registry.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/errors.h"
#include "base/trace.h"
#include "services/lsm/core/thread_waits.h"

namespace pulse::lsm {
namespace {

// Tells, after a thread that created outputs has ended, that it has.
struct WriterThread {
  ~WriterThread() { ended->store(true, std::memory_order_release); }
  const std::shared_ptr<std::atomic<bool>> ended = std::make_shared<std::atomic<bool>>(false);
};

const std::shared_ptr<std::atomic<bool>>& ThisWriterEnded() {
  thread_local WriterThread writer;
  return writer.ended;
}

// The registry that this thread has created outputs in since it last wrote a MANIFEST.
thread_local const OutputRegistry* writes_for = nullptr;

std::atomic<bool> barrier_disabled{false};

// Whether the write names the file, by the number in its name. A file without a number counts as
// named.
bool IsNamed(const NamedFiles& named, const std::string& path) {
  if (named.all) return true;
  const char* name = path.c_str() + path.rfind('/') + 1;
  char* end = nullptr;
  const uint64_t number = std::strtoull(name, &end, 10);
  if (end == name || *end != '.') return true;
  return std::find(named.numbers.begin(), named.numbers.end(), number) != named.numbers.end();
}

}  // namespace

void DisableBarrierForTesting(bool disabled) { barrier_disabled.store(disabled); }

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::string_view NameOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return absl::string_view(path).substr(slash == std::string::npos ? 0 : slash + 1);
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

std::string CanonicalDirectory(const std::string& dir) {
  return DirectoryOf(CanonicalPath(dir + "/x"));
}

OutputRegistry::~OutputRegistry() {
  // The FileSystem outlives its databases, so outputs that are left here failed or were never
  // waited for. The last references are dropped outside the lock, which an OutputFile's destructor
  // takes.
  std::vector<std::shared_ptr<OutputFile>> left;
  {
    std::lock_guard lock(session_->mu());
    for (auto& [path, output] : files_) left.push_back(output->file);
  }
  for (auto& f : left) f->WaitDurable().IgnoreError();  // no caller is left to report it to
  std::lock_guard lock(session_->mu());
  for (auto& f : released_) left.push_back(std::move(f));
  files_.clear();
  released_.clear();
}

void OutputRegistry::DropReleased() {
  std::vector<std::shared_ptr<OutputFile>> dead;
  std::lock_guard lock(session_->mu());
  dead.swap(released_);
}

std::unordered_map<std::string, std::shared_ptr<OutputRegistry::Output>>::iterator
OutputRegistry::EraseLocked(std::unordered_map<std::string, std::shared_ptr<Output>>::iterator it) {
  // Completions may still be to come: the object must outlive them.
  released_.push_back(it->second->file);
  it = files_.erase(it);
  count_.store(files_.size(), std::memory_order_release);
  return it;
}

absl::StatusOr<std::shared_ptr<OutputFile>> OutputRegistry::Create(const std::string& path,
                                                                   TargetMaker make,
                                                                   OutputFile::Writer writer) {
  DropReleased();
  const std::string canonical = CanonicalPath(path);
  // What the host writes is durable when it is closed.
  if (writer == OutputFile::Writer::kAgent) writes_for = this;
  const std::shared_ptr<OutputFile> old = Find(canonical);
  {
    // A new inode in any case: the agent of a process that was killed may still write into a
    // left-over file of this name.
    const bool in_flight = old != nullptr && InFlight(*old);
    const OutputFile::PathGuard guard(in_flight ? old.get() : nullptr);
    if (unlink(canonical.c_str()) != 0 && errno != ENOENT) {
      return ErrnoError(errno, "replacing", canonical);
    }
    if (in_flight) Forget(old);
  }
  PULSE_ASSIGN_OR_RETURN(auto target, make(canonical));
  PULSE_ASSIGN_OR_RETURN(auto file,
                         OutputFile::Create(canonical, std::move(target), session_, this, writer));
  if (old != nullptr) Forget(old);
  auto output = std::make_shared<Output>();
  output->file = file;
  output->creator_ended = ThisWriterEnded();
  std::lock_guard lock(session_->mu());
  output->owners = barrier::OwnersOf(homes_, DirectoryOf(canonical));
  files_[canonical] = std::move(output);
  count_.store(files_.size(), std::memory_order_release);
  return file;
}

std::shared_ptr<OutputFile> OutputRegistry::Find(const std::string& path) {
  if (count_.load(std::memory_order_acquire) == 0) return nullptr;
  const std::string canonical = CanonicalPath(path);
  std::lock_guard lock(session_->mu());
  const auto it = files_.find(canonical);
  return it == files_.end() ? nullptr : it->second->file;
}

void OutputRegistry::Forget(const std::shared_ptr<OutputFile>& output) {
  std::lock_guard lock(session_->mu());
  const auto it = files_.find(output->path());
  if (it != files_.end() && it->second->file == output) EraseLocked(it);
}

bool OutputRegistry::InFlight(const OutputFile& output) const {
  std::lock_guard lock(session_->mu());
  return !output.finished_locked();
}

void OutputRegistry::OnLocked(const std::string& dir) {
  std::lock_guard lock(session_->mu());
  homes_.erase(dir);
  DropFailuresLocked(dir);
  homes_.insert(dir);
  session_->SetDatabasesLocked(homes_);
}

void OutputRegistry::OnUnlocked(const std::string& dir) {
  std::lock_guard lock(session_->mu());
  homes_.erase(dir);
  DropFailuresLocked(dir);
  session_->SetDatabasesLocked(homes_);
}

void OutputRegistry::DropFailuresLocked(const std::string& dir) {
  for (auto it = files_.begin(); it != files_.end();) {
    const Output& o = *it->second;
    const bool failed = !o.file->error_locked().ok() && o.file->finished_locked();
    const bool drop =
        failed && barrier::IsOrphan(homes_, dir, DirectoryOf(o.file->path()), o.owners);
    it = drop ? EraseLocked(it) : std::next(it);
  }
}

bool OutputRegistry::CouldBeNamedLocked(const Output& output, const std::string& dir) const {
  return barrier::CouldBeNamed(homes_, dir, DirectoryOf(output.file->path()), output.owners);
}

std::vector<std::shared_ptr<OutputRegistry::Output>> OutputRegistry::WaitFor(
    const std::string& dir) {
  DropReleased();
  std::vector<std::shared_ptr<Output>> wait_for;
  if (count_.load(std::memory_order_acquire) == 0) return wait_for;
  {
    std::lock_guard lock(session_->mu());
    for (auto& [path, output] : files_) {
      const OutputFile& f = *output->file;
      if (!barrier::InScope(homes_, dir, DirectoryOf(path)) || f.error_seen()) continue;
      if (f.NeedsBarrierLocked() || !f.error_locked().ok()) wait_for.push_back(output);
    }
  }
  if (wait_for.empty()) return wait_for;
  Add(&session_->counters().barrier_waits, 1);
  const int64_t start = NowNanos();
  const trace::Scope traced("wait: barrier", {dir});
  // First wait for the work of others on all outputs: then one commit of a pool serves all.
  for (const auto& output : wait_for) output->file->WaitSettled().IgnoreError();  // reported below
  std::erase_if(wait_for, [](const auto& output) { return output->file->WaitDurable().ok(); });
  const auto waited = static_cast<uint64_t>(NowNanos() - start);
  Add(&session_->counters().barrier_nanos, waited);
  ThreadWaits::Add(Waited::kBarrierWaits, 1);
  ThreadWaits::Add(Waited::kBarrierNanos, waited);
  return wait_for;
}

absl::Status OutputRegistry::BeforeDirectorySync(const std::string& dir) {
  if (barrier_disabled.load(std::memory_order_relaxed)) return absl::OkStatus();
  // A thread that has written no output since the last MANIFEST does not sync the directory for
  // outputs: for instance for a new write-ahead log, which must not wait for table files. A
  // compaction's thread has written some itself, and waits for its subcompactions' as well.
  if (writes_for != this) return absl::OkStatus();
  const std::vector<std::shared_ptr<Output>> failed = WaitFor(dir);
  std::lock_guard lock(session_->mu());
  absl::Status first;
  for (const auto& output : failed) {
    // The thread of a subcompaction has ended, and its job's thread is most likely the first that
    // comes here. If another comes first, the job fails at its MANIFEST record.
    const bool ours = output->file->creator() == std::this_thread::get_id() ||
                      output->creator_ended->load(std::memory_order_acquire);
    // Once: the thread's next job did not write it.
    if (!ours || output->reported || !CouldBeNamedLocked(*output, dir)) continue;
    output->reported = true;
    if (first.ok()) first = output->file->error_locked();
  }
  return first;
}

absl::Status OutputRegistry::BeforeMetadata(const std::string& dir, const NamedFiles& named,
                                            bool ends_job) {
  if (barrier_disabled.load(std::memory_order_relaxed)) return absl::OkStatus();
  if (ends_job) writes_for = nullptr;
  const std::vector<std::shared_ptr<Output>> failed = WaitFor(dir);
  std::lock_guard lock(session_->mu());
  for (const auto& output : failed) {
    if (IsNamed(named, output->file->path()) && CouldBeNamedLocked(*output, dir)) {
      return output->file->error_locked();
    }
  }
  return absl::OkStatus();
}

void OutputRegistry::OnDurableLocked(OutputFile* file) {
  const auto it = files_.find(file->path());
  if (it != files_.end() && it->second->file.get() == file) EraseLocked(it);
}

}  // namespace pulse::lsm
