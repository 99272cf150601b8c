#include "services/kv/queue_pair.h"

#include <sys/mman.h>

#include <bit>
#include <new>

#include "base/check.h"

namespace pulse::kv {

QueuePair::QueuePair(const QueuePairOptions& options) : options_(options) {
  PULSE_CHECK(std::has_single_bit(options.slots) && options.batch > 0 &&
              options.batch <= kMostInBatch);
  PULSE_CHECK(options.buffer_bytes > RequestWriter::PayloadBegin(options.batch));
  bytes_ = 4096 + size_t{2} * options.slots * options.buffer_bytes;
  void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  control_ = new (at) Control{};
  buffers_ = static_cast<char*>(at) + 4096;
}

QueuePair::~QueuePair() { munmap(control_, bytes_); }

}  // namespace pulse::kv
