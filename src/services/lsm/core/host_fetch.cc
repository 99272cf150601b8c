#include "services/lsm/core/host_fetch.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/shortage.h"
#include "base/trace.h"
#include "base/unique_fd.h"
#include "services/lsm/core/refusal.h"
#include "services/lsm/core/thread_waits.h"

namespace pulse::lsm {
namespace {

constexpr size_t kMaxWindowsPerFile = 16;
constexpr size_t kFirstDepth = 2;
constexpr size_t kMaxDepth = 32;
constexpr int64_t kIdleNanos = 1'000'000'000;
constexpr uint64_t kTagOpen = ~uint64_t{0};
constexpr uint64_t kTagClose = ~uint64_t{0} - 1;

}  // namespace

absl::StatusOr<std::shared_ptr<FetchPool>> FetchPool::Create(std::shared_ptr<HostSession> session,
                                                             HostSession::Connection connection) {
  PULSE_ASSIGN_OR_RETURN(auto queue, session->AddQueue(connection, session->options().fetch_bytes));
  return std::shared_ptr<FetchPool>(
      new FetchPool(std::move(session), std::move(connection), queue));
}

FetchPool::FetchPool(std::shared_ptr<HostSession> session, HostSession::Connection connection,
                     StreamQueue* queue)
    : session_(std::move(session)),
      connection_(std::move(connection)),
      queue_(queue),
      chunk_bytes_(session_->options().fetch_chunk),
      first_bytes_(
          std::min(chunk_bytes_, (session_->options().readahead / wire::kPage + 2) * wire::kPage)),
      chunks_(queue->queue.arena_bytes() / chunk_bytes_) {
  for (size_t i = chunks_.size(); i > 0; --i) free_.push_back(static_cast<int>(i - 1));
}

int FetchPool::AllocateLocked() {
  if (free_.empty()) return -1;
  const int i = free_.back();
  free_.pop_back();
  chunks_[i].state = State::kInFlight;
  ++chunks_[i].generation;
  return i;
}

void FetchPool::ReleaseLocked(int i) {
  if (chunks_[i].state == State::kInFlight) {
    chunks_[i].state = State::kOrphan;  // freed when the agent has finished with it
    return;
  }
  chunks_[i].state = State::kFree;
  free_.push_back(i);
}

void FetchPool::OnChunkLocked(uint64_t tag, int64_t result) {
  const uint64_t i = tag & 0xffffffff;
  if (i >= chunks_.size()) return;
  Chunk& c = chunks_[i];
  if ((c.generation & 0xffffffff) != tag >> 32) return;
  if (c.state == State::kOrphan) {
    c.state = State::kFree;
    free_.push_back(static_cast<int>(i));
  } else if (c.state == State::kInFlight) {
    c.state = State::kReady;
    // A result beyond the chunk would make readers run over: trust nothing from the peer.
    c.result = std::min<int64_t>(result, static_cast<int64_t>(c.length));
  }
}

size_t FetchPool::FairShareLocked() const {
  return std::clamp<size_t>(chunks_.size() / std::max<size_t>(1, windows_), 2, kMaxDepth);
}

void FetchPool::StealIdleLocked() {
  const int64_t now = NowNanos();
  for (FetchedFile* f : files_) {
    for (auto& w : f->windows_) {
      if (!w.busy && !w.chunks.empty() && now - w.last_used > kIdleNanos) f->DropLocked(&w);
    }
  }
}

absl::Status FetchPool::PushLocked(const wire::Descriptor& d) {
  // The ring has more slots than there are chunks and files in practice; a full one means a stuck
  // agent, and then the reader had better read the file itself.
  return queue_->queue.TryPush(d) ? absl::OkStatus() : absl::UnavailableError("request ring full");
}

bool FetchPool::PushWaiting(std::unique_lock<std::mutex>& lock, const wire::Descriptor& d) {
  bool pushed = false;
  session_->Wait(lock, connection_, [&] {
    if (!pushed && !dead()) pushed = queue_->queue.TryPush(d);
    return pushed;
  });
  return pushed;
}

absl::StatusOr<FetchInput> OpenPlainInput(const std::string& path, IoMode io) {
  FetchInput input;
  if (io != IoMode::kBuffered) input.fd.reset(open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC));
  if (!input.fd.valid()) input.fd.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat st;
  if (!input.fd.valid() || fstat(input.fd.get(), &st) != 0) {
    return ErrnoError(errno, "opening", path);
  }
  input.size = st.st_size;
  return input;
}

absl::StatusOr<std::unique_ptr<FetchedFile>> FetchedFile::Open(FetchInput input,
                                                               std::shared_ptr<FetchPool> pool) {
  const UniqueFd fd = std::move(input.fd);
  std::unique_ptr<FetchedFile> f(new FetchedFile(std::move(pool), std::move(input)));
  HostSession& session = f->pool_->session();
  AgentConnection* connection = f->pool_->connection_.get();
  f->file_ = session.Register(connection, f.get());
  wire::Descriptor d{};
  d.opcode = static_cast<uint32_t>(Opcode::kOpen);
  d.file = f->file_;
  d.tag = kTagOpen;
  absl::Status sent = PassFile(connection->link.get(), fd.get(), &d);
  d.flags |= kFlagReadOnly;
  std::unique_lock lock(session.mu());
  if (sent.ok() && !f->pool_->PushWaiting(lock, d)) {
    sent = absl::UnavailableError("the agent is gone");
    if ((d.flags & kFlagInlineFd) != 0) close(static_cast<int>(d.aux));
  }
  if (!sent.ok()) {
    connection->targets.erase(std::exchange(f->file_, 0));
    return sent;
  }
  f->pool_->files_.push_back(f.get());
  return f;
}

