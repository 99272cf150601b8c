// How Bolt's connections begin, and how messages are cut into chunks: two bytes of length, that
// many bytes, and so on until a length of 0. One thread at a time; nothing blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace pulse::bolt {

struct Version {
  int major = 0, minor = 0;
  bool operator==(const Version&) const = default;
  bool AtLeast(int other_minor) const { return minor >= other_minor; }
};
// 5.0 to this one are spoken.
inline constexpr Version kNewest = {5, 8};

inline constexpr std::string_view kMagic = "\x60\x60\xB0\x17";
inline constexpr size_t kHandshakeBytes = 20;

// What a client's first 20 bytes are answered with.
struct HandshakeAnswer {
  std::string bytes;
  Version version;        // major 0: none that both speak, or not chosen yet
  bool manifest = false;  // the client chooses: by ReadChoice
};
// InvalidArgument: no Bolt client.
absl::StatusOr<HandshakeAnswer> AnswerHandshake(std::string_view bytes);
// The size of the client's choice at the beginning of `bytes`, or 0: not whole. InvalidArgument:
// none of those offered.
absl::StatusOr<size_t> ReadChoice(std::string_view bytes, Version* version);

// Finds the end of the first message of what has arrived. Asked again with more bytes of the same
// message, it goes on where it was.
class ChunkSplitter {
 public:
  // Its size with all chunks' headers; 0: not whole yet. Empty chunks alone (keep-alive) are one
  // without a message.
  size_t Next(std::string_view bytes);

 private:
  size_t scanned_ = 0;
  bool any_ = false;  // a chunk that is not empty
};

// The message of a whole sequence of chunks; empty chunks before it (keep-alive) are left out.
std::string JoinChunks(std::string_view bytes);
// Appends a message in chunks.
void AppendChunks(std::string_view message, std::string* out);

}  // namespace pulse::bolt
