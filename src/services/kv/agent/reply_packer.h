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
    uint64_t value = end_;
    if (bytes.size() <= sizeof(value)) {
      flags |= kInline;
      value = InlineWord(bytes);
    } else {
      std::memcpy(buffer_ + end_, bytes.data(), bytes.size());
      end_ += bytes.size();
    }
    WriteDescriptor(buffer_ + sizeof(BatchHeader) + count_ * sizeof(ResponseDescriptor), value,
                    DescriptorWord(bytes.size(), static_cast<WireStatus>(status), flags, session));
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
