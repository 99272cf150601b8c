#include "services/files/host_group.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/errors.h"

namespace pulse::files {
namespace {

constexpr size_t kMaxText = 512;

absl::Status ErrorOf(int64_t result, const char* text, size_t bytes) {
  const int err = result < -4095 ? EIO : static_cast<int>(-result);
  std::string why(text, strnlen(text, std::min(bytes, kMaxText)));
  absl::StatusCode code = absl::StatusCode::kInternal;
  switch (err) {
    case EBADF:
      code = absl::StatusCode::kFailedPrecondition;
      if (why.empty()) why = "the file is closed";
      break;
    case ENOTEMPTY:
    case EBUSY:
      code = absl::StatusCode::kFailedPrecondition;
      break;
    default:
      code = ErrnoError(err, "", "").code();
  }
  if (why.empty()) why = strerror(err);
  return absl::Status(code, why);
}

bool ParseListing(const char* at, uint64_t left, Completion* out) {
  ListHeader header;
  if (left < sizeof(header)) return false;
  std::memcpy(&header, at, sizeof(header));
  at += sizeof(header);
  left -= sizeof(header);
  for (uint32_t i = 0; i < header.entries; ++i) {
    EntryHeader e;
    if (left < sizeof(e)) return false;
    std::memcpy(&e, at, sizeof(e));
    at += sizeof(e);
    left -= sizeof(e);
    const uint64_t padded = RoundUp(e.name_bytes, 8);
    if (padded > left) return false;
    out->entries.push_back({std::string(at, e.name_bytes), e.size, e.modified_ns});
    at += padded;
    left -= padded;
  }
  out->more = header.more != 0;
  return true;
}

// Turns a response into a completion. True: its memory holds the completion's data.
bool Fill(const TakenResponse& r, const Outstanding& what, Completion* out) {
  out->id = r.id;
  out->cookie = what.cookie;
  out->operation = what.operation;
  out->status = absl::OkStatus();
  out->bytes = 0;
  out->file = File::kNone;
  out->attributes = {};
  out->entries.clear();
  out->more = false;
  out->data = nullptr;
  out->lease = 0;
  bool sound = r.kind == static_cast<uint16_t>(what.operation);
  bool keep = false;
  if (sound && r.result < 0) {
    const bool text = what.operation != Operation::kRead;
    out->status = ErrorOf(r.result, r.data, text ? r.capacity : 0);
  } else if (sound) {
    switch (what.operation) {
      case Operation::kRead: {
        const auto bytes = static_cast<uint64_t>(r.result);
        uint64_t asked = 0;
        for (uint8_t i = 0; i < what.pieces; ++i) asked += what.piece[i].size;
        sound = bytes <= asked && (bytes == 0 || what.skip + bytes <= r.capacity);
        if (!sound) break;
        out->bytes = bytes;
        if (what.mode == ReadMode::kInPlace) {
          keep = bytes > 0;
          out->data = keep ? r.data + what.skip : nullptr;
          out->lease = keep ? uint64_t{r.ticket} + 1 : 0;
          break;
        }
        const char* from = r.data + what.skip;
        uint64_t left = bytes;
        for (uint8_t i = 0; i < what.pieces && left > 0; ++i) {
          const uint64_t n = std::min(left, what.piece[i].size);
          std::memcpy(what.piece[i].data, from, n);
          from += n;
          left -= n;
        }
        break;
      }
      case Operation::kWrite:
        out->bytes = static_cast<uint64_t>(r.result);
        break;
      case Operation::kCreateFile:
      case Operation::kOpenFile: {
        OpenedFile opened;
        sound = r.capacity >= sizeof(opened);
        if (!sound) break;
        std::memcpy(&opened, r.data, sizeof(opened));
        out->file = static_cast<File>(opened.file);
        out->attributes = {opened.attributes.size, opened.attributes.allocated,
                           opened.attributes.modified_ns, opened.attributes.id};
        break;
      }
      case Operation::kGetAttributes: {
        WireAttributes a;
        sound = r.capacity >= sizeof(a);
        if (!sound) break;
        std::memcpy(&a, r.data, sizeof(a));
        out->attributes = {a.size, a.allocated, a.modified_ns, a.id};
        break;
      }
      case Operation::kListDirectories:
      case Operation::kListDirectory:
        sound = ParseListing(r.data, r.capacity, out);
        break;
      default:
        break;
    }
  }
  if (!sound) out->status = absl::InternalError("the agent gave an answer that makes no sense");
  return keep;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostGroup>> HostGroup::Create(MessageChannel* channel, uint32_t poll,
                                                             const PollOptions& options) {
  std::unique_ptr<HostGroup> g(new HostGroup(channel));
  g->poll_ = poll;
  const GroupShape shape{options.request_bytes, options.response_bytes, options.max_requests};
  PULSE_ASSIGN_OR_RETURN(g->group_, HostMessageGroup::Create(channel, shape));
  g->requests_.resize(shape.requests);
  g->max_write_ = g->group_->MaxMessage(kMaxAlign) - sizeof(Request);
  // As the agent's ResponseBuffer::MaxData says, less the rest of the blocks at both ends.
  g->max_read_ = shape.response_bytes / 2 - kMaxAlign - 2 * kBlock;
  return g;
}

absl::Status HostGroup::Submit(const Outstanding& what, Request request, pulse::Piece body,
                               bool direct, RequestId* id) {
  if (channel_->lost()) return channel_->LostError();
  const uint32_t slot = group_->TakeSlot(&request.id);
  if (slot == HostMessageGroup::kNoSlot) return absl::Status(absl::StatusCode::kUnavailable, "");
  Outstanding& kept = requests_[slot];
  kept.cookie = what.cookie;
  kept.operation = what.operation;
  kept.mode = what.mode;
  kept.pieces = what.pieces;
  kept.skip = what.skip;
  std::copy(what.piece, what.piece + what.pieces, kept.piece);
  if (id != nullptr) *id = request.id;  // before anybody can have its completion
  return group_->Submit(slot, request.id, KindOf(what.operation), {&request, sizeof(request)}, body,
                        direct ? group_->align() : 8);
}

class HostGroup::Taker : public HostMessageGroup::Taker {
 public:
  Taker(HostGroup* group, Completion* out) : group_(group), next_(out) {}
  bool OnResponse(const TakenResponse& r, uint32_t slot) override {
    return Fill(r, group_->requests_[slot], next_++);
  }
  void OnLost(uint64_t id, uint32_t slot) override {
    Completion& c = *next_++;
    c = Completion();
    c.id = id;
    c.cookie = group_->requests_[slot].cookie;
    c.operation = group_->requests_[slot].operation;
    c.status = absl::AbortedError(
        "the agent was lost; whether the operation was carried out is not known");
  }

 private:
  HostGroup* const group_;
  Completion* next_;
};

absl::StatusOr<size_t> HostGroup::Wait(Completion* out, size_t max, int64_t timeout_us) {
  Taker taker(this, out);
  return group_->Wait(&taker, max, timeout_us);
}

void HostGroup::Release(Completion* completion) {
  if (completion->lease == 0) return;
  group_->Release(static_cast<uint32_t>(completion->lease - 1));
  completion->lease = 0;
  completion->data = nullptr;
}

}  // namespace pulse::files
