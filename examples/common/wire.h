// The part that the protocols of the examples have in common: how a message begins and ends, and
// the codes of replies.
//
// A message begins with a header of the protocol's, whose first two fields are `magic` and `bytes`
// (with the header). It also has a `count` of parts and says how many there may be (kMaxCount).
// Numbers are little-endian, as all machines here have them. Everything from the peer is copied and
// checked before it is used. Any thread; nothing blocks.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace pulse::examples {

inline constexpr uint32_t kMaxMessage = uint32_t{1} << 20;
inline constexpr size_t kMaxText = 512;  // of an error reply

enum class Code : uint16_t {
  kOk = 0,
  kInvalid = 1,      // the request makes no sense
  kNotFound = 2,     // no such file or page
  kOutOfRange = 3,   // beyond the end of the file; the page did not reach that LSN in time
  kFailed = 4,       // the device, damage, or the store is full
  kUnavailable = 5,  // the server or the agent was lost; a write may have been carried out
  kBusy = 6,         // nothing was done: ask again
};

// The status that each code of a protocol stands for, in the order of the codes.
struct Codes {
  absl::StatusCode all[7];

  Code Of(const absl::Status& status) const;
  absl::Status ToStatus(Code code, std::string_view text) const;
};

inline std::string_view TextOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

template <typename T>
std::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// The size of the message that `data` begins with: 0 when it is not whole, -1 when it can be none.
// Neither allocates nor calls anything, as offload programs must not.
template <typename Header>
int64_t MessageBytes(const char* data, size_t size, uint32_t magic) {
  if (size < sizeof(Header)) return 0;
  Header h;
  std::memcpy(&h, data, sizeof(h));
  const bool possible = h.magic == magic && h.bytes >= sizeof(h) && h.bytes <= kMaxMessage &&
                        h.count <= Header::kMaxCount;
  return !possible ? -1 : size < h.bytes ? 0 : int64_t{h.bytes};
}

// The same; InvalidArgument when it can be none.
template <typename Header>
absl::StatusOr<size_t> SplitMessage(std::string_view bytes, uint32_t magic) {
  const int64_t size = MessageBytes<Header>(bytes.data(), bytes.size(), magic);
  if (size >= 0) return static_cast<size_t>(size);
  return absl::InvalidArgumentError(
      absl::StrCat("not a message of this protocol, or one of more than ", kMaxMessage,
                   " bytes or more than ", Header::kMaxCount, " parts"));
}

// The header of `message`, which is whole and nothing else. InvalidArgument if not.
template <typename Header>
absl::StatusOr<Header> HeaderOf(std::string_view message, uint32_t magic) {
  const auto size = SplitMessage<Header>(message, magic);
  if (!size.ok()) return size.status();
  if (*size == 0 || *size != message.size()) {
    return absl::InvalidArgumentError("a message of another size than it says");
  }
  Header h;
  std::memcpy(&h, message.data(), sizeof(h));
  return h;
}

}  // namespace pulse::examples
