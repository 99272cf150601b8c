#include "uring/file_engine.h"

#include <algorithm>
#include <cerrno>

#include "base/clock.h"

namespace pulse {
namespace {

// A longer write-back is one to the end of the file; lengths have 32 bits.
constexpr uint64_t kMaxRange = uint64_t{1} << 30;
// Reads that may start on a file while something else waits for it to be idle.
constexpr size_t kMaxOvertaking = 64;

// A range_sync's end; no write can reach beyond this.
uint64_t EndOf(uint64_t offset, uint64_t length) {
  return length == 0 || length > ~uint64_t{0} - offset ? ~uint64_t{0} : offset + length;
}

}  // namespace

struct FileEngine::Op : IoItem {
  File* file;
  IoOp kind;
  bool discard;  // a kClose that keeps the file's error to itself
  IoClass as;    // how it is scheduled
  uint64_t cookie;
  char* buffer;
  int buffer_index;
  uint64_t offset;
  uint64_t length;
  uint64_t done;  // bytes already transferred
  int64_t not_before;

  bool moves() const { return kind == IoOp::kRead || kind == IoOp::kWrite; }
};

class FileEngine::File {
 public:
  UniqueFd fd;
  int index = -1;
  Client* client = nullptr;
  IoOrigin* origin = nullptr;
  IoClass io_class = IoClass::kUnknown;
  int error = 0;  // first failure, sticky
  size_t in_flight = 0;
  bool closing = false;
  bool sticky = true;
  bool allocating = false;   // writes wait: they would fight the allocation for the inode's lock
  std::vector<Op*> writes;   // in flight, for range_sync's overlap rule
  std::deque<Op*> deferred;  // in order of arrival
  size_t overtook = 0;       // reads that started while something was deferred
};

FileEngine::FileEngine(std::unique_ptr<IoBackend> backend) : backend_(std::move(backend)) {}
FileEngine::~FileEngine() = default;

FileEngine::File* FileEngine::Open(UniqueFd fd, Client* client, bool pinned, bool sticky,
                                   IoOrigin* origin, IoClass io_class) {
  auto file = std::make_unique<File>();
  File* f = file.get();
  f->fd = std::move(fd);
  f->client = client;
  f->sticky = sticky;
  f->origin = origin != nullptr ? origin : &own_;
  f->io_class = io_class;
  if (pinned) f->index = backend_->RegisterFile(f->fd.get());
  files_.emplace(f, std::move(file));
  return f;
}

FileEngine::Op* FileEngine::NewOp(File* f, IoOp kind, uint64_t cookie) {
  if (free_ops_.empty()) {
    op_pool_.push_back(std::make_unique<Op>());
    free_ops_.push_back(op_pool_.back().get());
  }
  Op* op = free_ops_.back();
  free_ops_.pop_back();
  *op = Op{IoItem{}, f, kind, false, f->io_class, cookie, nullptr, -1, 0, 0, 0, 0};
  ++live_ops_;
  return op;
}

void FileEngine::FreeOp(Op* op) {
  free_ops_.push_back(op);
  --live_ops_;
}

void FileEngine::Fallocate(File* f, uint64_t bytes, uint64_t cookie) {
  Op* op = NewOp(f, IoOp::kFallocate, cookie);
  op->length = bytes;
  Schedule(op);
}

void FileEngine::Write(File* f, char* buffer, int buffer_index, uint64_t length, uint64_t offset,
                       uint64_t cookie, int64_t not_before) {
  Op* op = NewOp(f, IoOp::kWrite, cookie);
  op->not_before = not_before;
  op->buffer = buffer;
  op->buffer_index = buffer_index;
  op->length = length;
  op->offset = offset;
  Schedule(op);
}

void FileEngine::Read(File* f, char* buffer, int buffer_index, uint64_t length, uint64_t offset,
                      uint64_t cookie, std::optional<IoClass> io_class) {
  Op* op = NewOp(f, IoOp::kRead, cookie);
  if (io_class) op->as = *io_class;
  op->buffer = buffer;
  op->buffer_index = buffer_index;
  op->length = length;
  op->offset = offset;
  Schedule(op);
}

void FileEngine::RangeSync(File* f, uint64_t offset, uint64_t length, uint64_t cookie) {
  Op* op = NewOp(f, IoOp::kRangeSync, cookie);
  op->offset = offset;
  op->length = length > kMaxRange ? 0 : length;  // more write-back than asked for does no harm
  Schedule(op);
}

void FileEngine::Sync(File* f, uint64_t cookie) { Schedule(NewOp(f, IoOp::kSync, cookie)); }

void FileEngine::SyncClose(File* f, uint64_t size, uint64_t cookie) {
  Op* op = NewOp(f, IoOp::kSyncClose, cookie);
  op->length = size;
  f->closing = true;
  Schedule(op);
}

void FileEngine::Discard(File* f, uint64_t cookie) {
  Op* op = NewOp(f, IoOp::kClose, cookie);
  op->discard = true;
  f->closing = true;
  Schedule(op);
}

bool FileEngine::MayStart(const Op* op) const {
  const File* f = op->file;
  switch (op->kind) {
    case IoOp::kSync:
    case IoOp::kSyncClose:
    case IoOp::kClose:
    case IoOp::kFallocate:
      return f->in_flight == 0;
    case IoOp::kRangeSync:
      return std::none_of(f->writes.begin(), f->writes.end(), [&](const Op* w) {
        return w->offset < EndOf(op->offset, op->length) && op->offset < w->offset + w->length;
      });
    case IoOp::kWrite:
      return !f->allocating;
    case IoOp::kRead:
      return true;
  }
  return true;
}

void FileEngine::Schedule(Op* op) {
  File* f = op->file;
  // A file with deferred work keeps its order, except that reads depend on nothing.
  const bool overtakes = op->kind == IoOp::kRead && f->overtook < kMaxOvertaking;
  if (!overtakes && (!f->deferred.empty() || !MayStart(op))) {
    f->deferred.push_back(op);
    return;
  }
  if (!f->deferred.empty()) ++f->overtook;
  Start(op);
}

void FileEngine::Start(Op* op) {
  File* f = op->file;
  ++f->in_flight;
  if (op->kind == IoOp::kWrite) f->writes.push_back(op);
  if (op->kind == IoOp::kFallocate) f->allocating = true;
  const bool obeys_sticky = op->kind == IoOp::kWrite || op->kind == IoOp::kRangeSync ||
                            op->kind == IoOp::kSync || op->kind == IoOp::kFallocate;
  if (f->error != 0 && obeys_sticky) {
    finished_.push_back(op);
    return;
  }
  if (op->kind == IoOp::kSyncClose && f->error != 0) op->kind = IoOp::kClose;
  if (op->kind == IoOp::kSyncClose || op->kind == IoOp::kClose) {
    backend_->UnregisterFile(f->index);
    f->index = -1;
  }
  if (op->not_before != 0 && op->not_before > NowNanos()) {
    later_.push({op->not_before, op, nullptr, 0});
    return;
  }
  Queue(op);
}

void FileEngine::Queue(Op* op) {
  scheduler_.Push(op, op->file->origin, op->as,
                  op->moves() ? std::min(op->length - op->done, kMaxTransfer) : 0);
}

void FileEngine::After(int64_t when, Client* client, uint64_t cookie) {
  later_.push({when, nullptr, client, cookie});
}

size_t FileEngine::StartDue() {
  size_t n = 0;
  const int64_t now = NowNanos();
  while (!later_.empty() && later_.top().when <= now) {
    const Later due = later_.top();
    later_.pop();
    ++n;
    if (due.op != nullptr) {
      Queue(due.op);
    } else {
      due.client->OnIoComplete(due.cookie, 0);
    }
  }
  return n;
}

void FileEngine::Dispatch() {
  if (scheduler_.holds()) scheduler_.CountWaits(NowNanos());
  while (IoItem* item = scheduler_.Next()) {
    Op* op = static_cast<Op*>(item);
    File* f = op->file;
    IoRequest r;
    r.op = op->kind;
    r.fd = f->fd.get();
    r.file_index = f->index;
    r.buffer_index = op->buffer_index;
    r.buffer = op->buffer == nullptr ? nullptr : op->buffer + op->done;
    r.offset = op->offset + op->done;
    r.length = op->moves() ? op->payload : op->length;
    r.tag = reinterpret_cast<uintptr_t>(op);
    r.io_class = op->as;
    if (!backend_->Enqueue(r)) break;
    scheduler_.Start(item);
  }
  backend_->Submit();
  if (scheduler_.waiting() > 0) scheduler_.BeginWaits(NowNanos());
}

void FileEngine::OnResult(Op* op, int64_t result) {
  scheduler_.Done(op);
  // A close is never tried again: the descriptor is gone whatever the result, and its number may be
  // another file's by now.
  const bool closes = op->kind == IoOp::kSyncClose || op->kind == IoOp::kClose;
  if (!closes && (result == -EINTR || result == -EAGAIN)) {
    Queue(op);
    return;
  }
  if (op->moves()) {
    if (result > 0) {
      op->done += result;
      // A short transfer goes on where it stopped. A read that stopped inside a sector is at the
      // end of the file, and could not go on there with direct I/O; any other end shows as a read
      // of 0.
      const bool at_end = op->kind == IoOp::kRead && (op->offset + op->done) % 512 != 0;
      if (op->done < op->length && !at_end) {
        Queue(op);
        return;
      }
      result = static_cast<int64_t>(op->done);
    } else if (result == 0) {
      // A device that accepts no byte and gives no reason is out of space.
      result = op->kind == IoOp::kRead ? static_cast<int64_t>(op->done) : -ENOSPC;
    }
  }
  Complete(op, result);
}

void FileEngine::Complete(Op* op, int64_t result) {
  File* f = op->file;
  --f->in_flight;
  if (op->kind == IoOp::kWrite) std::erase(f->writes, op);
  if (op->kind == IoOp::kFallocate) f->allocating = false;
  // Preallocation is advice: without it writes cost more, and a full disk shows at the write
  // itself.
  if (op->kind == IoOp::kFallocate) result = 0;
  if (f->error != 0 && op->kind != IoOp::kRead && !op->discard) {
    result = -f->error;
  } else if (f->sticky && result < 0 && op->kind != IoOp::kRead && !op->discard) {
    f->error = static_cast<int>(-result);
  }
  const bool closes = op->kind == IoOp::kSyncClose || op->kind == IoOp::kClose;
  const uint64_t cookie = op->cookie;
  Client* client = f->client;
  FreeOp(op);
  if (closes) {
    (void)f->fd.release();  // the back-end closed it
    files_.erase(f);
  } else {
    while (!f->deferred.empty() && MayStart(f->deferred.front())) {
      Op* next = f->deferred.front();
      f->deferred.pop_front();
      f->overtook = 0;
      Start(next);
    }
  }
  client->OnIoComplete(cookie, result);
}

size_t FileEngine::Poll() {
  size_t n = later_.empty() ? 0 : StartDue();
  // Complete may add to finished_; take what is there now.
  for (size_t left = finished_.size(); left > 0; --left) {
    Op* op = finished_.front();
    finished_.pop_front();
    Complete(op, -op->file->error);
    ++n;
  }
  Dispatch();
  IoResult results[64];
  size_t got;
  do {
    got = backend_->Harvest(results, 64);
    for (size_t i = 0; i < got; ++i) {
      OnResult(reinterpret_cast<Op*>(static_cast<uintptr_t>(results[i].tag)), results[i].result);
    }
    n += got;
  } while (got == 64);
  if (scheduler_.waiting() > 0) Dispatch();
  return n + finished_.size();
}

}  // namespace pulse
