#include "services/files/agent_store.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/errors.h"
#include "base/log.h"
#include "channel/wire.h"
#include "services/files/wire.h"

namespace pulse::files {

// --- OpenFile

OpenFile::Blocks OpenFile::BlocksOf(const Parked& p) const {
  const uint64_t unit = store_->WriteUnit(p.end, claimed_);
  return {std::min(p.offset, claimed_) / unit * unit, RoundUp(p.end, unit), p.user};
}

bool OpenFile::MayEnter(const Parked& p) const {
  if (exclusive_) return false;
  switch (p.access) {
    case Access::kRead:
      return exclusive_waiting_ == 0;
    case Access::kWrite: {
      const Blocks mine = BlocksOf(p);
      return failure_ == 0 && std::none_of(writes_.begin(), writes_.end(), [&](const Blocks& w) {
               return w.begin < mine.end && mine.begin < w.end;
             });
    }
    case Access::kSettle:
    case Access::kReserve:
      return true;
    case Access::kExclusive:
      return reads_ + settling_ + preparing_ == 0 && writes_.empty();
  }
  return false;
}

void OpenFile::Admit(const Parked& p) {
  switch (p.access) {
    case Access::kRead:
      ++reads_;
      break;
    case Access::kWrite:
      writes_.push_back(BlocksOf(p));
      break;
    case Access::kSettle:
      ++settling_;
      break;
    case Access::kReserve:
      ++preparing_;
      break;
    case Access::kExclusive:
      exclusive_ = true;
      break;
  }
}

bool OpenFile::Enter(Access access, FileUser* user, uint64_t offset, uint64_t end) {
  const Parked p{access, user, offset, end};
  // In order of arrival; only reads pass writes.
  if (MayEnter(p) && (parked_.empty() || access == Access::kRead)) {
    Admit(p);
    return true;
  }
  parked_.push_back(p);
  exclusive_waiting_ += access == Access::kExclusive;
  return false;
}

void OpenFile::Leave(Access access) {
  if (access == Access::kRead) --reads_;
  if (access == Access::kSettle) --settling_;
  if (access == Access::kReserve) --preparing_;
  if (access == Access::kExclusive) exclusive_ = false;
  Unpark();
}

void OpenFile::RemoveWrite(FileUser* user) {
  std::erase_if(writes_, [user](const Blocks& w) { return w.user == user; });
}

void OpenFile::LeaveWrite(FileUser* user) {
  RemoveWrite(user);
  Unpark();
}

bool OpenFile::EnterPrepared(FileUser* user, uint64_t offset, uint64_t end) {
  --preparing_;
  const Parked p{Access::kWrite, user, offset, end};
  if (MayEnter(p)) {
    Admit(p);
    return true;
  }
  parked_.push_front(p);
  return false;
}

void OpenFile::CancelPrepare() {
  --preparing_;
  Unpark();
}

void OpenFile::Unpark() {
  // Who is admitted may leave at once, and would come here again.
  if (unparking_) return;
  unparking_ = true;
  store_->AddUser(this);  // who is admitted now may be the last
  while (!parked_.empty()) {
    const Parked next = parked_.front();
    // A read that is at the front waits for nobody behind it.
    const uint32_t waiting = std::exchange(exclusive_waiting_, 0);
    const bool may = MayEnter(next);
    exclusive_waiting_ = waiting;
    if (!may) break;
    parked_.pop_front();
    exclusive_waiting_ -= next.access == Access::kExclusive;
    Admit(next);
    next.user->OnAdmitted();
  }
  unparking_ = false;
  store_->DropUser(this);
}

OpenFile::Claim OpenFile::BeginWrite(uint64_t end) {
  Claim claim{claimed_, 0};
  if (end <= claimed_) return claim;
  claim.number = first_claim_ + claims_.size();
  claims_.push_back({claimed_, end, false});
  claimed_ = end;
  return claim;
}

void OpenFile::Advance() {
  while (!claims_.empty() && claims_.front().done) {
    valid_ = claims_.front().end;
    claims_.pop_front();
    ++first_claim_;
  }
  size_ = std::max(size_, valid_);
  if (valid_ > settled_) store_->dirty_.insert(this);
}

void OpenFile::EndWrite(const Claim& claim, uint64_t end, int64_t error, FileUser* user) {
  store_->AddUser(this);
  std::vector<Waiting> finished;
  if (claim.number != 0 && error == 0) {
    claims_[claim.number - first_claim_].done = true;
    Advance();
  }
  if (claim.number != 0 && error != 0 && (failure_ == 0 || failure_ == kGivenUp)) {
    failure_ = error == kGivenUp ? kGivenUp : -EIO;
  }
  if (error != 0 || end <= valid_) {
    finished.push_back({end, user});
  } else {
    waiting_.push_back({end, user});
  }
  for (size_t i = 0; i < waiting_.size();) {
    if (waiting_[i].end > valid_) {
      ++i;
      continue;
    }
    finished.push_back(waiting_[i]);
    waiting_[i] = waiting_.back();
    waiting_.pop_back();
  }
  RemoveWrite(user);
  std::vector<Waiting> failed;
  const int64_t failure = failure_;
  if (failure != 0 && writes_.empty()) {
    // Nobody is writing: what is not there is given up.
    failed.swap(waiting_);
    first_claim_ += claims_.size();
    claims_.clear();
    claimed_ = valid_;
    failure_ = 0;
  }
  for (const Waiting& w : finished) w.user->OnWritten(w.user == user ? error : 0);
  for (const Waiting& w : failed) w.user->OnWritten(failure);
  Unpark();
  store_->DropUser(this);
}

void OpenFile::Map(uint64_t offset, uint64_t length, std::vector<store::Extent>* out) const {
  auto at = static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), offset) -
                                starts_.begin()) -
            1;
  while (length > 0) {
    const store::Extent& e = extents_[at];
    const uint64_t within = offset - starts_[at];
    const uint64_t n = std::min(length, e.length - within);
    out->push_back({e.device_offset + within, n});
    offset += n;
    length -= n;
    ++at;
  }
}

