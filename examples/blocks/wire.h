// The protocol of `blocks`: random file I/O over a stream. A message is a header and one or more
// requests, each followed by its data; it is answered by one or more reply messages, whose replies
// name their request, in any order and any grouping. docs/reference/protocol.md has the same in
// prose. DDS section 8.1.
//
// What is said of messages in common/wire.h holds. Any thread; nothing blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/common/block_files.h"
#include "examples/common/wire.h"

namespace pulse::blocks {

using examples::Code;
using examples::FileInfo;
using examples::kMaxIo;
using examples::Op;  // kWrite: `size` bytes follow; kOpen: a name does, the reply has a FileInfo

inline constexpr uint32_t kRequestMagic = 0x31514250;  // "PBQ1"
inline constexpr uint32_t kReplyMagic = 0x31524250;    // "PBR1"
// Of one message: so many that errors for all of them fit into offload::kMaxErrorBytes.
inline constexpr uint32_t kMaxRequests = 30;
inline constexpr uint32_t kMaxName = 255;

struct MessageHeader {
  uint32_t magic;
  uint32_t bytes;  // with this header
  uint32_t count;  // of requests or replies
  uint32_t reserved;
  static constexpr uint32_t kMaxCount = kMaxRequests;
};

struct RequestHeader {
  uint64_t id;  // the client's; outstanding ones differ
  uint64_t file;
  uint64_t offset;
  uint32_t size;
  Op op;
  uint16_t reserved;
};

// A reply that is not kOk is followed by `size` bytes of text.
struct ReplyHeader {
  uint64_t id;
  uint32_t size;
  Code code;
  Op op;  // of the request
};

static_assert(sizeof(MessageHeader) == 16 && sizeof(RequestHeader) == 32);
static_assert(sizeof(ReplyHeader) == 16 && sizeof(FileInfo) == 16);
static_assert(offsetof(RequestHeader, op) == 28 && offsetof(ReplyHeader, op) == 14);
static_assert(std::is_trivially_copyable_v<RequestHeader>);

struct Request {
  RequestHeader header;
  std::string_view data;  // of a write, or a name
};
struct Reply {
  ReplyHeader header;
  std::string_view data;
};

inline absl::StatusOr<size_t> SplitMessage(std::string_view bytes, uint32_t magic) {
  return examples::SplitMessage<MessageHeader>(bytes, magic);
}

// The parts of a whole message. `out` is emptied first; its data point into `message`.
// InvalidArgument unless every byte belongs to a request that keeps the limits.
absl::Status DecodeRequests(std::string_view message, std::vector<Request>* out);
absl::Status DecodeReplies(std::string_view message, std::vector<Reply>* out);

// Builds one message. Reset and the adding calls keep the memory.
class MessageBuilder {
 public:
  explicit MessageBuilder(uint32_t magic) : magic_(magic) { Reset(); }
  void Reset();
  void Add(const RequestHeader& header, std::string_view data = {}) {
    Append(examples::BytesOf(header), data);
  }
  void Add(const ReplyHeader& header, std::string_view data) {
    Append(examples::BytesOf(header), data);
  }
  uint32_t count() const { return count_; }
  // Whole after each call; good until the next.
  std::string_view Finish();

 private:
  void Append(std::string_view header, std::string_view data);

  const uint32_t magic_;
  uint32_t count_ = 0;
  std::string bytes_;
};

// A message with one reply: an error and its text.
std::string ErrorMessage(uint64_t id, Op op, Code code, std::string_view text);
// The same error, without a text, for every request of a message, in at most kMaxErrorsBytes.
inline constexpr size_t kMaxErrorsBytes =
    sizeof(MessageHeader) + kMaxRequests * sizeof(ReplyHeader);
std::string ErrorMessages(std::string_view request, Code code);

inline constexpr examples::Codes kCodes{
    {absl::StatusCode::kOk, absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound,
     absl::StatusCode::kOutOfRange, absl::StatusCode::kInternal, absl::StatusCode::kUnavailable,
     absl::StatusCode::kUnavailable}};

}  // namespace pulse::blocks
