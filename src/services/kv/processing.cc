#include "services/kv/processing.h"

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "base/file_calls.h"
#include "services/kv/core/mica_cache.h"

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

  // False: there is no room for it, but in a transfer that begins with it.
  bool Got(size_t i, const Item* item) {
    ResponseDescriptor d{};
    d.flags = kInline;
    if (item == nullptr) {
      d.status = WireStatus::kNotFound;
    } else if (item->value_size() <= 8) {
      d.value_size = static_cast<uint32_t>(item->value_size());
      CopyValue(reinterpret_cast<char*>(&d.value), item->value());
    } else if (!FitsAlone(item->value_size())) {
      d.status = WireStatus::kTooLarge;
      d.value_size = 8;
      d.value = item->value_size();
    } else if (item->value_size() > size_ - end_) {
      return false;
    } else {
      d.flags = 0;
      d.value = end_;
      d.value_size = static_cast<uint32_t>(item->value_size());
      std::memcpy(buffer_ + end_, item->value_bytes(), item->value_size());
      end_ += item->value_size();
    }
    Write(i, d);
    return true;
  }
  // Whether a value of this size fits into a transfer that begins with it.
  bool FitsAlone(size_t value_size) const { return value_size <= size_ - payload_; }
  void GotFar(size_t i, size_t value_size) {
    ResponseDescriptor d{};
    d.flags = kFar;
    d.value_size = static_cast<uint32_t>(value_size);
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

constexpr char kFarMemory[] = "far memory";

// Where key and value of a request are: views of `d` itself, or of the buffer. False: nowhere.
bool Locate(const char* buffer, size_t size, const RequestDescriptor& d, std::string_view* key,
            std::string_view* value) {
  if ((d.flags & kInline) != 0) {
    if (d.key_size > 8 || d.value_size > 8 || (d.flags & kFar) != 0) return false;
    *key = {reinterpret_cast<const char*>(&d.key), d.key_size};
    *value = {reinterpret_cast<const char*>(&d.value), d.value_size};
    return true;
  }
  const uint32_t value_size = (d.flags & kFar) != 0 ? 0 : d.value_size;
  const uint64_t bytes = uint64_t{d.key_size} + value_size;
  if (d.key > size || bytes > size - d.key) return false;
  *key = {buffer + d.key, d.key_size};
  *value = {buffer + d.key + d.key_size, value_size};
  return true;
}

template <class Store>
class BatchProcessor {
 public:
  BatchProcessor(Store* partition, const BatchBuffers& buffers, const BatchRules& rules)
      : partition_(*partition),
        buffers_(buffers),
        rules_(rules),
        sink_(buffers.responses, buffers.size, buffers.most) {}

  const RequestDescriptor* SharedDescriptors() const {
    return reinterpret_cast<const RequestDescriptor*>(buffers_.requests + sizeof(BatchHeader)) +
           buffers_.first;
  }

  // The agent is part of this process: its descriptors are used where they are, with its hashes.
  void RunTrusted(size_t count) {
    const RequestDescriptor* all = SharedDescriptors();
    RunGroups(
        partition_, count, kLargestGroup, MatchOf(partition_),
        [&](size_t i) { return all[i].hash; },
        [&](size_t i, const Candidate& candidate) {
          std::string_view key;
          std::string_view value;
          if (!Locate(buffers_.requests, buffers_.size, all[i], &key, &value)) {
            return Refuse(i);
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
    bytes.reserve(std::min(kLargestGroup * kMaxKeyBytes, buffers_.size));  // it must not move
    size_t payload = 0;
    for (size_t first = 0; first < count && !stopped_; first += kLargestGroup) {
      const size_t together = std::min(kLargestGroup, count - first);
      std::memcpy(copies.data(), SharedDescriptors() + first, together * sizeof(copies[0]));
      bytes.clear();
      for (size_t i = 0; i < together; ++i) {
        hashes[i] = 0;
        known[i] = Locate(buffers_.requests, buffers_.size, copies[i], &keys[i], &values[i]);
        if (!known[i]) continue;
        if ((copies[i].flags & kInline) == 0) {
          payload += keys[i].size() + values[i].size();
          known[i] = payload <= buffers_.size;
          if (!known[i]) continue;
          const size_t begin = bytes.size();
          bytes.append(keys[i]);
          keys[i] = std::string_view(bytes).substr(begin);
        }
        hashes[i] = HashKey(keys[i]);
        known[i] = PartitionOf(hashes[i], rules_.partitions) == rules_.partition;
      }
      RunGroups(
          partition_, together, kLargestGroup, MatchOf(partition_),
          [&](size_t i) { return hashes[i]; },
          [&](size_t i, const Candidate& candidate) {
            if (!known[i]) return Refuse(first + i);
            Execute(first + i, candidate, copies[i], keys[i], values[i], hashes[i]);
          });
    }
  }
  size_t payload_bytes() const { return sink_.payload_bytes(); }
  size_t answered() const { return answered_; }
  bool stopped() const { return stopped_; }

 private:
  void Refuse(size_t i) {
    if (stopped_) return;
    sink_.WriteStatus(i, WireStatus::kMalformed);
    ++answered_;
  }

  void Execute(size_t i, const Candidate& candidate, const RequestDescriptor& d,
               std::string_view key, std::string_view value, uint64_t hash) {
    if (stopped_) return;
    if ((d.flags & kFar) != 0) {
      // The paper's own store has no such values.
      if constexpr (std::is_same_v<Store, Partition>) return ExecuteFar(i, candidate, d, key, hash);
      return Refuse(i);
    }
    switch (d.op) {
      case WireOp::kGet:
        if (!sink_.Got(i, partition_.FindAt(candidate.at, candidate.word, key, hash))) {
          stopped_ = true;
          return;
        }
        break;
      case WireOp::kSet: {
        ItemFacts facts;
        if (!ReadExpiry(d, &facts)) return Refuse(i);
        Item* item = nullptr;
        const auto result =
            partition_.PutAt(candidate.at, candidate.word, key, hash, value.size(), facts, &item);
        if (result == Partition::Result::kStored) {
          CopyValue(item->value_bytes(), value);
          TellWatchers(key);
        }
        sink_.Stored(i, result);
        break;
      }
      case WireOp::kDelete: {
        const bool deleted = partition_.Erase(key, hash);
        if (deleted) TellWatchers(key);
        sink_.Deleted(i, deleted);
        break;
      }
      default:
        return Refuse(i);
    }
    ++answered_;
  }

  // At most one of a batch: what a client may have done in one turn is bounded.
  void ExecuteFar(size_t i, const Candidate& candidate, const RequestDescriptor& d,
                  std::string_view key, uint64_t hash) {
    const bool get = d.op == WireOp::kGet;
    if (far_used_ || d.value_size > buffers_.far.bytes || (!get && d.op != WireOp::kSet)) {
      return Refuse(i);
    }
    if (get) {
      const auto* item = partition_.FindAt(candidate.at, candidate.word, key, hash);
      if (item == nullptr || sink_.FitsAlone(item->value_size()) ||
          item->value_size() > d.value_size) {
        if (!sink_.Got(i, item)) {
          stopped_ = true;
          return;
        }
      } else {
        far_used_ = true;
        if (!WriteAt(buffers_.far.fd, {item->value_bytes(), item->value_size()}, 0, kFarMemory)
                 .ok())
          return Refuse(i);
        sink_.GotFar(i, item->value_size());
      }
    } else {
      ItemFacts facts;
      if (!ReadExpiry(d, &facts)) return Refuse(i);
      far_used_ = true;
      auto result = Partition::Result::kTooLarge;
      if (d.value_size <= rules_.most_far_bytes) {
        result = partition_.PutFilled(key, hash, d.value_size, facts, [&](char* value) {
          const auto n = ReadAt(buffers_.far.fd, value, d.value_size, 0, "reading", kFarMemory);
          return n.ok() && *n == d.value_size;
        });
      }
      // The system has failed; the key has its old value.
      if (result == Partition::Result::kNotFilled) return Refuse(i);
      if (result == Partition::Result::kStored) TellWatchers(key);
      sink_.Stored(i, result);
    }
    ++answered_;
  }

  bool ReadExpiry(const RequestDescriptor& d, ItemFacts* facts) const {
    if ((d.flags & kInline) != 0 || d.value == 0) return true;
    if (d.value >= static_cast<uint64_t>(kNoExpiry)) return false;
    auto expires_ms = static_cast<int64_t>(d.value);
    if ((d.flags & kTtl) != 0) {
      if (__builtin_add_overflow(expires_ms, partition_.now_ms(), &expires_ms)) return false;
    }
    facts->expires_ms = expires_ms;
    return true;
  }

  void TellWatchers(std::string_view key) {
    if (rules_.watch != nullptr && rules_.watch->active()) rules_.watch->Touch(key);
  }

  Store& partition_;
  const BatchBuffers buffers_;
  const BatchRules rules_;
  ResponseSink sink_;
  size_t answered_ = 0;
  bool far_used_ = false;
  bool stopped_ = false;  // no room for the next response
};

template <class Store>
BatchResult ProcessOn(Store* partition, const BatchBuffers& buffers, const BatchRules& rules,
                      BatchCounts* counts) {
  BatchHeader header;
  std::memcpy(&header, buffers.requests, sizeof(header));
  const size_t all = std::min<size_t>(header.count, buffers.most);
  const size_t count = all - std::min(buffers.first, all);
  BatchProcessor<Store> processor(partition, buffers, rules);
  // The other core has both in its cache: all lines are asked for at once.
  const auto* descriptors = reinterpret_cast<const char*>(processor.SharedDescriptors());
  for (size_t at = 0; at < count * sizeof(RequestDescriptor); at += 64) {
    __builtin_prefetch(descriptors + at);
  }
  for (size_t at = 0; at < count * sizeof(ResponseDescriptor); at += 64) {
    __builtin_prefetch(buffers.responses + at, 1);
  }
  if (rules.trusted) {
    processor.RunTrusted(count);
  } else {
    processor.RunUntrusted(count);
  }
  const size_t answered = processor.answered();
  const BatchHeader answer{static_cast<uint16_t>(answered), {}};
  std::memcpy(buffers.responses, &answer, sizeof(answer));
  const size_t bytes =
      sizeof(answer) + answered * sizeof(ResponseDescriptor) + processor.payload_bytes();
  counts->requests += answered;
  counts->request_bytes += sizeof(header) + answered * sizeof(RequestDescriptor);
  counts->response_bytes += bytes;
  return {bytes, answered, !processor.stopped()};
}

}  // namespace

BatchResult ProcessBatch(Partition* partition, const BatchBuffers& buffers, const BatchRules& rules,
                         BatchCounts* counts) {
  return ProcessOn(partition, buffers, rules, counts);
}

BatchResult ProcessBatch(MicaCache* cache, const BatchBuffers& buffers, const BatchRules& rules,
                         BatchCounts* counts) {
  return ProcessOn(cache, buffers, rules, counts);
}

}  // namespace pulse::kv
