#include "services/kv/queue_pair.h"

#include <sys/mman.h>

#include <bit>
#include <new>

#include "base/check.h"

namespace pulse::kv {

QueuePair::QueuePair(const QueuePairOptions& options) : options_(options) {
  Check();
  void* at =
      mmap(nullptr, BytesFor(options), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  own_ = static_cast<char*>(at);
  control_ = new (at) Control{};
  buffers_ = own_ + kControlBytes;
}

// Control begins its life where the memory was made: it is zeros until the other side has written.
QueuePair::QueuePair(const QueuePairOptions& options, char* memory)
    : options_(options),
      control_(reinterpret_cast<Control*>(memory)),
      buffers_(memory + kControlBytes) {
  Check();
}

QueuePair::~QueuePair() {
  if (own_ != nullptr) munmap(own_, BytesFor(options_));
}

void QueuePair::Check() const {
  PULSE_CHECK(std::has_single_bit(options_.slots) && options_.batch > 0 &&
              options_.batch <= kMostInBatch);
  PULSE_CHECK(options_.buffer_bytes > RequestWriter::PayloadBegin(options_.batch));
}

}  // namespace pulse::kv
