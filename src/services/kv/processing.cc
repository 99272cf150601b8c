#include "services/kv/processing.h"

#include <algorithm>
#include <array>
#include <string>

namespace pulse::kv {
namespace {

// Writes the responses of a batch.
class ResponseSink {
 public:
  ResponseSink(char* buffer, size_t size, size_t most)
      : buffer_(buffer),
        size_(size),
        end_(sizeof(BatchHeader) + most * sizeof(ResponseDescriptor)),
        payload_(end_) {}

  void Got(size_t i, const Item* item) {
    ResponseDescriptor d{};
    d.flags = kInline;
    if (item == nullptr) {
      d.status = WireStatus::kNotFound;
    } else if (item->value_size() <= 8) {
      d.value_size = static_cast<uint32_t>(item->value_size());
      CopyValue(reinterpret_cast<char*>(&d.value), item->value());
    } else if (item->value_size() > size_ - end_) {
      d.status = WireStatus::kTooLarge;  // in no batch; or in a smaller one
    } else {
      d.flags = 0;
      d.value = end_;
      d.value_size = static_cast<uint32_t>(item->value_size());
      std::memcpy(buffer_ + end_, item->value_bytes(), item->value_size());
      end_ += item->value_size();
    }
    Write(i, d);
  }
  void Stored(size_t i, Partition::Result result) {
    WriteStatus(i, result == Partition::Result::kStored     ? WireStatus::kOk
                   : result == Partition::Result::kNoMemory ? WireStatus::kNoMemory
                                                            : WireStatus::kTooLarge);
  }
  void Deleted(size_t i, bool deleted) {
    WriteStatus(i, deleted ? WireStatus::kOk : WireStatus::kNotFound);
  }
  void WriteStatus(size_t i, WireStatus status) {
    ResponseDescriptor d{};
    d.flags = kInline;
    d.status = status;
    Write(i, d);
  }
  size_t payload_bytes() const { return end_ - payload_; }

 private:
  void Write(size_t i, const ResponseDescriptor& d) {
    std::memcpy(buffer_ + sizeof(BatchHeader) + i * sizeof(d), &d, sizeof(d));
  }
  char* buffer_;
  size_t size_;
  size_t end_;
  const size_t payload_;
};

// Where key and value of a request are: views of `d` itself, or of the buffer. False: nowhere.
bool Locate(const char* buffer, size_t size, const RequestDescriptor& d, std::string_view* key,
            std::string_view* value) {
  if ((d.flags & kInline) != 0) {
    if (d.key_size > 8 || d.value_size > 8) return false;
    *key = {reinterpret_cast<const char*>(&d.key), d.key_size};
    *value = {reinterpret_cast<const char*>(&d.value), d.value_size};
    return true;
  }
  const uint64_t bytes = uint64_t{d.key_size} + d.value_size;
  if (d.key > size || bytes > size - d.key) return false;
  *key = {buffer + d.key, d.key_size};
  *value = {buffer + d.key + d.key_size, d.value_size};
  return true;
}

class BatchProcessor {
 public:
  BatchProcessor(Partition* partition, const char* requests, char* responses, size_t size,
                 size_t most)
      : partition_(*partition), requests_(requests), size_(size), sink_(responses, size, most) {}

  const RequestDescriptor* SharedDescriptors() const {
    return reinterpret_cast<const RequestDescriptor*>(requests_ + sizeof(BatchHeader));
  }

  // The agent is part of this process: its descriptors are used where they are, with its hashes.
  void RunTrusted(size_t count) {
    const RequestDescriptor* all = SharedDescriptors();
    RunGroups(
        partition_, count, kLargestGroup, BestMatch(), [&](size_t i) { return all[i].hash; },
        [&](size_t i, const Candidate& candidate) {
          std::string_view key;
          std::string_view value;
          if (!Locate(requests_, size_, all[i], &key, &value)) {
            return sink_.WriteStatus(i, WireStatus::kMalformed);
          }
          Execute(i, candidate, all[i], key, value, all[i].hash);
        });
  }

