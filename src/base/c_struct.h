// Structs of a C ABI that begin with their size, `struct_size`, so that they can grow at their end:
// a caller's of any size into one of ours, and back. docs/reference/abi.md has the promise.
//
// Pure; any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/status/status.h"

namespace pulse {

// InvalidArgument where it is smaller than that of the first release, `least`, or has members that
// this one does not know and that are not zero.
template <typename T>
absl::Status CopyStruct(const T* from, size_t least, T* to) {
  *to = T{};
  if (from->struct_size < least) {
    return absl::InvalidArgumentError("struct_size is too small: use the init function");
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  const size_t known = std::min(from->struct_size, sizeof(T));
  if (from->struct_size > (size_t{1} << 16) ||
      std::any_of(bytes + known, bytes + from->struct_size,
                  [](unsigned char byte) { return byte != 0; })) {
    return absl::InvalidArgumentError(
        "a struct with members that this library does not know; it is too old");
  }
  std::memcpy(to, from, known);
  to->struct_size = sizeof(T);
  return absl::OkStatus();
}

// To a caller's struct, which has the members of the first release at least.
template <typename T>
void StoreStruct(const T& from, T* to) {
  const size_t size = to->struct_size;
  if (size > (size_t{1} << 16)) return;  // nobody has initialised it
  // What a newer header has behind it says nothing.
  if (size > sizeof(T)) std::memset(reinterpret_cast<char*>(to) + sizeof(T), 0, size - sizeof(T));
  std::memcpy(to, &from, std::min(size, sizeof(T)));
  to->struct_size = size;
}

}  // namespace pulse