// --- FileStore

namespace {

// Whether direct writes of parts of a block may be under way at once. Files of Linux before 6.5
// carry them out one by one, each alone with the file: whole blocks are faster there.
bool PartsOfBlocksAtOnce(int fd) {
  struct stat st = {};
  if (fstat(fd, &st) != 0) return false;
  if (S_ISBLK(st.st_mode)) return true;
  utsname kernel = {};
  unsigned major = 0;
  unsigned minor = 0;
  if (uname(&kernel) != 0 || std::sscanf(kernel.release, "%u.%u", &major, &minor) != 2)
    return false;
  return major > 6 || (major == 6 && minor >= 5);
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileStore>> FileStore::Open(const std::string& path) {
  PULSE_ASSIGN_OR_RETURN(auto opened, store::Store::Open(path));
  return On(std::move(opened));
}

absl::StatusOr<std::unique_ptr<FileStore>> FileStore::On(std::shared_ptr<store::Store> store) {
  std::unique_ptr<FileStore> s(new FileStore(std::move(store)));
  if (absl::Status st = s->Init(); !st.ok()) return st;
  return s;
}

absl::Status FileStore::Init() {
  has_device_ = store_->device_fd(false) >= 0;
  direct_ = has_device_ && store_->direct_io();
  if (direct_) {
    struct statx st = {};
    if (statx(store_->device_fd(true), "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) == 0 &&
        (st.stx_mask & STATX_DIOALIGN) != 0 && st.stx_dio_mem_align != 0) {
      // Powers of two; a device of larger blocks than ours is read and written by the page cache.
      memory_alignment_ = std::clamp<uint64_t>(st.stx_dio_mem_align, 64, wire::kPage);
      if (st.stx_dio_offset_align > kBlock) direct_ = false;
      const bool known = std::has_single_bit(uint64_t{st.stx_dio_offset_align});
      if (direct_ && known && PartsOfBlocksAtOnce(store_->device_fd(true))) {
        // A piece may begin anywhere in a buffer that is aligned: as memory has to be, too.
        device_unit_ = std::max<uint64_t>({st.stx_dio_offset_align, memory_alignment_, 512});
      }
    }
  }
  // One thread: changes of a session take effect in their order.
  changes_ = std::make_unique<ComputePool>("pulse-fs-change", 1);
  settle_thread_ = std::thread([this] { RunSettles(); });
  pthread_setname_np(settle_thread_.native_handle(), "pulse-fs-sync");
  return absl::OkStatus();
}

FileStore::~FileStore() {
  changes_.reset();
  {
    std::lock_guard lock(mu_);
    stopping_ = true;
    settles_cv_.notify_all();
  }
  if (settle_thread_.joinable()) settle_thread_.join();
  SettleJob last;
  for (OpenFile* f : dirty_) last.lengths.push_back({f, f->id(), f->settled_, f->valid_});
  const absl::Status st = SettleNow({std::move(last)});
  if (!st.ok()) Log(LogLevel::kError, st.message());
}

absl::StatusOr<UniqueFd> FileStore::OpenDevice() const {
  const std::string path = has_device_ ? store_->path() : "/dev/null";
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC | (direct_ ? O_DIRECT : 0)));
  if (!fd.valid()) return ErrnoError(errno, "opening", path);
  struct stat here = {}, there = {};
  if (!has_device_) return fd;
  if (fstat(fd.get(), &here) != 0 || fstat(store_->device_fd(false), &there) != 0) {
    return ErrnoError(errno, "examining", path);
  }
  const bool same = S_ISBLK(here.st_mode)
                        ? S_ISBLK(there.st_mode) && here.st_rdev == there.st_rdev
                        : here.st_dev == there.st_dev && here.st_ino == there.st_ino;
  if (!same) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " is not the store that this agent has open any more; start the agent again"));
  }
  return fd;
}

absl::Status FileStore::LoadSegments(OpenFile* file) {
  std::vector<store::Extent> extents;
  PULSE_RETURN_IF_ERROR(store_->MapAllocated(file->id(), &extents));
  file->starts_.clear();
  uint64_t at = 0;
  for (const store::Extent& e : extents) {
    file->starts_.push_back(at);
    at += e.length;
  }
  file->extents_ = std::move(extents);
  file->allocated_ = at;
  return absl::OkStatus();
}

