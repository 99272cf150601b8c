// The memory network of `pulse bench kv`: packets that arrive at a rate, or as fast as they are
// taken, and where responses are left. Each object is one thread's while it runs.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/histogram.h"
#include "bench/macro/kv/kv_load.h"
#include "bench/macro/kv/packet.h"
#include "bench/macro/workload.h"

namespace pulse::bench {

// Of one request in so many the latency is taken: to record each would cost as much as to answer
// it. By its number, not by its place in a batch: the first of a batch has waited longest.
inline constexpr size_t kLatencySampled = 16;

// How requests arrive.
struct Arrivals {
  double rate = 0;           // requests a second; 0: as many as are taken
  size_t receive_queue = 0;  // with a rate of 0: this many are always waiting, and have a latency
  bool timed() const { return rate > 0 || receive_queue > 0; }
};

// A server asks for packets so far ahead of the one that it parses.
inline constexpr size_t kPacketsAhead = 32;

class PacketSource {
 public:
  static constexpr size_t kPackets = size_t{1} << 20;

  PacketSource(const KvShape& shape, uint32_t part, uint32_t parts, uint64_t seed)
      : shape_(shape),
        stride_((sizeof(PacketHead) + shape.key_bytes + shape.value_bytes + 63) / 64 * 64),
        bytes_(kPackets * stride_) {
    const auto numbers = DrawNumbers(shape, kPackets * parts, seed);
    Random random(seed + 99);
    std::string key(shape.key_bytes, '\0');
    size_t made = 0;
    for (size_t i = 0; made < kPackets; ++i) {
      WriteKey(numbers[i % numbers.size()], key.size(), key.data());
      // As a NIC's flow director would sort them.
      if (parts > 1 && kv::PartitionOf(kv::HashKey(key), parts) != part) continue;
      MakePacket(&bytes_[made * stride_], key, random.Unit() < shape.set_share, made);
      ++made;
    }
  }

  // Goes on with the packets where an earlier run has ended.
  void Start(const Arrivals& arrivals, int64_t now) {
    arrivals_ = arrivals;
    begin_ = now;
    first_ = taken_;
    took_.fill(now);
  }
  bool timed() const { return arrivals_.timed(); }
  // At most `burst` of those that have arrived; none where fewer than `least` have. `now` matters
  // if timed().
  size_t Receive(size_t burst, int64_t now, uint64_t* first, size_t least = 1) {
    size_t count = burst;
    if (arrivals_.rate > 0) {
      const double arrived = static_cast<double>(now - begin_) * arrivals_.rate / 1e9;
      count = std::min<size_t>(burst, static_cast<size_t>(arrived) - (taken_ - first_));
      if (count < least) return 0;
    }
    *first = taken_;
    if (arrivals_.timed()) Stamp(count, now);
    taken_ += count;
    return count;
  }
  // As a NIC would have written them into a cache: all of a packet's lines.
  void Prefetch(uint64_t number) const {
    for (size_t line = 0; line < stride_; line += 64) __builtin_prefetch(at(number) + line);
  }
  const char* at(uint64_t number) const { return &bytes_[number % kPackets * stride_]; }
  size_t size_at(uint64_t) const { return stride_; }
  size_t stride() const { return stride_; }

 private:
  // What the clients have written into their packets: when each was to be sent, late or not. With a
  // full receive queue a client sends when one of its places gets free.
  void Stamp(size_t count, int64_t now) {
    for (uint64_t n = (taken_ + kLatencySampled - 1) / kLatencySampled * kLatencySampled;
         n < taken_ + count; n += kLatencySampled) {
      // It has arrived at the end of its interval, and is sent then.
      const auto since = static_cast<double>(n - first_ + 1);
      const uint64_t stamp =
          arrivals_.rate > 0
              ? static_cast<uint64_t>(begin_ + static_cast<int64_t>(since * 1e9 / arrivals_.rate))
              : static_cast<uint64_t>(took_[(n - arrivals_.receive_queue) % took_.size()]);
      std::memcpy(&bytes_[n % kPackets * stride_] + offsetof(PacketHead, stamp), &stamp, 8);
    }
    if (arrivals_.rate > 0) return;
    for (size_t i = 0; i < count; ++i) took_[(taken_ + i) % took_.size()] = now;
  }

  void MakePacket(char* at, const std::string& key, bool set, uint64_t number) const {
    PacketHead head{};
    head.ether_type = Swap16(0x0800);
    head.version = 0x45;
    head.ttl = 64;
    head.protocol = 17;
    head.ip_from = 0x0100000a;
    head.ip_to = 0x0200000a;
    head.port_from = Swap16(40000 + number % 1000);
    head.port_to = Swap16(11211);
    head.op = set ? kv::WireOp::kSet : kv::WireOp::kGet;
    head.key_bytes = static_cast<uint16_t>(key.size());
    head.value_bytes = set ? static_cast<uint32_t>(shape_.value_bytes) : 0;
    SetLengths(&head);
    std::memcpy(at, &head, sizeof(head));
    std::memcpy(at + sizeof(head), key.data(), key.size());
    std::memset(at + sizeof(head) + key.size(), 'w', head.value_bytes);
  }

  const KvShape& shape_;
  const size_t stride_;
  std::vector<char> bytes_;
  Arrivals arrivals_;
  int64_t begin_ = 0;
  uint64_t first_ = 0;
  uint64_t taken_ = 0;
  // When the last packets were taken; more than a receive queue and a burst.
  std::array<int64_t, 1024> took_{};
};

// Batches that a queue pair has under way.
inline constexpr uint32_t kNetworkSlots = 4;

// Where responses are built. Sending one is to leave it there.
class PacketSink {
 public:
  explicit PacketSink(const PacketSource& source)
      : stride_(source.stride() + 64), bytes_(kNetworkSlots * 256 * stride_) {}
  char* at(size_t slot, size_t i) { return &bytes_[(slot * 256 + i) * stride_]; }

 private:
  const size_t stride_;
  std::vector<char> bytes_;
};

// What one side has counted. One thread writes it, in cache lines of its own.
struct alignas(128) Counts {
  uint64_t requests = 0;
  uint64_t batches = 0;
  uint64_t malformed = 0;
  uint64_t not_ok = 0;
  uint64_t sampled = 0;  // requests of timed batches
  int64_t receive = 0;   // nanoseconds of them
  int64_t parse = 0;
  int64_t process = 0;
  int64_t prepare = 0;  // of lat
  int64_t respond = 0;  // of lat: to send
  int64_t busy = 0;     // of the host's half of lat, in all batches
  Histogram latency;

  // Of a batch whose responses, the first of them at `first` in `slot`, leave at `now`: by the
  // client's time stamps, which they echo (section 5 of the paper).
  void RecordLatencies(PacketSink* sink, size_t slot, const uint64_t* numbers, size_t count,
                       int64_t now) {
    for (size_t i = 0; i < count; ++i) {
      if (numbers[i] % kLatencySampled != 0) continue;
      uint64_t stamp = 0;
      std::memcpy(&stamp, sink->at(slot, i) + offsetof(PacketHead, stamp), 8);
      latency.Record(
          static_cast<uint64_t>(std::max<int64_t>(0, now - static_cast<int64_t>(stamp))));
    }
  }
};

// Of each interval that is timed, so much is the clock's own.
inline int64_t ClockNanos() {
  const int64_t begin = NowNanos();
  for (int i = 0; i < 1000; ++i) NowNanos();
  return (NowNanos() - begin) / 1000;
}

}  // namespace pulse::bench
