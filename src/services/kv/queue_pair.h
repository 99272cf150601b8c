// QueuePair: batches of requests from one agent core to one host core, and their responses back, in
// memory that both map. One producer and one consumer each way; neither enters the kernel.
//
// The agent fills a slot's request buffer and publishes it; the host answers slots in that order,
// each in its response buffer. A slot is the agent's again once it has taken the responses.
//
// Ownership: the object owns the memory. Threads: one agent thread and one host thread. Blocking:
// none. The host treats what it reads as untrusted (processing.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "services/kv/wire.h"

namespace pulse::kv {

// A buffer of one transfer, written from its front: descriptors, and from their end on, payload.
class RequestWriter {
 public:
  RequestWriter(char* buffer, size_t size, size_t most)
      : buffer_(buffer), size_(size), most_(most), end_(PayloadBegin(most)) {}
  static constexpr size_t PayloadBegin(size_t most) {
    return sizeof(BatchHeader) + most * sizeof(RequestDescriptor);
  }
  // False: the batch is full.
  bool Add(WireOp op, std::string_view key, uint64_t hash, std::string_view value,
           int64_t expires_ms) {
    if (count_ == most_) return false;
    RequestDescriptor d;
    d.hash = hash;
    d.value_size = static_cast<uint32_t>(value.size());
    d.key_size = static_cast<uint16_t>(key.size());
    d.op = op;
    d.flags = 0;
    d.key = d.value = 0;
    if (key.size() <= 8 && value.size() <= 8 && expires_ms == 0) {
      d.flags = kInline;
      CopySmall(&d.key, key);
      CopySmall(&d.value, value);
    } else {
      if (key.size() + value.size() > size_ - end_) return false;
      d.key = end_;
      d.value = static_cast<uint64_t>(expires_ms);
      std::memcpy(buffer_ + end_, key.data(), key.size());
      std::memcpy(buffer_ + end_ + key.size(), value.data(), value.size());
      end_ += key.size() + value.size();
    }
    std::memcpy(buffer_ + sizeof(BatchHeader) + count_ * sizeof(d), &d, sizeof(d));
    ++count_;
    return true;
  }
  // Writes the header; returns the bytes of the transfer.
  size_t Finish() {
    const BatchHeader header{static_cast<uint16_t>(count_), {}};
    std::memcpy(buffer_, &header, sizeof(header));
    return sizeof(header) + count_ * sizeof(RequestDescriptor) + (end_ - PayloadBegin(most_));
  }
  size_t count() const { return count_; }

 private:
  static void CopySmall(uint64_t* to, std::string_view from) {
    if (from.size() == 8) {
      std::memcpy(to, from.data(), 8);
    } else {
      std::memcpy(to, from.data(), from.size());
    }
  }
  char* buffer_;
  size_t size_;
  size_t most_;
  size_t count_ = 0;
  size_t end_;
};

struct QueuePairOptions {
  uint32_t slots = 4;                 // batches under way; a power of two
  uint32_t batch = 256;               // requests of one, at most
  uint32_t buffer_bytes = 256 << 10;  // of each buffer
};

class QueuePair {
 public:
  explicit QueuePair(const QueuePairOptions& options);
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  ~QueuePair();

  const QueuePairOptions& options() const { return options_; }

  // The agent's side.
  bool HasRoom() const { return next_ - taken_ < options_.slots; }
  // Of the slot that Submit publishes.
  RequestWriter BeginRequests() {
    // The host has read these lines last: all are asked for at once.
    const char* buffer = RequestBuffer(next_);
    for (size_t at = 0; at < kPrefetched; at += 64) __builtin_prefetch(buffer + at, 1);
    return RequestWriter(RequestBuffer(next_), options_.buffer_bytes, options_.batch);
  }
  void Submit() { control_->submitted.store(++next_, std::memory_order_release); }
  // The oldest batch's responses, null while the host is at it; valid until TakeResponses.
  const char* PeekResponses() {
    if (control_->answered.load(std::memory_order_acquire) == taken_) return nullptr;
    return ResponseBuffer(taken_);
  }
  void TakeResponses() { ++taken_; }

  // The host's side: the oldest batch that is not answered, null when there is none.
  const char* PeekRequests() {
    if (control_->submitted.load(std::memory_order_acquire) == answered_) return nullptr;
    return RequestBuffer(answered_);
  }
  char* ResponseBufferOfOldest() { return ResponseBuffer(answered_); }
  void Answer() { control_->answered.store(++answered_, std::memory_order_release); }

 private:
  static constexpr size_t kPrefetched = 2048;  // bytes of a usual batch's descriptors
  struct Control {
    alignas(64) std::atomic<uint64_t> submitted;  // batches, ever; the agent writes it
    alignas(64) std::atomic<uint64_t> answered;   // the host
  };
  char* RequestBuffer(uint64_t batch) { return buffers_ + Place(batch) * options_.buffer_bytes; }
  char* ResponseBuffer(uint64_t batch) {
    return buffers_ + (options_.slots + Place(batch)) * options_.buffer_bytes;
  }
  size_t Place(uint64_t batch) const { return batch & (options_.slots - 1); }

  const QueuePairOptions options_;
  size_t bytes_ = 0;
  Control* control_ = nullptr;
  char* buffers_ = nullptr;
  // The agent's.
  alignas(64) uint64_t next_ = 0;
  uint64_t taken_ = 0;
  // The host's.
  alignas(64) uint64_t answered_ = 0;
};

}  // namespace pulse::kv
