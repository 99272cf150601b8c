// Messages of `pages`, of clients and of servers, and the offload functions on them and on what a
// host writes: what is decoded lies within the message and keeps the limits.
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "examples/pages/wire.h"
#include "fuzz_input.h"
#include "pulse/offload.h"

extern "C" const pulse::offload::Program pulse_offload_program;

namespace pulse::pages {
namespace {

int FindAny(const offload::Table* table, const void* key, void* item) {
  std::memset(item, 0x11, pulse_offload_program.item_size);
  return 1;
}
void Agent(offload::Requests* out, const void* data, size_t size) {
  FUZZ_CHECK(size <= pulse_offload_program.max_request);
}
void Put(offload::Changes* out, const void* key, const void* item) {
  uint64_t page;
  std::memcpy(&page, key, sizeof(page));
  FUZZ_CHECK(page == 3);
}

void OneMessage(std::string_view bytes) {
  const offload::Program& p = pulse_offload_program;
  const auto size = SplitMessage(bytes, kRequestMagic);
  FUZZ_CHECK(!size.ok() || *size <= bytes.size());
  const auto request = DecodeRequest(bytes);
  if (request.ok() && request->header.kind == Kind::kAppend) {
    std::vector<Record> records;
    if (DecodeRecords(request->body, request->header.count, &records).ok()) {
      size_t all = 0;
      for (const Record& r : records) {
        FUZZ_CHECK(r.offset + r.data.size() <= kPayload && !r.data.empty());
        all += r.data.size() + sizeof(RecordHeader);
      }
      FUZZ_CHECK(all == request->body.size());
    }
  }
  if (const auto reply = DecodeReply(bytes); reply.ok()) {
    FUZZ_CHECK(reply->body.size() + sizeof(MessageHeader) == bytes.size());
  }
  const offload::Table table{nullptr, &FindAny};
  offload::Requests out{nullptr, nullptr, &Agent, nullptr};
  p.predicate(nullptr, bytes.data(), bytes.size(), &table, &out);
  offload::ReadOp op{};
  if (p.read(nullptr, bytes.data(), bytes.size(), &table, &op) == 1) {
    FUZZ_CHECK(op.size == kPageBytes);
  }
  char error[offload::kMaxErrorBytes];
  const size_t n =
      p.error(nullptr, bytes.data(), bytes.size(), offload::Error::kHostLost, error, sizeof(error));
  FUZZ_CHECK(SplitMessage({error, n}, kReplyMagic).value_or(0) == n);
  // The same bytes as the start of a page that a host writes.
  std::string page(kPageBytes, '\0');
  std::memcpy(page.data(), bytes.data(), std::min(bytes.size(), page.size()));
  const offload::WriteOp write{1, SlotOffset(3, 1), kPageBytes, page.data()};
  offload::Changes changes{nullptr, &Put, nullptr};
  p.cache(nullptr, &write, &changes);
}

}  // namespace
}  // namespace pulse::pages

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::pages::OneMessage({reinterpret_cast<const char*>(data), size});
  return 0;
}
