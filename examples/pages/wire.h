// The protocol of `pages`. Each message is one request or its reply; replies name their request, in
// any order. docs/reference/protocol.md has the same in prose. What is said of messages in
// common/wire.h holds. Any thread; nothing blocks. DDS section 9.1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/common/wire.h"
#include "examples/pages/page.h"

namespace pulse::pages {

using examples::Code;

inline constexpr uint32_t kRequestMagic = 0x31514750;  // "PGQ1"
inline constexpr uint32_t kReplyMagic = 0x31524750;    // "PGR1"
inline constexpr uint32_t kMaxRecords = 4096;

enum class Kind : uint16_t {
  kGet = 1,     // a GetBody; the reply is a page whose LSN is at least that
  kAppend = 2,  // `count` records; the reply is the LSN of the last, once all are durable
  kStatus = 3,  // nothing; the reply is a StatusBody
};

struct MessageHeader {
  uint32_t magic;
  uint32_t bytes;  // with this header
  uint64_t id;     // the client's
  Kind kind;
  Code code;       // of a reply; one that is not kOk has a text
  uint32_t count;  // of records
  static constexpr uint32_t kMaxCount = kMaxRecords;
};
struct GetBody {
  uint64_t page;
  uint64_t lsn;
};
struct RecordHeader {
  uint64_t page;
  uint16_t offset;  // in the payload
  uint16_t size;    // of the bytes that follow
  uint32_t reserved;
};
struct StatusBody {
  uint64_t pages;
  uint64_t durable;     // LSN of the last record that cannot be lost
  uint64_t applied;     // all records up to this are in pages
  uint64_t checkpoint;  // recovery begins behind this
};
static_assert(sizeof(MessageHeader) == 24 && sizeof(GetBody) == 16);
static_assert(sizeof(RecordHeader) == 16 && sizeof(StatusBody) == 32);

struct Record {
  uint64_t page = 0;
  uint16_t offset = 0;
  std::string_view data;
};
struct Message {
  MessageHeader header;
  std::string_view body;
};

inline absl::StatusOr<size_t> SplitMessage(std::string_view bytes, uint32_t magic) {
  return examples::SplitMessage<MessageHeader>(bytes, magic);
}
// A whole message. InvalidArgument unless the body is what the kind has, but for records.
absl::StatusOr<Message> DecodeRequest(std::string_view bytes);
absl::StatusOr<Message> DecodeReply(std::string_view bytes);
// `count` records that fill `body`. Their data point into it.
absl::Status DecodeRecords(std::string_view body, uint32_t count, std::vector<Record>* out);

void AppendRecord(const Record& record, std::string* out);
std::string MakeMessage(uint32_t magic, MessageHeader header, std::string_view body);
std::string ErrorReply(uint64_t id, Kind kind, Code code, std::string_view text);

inline constexpr examples::Codes kCodes{
    {absl::StatusCode::kOk, absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound,
     absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kInternal,
     absl::StatusCode::kUnavailable, absl::StatusCode::kResourceExhausted}};

}  // namespace pulse::pages
