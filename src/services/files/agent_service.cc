#include "services/files/agent_service.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "services/files/agent_op.h"

namespace pulse::files {
namespace {

// Of an engine's file that was closed: nobody waits for it.
constexpr uint64_t kClosed = ~uint64_t{0};
constexpr size_t kMaxText = 400;

// As it is counted for those who watch.
RequestKind CountedAs(Operation kind) {
  switch (kind) {
    case Operation::kRead:
      return RequestKind::kRead;
    case Operation::kWrite:
      return RequestKind::kWrite;
    case Operation::kSync:
      return RequestKind::kSync;
    case Operation::kCreateFile:
    case Operation::kOpenFile:
      return RequestKind::kOpen;
    default:
      return RequestKind::kName;
  }
}

BusyTime& StageOf(Session* session, Operation kind) {
  return kind == Operation::kRead ? session->counters().fetch : session->counters().persist;
}

}  // namespace

int ErrnoOfStore(const absl::Status& status, Operation kind) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
      return EINVAL;
    case absl::StatusCode::kNotFound:
      return ENOENT;
    case absl::StatusCode::kAlreadyExists:
      return EEXIST;
    case absl::StatusCode::kResourceExhausted:
      return ErrnoOf(status) != 0 ? ErrnoOf(status) : ENOSPC;
    case absl::StatusCode::kFailedPrecondition:
      return kind == Operation::kRemoveDirectory || kind == Operation::kRenameDirectory ? ENOTEMPTY
                                                                                        : EBUSY;
    default:
      return EIO;
  }
}

FileService::FileService(FileStore* store, Session* session, FileEngine* engine, bool copying)
    : MessageService(session), files_(store), engine_(engine), copying_(copying) {}

FileService::~FileService() = default;

ServiceFactory FileStore::Factory(bool copying) {
  return [this, copying](Session* session, FileEngine* engine) -> std::unique_ptr<Service> {
    return std::make_unique<FileService>(this, session, engine, copying);
  };
}

absl::StatusOr<uint64_t> FileService::OnAttach() {
  if (device_ != nullptr) return files_->memory_alignment();
  PULSE_ASSIGN_OR_RETURN(auto fd, files_->OpenDevice());
  device_ = engine_->Open(std::move(fd), this, /*pinned=*/true, /*sticky=*/false,
                          &session()->origin(), IoClass::kInteractive);
  BeginWork();  // until closed
  return files_->memory_alignment();
}

void FileService::BeginShutdown() {
  MessageService::BeginShutdown();
  for (Handle& h : handles_) {
    if (h.file != nullptr) files_->DropUser(std::exchange(h.file, nullptr));
  }
  // What was taken is finished, also what waits for its turn.
  if (operations_ == 0) CloseDevice();
}

void FileService::CloseDevice() {
  if (device_ != nullptr) engine_->Discard(std::exchange(device_, nullptr), kClosed);
}

void FileService::OnIoComplete(uint64_t cookie, int64_t result) {
  if (cookie == kClosed) {
    EndWork();
    return;
  }
  Op* op = ops_[cookie & 0xffffffff].get();
  const auto length = static_cast<int64_t>(cookie >> 32);
  if (result < 0) {
    // Whatever the device says of itself is none of the host's doing, which other errors are.
    op->error = -EIO;
    LogOnce(absl::StrCat("device of files ", result),
            absl::StrCat("the device of the store failed a request of a file: ",
                         strerror(static_cast<int>(-result)), "; the host is told EIO"));
  } else if (result != length && op->error == 0) {
    op->error = -EIO;  // the device ends early: it was cut short
  }
  if (--op->ios > 0) return;
  if (op->kind == Operation::kRead) {
    FinishRead(op);
  } else {
    ContinueWrite(op);
  }
}

// --- handles

OpenFile* FileService::FileOf(uint64_t handle) const {
  const uint64_t index = handle & 0xffffffff;
  if (index == 0 || index > handles_.size()) return nullptr;
  const Handle& h = handles_[index - 1];
  return h.generation == handle >> 32 ? h.file : nullptr;
}

bool FileService::HandlesLeft() const {
  return open_handles_ + promised_handles_ < session()->config().limits.max_session_files;
}

uint64_t FileService::NewHandle(OpenFile* file) {
  if (!HandlesLeft()) return 0;
  if (free_handles_.empty()) {
    handles_.emplace_back();
    free_handles_.push_back(static_cast<uint32_t>(handles_.size()));
  }
  const uint32_t index = free_handles_.back();
  free_handles_.pop_back();
  handles_[index - 1].file = file;
  session()->counters().files.Set(++open_handles_);
  return uint64_t{handles_[index - 1].generation} << 32 | index;
}

