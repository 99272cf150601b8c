#include "examples/pages/offload_program.h"

#include <cstring>

#include "examples/pages/page.h"
#include "examples/pages/wire.h"

namespace pulse::pages {
namespace {

using offload::Changes;
using offload::Error;
using offload::ReadOp;
using offload::Requests;
using offload::Table;
using offload::WriteOp;

struct Item {
  uint64_t lsn;
  uint64_t file;
  uint64_t offset;
};
struct GetMessage {
  MessageHeader header;
  GetBody body;
};
static_assert(sizeof(GetMessage) == 40);

int64_t Split(const char* data, size_t size, uint32_t magic) {
  const auto n = SplitMessage({data, size}, magic);
  return n.ok() ? static_cast<int64_t>(*n) : -1;
}
int64_t SplitRequest(void*, const char* data, size_t size) {
  return Split(data, size, kRequestMagic);
}
int64_t SplitReply(void*, const char* data, size_t size) { return Split(data, size, kReplyMagic); }

// Whether the table has the page that `message` asks for, new enough.
bool Find(const char* message, size_t size, const Table* table, GetMessage* get, Item* item) {
  if (size != sizeof(*get)) return false;
  std::memcpy(get, message, sizeof(*get));
  return get->header.kind == Kind::kGet && table->find(table, &get->body.page, item) == 1 &&
         item->lsn >= get->body.lsn;
}

void Predicate(void*, const char* message, size_t size, const Table* table, Requests* out) {
  GetMessage get;
  Item item;
  if (Find(message, size, table, &get, &item)) out->agent(out, message, size);
}

int Read(void*, const char* request, size_t size, const Table* table, ReadOp* op) {
  GetMessage get;
  Item item;
  if (!Find(request, size, table, &get, &item)) return 0;
  *op = {item.file, item.offset, kPageBytes};
  return 1;
}

// Every whole page in a write, where a page of that number belongs.
void Cache(void*, const WriteOp* op, Changes* out) {
  if (op->offset % kPageBytes != 0) return;
  for (uint64_t at = 0; op->size - at >= kPageBytes; at += kPageBytes) {
    PageHeader h;
    std::memcpy(&h, op->data + at, sizeof(h));
    const uint64_t offset = op->offset + at;
    if (h.magic != kPageMagic || h.page != offset / kPageBytes / 2) continue;
    const Item item{h.lsn, op->file, offset};
    out->put(out, &h.page, &item);
  }
}

int MakeReply(void*, const char* request, size_t, const ReadOp*, offload::Reply* reply) {
  GetMessage get;
  std::memcpy(&get, request, sizeof(get));
  if (reply->size != kPageBytes) return 0;
  const PageHeader page = HeaderOf(reply->data);
  if (page.magic != kPageMagic || page.page != get.body.page || page.lsn < get.body.lsn) return 0;
  const MessageHeader h{
      kReplyMagic, sizeof(h) + kPageBytes, get.header.id, Kind::kGet, Code::kOk, 0};
  std::memcpy(reply->header, &h, sizeof(h));
  reply->header_size = sizeof(h);
  return 1;
}

size_t MakeError(void*, const char* request, size_t size, Error error, char* out, size_t room) {
  MessageHeader h{kReplyMagic, sizeof(h), 0, Kind::kStatus, Code::kInvalid, 0};
  const bool lost = error == Error::kHostLost || error == Error::kHostDown;
  if (lost || error == Error::kShuttingDown) h.code = Code::kUnavailable;
  if (error == Error::kOverloaded) h.code = Code::kBusy;
  if (lost && request != nullptr && size >= sizeof(h)) {
    MessageHeader asked;
    std::memcpy(&asked, request, sizeof(asked));
    h.id = asked.id;
    h.kind = asked.kind;
  }
  if (room < sizeof(h)) return 0;
  std::memcpy(out, &h, sizeof(h));
  return sizeof(h);
}

}  // namespace

const offload::Program& OffloadProgram() {
  static const offload::Program program = {
      .name = "pages",
      .key_size = sizeof(uint64_t),
      .item_size = sizeof(Item),
      .max_request = sizeof(GetMessage),
      .max_reply_header = sizeof(MessageHeader),
      .order = offload::Order::kAny,
      .split_request = SplitRequest,
      .split_reply = SplitReply,
      .error = MakeError,
      .predicate = Predicate,
      .read = Read,
      .cache = Cache,
      .reply = MakeReply,
  };
  return program;
}

}  // namespace pulse::pages
