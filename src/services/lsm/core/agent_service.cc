#include "services/lsm/core/agent_service.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/session.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/trace.h"
#include "services/lsm/core/wire.h"

namespace pulse::lsm {
namespace {

// Beyond this a file is not preallocated. The host stays far below it.
constexpr uint64_t kMaxPreallocate = uint64_t{64} << 30;

// By opcode, from kOpen on.
struct OpcodeInfo {
  RequestKind kind;
  const char* traced;  // by which a timeline names it; null: not at all
};
constexpr OpcodeInfo kOpcodes[] = {{RequestKind::kOpen, "preallocate"},
                                   {RequestKind::kWrite, "write"},
                                   {RequestKind::kRangeSync, "write back"},
                                   {RequestKind::kSync, "sync"},
                                   {RequestKind::kSyncClose, "sync and close"},
                                   {RequestKind::kDiscard, nullptr},
                                   {RequestKind::kRead, "read"}};

// Null for what is none.
const OpcodeInfo* InfoOf(uint32_t opcode) {
  const size_t i = size_t{opcode} - static_cast<size_t>(Opcode::kOpen);
  return i < std::size(kOpcodes) ? &kOpcodes[i] : nullptr;
}

IoClass ClassOf(uint32_t flags) {
  switch (PurposeOf(flags)) {
    case IoPurpose::kFlush:
      return IoClass::kCritical;
    case IoPurpose::kBase:
      return IoClass::kElevated;
    case IoPurpose::kDeep:
      return IoClass::kBackground;
    case IoPurpose::kUnknown:
      break;
  }
  return IoClass::kUnknown;
}

class AgentService : public Service, public FileEngine::Client {
 public:
  AgentService(Session* session, FileEngine* engine, StartTask start)
      : session_(session), engine_(engine), start_task_(std::move(start)) {}

  ~AgentService() override { DropPassed(); }

  void OnFile(uint32_t file, UniqueFd fd) override {
    // One that has no place fails at its kOpen, where the host hears of it.
    if (shutdown_) return;
    if (passed_.size() >= MaxFiles() && passed_.count(file) == 0) {
      turned_away_ = true;
      return;
    }
    Passed& p = passed_[file];
    if (p.fd.valid()) session_->GiveDescriptorBack();
    p.error = !fd.valid() ? EMFILE : !IsFileOrDisk(fd.get()) ? EINVAL : session_->TakeDescriptor();
    p.fd = p.error == 0 ? std::move(fd) : UniqueFd();
  }

  absl::Status OnMessage(const wire::Message& message, std::vector<UniqueFd> fds,
                         wire::Message* /*ack*/) override {
    if (message.type != static_cast<uint32_t>(wire::MessageType::kService)) {
      return absl::UnimplementedError("the LSM service has no such message");
    }
    if (shutdown_) return absl::UnavailableError("the session is ending");
    if (!start_task_) {
      return ErrnoError(EOPNOTSUPP, "running a whole compaction on", "this agent",
                        "start it with --tasks 1 or more");
    }
    if (fds.size() != 2) {
      return absl::InvalidArgumentError("a compaction takes two descriptors: request and reply");
    }
    return start_task_(std::move(fds[0]), std::move(fds[1]));
  }

  void OnDescriptor(SessionQueue* q, const wire::Descriptor& d) override {
    if (const OpcodeInfo* info = InfoOf(d.opcode)) session_->counters().Take(info->kind);
    switch (static_cast<Opcode>(d.opcode)) {
      case Opcode::kOpen:
        OnOpen(q, d);
        return;
      case Opcode::kWrite:
        OnWrite(q, d);
        return;
      case Opcode::kRangeSync:
      case Opcode::kSync:
      case Opcode::kSyncClose:
      case Opcode::kDiscard:
        OnFileOp(q, d);
        return;
      case Opcode::kRead:
        OnRead(q, d);
        return;
    }
    Answer(q, d, -EOPNOTSUPP);
  }

  void BeginShutdown() override {
    shutdown_ = true;
    DropPassed();
    for (auto& [number, file] : files_) {
      engine_->Discard(file, NewPending(nullptr, wire::Descriptor{}));
    }
    files_.clear();
  }

  bool Drained() const override { return in_flight_ == 0; }

