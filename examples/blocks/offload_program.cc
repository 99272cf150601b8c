// The offload program of `blocks`: reads are answered by the agent, all else goes to the host.
// Without a cache table: a request says where its bytes are. DDS sections 6.1 and 8.2.
//
// With PULSE_BLOCKS_FORWARD the same protocol, and all goes to the host: the cost of forwarding,
// for the benchmark.
#include <cstring>
#include <string_view>

#include "examples/blocks/wire.h"
#include "examples/common/offload_parts.h"

#ifndef PULSE_BLOCKS_FORWARD
#define PULSE_BLOCKS_FORWARD false
#endif

namespace pulse::blocks {
namespace {

using offload::Error;
using offload::ReadOp;
using offload::Requests;
using offload::Table;

static_assert(kMaxErrorsBytes <= offload::kMaxErrorBytes);

// A message of one read, as the agent gets it.
struct OneRead {
  MessageHeader message;
  RequestHeader request;
};
constexpr uint32_t kOneRead = sizeof(MessageHeader) + sizeof(RequestHeader);

OneRead ReadOf(const char* request) {
  OneRead one;
  std::memcpy(&one.message, request, sizeof(one.message));
  std::memcpy(&one.request, request + sizeof(one.message), sizeof(one.request));
  return one;
}

// The bytes of the request at `at`, with its data; 0 when it is none. Only what is needed to find
// the reads: the host checks the rest of what it gets.
size_t RequestBytes(std::string_view rest, RequestHeader* h) {
  if (rest.size() < sizeof(*h)) return 0;
  std::memcpy(h, rest.data(), sizeof(*h));
  const bool data = h->op == Op::kWrite || h->op == Op::kOpen;
  if (h->size > kMaxIo || (data && h->size > rest.size() - sizeof(*h))) return 0;
  return sizeof(*h) + (data ? h->size : 0);
}

// What of a message is the host's, in messages of its own. Large enough for any request.
class HostPart {
 public:
  explicit HostPart(Requests* out) : out_(out) {}
  void Add(std::string_view request) {
    if (bytes_ + request.size() > sizeof(buffer_)) Flush();
    std::memcpy(buffer_ + bytes_, request.data(), request.size());
    bytes_ += request.size();
    ++count_;
  }
  void Flush() {
    if (count_ == 0) return;
    const MessageHeader h{kRequestMagic, static_cast<uint32_t>(bytes_), count_, 0};
    std::memcpy(buffer_, &h, sizeof(h));
    out_->host(out_, buffer_, bytes_, 1);
    bytes_ = sizeof(MessageHeader);
    count_ = 0;
  }

 private:
  Requests* const out_;
  size_t bytes_ = sizeof(MessageHeader);
  uint32_t count_ = 0;
  char buffer_[2 * kMaxIo];
};
static_assert(2 * kMaxIo >= sizeof(MessageHeader) + sizeof(RequestHeader) + kMaxIo);

// Reads go to the agent, each as a message of its own; the rest goes to the host.
void Predicate(void*, const char* message, size_t size, const Table*, Requests* out) {
  MessageHeader m;
  if (size < sizeof(m)) return;
  std::memcpy(&m, message, sizeof(m));
  const std::string_view all(message + sizeof(m), size - sizeof(m));
  std::string_view rest = all;
  uint32_t reads = 0;
  for (uint32_t i = 0; i < m.count; ++i) {
    RequestHeader h;
    const size_t bytes = RequestBytes(rest, &h);
    if (bytes == 0) return;  // the host says what is wrong with it
    reads += h.op == Op::kRead;
    rest.remove_prefix(bytes);
  }
  if (!rest.empty() || reads == 0) return;  // whole to the host
  rest = all;
  HostPart host(out);
  for (uint32_t i = 0; i < m.count; ++i) {
    OneRead one{{kRequestMagic, kOneRead, 1, 0}, {}};
    const size_t bytes = RequestBytes(rest, &one.request);
    if (one.request.op == Op::kRead) {
      out->agent(out, &one, kOneRead);
    } else {
      host.Add(rest.substr(0, bytes));
    }
    rest.remove_prefix(bytes);
  }
  host.Flush();
}

int Read(void*, const char* request, size_t size, const Table*, ReadOp* op) {
  if (size != kOneRead) return 0;
  const RequestHeader h = ReadOf(request).request;
  if (h.size == 0) return 0;
  *op = {h.file, h.offset, h.size};
  return 1;
}

int MakeReply(void*, const char* request, size_t size, const ReadOp* op, offload::Reply* reply) {
  const RequestHeader h = ReadOf(request).request;
  const auto bytes = static_cast<uint32_t>(reply->size);
  struct {
    MessageHeader message;
    ReplyHeader reply;
  } header{{kReplyMagic, static_cast<uint32_t>(sizeof(header)) + bytes, 1, 0},
           {h.id, bytes, Code::kOk, Op::kRead}};
  static_assert(sizeof(header) == 32);
  std::memcpy(reply->header, &header, sizeof(header));
  reply->header_size = sizeof(header);
  return 1;
}

// Without a text, for each request; for none, when it is the connection's.
size_t MakeError(void*, const char* request, size_t size, Error error, char* out, size_t room) {
  const Code code = examples::CodeOf(error);
  size_t bytes = sizeof(MessageHeader);
  MessageHeader m{kReplyMagic, 0, 0, 0};
  const auto add = [&](const ReplyHeader& h) {
    if (room < bytes + sizeof(h)) return;
    std::memcpy(out + bytes, &h, sizeof(h));
    bytes += sizeof(h);
    ++m.count;
  };
  if (examples::IsHostLost(error) && request != nullptr && size > sizeof(m)) {
    std::string_view rest(request + sizeof(m), size - sizeof(m));
    RequestHeader h;
    // Small requests may outnumber what a message may hold, and what the client takes.
    for (size_t n = RequestBytes(rest, &h); n > 0 && m.count < kMaxRequests;
         n = RequestBytes(rest, &h)) {
      add({h.id, 0, code, h.op});
      rest.remove_prefix(n);
    }
  }
  if (m.count == 0) add({0, 0, code, Op::kRead});
  if (m.count == 0) return 0;
  m.bytes = static_cast<uint32_t>(bytes);
  std::memcpy(out, &m, sizeof(m));
  return bytes;
}

}  // namespace
}  // namespace pulse::blocks

PULSE_OFFLOAD_PROGRAM = {
    .name = PULSE_BLOCKS_FORWARD ? "blocks-forward" : "blocks",
    .max_request = pulse::blocks::kOneRead,
    .max_reply_header = sizeof(pulse::blocks::MessageHeader) + sizeof(pulse::blocks::ReplyHeader),
    .order = pulse::offload::Order::kAny,
    .split_request =
        pulse::examples::Split<pulse::blocks::MessageHeader, pulse::blocks::kRequestMagic>,
    .split_reply = pulse::examples::Split<pulse::blocks::MessageHeader, pulse::blocks::kReplyMagic>,
    .error = pulse::blocks::MakeError,
    .predicate = PULSE_BLOCKS_FORWARD ? nullptr : pulse::blocks::Predicate,
    .read = pulse::blocks::Read,
    .reply = pulse::blocks::MakeReply,
};
