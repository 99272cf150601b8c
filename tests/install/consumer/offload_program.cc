// The smallest offload program: messages are lines, and all of them are for the host.
#include <cstring>

#include "pulse/offload.h"
#include "pulse/version.h"

namespace {

int64_t SplitLine(void*, const char* data, size_t size) {
  const void* end = std::memchr(data, '\n', size);
  return end == nullptr ? 0 : static_cast<const char*>(end) - data + 1;
}

}  // namespace

PULSE_OFFLOAD_PROGRAM = {
    .name = "lines",
    .split_request = SplitLine,
    .split_reply = SplitLine,
};
