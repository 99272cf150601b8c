// The Redis protocol: what a client says to the server, and what a host says to the agent. What is
// found does not depend on how the bytes arrived, and lies within them.
#include <string>

#include "fuzz_input.h"
#include "services/redis/commands/codec.h"
#include "services/redis/commands/commands.h"
#include "services/redis/commands/value.h"

namespace pulse::redis {
namespace {

// The first message, given at once and in two pieces.
template <typename Splitter>
size_t Split(const std::string& bytes, size_t cut) {
  Splitter whole;
  const auto size = whole.Next(bytes);
  Splitter cut_up;
  auto again = cut_up.Next(std::string_view(bytes).substr(0, cut));
  if (again.ok() && *again == 0) again = cut_up.Next(bytes);
  FUZZ_CHECK(again.ok() == size.ok());
  if (!size.ok()) {
    FUZZ_CHECK(!pulse::redis::ErrorLine(size.status()).empty());
    return 0;
  }
  FUZZ_CHECK(*size == *again && *size <= bytes.size());
  return *size;
}

void CheckRequest(const std::string& message) {
  Request request;
  // As an agent of the in-memory store would send them: what can be read is what was written.
  if (request.ParseSplit(message).ok() && message.size() >= sizeof(uint32_t)) {
    std::string split;
    AppendSplit(request.arguments(), &split);
    FUZZ_CHECK(split == message);
  }
  if (!request.Parse(message).ok() || request.empty()) return;
  if (const CommandInfo* command = FindCommand(request[0]);
      command != nullptr && command->ArityFits(request.size())) {
    ForEachKey(*command, request.arguments(),
               [&](std::string_view key) { FUZZ_CHECK(key.size() <= message.size()); });
  }
  // Written as an array, it is read as it was.
  std::string written;
  AppendRequest(request.arguments(), &written);
  RequestSplitter splitter;
  const auto size = splitter.Next(written);
  FUZZ_CHECK(size.ok() && *size == written.size());
  Request again;
  FUZZ_CHECK(again.Parse(written).ok() && again.arguments() == request.arguments());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pulse::fuzz::Input in(data, size);
  const uint64_t kind = in.Below(3);
  const uint64_t cut = in.Below(4096);
  const std::string bytes = in.Rest();
  const size_t first = cut < bytes.size() ? cut : bytes.size();
  if (kind == 0) {
    if (const size_t found = Split<RequestSplitter>(bytes, first); found > 0) {
      CheckRequest(bytes.substr(0, found));
    }
  } else if (kind == 1) {
    Split<ReplySplitter>(bytes, first);
  } else {
    Value value;
    if (DecodeValue(bytes, &value)) {
      std::string stored;
      EncodeValue(value.data, value.expires_ms, &stored);
      FUZZ_CHECK(stored == bytes);
    }
  }
  return 0;
}

}  // namespace pulse::redis