// --- operations

FileService::Op* FileService::NewOp(MessageGroup* group, Operation kind, const Request& r) {
  if (free_ops_.empty()) {
    ops_.push_back(std::make_unique<Op>(this, static_cast<uint32_t>(ops_.size())));
    free_ops_.push_back(ops_.back().get());
  }
  Op* op = free_ops_.back();
  free_ops_.pop_back();
  op->group = group;
  op->kind = kind;
  op->request = r;
  op->file = nullptr;
  op->ios = 0;
  op->error = 0;
  op->reserved = false;
  op->has_message = false;
  op->buffer_index = -1;
  ++operations_;
  BeginWork();
  session()->counters().Take(CountedAs(kind));
  StageOf(session(), kind).Begin();
  return op;
}

void FileService::FreeOp(Op* op) {
  if (!copying_) op->bounce.reset();  // to compare with, copying shall not pay for allocation
  free_ops_.push_back(op);
  --operations_;
  EndWork();
  StageOf(session(), op->kind).End();
  if (shutting_down() && operations_ == 0) CloseDevice();
}

void FileService::Refuse(MessageGroup* group, Operation kind, uint64_t id, int error) {
  session()->counters().Take(CountedAs(kind));
  session()->counters().failed.Add(1);
  group->Answer(id, KindOf(kind), -error, {});
}

void FileService::Complete(Op* op, int64_t result, std::string data) {
  MessageGroup* const group = op->group;
  if (SessionCounters& c = session()->counters(); result < 0) {
    c.failed.Add(1);
  } else if (op->kind == Operation::kRead || op->kind == Operation::kWrite) {
    (op->kind == Operation::kRead ? c.bytes_read : c.bytes_written).Add(result);
  }
  if (op->has_message) op->group->Forget(op->ticket);
  if (op->reserved) {
    op->group->Finish(op->place, result);
  } else {
    op->group->Answer(op->request.id, KindOf(op->kind), result, std::move(data));
  }
  if (op->file != nullptr) files_->DropUser(op->file);
  FreeOp(op);
  // Where a delivery costs nothing; else Deliver waits for more.
  if (!group->copies() && !shutting_down() && group->undelivered() >= kTogether)
    DeliverNow(group, true);
}

void FileService::Complete(Op* op, const absl::Status& status, std::string data) {
  if (status.ok()) return Complete(op, 0, std::move(data));
  const absl::string_view text = status.message().substr(0, kMaxText);
  Complete(op, -ErrnoOfStore(status, op->kind), std::string(text.data(), text.size()));
}

bool FileService::OnRequest(MessageGroup* group, const RingMessage& message, uint64_t ticket) {
  Request r;
  if (message.length < sizeof(r)) {
    Break(absl::DataLossError("a request is shorter than a request"));
    group->Forget(ticket);
    return true;
  }
  std::memcpy(&r, message.data, sizeof(r));
  const auto kind = static_cast<Operation>(message.kind);
  switch (kind) {
    case Operation::kRead:
      if (!HandleRead(group, r)) return false;
      break;
    case Operation::kWrite:
      HandleWrite(group, r, message, ticket);
      return true;
    case Operation::kCloseFile: {
      OpenFile* file = FileOf(r.file);
      if (file == nullptr) {
        Refuse(group, kind, r.id, EBADF);
        break;
      }
      const auto index = static_cast<uint32_t>(r.file & 0xffffffff);
      ++handles_[index - 1].generation;
      handles_[index - 1].file = nullptr;
      free_handles_.push_back(index);
      session()->counters().files.Set(--open_handles_);
      files_->DropUser(file);
      group->Answer(r.id, KindOf(kind), 0, {});
      break;
    }
    case Operation::kGetAttributes:
    case Operation::kSetSize:
    case Operation::kReserve:
    case Operation::kSync: {
      OpenFile* file = FileOf(r.file);
      if (file == nullptr) {
        Refuse(group, kind, r.id, EBADF);
        break;
      }
      Op* op = NewOp(group, kind, r);
      op->file = file;
      files_->AddUser(file);
      HandleFileChange(op);
      break;
    }
    default:
      if (!HandleName(group, kind, r, message)) Refuse(group, kind, r.id, EOPNOTSUPP);
  }
  group->Forget(ticket);
  return true;
}

}  // namespace pulse::files
