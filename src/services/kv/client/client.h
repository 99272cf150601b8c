// ShmClient: what is behind pulse/kv_client.h: a connection to `pulse kv --shm`, whose requests and
// answers go through shared memory. The header has the contract; shm/wire.h the layout.
//
// Threads: one at a time. Blocking: Open and Wait, for as long as they are given. The server is
// untrusted: counters, counts, sizes and offsets that it writes are copied and checked; what makes
// no sense ends the connection (kLost).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/adaptive_spin.h"
#include "channel/doorbell.h"
#include "channel/region.h"
#include "pulse/kv_client.h"
#include "services/kv/shm/wire.h"

namespace pulse::kv {

class ShmClient {
 public:
  using Completion = pulse_kv_completion;

  // The error's code says which PULSE_KV_ code it is: see CodeOfOpening.
  static absl::StatusOr<std::unique_ptr<ShmClient>> Open(const std::string& path, int timeout_ms);
  static int CodeOfOpening(const absl::Status& status);
  ShmClient(const ShmClient&) = delete;
  ShmClient& operator=(const ShmClient&) = delete;

  size_t set_bytes() const { return set_bytes_; }
  size_t get_bytes() const { return get_bytes_; }
  size_t outstanding() const { return outstanding_; }

  // Each returns a code of pulse/kv_client.h.
  int Submit(WireOp op, std::string_view key, std::string_view value, uint64_t ttl_ms,
             uint64_t tag);
  int Flush();
  int Poll(Completion* completions, size_t most, size_t* count);
  int Wait(Completion* completions, size_t most, size_t* count, int64_t timeout_ms);
  // One request; the completion's code, or why there is none.
  int Call(WireOp op, std::string_view key, std::string_view value, uint64_t ttl_ms,
           Completion* completion);
  // A value of any size, which goes by the far memory where no buffer holds it.
  int Set(std::string_view key, std::string_view value, uint64_t ttl_ms);
  // Copies it to the `room` bytes at `value`.
  int Get(std::string_view key, char* value, size_t room, size_t* size);

 private:
  // Of a partition.
  struct Queue {
    Queue(const ShmFacts& facts, char* memory, Doorbell* of_server);
    uint64_t& TagOf(uint64_t request) { return tags[request & (tags.size() - 1)]; }

    QueuePair pair;
    Doorbell* const kick;
    std::optional<RequestWriter> writer;  // of a batch that is collected
    std::vector<uint64_t> tags;           // of requests under way; a power of two
    std::vector<uint32_t> sizes;          // of batches under way
    uint64_t batches = 0;                 // submitted, ever
    uint64_t requests = 0;                // taken by Submit, ever
    uint64_t answered = 0;                // requests whose completions were handed out, ever
    uint64_t abandoned = 0;               // of those to come: nobody waits for them
    // Of the oldest batch: requests that are not answered yet.
    uint32_t left = 0;
    // Responses that are handed out; the slot is theirs until the next call.
    const char* responses = nullptr;
    uint32_t read = 0;
    uint32_t readable = 0;
  };

  // The far memory, for values that fit into no buffer, and the request that has it.
  struct LargeValueMemory {
    bool IsBusy() const { return queue != nullptr && queue->answered <= request; }

    UniqueFd fd;
    uint64_t bytes = 0;
    bool to_trim = false;          // once it is not busy any more
    const Queue* queue = nullptr;  // of the last request
    uint64_t request = 0;          // its number there
    uint64_t room = 0;             // that it may be answered with
  };

  ShmClient(const ShmFacts& facts, int timeout_ms, UniqueFd socket, Region region, UniqueFd far,
            uint64_t far_bytes);

  // `add(queue, hash)` adds the request to the queue's writer; false: that is full.
  template <class AddTo>
  int SubmitBy(std::string_view key, uint64_t tag, const AddTo& add);
  template <class Send>
  int CallBy(const Send& send, int64_t timeout_ms, Completion* completion);
  // A request that has the far memory, with room for `size` bytes there, or so many of a value. Not
  // after `deadline` (nanoseconds).
  int CallFar(WireOp op, std::string_view key, size_t size, uint64_t ttl_ms, int64_t deadline,
              Completion* completion);
  // `*got` was TOO_LARGE.
  int GetFar(std::string_view key, size_t room, int64_t deadline, Completion* got);
  // Until no request has the far memory that nobody waits for any more.
  int AwaitFar(int64_t deadline);
  // Gives back what a large value took, at once or when the request that has it is answered.
  void TrimFar();
  int64_t Deadline() const;
  void Submit(Queue* queue);
  // Lets the server have the slots whose responses were all handed out.
  void ReleaseTaken();
  int FindResponses(Queue* queue);
  int TakeFrom(Queue* queue, Completion* completions, size_t most, size_t* count);
  bool HasResponses();
  bool ServerIsGone();
  int Lose();
  // Until something is there, or `until` (nanoseconds).
  void SleepUntil(int64_t until);

  const ShmFacts facts_;
  const int timeout_ms_;
  const UniqueFd socket_;
  const Region region_;
  Doorbell notify_;
  std::deque<Doorbell> kicks_;  // of the server's threads
  std::deque<Queue> queues_;
  const size_t set_bytes_;
  const size_t get_bytes_;
  AdaptiveSpin spin_;
  size_t outstanding_ = 0;
  uint32_t next_queue_ = 0;  // that Poll begins with
  uint32_t empty_polls_ = 0;
  LargeValueMemory far_;
  bool lost_ = false;
};

}  // namespace pulse::kv
