// ReplyPacker: fills a transfer of replies (wire.h). One thread's; the buffer outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "services/kv/wire.h"

namespace pulse::kv {

class ReplyPacker {
 public:
  ReplyPacker(char* buffer, size_t size, size_t most)
      : buffer_(buffer),
        size_(size),
        most_(most),
        end_(sizeof(BatchHeader) + most * sizeof(ResponseDescriptor)) {}

  // Bytes that one more may have.
  size_t room() const { return count_ == most_ ? 0 : size_ - end_; }
  size_t count() const { return count_; }
  // With room for it.
  void Add(uint16_t session, uint8_t status, uint8_t flags, std::string_view bytes) {
    ResponseDescriptor d{};
    d.value_size = static_cast<uint32_t>(bytes.size());
    d.status = static_cast<WireStatus>(status);
    d.flags = flags;
    d.session = session;
    if (bytes.size() <= sizeof(d.value)) {
      d.flags |= kInline;
      if (!bytes.empty()) std::memcpy(&d.value, bytes.data(), bytes.size());
    } else {
      d.value = end_;
      std::memcpy(buffer_ + end_, bytes.data(), bytes.size());
      end_ += bytes.size();
    }
    std::memcpy(buffer_ + sizeof(BatchHeader) + count_ * sizeof(d), &d, sizeof(d));
    ++count_;
  }
  void Finish() {
    const BatchHeader header{static_cast<uint16_t>(count_), {}};
    std::memcpy(buffer_, &header, sizeof(header));
  }

 private:
  char* buffer_;
  size_t size_;
  size_t most_;
  size_t count_ = 0;
  size_t end_;
};

}  // namespace pulse::kv