absl::StatusOr<OpenFile*> FileStore::Adopt(store::FilePin pin) {
  const store::FileId id = pin.file();
  auto& slot = files_[id];
  if (slot == nullptr) {
    auto file = std::make_unique<OpenFile>();
    file->pin_ = std::move(pin);
    file->store_ = this;
    const auto attributes = store_->Stat(id);
    absl::Status st = attributes.status();
    if (st.ok()) st = LoadSegments(file.get());
    if (!st.ok()) {
      files_.erase(id);
      return st;
    }
    file->size_ = attributes->size;
    file->valid_ = file->settled_ = file->claimed_ = attributes->valid;
    slot = std::move(file);
  }
  ++slot->users_;
  return slot.get();
}

OpenFile* FileStore::Find(store::FileId id) {
  const auto it = files_.find(id);
  return it == files_.end() ? nullptr : it->second.get();
}

void FileStore::DropUser(OpenFile* file) {
  // One that was removed meanwhile goes with its last user, also if its length was never kept.
  if (--file->users_ == 0 && dirty_.count(file) != 0) {
    Unlinked(file->id());
  } else {
    DropIfUnused(file);
  }
}

void FileStore::DropIfUnused(OpenFile* file) {
  if (file->users_ > 0 || file->settling_ > 0 || dirty_.count(file) != 0) return;
  // With its pin, the segments of a file that was removed are free for others.
  const store::FileId id = file->id();
  if (hooks_ != nullptr) hooks_->FileChangeBegins(id);
  files_.erase(id);
  if (hooks_ != nullptr) hooks_->FileChangeEnds(id);
}

void FileStore::Unlinked(store::FileId id) {
  OpenFile* file = Find(id);
  if (file == nullptr || file->users_ > 0) return;
  const auto attributes = store_->Stat(id);
  if (!attributes.ok() || attributes->links > 0) return;
  dirty_.erase(file);  // nobody will ever ask for its length
  DropIfUnused(file);
}

absl::Status FileStore::RefreshSegments(OpenFile* file, uint64_t at_least) {
  // A change that could not be committed may have taken segments from the file, which are nobody
  // else's either: it is read on as it was before.
  PULSE_RETURN_IF_ERROR(store_->status());
  PULSE_RETURN_IF_ERROR(LoadSegments(file));
  if (file->allocated_ < at_least) {
    return absl::InternalError("a file has fewer segments than it was given");
  }
  return absl::OkStatus();
}

absl::Status FileStore::RefreshSize(OpenFile* file) {
  PULSE_ASSIGN_OR_RETURN(const auto attributes, store_->Stat(file->id()));
  file->size_ = attributes.size;
  file->valid_ = std::min(file->valid_, file->size_);
  file->settled_ = std::min(file->settled_, file->size_);
  file->claimed_ = file->valid_;
  if (file->valid_ <= file->settled_) dirty_.erase(file);
  return LoadSegments(file);
}

void FileStore::Change(const void* session, std::function<void()> work) {
  changes_->Post(session, std::move(work));
}

void FileStore::Settle(const Post& post, std::function<void(const absl::Status&)> done) {
  SettleJob job;
  for (OpenFile* f : dirty_) {
    if (f->exclusive_) continue;  // being cut; who syncs it waits for that
    ++f->settling_;
    job.lengths.push_back({f, f->id(), f->settled_, f->valid_});
  }
  settling_ = true;
  job.done = [this, post, lengths = job.lengths, done = std::move(done)](const absl::Status& st) {
    post([this, lengths, done, st = CopyOf(st)] {
      FinishSettle(lengths, st.ok());
      done(st);
    });
  };
  std::lock_guard lock(mu_);
  settles_.push_back(std::move(job));
  settles_cv_.notify_one();
}

void FileStore::FinishSettle(const std::vector<Length>& lengths, bool ok) {
  settling_ = false;
  for (const Length& l : lengths) {
    OpenFile* f = l.file;
    if (ok) f->settled_ = std::max(f->settled_, l.to);
    if (f->valid_ <= f->settled_) dirty_.erase(f);
    f->Leave(Access::kSettle);
  }
}

absl::Status FileStore::SettleNow(const std::vector<SettleJob>& jobs) {
  PULSE_RETURN_IF_ERROR(store_->SyncData());
  for (const SettleJob& job : jobs) {
    for (const Length& l : job.lengths) {
      PULSE_RETURN_IF_ERROR(store_->Wrote(l.id, l.from, l.to - l.from));
    }
  }
  return store_->Commit();
}

void FileStore::RunSettles() {
  std::unique_lock lock(mu_);
  while (true) {
    settles_cv_.wait(lock, [this] { return stopping_ || !settles_.empty(); });
    if (settles_.empty()) return;
    std::vector<SettleJob> jobs;
    jobs.swap(settles_);
    lock.unlock();
    const absl::Status st = SettleNow(jobs);
    for (const SettleJob& job : jobs) job.done(st);
    lock.lock();
  }
}

}  // namespace pulse::files
