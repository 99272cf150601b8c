// Messages of `blocks`, of clients and of servers, and the offload functions on them: what is
// decoded lies within the message and keeps the limits; what goes to the agent is a whole request.
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "examples/blocks/wire.h"
#include "fuzz_input.h"
#include "pulse/offload.h"

extern "C" const pulse::offload::Program pulse_offload_program;

namespace pulse::blocks {
namespace {

bool Within(std::string_view part, std::string_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void Agent(offload::Requests* out, const void* data, size_t size) {
  FUZZ_CHECK(size <= pulse_offload_program.max_request);
  std::vector<Request> requests;
  const std::string bytes(static_cast<const char*>(data), size);
  offload::ReadOp op{};
  if (pulse_offload_program.read(nullptr, bytes.data(), size, nullptr, &op) == 0) return;
  FUZZ_CHECK(op.size > 0 && op.size <= kMaxIo);
}
void Host(offload::Requests* out, const void* data, size_t size, uint32_t replies) {
  FUZZ_CHECK(SplitMessage({static_cast<const char*>(data), size}, kRequestMagic).value_or(0) ==
             size);
}

void OneMessage(std::string_view bytes) {
  std::vector<Reply> replies;
  if (DecodeReplies(bytes, &replies).ok()) {
    for (const Reply& r : replies) FUZZ_CHECK(Within(r.data, bytes));
  }
  const auto size = SplitMessage(bytes, kRequestMagic);
  FUZZ_CHECK(!size.ok() || *size <= bytes.size());
  std::vector<Request> requests;
  const bool whole = DecodeRequests(bytes, &requests).ok();
  if (whole) {
    FUZZ_CHECK(requests.size() <= kMaxRequests);
    for (const Request& r : requests) FUZZ_CHECK(Within(r.data, bytes) && r.header.size <= kMaxIo);
    FUZZ_CHECK(ErrorMessages(bytes, Code::kUnavailable).size() <= kMaxErrorsBytes);
  }
  offload::Requests out{nullptr, &Host, &Agent, nullptr};
  pulse_offload_program.predicate(nullptr, bytes.data(), bytes.size(), nullptr, &out);
  char error[offload::kMaxErrorBytes];
  const size_t n = pulse_offload_program.error(nullptr, bytes.data(), bytes.size(),
                                               offload::Error::kHostLost, error, sizeof(error));
  FUZZ_CHECK(n <= sizeof(error) && DecodeReplies({error, n}, &replies).ok());
  if (whole) FUZZ_CHECK(replies.size() == requests.size());
}

}  // namespace
}  // namespace pulse::blocks

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::blocks::OneMessage({reinterpret_cast<const char*>(data), size});
  return 0;
}
