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
// Requests that are taken before the device gets them, and answers that are finished before the
// host does: small, so that host, agent and device work at the same time and not in turn.
constexpr size_t kTogether = 8;

// As it is counted for those who watch.
RequestKind KindOf(Operation kind) {
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
    : files_(store), session_(session), engine_(engine), copying_(copying) {}

FileService::~FileService() = default;

ServiceFactory FileStore::Factory(bool copying) {
  return [this, copying](Session* session, FileEngine* engine) -> std::unique_ptr<Service> {
    return std::make_unique<FileService>(this, session, engine, copying);
  };
}

void FileService::OnDescriptor(SessionQueue* queue, const wire::Descriptor& d) {
  queue->Complete({d.tag, -EOPNOTSUPP, d.opcode, d.file, 0});
}

absl::Status FileService::OpenDevice() {
  if (device_ != nullptr) return absl::OkStatus();
  auto fd = files_->OpenDevice();
  if (!fd.ok()) return fd.status();
  device_ = engine_->Open(*std::move(fd), this, /*pinned=*/true, /*sticky=*/false,
                          &session_->origin(), IoClass::kFiles);
  ++in_flight_;  // until closed
  return absl::OkStatus();
}

absl::Status FileService::OnMessage(const wire::Message& m, std::vector<UniqueFd> passed,
                                    wire::Message* ack) {
  // Not the caller's any more: the host is told of a refusal after its doorbell was hung up.
  std::vector<UniqueFd> fds = std::move(passed);
  if (shutdown_) return absl::FailedPreconditionError("the session is over");
  if (groups_.size() >= session_->config().limits.max_queues) {
    return absl::ResourceExhaustedError(absl::StrCat("this session has its ", groups_.size(),
                                                     " poll groups already (limit --max-queues)"));
  }
  for (const auto& g : groups_) {
    if (g->id() == m.args[0]) return absl::AlreadyExistsError("the poll group's number is in use");
  }
  PULSE_RETURN_IF_ERROR(OpenDevice());
  auto group = AgentGroup::Attach(session_, m, std::move(fds));
  if (!group.ok()) return group.status();
  groups_.push_back(*std::move(group));
  ack->args[1] = files_->memory_alignment();
  return absl::OkStatus();
}

absl::Status FileService::Poll(size_t batch, size_t* taken) {
  size_t taken_now = 0;
  for (const auto& group : groups_) group->BeginRound();
  if (!broken_.ok()) return broken_;
  // In turn: the session's limit must not always stop the same ones.
  if (!groups_.empty()) ++first_group_;
  for (size_t k = 0; k < groups_.size(); ++k) {
    const auto& group = groups_[(first_group_ + k) % groups_.size()];
    for (size_t i = 0; i < std::min(batch, kTogether); ++i) {
      if (in_flight_ >= session_->config().limits.max_requests) break;
      RingMessage message;
      uint64_t ticket = 0;
      const absl::StatusOr<bool> some = group->Take(&message, &ticket);
      if (!some.ok()) {
        // With vmread the end of the host shows here first; the socket says so in order.
        if (group->copies() && session_->HostMayBeGone()) break;
        return some.status();
      }
      if (!*some) break;
      if (!Handle1(group.get(), message, ticket)) {
        group->PutBack(message, ticket);
        break;
      }
      ++taken_now;
      if (!broken_.ok()) return broken_;
    }
  }
  *taken += taken_now;
  if (taken_now > 0) expects_requests_ = false;
  SettleIfDue();
  return absl::OkStatus();
}

bool FileService::HasWork() {
  if (!broken_.ok()) return true;
  if (in_flight_ >= session_->config().limits.max_requests) return false;
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& g) { return g->HasWork(); });
}

bool FileService::HasDeferred() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const auto& g) { return g->HasDeferred(); });
}

bool FileService::Deliver() {
  if (shutdown_) return false;
  bool any = false;
  for (const auto& group : groups_) {
    if (group->copies() && session_->HostMayBeGone()) continue;
    // What costs nothing is given at once. A call of the mover waits for a batch while this group
    // asks for more: its own requests, which come to an end while it gets no answers.
    any |= DeliverNow(group.get(), !group->copies() || !group->busy());
  }
  return any;
}

