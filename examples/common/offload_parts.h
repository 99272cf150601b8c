// The parts that the offload programs of the examples have in common. They run within the agent:
// see pulse/offload.h for what they may do.
#pragma once

#include "examples/common/wire.h"
#include "pulse/offload.h"

namespace pulse::examples {

template <typename Header, uint32_t kMagic>
int64_t Split(void*, const char* data, size_t size) {
  return MessageBytes<Header>(data, size, kMagic);
}

// Whether the error is about a request that the host was given, and has not answered.
inline bool IsHostLost(offload::Error error) {
  return error == offload::Error::kHostLost || error == offload::Error::kHostDown;
}

inline Code CodeOf(offload::Error error) {
  if (IsHostLost(error) || error == offload::Error::kShuttingDown) return Code::kUnavailable;
  return error == offload::Error::kOverloaded ? Code::kBusy : Code::kInvalid;
}

}  // namespace pulse::examples
