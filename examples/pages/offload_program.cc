// The offload functions of `pages`, for the agent: the cache table has the LSN and the place of
// every page that was written since the agent has started; a GetPage whose LSN is no higher is
// answered there. DDS section 9.1.
//
// Why nothing has to be invalidated. A page may be answered if its LSN is at least the one asked
// for; that it is the newest is not promised. The host writes a page to the slot that the last
// version is not in. So between two Cache calls of a page the place in the table stays as it was
// said to be: whole, of that LSN. When the slot is written at last, the table has had the other one
// since the write before; a request that has looked before is still right, because either the read
// is refused (the file was being written there), or it finds the old version, whole, or a newer one
// of the same page, whole. `reply` looks at the header once more. A write that fails or is cut
// short hits the slot that the table does not name. And a host that reads a page changes nothing.
//
// What a client must know: two requests of different LSNs may see the page go back, as far as the
// lower of the LSNs allows. One that wants what it has seen asks for the LSN that it has seen.
#include <cstring>

#include "examples/common/offload_parts.h"
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
  MessageHeader h{kReplyMagic, sizeof(h), 0, Kind::kStatus, examples::CodeOf(error), 0};
  if (examples::IsHostLost(error) && request != nullptr && size >= sizeof(h)) {
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
}  // namespace pulse::pages

PULSE_OFFLOAD_PROGRAM = {
    .name = "pages",
    .key_size = sizeof(uint64_t),
    .item_size = sizeof(pulse::pages::Item),
    .max_request = sizeof(pulse::pages::GetMessage),
    .max_reply_header = sizeof(pulse::pages::MessageHeader),
    .order = pulse::offload::Order::kAny,
    .split_request =
        pulse::examples::Split<pulse::pages::MessageHeader, pulse::pages::kRequestMagic>,
    .split_reply = pulse::examples::Split<pulse::pages::MessageHeader, pulse::pages::kReplyMagic>,
    .error = pulse::pages::MakeError,
    .predicate = pulse::pages::Predicate,
    .read = pulse::pages::Read,
    .cache = pulse::pages::Cache,
    .reply = pulse::pages::MakeReply,
};