bool FileService::DeliverNow(AgentGroup* group, bool now) {
  const absl::StatusOr<bool> delivered = group->Deliver(now);
  if (!delivered.ok()) {
    broken_ = delivered.status();
    return true;
  }
  expects_requests_ |= *delivered;
  return *delivered;
}

void FileService::BeginShutdown() {
  shutdown_ = true;
  for (const auto& group : groups_) group->HangUp();
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
    --in_flight_;
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
  return open_handles_ + promised_handles_ < session_->config().limits.max_session_files;
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
  ++open_handles_;
  return uint64_t{handles_[index - 1].generation} << 32 | index;
}

// --- operations

FileService::Op* FileService::NewOp(AgentGroup* group, Operation kind, const Request& r) {
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
  ++in_flight_;
  session_->counters().Take(KindOf(kind));
  StageOf(session_, kind).Begin();
  return op;
}

void FileService::FreeOp(Op* op) {
  if (!copying_) op->bounce.reset();  // to compare with, copying shall not pay for allocation
  free_ops_.push_back(op);
  --operations_;
  --in_flight_;
  StageOf(session_, op->kind).End();
  if (shutdown_ && operations_ == 0) CloseDevice();
}

void FileService::Complete(Op* op, int64_t result, std::string data) {
  AgentGroup* const group = op->group;
  if (SessionCounters& c = session_->counters(); result < 0) {
    c.failed.Add(1);
  } else if (op->kind == Operation::kRead || op->kind == Operation::kWrite) {
    (op->kind == Operation::kRead ? c.bytes_read : c.bytes_written).Add(result);
  }
  if (op->has_message) op->group->Forget(op->ticket);
  if (op->reserved) {
    op->group->Finish(op->place, result);
  } else {
    op->group->Answer(op->request.id, op->kind, result, std::move(data));
  }
  if (op->file != nullptr) files_->DropUser(op->file);
  FreeOp(op);
  // Where a delivery costs nothing; else Deliver waits for more.
  if (!group->copies() && !shutdown_ && group->undelivered() >= kTogether) DeliverNow(group, true);
}

void FileService::Complete(Op* op, const absl::Status& status, std::string data) {
  if (status.ok()) return Complete(op, 0, std::move(data));
  const absl::string_view text = status.message().substr(0, kMaxText);
  Complete(op, -ErrnoOfStore(status, op->kind), std::string(text.data(), text.size()));
}

void FileService::AnswerError(AgentGroup* group, const Request& r, Operation kind, int error,
                              std::string text) {
  group->Answer(r.id, kind, -error, std::move(text));
}

bool FileService::Handle1(AgentGroup* group, const RingMessage& message, uint64_t ticket) {
  Request r;
  if (message.length < sizeof(r)) {
    broken_ = absl::DataLossError("a request is shorter than a request");
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
        AnswerError(group, r, kind, EBADF, "");
        break;
      }
      const auto index = static_cast<uint32_t>(r.file & 0xffffffff);
      ++handles_[index - 1].generation;
      handles_[index - 1].file = nullptr;
      free_handles_.push_back(index);
      --open_handles_;
      files_->DropUser(file);
      group->Answer(r.id, kind, 0, {});
      break;
    }
    case Operation::kGetAttributes:
    case Operation::kSetSize:
    case Operation::kReserve:
    case Operation::kSync: {
      OpenFile* file = FileOf(r.file);
      if (file == nullptr) {
        AnswerError(group, r, kind, EBADF, "");
        break;
      }
      Op* op = NewOp(group, kind, r);
      op->file = file;
      files_->AddUser(file);
      HandleFileChange(op);
      break;
    }
    default:
      if (!HandleName(group, kind, r, message)) AnswerError(group, r, kind, EOPNOTSUPP, "");
  }
  group->Forget(ticket);
  return true;
}

}  // namespace pulse::files
