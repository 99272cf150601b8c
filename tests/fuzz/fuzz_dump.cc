// The form of DUMP, which any client may give to RESTORE. Whatever the bytes are, what is made of
// them is no longer than is allowed; and what was made is dumped and read again as it is.
#include <string>
#include <string_view>

#include "fuzz_input.h"
#include "services/redis/commands/dump.h"

namespace {

using pulse::redis::DecodeDump;
using pulse::redis::DumpChecksum;
using pulse::redis::DumpError;
using pulse::redis::EncodeDump;

constexpr char kUntouched[] = "untouched";

void Decode(std::string_view dump, uint64_t most) {
  std::string data = kUntouched;
  if (DecodeDump(dump, most, &data) != DumpError::kNone) return;
  FUZZ_CHECK(data.size() <= most);
  std::string again;
  FUZZ_CHECK(DecodeDump(EncodeDump(data), most, &again) == DumpError::kNone);
  FUZZ_CHECK(again == data);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  pulse::fuzz::Input in(bytes, size);
  const uint64_t most = in.Byte() % 4 == 0 ? in.Byte() : uint64_t{1} << 20;
  std::string dump = in.Rest();
  Decode(dump, most);
  // With a version and a checksum that are right, so that the rest is looked at, too.
  dump.append({'\x0a', '\0'});
  const uint64_t crc = DumpChecksum(dump);
  for (int i = 0; i < 8; ++i) dump.push_back(static_cast<char>(crc >> (8 * i)));
  Decode(dump, most);
  return 0;
}
