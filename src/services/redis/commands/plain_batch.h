// PlainBatch: GETs and SETs without options, of several connections, in one piece of memory, and
// what came of them: what a loop hands to the thread that carries them out, so that this one reads
// and writes a few lines of memory in a row, and none that belongs to a connection (DPU-KV paper,
// section 4.2).
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pulse::redis {

struct PlainBatch {
  // What is longer goes alone, and so does what does not fit in any more.
  static constexpr size_t kMostEntries = 4096;
  static constexpr size_t kMostValue = size_t{16} << 10;
  static constexpr size_t kMostBytes = size_t{256} << 10;  // of requests; and, about, of replies

  struct Entry {
    uint32_t key_begin;  // in `bytes`; the value of a SET follows the key
    uint32_t key_size;
    uint32_t value_size;
    bool is_set;
    uint8_t protocol;  // of the reply
  };
  std::string bytes;
  std::vector<Entry> entries;
  // What their clients might do then.
  uint64_t users_version = 0;
  uint64_t ended_clients = 0;
  uint64_t slots = 0;  // the cluster's generation
  size_t sets = 0;

  // The first ones were carried out; the others not.
  size_t done() const { return ends.size(); }
  std::string out;             // replies
  std::vector<uint32_t> ends;  // of each in `out`
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t cycles = 0;  // that it took

  std::string_view KeyOf(const Entry& e) const {
    return std::string_view(bytes).substr(e.key_begin, e.key_size);
  }
  std::string_view ValueOf(const Entry& e) const {
    return std::string_view(bytes).substr(e.key_begin + e.key_size, e.value_size);
  }
  std::string_view ReplyOf(size_t i) const {
    const size_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(out).substr(begin, ends[i] - begin);
  }
  bool HasRoom(size_t key_size, size_t value_size) const {
    return entries.size() < kMostEntries && value_size <= kMostValue &&
           bytes.size() + key_size + value_size <= kMostBytes;
  }
  void Add(std::string_view key, std::string_view value, bool is_set, int protocol) {
    entries.push_back({static_cast<uint32_t>(bytes.size()), static_cast<uint32_t>(key.size()),
                       static_cast<uint32_t>(value.size()), is_set,
                       static_cast<uint8_t>(protocol)});
    bytes.append(key).append(value);
    sets += is_set ? 1 : 0;
  }
  // Takes back what was added from the entry `first` on.
  void Truncate(size_t first) {
    for (size_t i = first; i < entries.size(); ++i) sets -= entries[i].is_set ? 1 : 0;
    if (first < entries.size()) bytes.resize(entries[first].key_begin);
    entries.resize(first);
  }
  // Keeps the memory, where that is little.
  void Clear() {
    constexpr size_t kKept = size_t{64} << 10;
    if (bytes.capacity() > kKept) std::string().swap(bytes);
    if (out.capacity() > kKept) std::string().swap(out);
    if (entries.capacity() > kKept / sizeof(Entry)) std::vector<Entry>().swap(entries);
    bytes.clear();
    entries.clear();
    out.clear();
    ends.clear();
    users_version = ended_clients = slots = sets = hits = misses = cycles = 0;
  }
};

}  // namespace pulse::redis
