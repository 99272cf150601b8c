#include "examples/blocks/wire.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace pulse::blocks {
namespace {

absl::Status Invalid(const std::string& what) {
  return absl::InvalidArgumentError("blocks: " + what);
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
        return Invalid(absl::StrCat("a request for ", h.size, " bytes; 1 to ", kMaxIo));
      }
      if (h.offset > (uint64_t{1} << 62)) return Invalid("an offset beyond 2^62");
      return absl::OkStatus();
    case Op::kOpen:
      if (h.size > 0 && h.size <= kMaxName) return absl::OkStatus();
      return Invalid("a name of no or too many bytes");
    case Op::kSync:
      if (h.size == 0) return absl::OkStatus();
      return Invalid("a sync has no size");
  }
  return Invalid(absl::StrCat("there is no operation ", static_cast<int>(h.op)));
}
absl::Status Check(const ReplyHeader& h) { return absl::OkStatus(); }

template <typename Part>
absl::Status Decode(std::string_view message, uint32_t magic, std::vector<Part>* out) {
  out->clear();
  const auto header = examples::HeaderOf<MessageHeader>(message, magic);
  if (!header.ok()) return header.status();
  if (header->count == 0) return Invalid("a message of no requests");
  message.remove_prefix(sizeof(MessageHeader));
  for (uint32_t i = 0; i < header->count; ++i) {
    Part p;
    if (message.size() < sizeof(p.header)) {
      return Invalid("a message with fewer requests than it says");
    }
    std::memcpy(&p.header, message.data(), sizeof(p.header));
    message.remove_prefix(sizeof(p.header));
    if (absl::Status st = Check(p.header); !st.ok()) return st;
    const uint32_t bytes = DataBytes(p.header);
    if (bytes > message.size()) return Invalid("a message that ends within the data of a request");
    p.data = message.substr(0, bytes);
    message.remove_prefix(bytes);
    out->push_back(p);
  }
  if (message.empty()) return absl::OkStatus();
  return Invalid("a message with bytes behind its last request");
}

}  // namespace

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

void MessageBuilder::Append(std::string_view header, std::string_view data) {
  bytes_.append(header);
  bytes_.append(data);
  ++count_;
}

std::string_view MessageBuilder::Finish() {
  const MessageHeader h{magic_, static_cast<uint32_t>(bytes_.size()), count_, 0};
  std::memcpy(bytes_.data(), &h, sizeof(h));
  return bytes_;
}

std::string ErrorMessage(uint64_t id, Op op, Code code, std::string_view text) {
  text = text.substr(0, examples::kMaxText);
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

}  // namespace pulse::blocks
