// The form in which DUMP and RESTORE pass a string on, which is Redis's, so that tools can move
// keys between servers:
//
//   0 | length and bytes, an integer, or bytes packed by LZF | u16 version | u64 CRC-64
//
// Bytes of a peer are untrusted: lengths are checked before anything is allocated. No state; any
// thread; nothing blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pulse::redis {

std::string EncodeDump(std::string_view data);
// The CRC-64 at its end, of all before.
uint64_t DumpChecksum(std::string_view bytes);

enum class DumpError { kNone, kChecksum, kType, kFormat, kTooLong };
// Replaces `*data`, which is longer than `most_bytes` in no case. kType: of a value that is no
// string.
DumpError DecodeDump(std::string_view dump, uint64_t most_bytes, std::string* data);
// How many bytes DecodeDump may make of it, at the most, before it has looked at all of it.
uint64_t BytesOfDump(std::string_view dump);

}  // namespace pulse::redis