  void OnIoComplete(uint64_t cookie, int64_t result) override {
    Pending& p = pending_[cookie];
    SessionQueue* q = p.queue;
    const wire::Descriptor d = p.descriptor;
    if (p.pushing) {
      result = p.result;  // and it is there now
    } else if (q != nullptr && static_cast<Opcode>(d.opcode) == Opcode::kRead && result > 0) {
      int64_t there_at = 0;
      result = PushRead(q, d, result, &there_at);
      if (result > 0 && there_at != 0) {
        p.pushing = true;
        p.result = result;
        return engine_->After(there_at, this, cookie);
      }
    }
    const bool tracked = p.tracked;
    const uint64_t ticket = p.ticket;
    if (p.begun != 0) {
      if (trace::On()) Trace(d, p.begun, result);
      if (IsSync(d)) session_->counters().syncs.Record(NowNanos() - p.begun);
    }
    Stage(d).End();
    free_.push_back(static_cast<uint32_t>(cookie));
    --in_flight_;
    const auto opcode = static_cast<Opcode>(d.opcode);
    const bool closed = q == nullptr || opcode == Opcode::kSyncClose || opcode == Opcode::kDiscard;
    if (closed) session_->GiveDescriptorBack();
    if (q == nullptr) return;  // a file discarded because its session ended
    if (result > 0 && opcode == Opcode::kRead) session_->counters().bytes_read.Add(result);
    if (result > 0 && opcode == Opcode::kWrite) session_->counters().bytes_written.Add(result);
    // The completion is visible before the space: whoever sees the space free may rely on the
    // result being on its way.
    Answer(q, d, result);
    if (tracked) q->Untrack(ticket);
  }

 private:
  // A descriptor that waits for its kOpen, or the errno that the kOpen will give.
  struct Passed {
    UniqueFd fd;
    int error = 0;
  };
  struct Pending {
    SessionQueue* queue;
    wire::Descriptor descriptor;
    bool tracked;
    uint64_t ticket;
    int64_t begun;         // of syncs, and for the timeline; 0: not needed
    bool pushing = false;  // a read's bytes are on their way to the host
    int64_t result = 0;    // of such a read
  };

  uint64_t NewPending(SessionQueue* q, const wire::Descriptor& d) {
    uint32_t i;
    if (free_.empty()) {
      i = static_cast<uint32_t>(pending_.size());
      pending_.emplace_back();
    } else {
      i = free_.back();
      free_.pop_back();
    }
    pending_[i] = Pending{q, d, false, 0, trace::On() || IsSync(d) ? NowNanos() : 0};
    ++in_flight_;
    Stage(d).Begin();
    return i;
  }

  // What was read goes to the host. Returns the request's result.
  int64_t PushRead(SessionQueue* q, const wire::Descriptor& d, int64_t result, int64_t* there_at) {
    if (session_->config().mover == MoverKind::kVmRead && session_->HostMayBeGone()) {
      return -ECANCELED;
    }
    const absl::Status st = q->mover().StartPush(d.arena_offset, result, there_at);
    return st.ok() ? result : -(ErrnoOf(st) != 0 ? ErrnoOf(st) : EIO);
  }
  static bool IsSync(const wire::Descriptor& d) {
    const auto opcode = static_cast<Opcode>(d.opcode);
    return opcode == Opcode::kSync || opcode == Opcode::kSyncClose;
  }
  BusyTime& Stage(const wire::Descriptor& d) {
    SessionCounters& c = session_->counters();
    return static_cast<Opcode>(d.opcode) == Opcode::kRead ? c.fetch : c.persist;
  }
  // What the engine did about a request, from when it was taken to its result.
  void Trace(const wire::Descriptor& d, int64_t begun, int64_t result) const {
    const OpcodeInfo* info = InfoOf(d.opcode);
    if (info == nullptr || info->traced == nullptr) return;
    const bool reads = static_cast<Opcode>(d.opcode) == Opcode::kRead;
    trace::Flight(reads ? "agent: fetch" : "agent: persist", info->traced, begun, NowNanos(),
                  {absl::StrCat("#", d.file), d.file_offset, d.length, result < 0 ? result : 0});
  }

  void Answer(SessionQueue* q, const wire::Descriptor& d, int64_t result) {
    if (result < 0) session_->counters().failed.Add(1);
    q->Complete({d.tag, result, d.opcode, d.file, 0});
  }

  // Pipes, sockets and terminals could keep requests in flight for ever. A block device is a pool.
  static bool IsFileOrDisk(int fd) {
    struct statx st;
    return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) == 0 &&
           (S_ISREG(st.stx_mode) || S_ISBLK(st.stx_mode));
  }

  // The kernel's offsets are signed: what does not fit would wrap.
  static bool InFile(uint64_t offset, uint64_t length) {
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    return offset <= kMost && length <= kMost - offset;
  }

  size_t MaxFiles() const { return session_->config().limits.max_session_files; }

  void DropPassed() {
    for (const auto& [file, p] : passed_) {
      if (p.fd.valid()) session_->GiveDescriptorBack();
    }
    passed_.clear();
  }

