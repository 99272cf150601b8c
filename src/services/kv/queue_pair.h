// QueuePair: batches of requests from one agent core to one host core, and their responses back, in
// memory that both map. One producer and one consumer each way; neither enters the kernel.
//
// The agent fills a slot's request buffer and publishes it; the host answers slots in that order,
// each in its response buffer. A slot is the agent's again once it has taken the responses. Where
// the responses of a batch do not fit into the buffer, they come in parts: the host makes the next
// one once the agent has taken the one before.
//
// Ownership: the memory is the object's own, or the caller's and outlives it. In memory that two
// processes share, each has an object of its own and uses one side of it. Threads: one agent thread
// and one host thread. Blocking: none. Each side treats what it reads as untrusted: counters out of
// range are kCorrupt; processing.h checks requests, and ResponseReader responses.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/prefetch.h"
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
  // `flags`: kTtl, or none.
  bool Add(WireOp op, std::string_view key, uint64_t hash, std::string_view value,
           int64_t expires_ms, uint8_t flags = 0) {
    if (count_ == most_) return false;
    if (key.size() <= 8 && value.size() <= 8 && expires_ms == 0) {
      Write(hash, InlineWord(key), InlineWord(value),
            DescriptorWord(value.size(), key.size(), op, flags | kInline));
      return true;
    }
    if (key.size() + value.size() > size_ - end_) return false;
    Write(hash, end_, static_cast<uint64_t>(expires_ms),
          DescriptorWord(value.size(), key.size(), op, flags));
    std::memcpy(buffer_ + end_, key.data(), key.size());
    if (!value.empty()) std::memcpy(buffer_ + end_ + key.size(), value.data(), value.size());
    end_ += key.size() + value.size();
    return true;
  }
  // Writes the header; returns the bytes of the transfer.
  size_t Finish() {
    const BatchHeader header{static_cast<uint16_t>(count_), {}};
    std::memcpy(buffer_, &header, sizeof(header));
    return sizeof(header) + count_ * sizeof(RequestDescriptor) + (end_ - PayloadBegin(most_));
  }
  // A request whose value is far: `value_size` bytes, of a GET the room for it. `flags`: kTtl, or
  // none.
  bool AddFar(WireOp op, std::string_view key, uint64_t hash, size_t value_size, int64_t expires_ms,
              uint8_t flags) {
    if (count_ == most_ || key.size() > size_ - end_) return false;
    Write(hash, end_, static_cast<uint64_t>(expires_ms),
          DescriptorWord(value_size, key.size(), op, flags | kFar));
    std::memcpy(buffer_ + end_, key.data(), key.size());
    end_ += key.size();
    return true;
  }
  size_t count() const { return count_; }

 private:
  void Write(uint64_t hash, uint64_t key, uint64_t value, uint64_t last) {
    WriteDescriptor(buffer_ + sizeof(BatchHeader) + count_++ * sizeof(RequestDescriptor), hash, key,
                    value, last);
  }
  char* buffer_;
  size_t size_;
  size_t most_;
  size_t count_ = 0;
  size_t end_;
};

