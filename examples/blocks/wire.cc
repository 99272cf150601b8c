#include "examples/blocks/wire.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace pulse::blocks {
namespace {

constexpr size_t kMaxText = 512;

absl::StatusOr<MessageHeader> HeaderOf(std::string_view bytes, uint32_t magic) {
  MessageHeader h;
  std::memcpy(&h, bytes.data(), sizeof(h));
  if (h.magic != magic) {
    return absl::InvalidArgumentError("blocks: not a message of this protocol");
  }
  if (h.bytes <= sizeof(h) || h.bytes > kMaxMessage) {
    return absl::InvalidArgumentError(
        absl::StrCat("blocks: a message of ", h.bytes, " bytes; at most ", kMaxMessage));
  }
  if (h.count == 0 || h.count > kMaxRequests) {
    return absl::InvalidArgumentError(
        absl::StrCat("blocks: a message of ", h.count, " requests; 1 to ", kMaxRequests));
  }
  return h;
}

uint32_t DataBytes(const RequestHeader& h) {
  return h.op == Op::kRead || h.op == Op::kSync ? 0 : h.size;
}
uint32_t DataBytes(const ReplyHeader& h) { return h.size; }

absl::Status Check(const RequestHeader& h) {
  switch (h.op) {
    case Op::kRead:
    case Op::kWrite:
      if (h.size == 0 || h.size > kMaxIo) {
        return absl::InvalidArgumentError(
            absl::StrCat("blocks: a request for ", h.size, " bytes; 1 to ", kMaxIo));
      }
      if (h.offset > (uint64_t{1} << 62)) {
        return absl::InvalidArgumentError("blocks: an offset beyond 2^62");
      }
      return absl::OkStatus();
    case Op::kOpen:
      if (h.size > 0 && h.size <= kMaxName) return absl::OkStatus();
      return absl::InvalidArgumentError("blocks: a name of no or too many bytes");
    case Op::kSync:
      if (h.size == 0) return absl::OkStatus();
      return absl::InvalidArgumentError("blocks: a sync has no size");
  }
  return absl::InvalidArgumentError(
      absl::StrCat("blocks: there is no operation ", static_cast<int>(h.op)));
}
absl::Status Check(const ReplyHeader& h) { return absl::OkStatus(); }

template <typename Part>
absl::Status Decode(std::string_view message, uint32_t magic, std::vector<Part>* out) {
  out->clear();
  if (message.size() < sizeof(MessageHeader)) {
    return absl::InvalidArgumentError("blocks: a message without its header");
  }
  const auto header = HeaderOf(message, magic);
  if (!header.ok()) return header.status();
  if (header->bytes != message.size()) {
    return absl::InvalidArgumentError("blocks: a message of another size than it says");
  }
  message.remove_prefix(sizeof(MessageHeader));
  for (uint32_t i = 0; i < header->count; ++i) {
    Part p;
    if (message.size() < sizeof(p.header)) {
      return absl::InvalidArgumentError("blocks: a message with fewer requests than it says");
    }
    std::memcpy(&p.header, message.data(), sizeof(p.header));
    message.remove_prefix(sizeof(p.header));
    if (absl::Status st = Check(p.header); !st.ok()) return st;
    const uint32_t bytes = DataBytes(p.header);
    if (bytes > message.size()) {
      return absl::InvalidArgumentError("blocks: a message that ends within the data of a request");
    }
    p.data = message.substr(0, bytes);
    message.remove_prefix(bytes);
    out->push_back(p);
  }
  if (message.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("blocks: a message with bytes behind its last request");
}

}  // namespace

absl::StatusOr<size_t> SplitMessage(std::string_view bytes, uint32_t magic) {
  if (bytes.size() < sizeof(MessageHeader)) return size_t{0};
  const auto header = HeaderOf(bytes, magic);
  if (!header.ok()) return header.status();
  return bytes.size() < header->bytes ? size_t{0} : header->bytes;
}

absl::Status DecodeRequests(std::string_view message, std::vector<Request>* out) {
  return Decode(message, kRequestMagic, out);
}
absl::Status DecodeReplies(std::string_view message, std::vector<Reply>* out) {
  return Decode(message, kReplyMagic, out);
}

void MessageBuilder::Reset() {
  bytes_.assign(sizeof(MessageHeader), '\0');
  count_ = 0;
}

void MessageBuilder::Add(const RequestHeader& header, std::string_view data) {
  bytes_.append(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes_.append(data);
  ++count_;
}
void MessageBuilder::Add(const ReplyHeader& header, std::string_view data) {
  bytes_.append(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes_.append(data);
  ++count_;
}

std::string_view MessageBuilder::Finish() {
  const MessageHeader h{magic_, static_cast<uint32_t>(bytes_.size()), count_, 0};
  std::memcpy(bytes_.data(), &h, sizeof(h));
  return bytes_;
}

std::string ErrorMessage(uint64_t id, Op op, Code code, std::string_view text) {
  text = text.substr(0, kMaxText);
  MessageBuilder b(kReplyMagic);
  b.Add(ReplyHeader{id, static_cast<uint32_t>(text.size()), code, op}, text);
  return std::string(b.Finish());
}

std::string ErrorMessages(std::string_view request, Code code) {
  std::vector<Request> requests;
  if (!DecodeRequests(request, &requests).ok()) return {};
  MessageBuilder b(kReplyMagic);
  for (const Request& r : requests) b.Add(ReplyHeader{r.header.id, 0, code, r.header.op}, {});
  return std::string(b.Finish());
}

Code CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return Code::kOk;
    case absl::StatusCode::kInvalidArgument:
      return Code::kInvalid;
    case absl::StatusCode::kNotFound:
      return Code::kNotFound;
    case absl::StatusCode::kOutOfRange:
      return Code::kOutOfRange;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kFailedPrecondition:
      return Code::kUnavailable;
    default:
      return Code::kFailed;
  }
}

absl::Status StatusOf(Code code, std::string_view text) {
  if (text.empty() && code == Code::kUnavailable) text = "the server is lost, or cannot be reached";
  if (text.empty()) text = "refused, without a word";
  const absl::string_view t(text.data(), text.size());
  switch (code) {
    case Code::kOk:
      return absl::OkStatus();
    case Code::kInvalid:
      return absl::InvalidArgumentError(t);
    case Code::kNotFound:
      return absl::NotFoundError(t);
    case Code::kOutOfRange:
      return absl::OutOfRangeError(t);
    case Code::kUnavailable:
    case Code::kBusy:
      return absl::UnavailableError(t);
    case Code::kFailed:
      break;
  }
  return absl::InternalError(t);
}

}  // namespace pulse::blocks
