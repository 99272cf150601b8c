// ProcessBatch: the host's side of a queue pair. Carries out one batch of requests on a partition
// and writes the responses, as one transfer each way.
//
// The requests are untrusted: each descriptor is copied once and checked; what makes no sense is
// answered with kMalformed, and harms no other request. Threads: the partition's owner.
#pragma once

#include <cstddef>

#include "services/kv/core/batch.h"
#include "services/kv/wire.h"

namespace pulse::kv {

struct BatchCounts {
  uint64_t requests = 0;
  uint64_t request_bytes = 0;   // of header and descriptors
  uint64_t response_bytes = 0;  // of whole transfers
};

// `requests` and `responses` are buffers of `size` bytes. `trusted`: the agent is part of this
// process, so that its hashes are taken as they are. Returns the bytes of the response's transfer.
size_t ProcessBatch(Partition* partition, const char* requests, char* responses, size_t size,
                    size_t most, bool trusted, BatchCounts* counts);

// The responses of one batch, for the agent.
class ResponseReader {
 public:
  // `size`: of the buffer.
  ResponseReader(const char* buffer, size_t size) : buffer_(buffer), size_(size) {}
  // Response `i`, and its value, a view of `*descriptor` or of the buffer; false when it makes no
  // sense.
  bool Read(size_t i, ResponseDescriptor* descriptor, std::string_view* value) const {
    std::memcpy(descriptor, buffer_ + sizeof(BatchHeader) + i * sizeof(*descriptor),
                sizeof(*descriptor));
    if ((descriptor->flags & kInline) != 0) {
      if (descriptor->value_size > 8) return false;
      *value = {reinterpret_cast<const char*>(&descriptor->value), descriptor->value_size};
      return true;
    }
    if (descriptor->value > size_ || descriptor->value_size > size_ - descriptor->value) {
      return false;
    }
    *value = {buffer_ + descriptor->value, descriptor->value_size};
    return true;
  }

 private:
  const char* buffer_;
  size_t size_;
};

}  // namespace pulse::kv
