// What the two halves of the echo service say to each other: a message of kind kEcho, whose bytes
// come back as they are. A change here raises kServiceVersion.
#pragma once

#include <cstdint>
#include <type_traits>

namespace pulse::echo {

inline constexpr uint32_t kServiceId = 255;
inline constexpr uint32_t kServiceVersion = 1;

inline constexpr uint16_t kEcho = 1;

struct Request {
  uint64_t id;        // comes back in the response
  uint64_t reserved;  // 0
};
static_assert(sizeof(Request) == 16 && std::is_trivially_copyable_v<Request>);

}  // namespace pulse::echo
