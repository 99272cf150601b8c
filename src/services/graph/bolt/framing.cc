#include "services/graph/bolt/framing.h"

#include <algorithm>
#include <utility>

namespace pulse::bolt {
namespace {

constexpr size_t kMostChunk = 0xFFFF;

uint8_t At(std::string_view bytes, size_t i) { return static_cast<uint8_t>(bytes[i]); }

// A proposal is 0, how many minors below also, minor, major.
bool Choose(std::string_view proposal, Version* version) {
  const int range = At(proposal, 1), high = At(proposal, 2), major = At(proposal, 3);
  if (major != kNewest.major) return false;
  const int minor = std::min(high, kNewest.minor);
  if (minor < high - range || minor < 0) return false;
  *version = {major, minor};
  return true;
}

}  // namespace

absl::StatusOr<HandshakeAnswer> AnswerHandshake(std::string_view bytes) {
  if (bytes.size() < kHandshakeBytes || !bytes.starts_with(kMagic)) {
    return absl::InvalidArgumentError(
        "this is a port of Bolt, and the client speaks something else");
  }
  HandshakeAnswer answer;
  for (size_t i = 4; i < kHandshakeBytes; i += 4) {
    const std::string_view proposal = bytes.substr(i, 4);
    if (proposal == std::string_view("\0\0\x01\xFF", 4)) {
      answer.manifest = true;
      // One range: 0, minors below, minor, major; no capabilities.
      answer.bytes = std::string("\0\0\x01\xFF\x01\0", 6);
      answer.bytes += static_cast<char>(kNewest.minor);
      answer.bytes += static_cast<char>(kNewest.minor);
      answer.bytes += static_cast<char>(kNewest.major);
      answer.bytes += '\0';
      return answer;
    }
    if (Choose(proposal, &answer.version)) {
      answer.bytes = std::string(2, '\0');
      answer.bytes += static_cast<char>(answer.version.minor);
      answer.bytes += static_cast<char>(answer.version.major);
      return answer;
    }
  }
  answer.bytes = std::string(4, '\0');
  return answer;
}

absl::StatusOr<size_t> ReadChoice(std::string_view bytes, Version* version) {
  size_t size = 4;
  // Capabilities: seven bits a byte, of which none was offered.
  while (size < bytes.size() && size < 13 && (At(bytes, size) & 0x80) != 0) ++size;
  if (bytes.size() <= size) return 0;
  const Version chosen = {At(bytes, 3), At(bytes, 2)};
  if (At(bytes, 0) != 0 || At(bytes, 1) != 0 || chosen.major != kNewest.major ||
      chosen.minor > kNewest.minor || size != 4 || bytes[4] != 0) {
    return absl::InvalidArgumentError("the client chose a version of Bolt that was not offered");
  }
  *version = chosen;
  return size + 1;
}

size_t ChunkSplitter::Next(std::string_view bytes) {
  while (bytes.size() - scanned_ >= 2) {
    const size_t size = size_t{At(bytes, scanned_)} << 8 | At(bytes, scanned_ + 1);
    if (size > 0) {
      if (bytes.size() - scanned_ - 2 < size) break;
      any_ = true;
      scanned_ += 2 + size;
      continue;
    }
    scanned_ += 2;
    if (!any_) continue;
    const size_t all = scanned_;
    scanned_ = 0;
    any_ = false;
    return all;
  }
  return any_ ? 0 : std::exchange(scanned_, 0);
}

std::string JoinChunks(std::string_view bytes) {
  std::string message;
  while (bytes.size() >= 2) {
    const size_t size = size_t{At(bytes, 0)} << 8 | At(bytes, 1);
    bytes.remove_prefix(2);
    message += bytes.substr(0, size);
    bytes.remove_prefix(std::min(size, bytes.size()));
  }
  return message;
}

void AppendChunks(std::string_view message, std::string* out) {
  while (!message.empty()) {
    const size_t size = std::min(message.size(), kMostChunk);
    *out += static_cast<char>(size >> 8);
    *out += static_cast<char>(size);
    *out += message.substr(0, size);
    message.remove_prefix(size);
  }
  out->append(2, '\0');
}

}  // namespace pulse::bolt