FetchedFile::~FetchedFile() {
  HostSession& session = pool_->session();
  std::unique_lock lock(session.mu());
  if (file_ == 0) return;
  for (Window& w : windows_) {
    if (!w.chunks.empty()) DropLocked(&w);
  }
  std::erase(pool_->files_, this);
  // Completions for orphaned chunks come to this file number: wait for them, they are short.
  wire::Descriptor d{};
  d.opcode = static_cast<uint32_t>(Opcode::kDiscard);
  d.file = file_;
  d.tag = kTagClose;
  if (pool_->PushWaiting(lock, d)) {
    pool_->Ring();
    session.Wait(lock, pool_->connection_, [&] { return file_ == 0; });
  }
  if (file_ != 0) pool_->connection_->targets.erase(file_);
}

void FetchedFile::OnCompletion(const wire::Completion& c) {
  if (c.tag == kTagOpen) {
    if (c.result >= 0) return;
    refused_ = true;
    LogOnce("fetch refused",
            absl::StrCat("reading what compactions need without the agent, which ",
                         WhyRefused(static_cast<int>(-c.result)), "; it is asked for each file"));
    return;
  }
  if (c.tag == kTagClose) {
    pool_->connection_->targets.erase(file_);
    file_ = 0;
    return;
  }
  pool_->OnChunkLocked(c.tag, c.result);
}

FetchedFile::Window* FetchedFile::FindLocked(uint64_t offset) {
  Window* free = nullptr;
  for (Window& w : windows_) {
    if (!w.busy && !w.chunks.empty() && offset >= w.start && offset < w.end) return &w;
    if (!w.busy && w.chunks.empty()) free = &w;
  }
  if (free == nullptr) {
    if (windows_.size() >= kMaxWindowsPerFile) {
      // The one longest unused makes room.
      for (Window& w : windows_) {
        if (!w.busy && (free == nullptr || w.last_used < free->last_used)) free = &w;
      }
      if (free == nullptr) return nullptr;
      DropLocked(free);
    } else {
      free = &windows_.emplace_back();
    }
  }
  free->start = free->end = offset / wire::kPage * wire::kPage;
  free->depth = kFirstDepth;
  free->active = true;
  ++pool_->windows_;
  return free;
}

void FetchedFile::DropLocked(Window* w) {
  for (int c : w->chunks) pool_->ReleaseLocked(c);
  if (w->active) --pool_->windows_;
  w->active = false;
  w->chunks.clear();
}

uint64_t FetchedFile::PlaceOf(uint64_t offset, uint64_t* length) const {
  if (input_.runs.empty()) return offset;
  const auto next =
      std::upper_bound(input_.runs.begin(), input_.runs.end(), offset,
                       [](uint64_t at, const FetchInput::Run& run) { return at < run.offset; });
  const FetchInput::Run& run = *(next - 1);  // the first begins at 0
  const uint64_t left = run.offset + run.length - offset;
  *length = std::min(*length, (left + wire::kPage - 1) / wire::kPage * wire::kPage);
  return run.at + (offset - run.offset);
}

void FetchedFile::TopUpLocked(Window* w) {
  const size_t depth = std::min(w->depth, pool_->FairShareLocked());
  // Refill by quarters, so that several requests share one doorbell.
  if (!w->chunks.empty() && w->chunks.size() > depth * 3 / 4) return;
  bool pushed = false;
  while (w->chunks.size() < depth) {
    const uint64_t offset = w->end;
    if (offset >= size_) break;
    int i = pool_->AllocateLocked();
    if (i < 0 && w->chunks.empty()) {
      pool_->StealIdleLocked();
      i = pool_->AllocateLocked();
    }
    if (i < 0) break;
    wire::Descriptor d{};
    d.opcode = static_cast<uint32_t>(Opcode::kRead);
    d.flags = PurposeFlags(w->purpose);
    d.file = file_;
    d.tag = pool_->chunks_[i].generation << 32 | static_cast<uint32_t>(i);
    d.arena_offset = static_cast<uint64_t>(i) * pool_->chunk_bytes_;
    // A new window's reader waits for its first bytes: they come in a request of their own.
    const bool first = w->chunks.empty() && w->depth == kFirstDepth;
    d.length = first ? pool_->first_bytes_ : pool_->chunk_bytes_;
    d.file_offset = PlaceOf(offset, &d.length);
    if (!pool_->PushLocked(d).ok()) {
      pool_->chunks_[i].state = FetchPool::State::kFree;
      pool_->free_.push_back(i);
      break;
    }
    pool_->chunks_[i].length = d.length;
    w->chunks.push_back(i);
    w->end += d.length;
    pushed = true;
  }
  if (pushed) pool_->Ring();
}