  void OnOpen(SessionQueue* q, const wire::Descriptor& d) {
    UniqueFd fd;
    int error = EBADF;
    if ((d.flags & kFlagInlineFd) != 0 && session_->config().embedded) {
      fd.reset(static_cast<int>(d.aux));
      error = session_->TakeDescriptor();
    } else {
      auto it = passed_.find(d.file);
      if (it == passed_.end()) {
        // The host sent the descriptor before this request; it is still in the socket.
        // Should the host be gone or have broken the protocol, the session ends after this request.
        session_->HandleSocket();
        it = passed_.find(d.file);
      }
      if (it != passed_.end()) {
        fd = std::move(it->second.fd);
        error = it->second.error;
        passed_.erase(it);
      } else if (turned_away_ || passed_.size() >= MaxFiles()) {
        error = ENFILE;
      }
    }
    if (error != 0) return Answer(q, d, -error);
    if (files_.count(d.file) != 0) {
      fd.reset();
      session_->GiveDescriptorBack();
      return Answer(q, d, -EEXIST);
    }
    const IoClass io_class = ClassOf(d.flags);
    const bool output = (d.flags & kFlagReadOnly) == 0;
    FileEngine::File* f =
        engine_->Open(std::move(fd), this, output, /*sticky=*/true, &session_->origin(), io_class);
    // Queues for reading serve jobs of all classes.
    if (output) q->set_io_class(io_class);
    files_[d.file] = f;
    if (d.length == 0 || d.length > kMaxPreallocate) return Answer(q, d, 0);
    engine_->Fallocate(f, d.length, NewPending(q, d));
  }

  static bool MayMove(SessionQueue* q, const wire::Descriptor& d) {
    return d.length > 0 && q->InArena(d.arena_offset, d.length) && InFile(d.file_offset, d.length);
  }

  void OnWrite(SessionQueue* q, const wire::Descriptor& d) {
    if (!MayMove(q, d)) return Answer(q, d, -EINVAL);
    uint64_t ticket;
    if (!q->Track(d.position, &ticket)) return Answer(q, d, -EINVAL);
    const auto it = files_.find(d.file);
    int64_t error = it == files_.end() ? -EBADF : 0;
    int64_t there_at = 0;
    if (error == 0) {
      if (absl::Status st = q->mover().StartPull(d.arena_offset, d.length, &there_at); !st.ok()) {
        error = -(ErrnoOf(st) != 0 ? ErrnoOf(st) : EIO);
      }
    }
    if (error != 0) {
      Answer(q, d, error);
      q->Untrack(ticket);
      return;
    }
    const uint64_t cookie = NewPending(q, d);
    pending_[cookie].tracked = true;
    pending_[cookie].ticket = ticket;
    engine_->Write(it->second, q->mover().local() + d.arena_offset, q->buffer_index, d.length,
                   d.file_offset, cookie, there_at);
  }

  void OnRead(SessionQueue* q, const wire::Descriptor& d) {
    const auto it = files_.find(d.file);
    if (it == files_.end()) return Answer(q, d, -EBADF);
    if (!MayMove(q, d)) return Answer(q, d, -EINVAL);
    if (session_->orphan()) return Answer(q, d, -ECANCELED);  // nobody wants it any more
    engine_->Read(it->second, q->mover().local() + d.arena_offset, q->buffer_index, d.length,
                  d.file_offset, NewPending(q, d), ClassOf(d.flags));
  }

  void OnFileOp(SessionQueue* q, const wire::Descriptor& d) {
    const auto it = files_.find(d.file);
    if (it == files_.end()) return Answer(q, d, -EBADF);
    FileEngine::File* f = it->second;
    const auto opcode = static_cast<Opcode>(d.opcode);
    if (opcode == Opcode::kRangeSync && !InFile(d.file_offset, d.length)) {
      return Answer(q, d, -EINVAL);
    }
    const uint64_t cookie = NewPending(q, d);
    switch (opcode) {
      case Opcode::kRangeSync:
        engine_->RangeSync(f, d.file_offset, d.length, cookie);
        return;
      case Opcode::kSync:
        engine_->Sync(f, cookie);
        return;
      case Opcode::kSyncClose:
        ForgetClass(q);
        files_.erase(it);
        engine_->SyncClose(f, d.aux, cookie);
        return;
      default:
        ForgetClass(q);
        files_.erase(it);
        engine_->Discard(f, cookie);
        return;
    }
  }

  // The queue's next request begins another output, perhaps a flush's: it is not to wait for the
  // class of this one. It costs nothing, and says its own class.
  static void ForgetClass(SessionQueue* q) {
    if (q->io_class() != IoClass::kUnknown) q->set_io_class(IoClass::kCritical);
  }

  Session* session_;
  FileEngine* engine_;
  const StartTask start_task_;
  bool shutdown_ = false;
  size_t in_flight_ = 0;
  std::unordered_map<uint32_t, Passed> passed_;
  bool turned_away_ = false;  // a descriptor had no place in passed_: one not found may be that
  std::unordered_map<uint32_t, FileEngine::File*> files_;
  std::vector<Pending> pending_;
  std::vector<uint32_t> free_;
};

}  // namespace

std::unique_ptr<Service> CreateAgentService(Session* session, FileEngine* engine) {
  return std::make_unique<AgentService>(session, engine, nullptr);
}

ServiceFactory AgentServiceFactory(StartTask start) {
  return
      [start = std::move(start)](Session* session, FileEngine* engine) -> std::unique_ptr<Service> {
        return std::make_unique<AgentService>(session, engine, start);
      };
}

}  // namespace pulse::lsm
