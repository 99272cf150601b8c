// Reads and writes.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "services/files/agent_op.h"
#include "services/files/agent_service.h"

namespace pulse::files {
namespace {

constexpr uint64_t kMaxFile = std::numeric_limits<int64_t>::max();
constexpr uint64_t kZeroBytes = uint64_t{1} << 20;

bool InFile(uint64_t offset, uint64_t length) {
  // A block less, so that rounding up does not wrap.
  return offset <= kMaxFile - kBlock && length <= kMaxFile - kBlock - offset;
}

uint64_t Down(uint64_t n, uint64_t unit = kBlock) { return n / unit * unit; }

char* Zeros() {
  // Written to devices, never to.
  static char* const zeros = [] {
    auto* memory = static_cast<char*>(std::aligned_alloc(kBlock, kZeroBytes));
    std::memset(memory, 0, kZeroBytes);
    return memory;
  }();
  return zeros;
}

}  // namespace

// Of what a write that was admitted changes on the device: the gap before it, whole blocks.
uint64_t FileService::FirstByte(const Op& op) {
  return Down(std::min(op.request.offset, op.claim.old_end));
}

// The pieces of [offset, offset + length), whole blocks, to or from `buffer`.
void FileService::StartPieces(Op* op, uint64_t offset, uint64_t length, char* buffer, bool read) {
  static thread_local std::vector<store::Extent> extents;
  extents.clear();
  op->file->Map(offset, length, &extents);
  op->ios += static_cast<uint32_t>(extents.size());
  for (const store::Extent& e : extents) {
    const uint64_t cookie = e.length << 32 | op->index;
    if (read) {
      engine_->Read(device_, buffer, op->buffer_index, e.length, e.device_offset, cookie);
    } else {
      engine_->Write(device_, buffer, op->buffer_index, e.length, e.device_offset, cookie);
    }
    buffer += e.length;
  }
}

void FileService::Admitted(Op* op) {
  switch (op->kind) {
    case Operation::kRead:
      return StartRead(op);
    case Operation::kWrite:
      return StartWrite(op);
    case Operation::kSetSize:
      return StartSetSize(op);
    case Operation::kReserve:
      return StartReserve(op);
    default:
      return SyncNow(op);
  }
}

// --- reads. The response has the whole blocks around what is asked for.

bool FileService::HandleRead(MessageGroup* group, const Request& r) {
  OpenFile* file = FileOf(r.file);
  int error = file == nullptr ? EBADF : 0;
  if (error == 0 && !InFile(r.offset, r.length)) error = EINVAL;
  // The blocks at both ends are at most two more.
  if (error == 0 && r.length > group->MaxData(kMaxAlign) - 2 * kBlock) error = EINVAL;
  if (error != 0) {
    Refuse(group, Operation::kRead, r.id, error);
    return true;
  }
  // Space is reserved for what there is to read now. While the size changes that is not known.
  uint64_t length = r.length;
  if (!file->changing()) {
    length = std::min(length, r.offset < file->size() ? file->size() - r.offset : 0);
  }
  const uint64_t room = length == 0 ? 0 : RoundUp(r.offset + length, kBlock) - Down(r.offset);
  Reservation place;
  if (!group->Reserve(r.id, KindOf(Operation::kRead), room, files_->memory_alignment(), &place)) {
    return false;
  }
  Op* op = NewOp(group, Operation::kRead, r);
  op->file = file;
  files_->AddUser(file);
  op->reserved = true;
  op->place = place;
  op->room = room;
  if (file->Enter(Access::kRead, op)) StartRead(op);
  return true;
}

void FileService::StartRead(Op* op) {
  const OpenFile& file = *op->file;
  const uint64_t offset = op->request.offset;
  const uint64_t skip = offset % kBlock;
  const uint64_t left = offset < file.size() ? file.size() - offset : 0;
  op->bytes = std::min({op->request.length, op->room - std::min(op->room, skip), left});
  op->data = offset < file.valid() ? std::min(op->bytes, file.valid() - offset) : 0;
  if (op->data == 0) return FinishRead(op);
  op->buffer = op->place.data;
  op->buffer_index = op->group->response_buffer();
  const uint64_t length = RoundUp(skip + op->data, kBlock);
  if (copying_) op->NewBounce(length);
  StartPieces(op, offset - skip, length, op->buffer, /*read=*/true);
}

void FileService::FinishRead(Op* op) {
  const uint64_t end = op->data == 0 ? 0 : op->request.offset % kBlock + op->data;
  if (op->bounce != nullptr) std::memcpy(op->place.data, op->bounce.get(), end);
  // A hole, and what lies behind the end in the last block.
  std::memset(op->place.data + end, 0, op->room - end);
  // Now, and not when it was taken: a write that ended in between has told of its bytes.
  if (FileHooks* const hooks = files_->hooks(); hooks != nullptr) {
    hooks->ReadTaken(op->file->id(), op->request.offset, op->request.length);
  }
  op->file->Leave(Access::kRead);
  Complete(op, op->error != 0 ? op->error : static_cast<int64_t>(op->bytes));
}

// --- writes

void FileService::HandleWrite(MessageGroup* group, const Request& r, const RingMessage& m,
                              uint64_t ticket) {
  OpenFile* file = FileOf(r.file);
  int error = file == nullptr ? EBADF : 0;
  if (error == 0 && (m.length - sizeof(Request) != r.length || !InFile(r.offset, r.length))) {
    error = EINVAL;
  }
  if (error != 0 || r.length == 0) {
    if (error != 0) {
      Refuse(group, Operation::kWrite, r.id, error);
    } else {
      group->Answer(r.id, KindOf(Operation::kWrite), 0, {});
    }
    group->Forget(ticket);
    return;
  }
  Op* op = NewOp(group, Operation::kWrite, r);
  op->file = file;
  files_->AddUser(file);
  op->has_message = true;
  op->ticket = ticket;
  op->payload = m.data + sizeof(Request);
  // Segments first: who has none must not hold others up. Behind a change of the size it is not
  // known yet whether it has.
  const uint64_t end = r.offset + r.length;
  if (end > file->allocated() && !file->changing()) return GetSegments(op);
  if (file->Enter(Access::kWrite, op, r.offset, end)) StartWrite(op);
}

void FileService::GetSegments(Op* op) {
  const uint64_t offset = op->request.offset;
  const uint64_t end = offset + op->request.length;
  const store::FileId id = op->file->id();
  op->file->BeginPrepare();
  Change(
      op, /*durable=*/false, [this, id, end] { return files_->store().Reserve(id, end); },
      [this, op, offset, end](const absl::Status& st) {
        absl::Status status = st;
        if (status.ok()) status = files_->RefreshSegments(op->file, end);
        if (!status.ok()) {
          op->file->CancelPrepare();
          return Complete(op, status);
        }
        if (op->file->EnterPrepared(op, offset, end)) StartWrite(op);
      });
}

void FileService::StartWrite(Op* op) {
  const uint64_t end = op->request.offset + op->request.length;
  if (end > op->file->allocated()) {  // the file was cut meanwhile
    GetSegments(op);
    op->file->LeaveWrite(op);
    return;
  }
  op->claim = op->file->BeginWrite(end);
  op->unit = files_->WriteUnit(end, op->claim.old_end);
  if (FileHooks* const hooks = files_->hooks(); hooks != nullptr) {
    hooks->WriteBegins(op->file->id(), FirstByte(*op), RoundUp(end, kBlock));
  }
  StartGap(op);
}

void FileService::Written(Op* op, int64_t result) {
  if (result == kGivenUp && !shutting_down()) {
    // What it was to follow is not there, as that session has ended; or it has stopped for a write
    // that failed. From the beginning, in its old place.
    op->error = 0;
    op->buffer_index = -1;
    op->file->BeginPrepare();
    const uint64_t offset = op->request.offset;
    if (op->file->EnterPrepared(op, offset, offset + op->request.length)) StartWrite(op);
    return;
  }
  if (result == kGivenUp) result = -ECANCELED;
  Complete(op, result == 0 ? static_cast<int64_t>(op->request.length) : result);
}

// The I/O of a step is done.
void FileService::ContinueWrite(Op* op) {
  if (op->error == 0) {
    switch (op->step) {
      case Op::Step::kGapEdgeRead:
        std::memset(op->buffer + op->claim.old_end % kBlock, 0,
                    kBlock - op->claim.old_end % kBlock);
        op->step = Op::Step::kGapEdgeWrite;
        return StartPieces(op, Down(op->claim.old_end), kBlock, op->buffer, /*read=*/false);
      case Op::Step::kGapEdgeWrite:
      case Op::Step::kZeros:
        return StartZeros(op);
      case Op::Step::kEdges:
        return StartData(op);
      case Op::Step::kData:
        break;
    }
  }
  const uint64_t end = op->request.offset + op->request.length;
  if (FileHooks* const hooks = files_->hooks(); hooks != nullptr) {
    // Before it lets in another that shares a block: so the calls are in the order of the blocks'
    // contents.
    const store::FileId id = op->file->id();
    hooks->Wrote(id, op->request.offset, op->request.length,
                 op->error == 0 ? op->payload : nullptr);
    hooks->WriteEnds(id, FirstByte(*op), RoundUp(end, kBlock));
  }
  op->file->EndWrite(op->claim, end, op->error, op);
}

// The gap between what is there and a write behind it: the rest of the last block, then blocks.
void FileService::StartGap(Op* op) {
  const uint64_t old_end = op->claim.old_end;
  op->zeroed = RoundUp(old_end, kBlock);
  if (old_end % kBlock == 0 || op->zeroed > op->request.offset) return StartZeros(op);
  op->step = Op::Step::kGapEdgeRead;
  op->NewBounce(kBlock);
  StartPieces(op, Down(old_end), kBlock, op->buffer, /*read=*/true);
}

void FileService::StartZeros(Op* op) {
  const uint64_t until = Down(op->request.offset);
  if (op->zeroed >= until) return StartEdges(op);
  // It may take minutes: nobody waits for it, or all others do. Then it begins anew after them.
  if (shutting_down() || (op->claim.number != 0 && op->file->failing())) {
    op->error = kGivenUp;
    return ContinueWrite(op);
  }
  const uint64_t n = std::min(kZeroBytes, until - op->zeroed);
  op->step = Op::Step::kZeros;
  op->buffer_index = -1;
  StartPieces(op, op->zeroed, n, Zeros(), /*read=*/false);
  op->zeroed += n;
}

// Blocks that the write covers in part are read first, as far as there is something in them.
void FileService::StartEdges(Op* op) {
  const uint64_t offset = op->request.offset;
  const uint64_t end = offset + op->request.length;
  const uint64_t unit = op->unit;
  const uint64_t begin = Down(offset, unit);
  const uint64_t whole = RoundUp(end, unit) - begin;
  const bool partial = (offset | end) % unit != 0;
  const bool aligned = reinterpret_cast<uintptr_t>(op->payload) % files_->memory_alignment() == 0;
  op->step = Op::Step::kEdges;
  if (!partial && aligned && !copying_) {
    // The message is in memory that the mover gave us to do I/O on; it is only read.
    op->buffer = const_cast<char*>(op->payload);
    op->buffer_index = op->group->request_buffer();
    return StartData(op);
  }
  op->NewBounce(whole);
  if (partial) {
    std::memset(op->buffer, 0, unit);
    std::memset(op->buffer + whole - unit, 0, unit);
    const uint64_t last = begin + whole - unit;
    const uint64_t old_end = op->claim.old_end;
    const bool head = offset % unit != 0 && old_end > begin;
    const bool tail = end % unit != 0 && old_end > end && (last != begin || !head);
    if (head) StartPieces(op, begin, unit, op->buffer, /*read=*/true);
    if (tail) StartPieces(op, last, unit, op->buffer + (last - begin), /*read=*/true);
    if (head || tail) return;
  }
  StartData(op);
}

void FileService::StartData(Op* op) {
  const uint64_t offset = op->request.offset;
  const uint64_t unit = op->unit;
  const uint64_t begin = Down(offset, unit);
  const uint64_t whole = RoundUp(offset + op->request.length, unit) - begin;
  if (op->buffer != op->payload) {
    // What lies behind the old end in these blocks is nobody's.
    const uint64_t old_end = op->claim.old_end;
    if (old_end < begin + whole) {
      const uint64_t from = std::max(old_end, begin) - begin;
      if (from < unit) std::memset(op->buffer + from, 0, unit - from);
      if (from > whole - unit) std::memset(op->buffer + from, 0, whole - from);
    }
    std::memcpy(op->buffer + (offset - begin), op->payload, op->request.length);
  }
  op->step = Op::Step::kData;
  StartPieces(op, begin, whole, op->buffer, /*read=*/false);
}

}  // namespace pulse::files