int64_t FetchedFile::Read(uint64_t offset, size_t n, char* out, bool* finished, IoPurpose purpose) {
  HostSession& session = pool_->session();
  *finished = false;
  if (offset >= size_) return 0;
  n = std::min<uint64_t>(n, size_ - offset);
  std::unique_lock lock(session.mu());
  if (dead()) return -1;
  if (refused_) {
    *finished = true;  // it is opened again
    return -1;
  }
  Window* w = FindLocked(offset);
  if (w == nullptr) return -1;
  w->busy = true;
  w->purpose = purpose;
  w->last_used = NowNanos();
  const uint64_t chunk_bytes = pool_->chunk_bytes_;
  size_t done = 0;
  while (done < n) {
    const uint64_t pos = offset + done;
    while (!w->chunks.empty()) {
      const uint64_t length = pool_->chunks_[w->chunks.front()].length;
      if (pos < w->start + length) break;
      pool_->ReleaseLocked(w->chunks.front());
      w->chunks.pop_front();
      w->start += length;
    }
    TopUpLocked(w);
    if (w->chunks.empty()) break;
    FetchPool::Chunk& c = pool_->chunks_[w->chunks.front()];
    if (c.state == FetchPool::State::kInFlight) {
      session.DrainLocked(pool_->connection_.get());
      if (c.state == FetchPool::State::kInFlight) {
        const int64_t start = NowNanos();
        session.Wait(lock, pool_->connection_,
                     [&] { return c.state != FetchPool::State::kInFlight; });
        const int64_t end = NowNanos();
        Add(&session.counters().fetch_waits, 1);
        Add(&session.counters().fetch_wait_nanos, end - start);
        ThreadWaits::Add(Waited::kFetchWaits, 1);
        ThreadWaits::Add(Waited::kFetchNanos, static_cast<uint64_t>(end - start));
        trace::Slice("wait: fetch", start, end, {{}, pos, n - done});
      }
      if (c.state != FetchPool::State::kReady) break;  // the agent died
    }
    const uint64_t skip = pos - w->start;
    if (c.result <= static_cast<int64_t>(skip)) break;  // an error, or the file shrank
    const size_t part = std::min<uint64_t>(n - done, static_cast<uint64_t>(c.result) - skip);
    const char* from = pool_->queue_->queue.arena() +
                       static_cast<uint64_t>(w->chunks.front()) * chunk_bytes + skip;
    lock.unlock();
    std::memcpy(out + done, from, part);
    lock.lock();
    done += part;
    if (static_cast<uint64_t>(c.result) < c.length) break;  // end of file, or a short read
  }
  w->busy = false;
  w->depth = std::min(w->depth * 2, kMaxDepth);
  if (done < n) {
    // Not all of it: let the caller read the whole from the file, which will say why.
    DropLocked(w);
    return -1;
  }
  if (offset + done >= size_ || w->chunks.empty()) {
    DropLocked(w);
  } else {
    TopUpLocked(w);
  }
  *finished = std::none_of(windows_.begin(), windows_.end(),
                           [](const Window& each) { return each.active || each.busy; });
  Add(&session.counters().bytes_fetched, done);
  ThreadWaits::Add(Waited::kBytesFetched, done);
  return static_cast<int64_t>(done);
}

FetchSource::~FetchSource() {
  if (warm_.joinable()) warm_.join();
}

void FetchSource::Warm() {
  std::call_once(warmed_, [this] {
    const auto warm = [this] {
      pthread_setname_np(pthread_self(), "pulse-ag-fetch");
      Pool();
    };
    // Without it, the first compaction makes one.
    StartThread("a pool to read ahead", warm, &warm_).IgnoreError();
  });
}

std::shared_ptr<FetchPool> FetchSource::Pool() {
  HostSession::Connection connection;
  {
    std::lock_guard lock(mu_);
    if (pool_ != nullptr && !pool_->dead()) return pool_;
    pool_ = nullptr;
    connection = session_->connection();
    if (connection == nullptr) return nullptr;
    if (connection == tried_ && NowNanos() < retry_at_) return nullptr;
    if (connection != tried_) failures_ = 0;
    tried_ = connection;
    retry_at_ = INT64_MAX;  // unless this fails
  }
  // Others read the files themselves meanwhile.
  auto pool = FetchPool::Create(session_, connection);
  std::lock_guard lock(mu_);
  if (tried_ != connection) {  // a former agent's, and another thread has asked the new one
    return pool_ != nullptr && !pool_->dead() ? pool_ : nullptr;
  }
  if (!pool.ok()) {
    // For want of descriptors or memory, which may come back.
    if (failures_ == 0) {
      Log(LogLevel::kWarn,
          absl::StrCat("compaction input is not fetched by this agent: ", pool.status().message()));
    }
    retry_at_ = NowNanos() + (kRetryNanos << std::min(failures_, 6));
    ++failures_;
    return nullptr;
  }
  return pool_ = *std::move(pool);
}

}  // namespace pulse::lsm