  // Each descriptor, and each key, is copied before it is looked at: one that its agent changes
  // meanwhile must not be hashed as one key and stored as another.
  void RunUntrusted(size_t count) {
    std::array<RequestDescriptor, kLargestGroup> copies;
    std::array<std::string_view, kLargestGroup> keys;
    std::array<std::string_view, kLargestGroup> values;
    std::array<uint64_t, kLargestGroup> hashes;
    std::array<bool, kLargestGroup> known;
    thread_local std::string bytes;
    bytes.reserve(kLargestGroup * kMaxKeyBytes);  // so that it does not move
    for (size_t first = 0; first < count; first += kLargestGroup) {
      const size_t together = std::min(kLargestGroup, count - first);
      std::memcpy(copies.data(), SharedDescriptors() + first, together * sizeof(copies[0]));
      bytes.clear();
      for (size_t i = 0; i < together; ++i) {
        hashes[i] = 0;
        known[i] = Locate(requests_, size_, copies[i], &keys[i], &values[i]);
        if (!known[i]) continue;
        if ((copies[i].flags & kInline) == 0) {
          const size_t begin = bytes.size();
          bytes.append(keys[i]);
          keys[i] = std::string_view(bytes).substr(begin);
        }
        hashes[i] = HashKey(keys[i]);
      }
      RunGroups(
          partition_, together, kLargestGroup, BestMatch(), [&](size_t i) { return hashes[i]; },
          [&](size_t i, const Candidate& candidate) {
            if (!known[i]) return sink_.WriteStatus(first + i, WireStatus::kMalformed);
            Execute(first + i, candidate, copies[i], keys[i], values[i], hashes[i]);
          });
    }
  }
  size_t payload_bytes() const { return sink_.payload_bytes(); }

 private:
  void Execute(size_t i, const Candidate& candidate, const RequestDescriptor& d,
               std::string_view key, std::string_view value, uint64_t hash) {
    switch (d.op) {
      case WireOp::kGet:
        return sink_.Got(i, partition_.FindAt(candidate.at, candidate.word, key, hash));
      case WireOp::kSet: {
        ItemFacts facts;
        const auto expires_ms = (d.flags & kInline) != 0 ? 0 : static_cast<int64_t>(d.value);
        if (expires_ms < 0) break;
        if (expires_ms > 0) facts.expires_ms = expires_ms;
        Item* item = nullptr;
        const auto result =
            partition_.PutAt(candidate.at, candidate.word, key, hash, value.size(), facts, &item);
        if (result == Partition::Result::kStored) CopyValue(item->value_bytes(), value);
        return sink_.Stored(i, result);
      }
      case WireOp::kDelete:
        return sink_.Deleted(i, partition_.Erase(key, hash));
    }
    sink_.WriteStatus(i, WireStatus::kMalformed);
  }

  Partition& partition_;
  const char* const requests_;
  const size_t size_;
  ResponseSink sink_;
};

}  // namespace

size_t ProcessBatch(Partition* partition, const char* requests, char* responses, size_t size,
                    size_t most, bool trusted, BatchCounts* counts) {
  BatchHeader header;
  std::memcpy(&header, requests, sizeof(header));
  const size_t count = std::min<size_t>(header.count, most);
  BatchProcessor processor(partition, requests, responses, size, most);
  // The other core has both in its cache: all lines are asked for at once.
  const char* descriptors = requests + sizeof(header);
  for (size_t at = 0; at < count * sizeof(RequestDescriptor); at += 64) {
    __builtin_prefetch(descriptors + at);
  }
  for (size_t at = 0; at < count * sizeof(ResponseDescriptor); at += 64) {
    __builtin_prefetch(responses + at, 1);
  }
  if (trusted) {
    processor.RunTrusted(count);
  } else {
    processor.RunUntrusted(count);
  }
  const BatchHeader answer{static_cast<uint16_t>(count), {}};
  std::memcpy(responses, &answer, sizeof(answer));
  const size_t bytes =
      sizeof(answer) + count * sizeof(ResponseDescriptor) + processor.payload_bytes();
  counts->requests += count;
  counts->request_bytes += sizeof(header) + count * sizeof(RequestDescriptor);
  counts->response_bytes += bytes;
  return bytes;
}

}  // namespace pulse::kv
