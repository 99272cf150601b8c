#include "examples/pages/wire.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/errors.h"

namespace pulse::pages {
namespace {

absl::Status Invalid(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("pages: ", what));
}

absl::StatusOr<Message> Decode(std::string_view bytes, uint32_t magic) {
  PULSE_ASSIGN_OR_RETURN(const auto header, examples::HeaderOf<MessageHeader>(bytes, magic));
  return Message{header, bytes.substr(sizeof(MessageHeader))};
}

}  // namespace

absl::StatusOr<Message> DecodeRequest(std::string_view bytes) {
  auto m = Decode(bytes, kRequestMagic);
  if (!m.ok()) return m;
  switch (m->header.kind) {
    case Kind::kGet:
      if (m->body.size() == sizeof(GetBody)) return m;
      return Invalid("a request for a page of another size");
    case Kind::kAppend:
      if (m->header.count > 0) return m;
      return Invalid("no records to append");
    case Kind::kStatus:
      if (m->body.empty()) return m;
      return Invalid("a request for the status with something behind it");
  }
  return Invalid("there is no such kind of message");
}

absl::StatusOr<Message> DecodeReply(std::string_view bytes) {
  auto m = Decode(bytes, kReplyMagic);
  if (!m.ok() || m->header.code != Code::kOk) return m;
  switch (m->header.kind) {
    case Kind::kGet:
      if (m->body.size() == kPageBytes) return m;
      break;
    case Kind::kAppend:
      if (m->body.size() == sizeof(uint64_t)) return m;
      break;
    case Kind::kStatus:
      if (m->body.size() == sizeof(StatusBody)) return m;
      break;
  }
  return Invalid("a reply that is none");
}

absl::Status DecodeRecords(std::string_view body, uint32_t count, std::vector<Record>* out) {
  out->clear();
  for (uint32_t i = 0; i < count; ++i) {
    RecordHeader h;
    if (body.size() < sizeof(h)) return Invalid("fewer records than it says");
    std::memcpy(&h, body.data(), sizeof(h));
    body.remove_prefix(sizeof(h));
    if (h.size == 0 || h.size > body.size()) return Invalid("a record that ends within its bytes");
    if (uint32_t{h.offset} + h.size > kPayload) return Invalid("a record beyond the page's end");
    out->push_back({h.page, h.offset, body.substr(0, h.size)});
    body.remove_prefix(h.size);
  }
  return body.empty() ? absl::OkStatus() : Invalid("bytes behind the last record");
}

void AppendRecord(const Record& record, std::string* out) {
  const RecordHeader h{record.page, record.offset, static_cast<uint16_t>(record.data.size()), 0};
  out->append(examples::BytesOf(h));
  out->append(record.data);
}

std::string MakeMessage(uint32_t magic, MessageHeader header, std::string_view body) {
  header.magic = magic;
  header.bytes = static_cast<uint32_t>(sizeof(header) + body.size());
  std::string out(examples::BytesOf(header));
  out.append(body);
  return out;
}

std::string ErrorReply(uint64_t id, Kind kind, Code code, std::string_view text) {
  return MakeMessage(kReplyMagic, {0, 0, id, kind, code, 0}, text.substr(0, examples::kMaxText));
}

}  // namespace pulse::pages
