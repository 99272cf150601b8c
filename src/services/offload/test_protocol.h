// For the tests of offloaded reads: a protocol of batches, as a program and its faulty brother
// speak it.
#pragma once

#include <cstdint>
#include <cstring>

#include "pulse/offload.h"

namespace pulse::offload::test {

enum class Op : uint32_t {
  kRead = 1,    // agent: of file, offset, size
  kLookup = 2,  // agent: of where the table says that key `offset` lies
  kReadOnHost,  // host
  kWrite,       // host: `size` bytes of the stamp `id`
  kAnswer,      // by the predicate itself
  kSilent,      // host, without a reply
  kFault,       // agent: the faulty program's functions do what `offset` says
};

struct Request {
  uint64_t id;
  uint64_t file;
  uint64_t offset;
  uint32_t size;
  Op op;
};
struct Message {  // then the requests
  uint32_t bytes;
  uint32_t count;
};
struct ReplyHeader {  // then the data
  uint32_t bytes;     // of all
  uint32_t status;    // 0, or an Error
  uint64_t id;
  uint64_t by_agent;
};
struct OneRequest {
  Message message;
  Request request;
};

inline constexpr uint32_t kMostMessage = 1 << 16;

inline int64_t SplitRequest(void*, const char* data, size_t size) {
  Message m;
  if (size < sizeof(m)) return 0;
  std::memcpy(&m, data, sizeof(m));
  if (m.count == 0 || m.count > kMostMessage / sizeof(Request)) return -1;
  if (m.bytes != sizeof(m) + m.count * sizeof(Request)) return -1;
  return size < m.bytes ? 0 : m.bytes;
}
inline int64_t SplitReply(void*, const char* data, size_t size) {
  ReplyHeader h;
  if (size < sizeof(h)) return 0;
  std::memcpy(&h, data, sizeof(h));
  if (h.bytes < sizeof(h) || h.bytes > (1 << 22)) return -1;
  return size < h.bytes ? 0 : h.bytes;
}
inline Request RequestAt(const char* message, uint32_t i) {
  Request r;
  std::memcpy(&r, message + sizeof(Message) + i * sizeof(Request), sizeof(r));
  return r;
}
inline uint32_t CountOf(const char* message) {
  Message m;
  std::memcpy(&m, message, sizeof(m));
  return m.count;
}
// What the host answers a message with.
inline uint32_t Replies(void*, const char* message, size_t) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < CountOf(message); ++i) n += RequestAt(message, i).op != Op::kSilent;
  return n;
}
inline size_t MakeError(void*, const char* request, size_t size, Error error, char* out,
                        size_t room) {
  ReplyHeader h{sizeof(h), static_cast<uint32_t>(error), 0, 1};
  if (request != nullptr && size >= sizeof(OneRequest)) h.id = RequestAt(request, 0).id;
  if (room < sizeof(h)) return 0;
  std::memcpy(out, &h, sizeof(h));
  return sizeof(h);
}
inline void Predicate(void*, const char* message, size_t, const Table*, Requests* out) {
  for (uint32_t i = 0; i < CountOf(message); ++i) {
    OneRequest one{{sizeof(OneRequest), 1}, RequestAt(message, i)};
    switch (one.request.op) {
      case Op::kRead:
      case Op::kLookup:
      case Op::kFault:
        out->agent(out, &one, sizeof(one));
        break;
      case Op::kAnswer: {
        const ReplyHeader h{sizeof(h), 0, one.request.id, 1};
        out->answer(out, &h, sizeof(h));
        break;
      }
      default:
        out->host(out, &one, sizeof(one), one.request.op == Op::kSilent ? 0 : 1);
    }
  }
}
inline int Read(void*, const char* request, size_t, const Table* table, ReadOp* op) {
  const Request r = RequestAt(request, 0);
  if (r.op == Op::kLookup) return table->find(table, &r.offset, op);
  *op = {r.file, r.offset, r.size};
  return 1;
}
inline int MakeReply(void*, const char* request, size_t, const ReadOp*, Reply* reply) {
  const ReplyHeader h{static_cast<uint32_t>(sizeof(h) + reply->size), 0, RequestAt(request, 0).id,
                      1};
  std::memcpy(reply->header, &h, sizeof(h));
  reply->header_size = sizeof(h);
  return 1;
}
// The key is the stamp that a write begins with.
inline void Cache(void*, const WriteOp* op, Changes* out) {
  if (op->size < 8) return;
  uint64_t key;
  std::memcpy(&key, op->data, sizeof(key));
  const ReadOp item{op->file, op->offset, op->size};
  out->put(out, &key, &item);
}
// Keyed by what is read: here, the offset says the stamp, as the tests write it.
inline void Invalidate(void*, const ReadOp* op, Changes* out) {
  const uint64_t key = op->offset;
  out->erase(out, &key);
}

inline Program MakeProgram(Order order) {
  Program p;
  p.name = "test";
  p.key_size = 8;
  p.item_size = sizeof(ReadOp);
  p.max_request = sizeof(OneRequest);
  p.max_reply_header = sizeof(ReplyHeader);
  p.order = order;
  p.split_request = &SplitRequest;
  p.split_reply = &SplitReply;
  p.replies = &Replies;
  p.error = &MakeError;
  p.predicate = &Predicate;
  p.read = &Read;
  p.cache = &Cache;
  p.invalidate = &Invalidate;
  p.reply = &MakeReply;
  return p;
}

}  // namespace pulse::offload::test