// The responses of one transfer, for the agent.
class ResponseReader {
 public:
  // `size`: of the buffer.
  ResponseReader(const char* buffer, size_t size) : buffer_(buffer), size_(size) {}
  uint16_t count() const {
    BatchHeader header;
    std::memcpy(&header, buffer_, sizeof(header));
    return header.count;
  }
  // Response `i`, and its value, a view of the buffer; false when it makes no sense. The value of
  // one that is kFar lies elsewhere, and the view is empty.
  bool Read(size_t i, ResponseDescriptor* descriptor, std::string_view* value) const {
    const char* at = buffer_ + sizeof(BatchHeader) + i * sizeof(*descriptor);
    std::memcpy(descriptor, at, sizeof(*descriptor));
    if ((descriptor->flags & kInline) != 0) {
      if (descriptor->value_size > 8) return false;
      *value = {at + offsetof(ResponseDescriptor, value), descriptor->value_size};
      return true;
    }
    if ((descriptor->flags & kFar) != 0) {
      *value = {buffer_, 0};
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

struct QueuePairOptions {
  uint32_t slots = 4;                 // batches under way; a power of two
  uint32_t batch = 256;               // requests of one, at most
  uint32_t buffer_bytes = 256 << 10;  // of each buffer
  bool one_way = false;               // there are no buffers for responses: an answer says no more
                                      // than that the buffer of requests is the agent's again
};

class QueuePair {
 public:
  // What a side finds of the other one's.
  enum class Found { kNothing, kBatch, kCorrupt };

  // In memory of its own, of this process.
  explicit QueuePair(const QueuePairOptions& options);
  // In the BytesFor(options) bytes at `memory`, which begin at a page and are zeros until a side
  // uses them.
  QueuePair(const QueuePairOptions& options, char* memory);
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  ~QueuePair();

  static constexpr size_t BytesFor(const QueuePairOptions& options) {
    return kControlBytes + size_t{options.one_way ? 1U : 2U} * options.slots * options.buffer_bytes;
  }
  const QueuePairOptions& options() const { return options_; }

  // The agent's side.
  bool HasRoom() const { return next_ - done_ < options_.slots; }
  // Batches that are submitted and not yet done.
  uint64_t outstanding() const { return next_ - done_; }
  // For what goes one way: takes the slots back that the other side is done with. False: its
  // counters make no sense.
  bool Reclaim() {
    const char* responses = nullptr;
    Found found = Found::kNothing;
    while ((found = FindResponses(&responses)) == Found::kBatch) TakeResponses();
    return found == Found::kNothing;
  }
  // Of the slot that Submit publishes.
  char* BufferToSubmit() { return RequestBuffer(next_); }
  RequestWriter BeginRequests() {
    // The host has read these lines last: all are asked for at once.
    const char* buffer = RequestBuffer(next_);
    for (size_t at = 0; at < kPrefetched; at += 64) PrefetchToWrite(buffer + at);
    return RequestWriter(RequestBuffer(next_), options_.buffer_bytes, options_.batch);
  }
  void Submit() { control_->submitted.store(++next_, std::memory_order_release); }
  // Whether the oldest batch's responses, or the next part of them, are there: `*responses` is
  // valid until TakeResponses.
  Found FindResponses(const char** responses) {
    const uint64_t ahead = control_->answered.load(std::memory_order_acquire) - taken_;
    if (ahead == 0) return Found::kNothing;
    if (ahead > outstanding()) return Found::kCorrupt;
    *responses = ResponseBuffer(done_);
    return Found::kBatch;
  }
  // Null: none, or nonsense.
  const char* PeekResponses() {
    const char* responses = nullptr;
    return FindResponses(&responses) == Found::kBatch ? responses : nullptr;
  }
  // `whole`: they were the last ones of their batch.
  void TakeResponses(bool whole = true) {
    done_ += whole ? 1 : 0;
    control_->taken.store(++taken_, std::memory_order_release);
  }

  // The host's side: whether there is a batch that is not answered, the oldest: its requests from
  // the first()th on.
  Found FindRequests(const char** requests) {
    const uint64_t ahead = control_->submitted.load(std::memory_order_acquire) - finished_;
    if (ahead == 0) return Found::kNothing;
    if (ahead > options_.slots) return Found::kCorrupt;
    // The buffer is the agent's until it has taken the part before.
    if (first_ > 0 && control_->taken.load(std::memory_order_acquire) != answered_) {
      return Found::kNothing;
    }
    *requests = RequestBuffer(finished_);
    return Found::kBatch;
  }
  // Null: none, or nonsense.
  const char* PeekRequests() {
    const char* requests = nullptr;
    return FindRequests(&requests) == Found::kBatch ? requests : nullptr;
  }
  // The requests of the batch behind the oldest one; null: it is not there. And where its responses
  // will be.
  const char* PeekNext() {
    const uint64_t ahead = control_->submitted.load(std::memory_order_acquire) - finished_;
    return ahead >= 2 && ahead <= options_.slots ? RequestBuffer(finished_ + 1) : nullptr;
  }
  char* ResponseBufferOfNext() { return ResponseBuffer(finished_ + 1); }
  size_t first() const { return first_; }
  char* ResponseBufferOfOldest() { return ResponseBuffer(finished_); }
  void Answer() {
    first_ = 0;
    ++finished_;
    Publish();
  }
  // The responses of `count` requests more; there are others in the batch.
  void AnswerPart(size_t count) {
    first_ += count;
    Publish();
  }

 private:
  static constexpr size_t kPrefetched = 2048;  // bytes of a usual batch's descriptors
  static constexpr size_t kControlBytes = 4096;
  struct Control {
    alignas(64) std::atomic<uint64_t> submitted;  // batches, ever; the agent writes it
    alignas(64) std::atomic<uint64_t> answered;   // transfers of responses, ever; the host
    // ... that the agent has taken; it writes it. The host reads it between parts alone.
    alignas(64) std::atomic<uint64_t> taken;
  };
  static_assert(sizeof(Control) <= kControlBytes);
  void Check() const;
  void Publish() { control_->answered.store(++answered_, std::memory_order_release); }
  char* RequestBuffer(uint64_t batch) { return buffers_ + Place(batch) * options_.buffer_bytes; }
  char* ResponseBuffer(uint64_t batch) {
    return buffers_ + (options_.slots + Place(batch)) * options_.buffer_bytes;
  }
  size_t Place(uint64_t batch) const { return batch & (options_.slots - 1); }

  const QueuePairOptions options_;
  char* own_ = nullptr;  // memory to unmap
  Control* control_ = nullptr;
  char* buffers_ = nullptr;
  // The agent's.
  alignas(64) uint64_t next_ = 0;  // batch to submit
  uint64_t done_ = 0;              // batches whose responses were all taken
  uint64_t taken_ = 0;             // transfers
  // The host's.
  alignas(64) uint64_t finished_ = 0;  // batches that are answered
  uint64_t answered_ = 0;              // transfers
  size_t first_ = 0;                   // request of the oldest batch that is not answered
};

}  // namespace pulse::kv
