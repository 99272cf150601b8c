// The parts that a model of a key-value server is put together from: a receive queue with the
// requests that come to it, a core that polls, and a link that moves bytes one after the other.
//
// Times are nanoseconds of the model. Thread-compatible; nothing blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "bench/macro/kv/model/event_queue.h"

namespace pulse::kvmodel {

// Requests of clients, and the queue of a network card that they wait in.
class ReceiveQueue {
 public:
  struct Options {
    // Requests a nanosecond. 0: a client that has a new request for each place that becomes free,
    // so that the queue is always full.
    double rate = 0;
    bool even = false;      // in equal distances; else as a Poisson process
    size_t capacity = 128;  // a request that comes to a full queue is dropped
    uint64_t seed = 1;
  };
  explicit ReceiveQueue(const Options& options);

  // The times at which the oldest requests came, at most `most`.
  std::vector<double> Take(double now, size_t most);
  // Of an empty queue, when the next request comes.
  double next() const { return next_; }

  uint64_t arrived() const { return arrived_; }
  uint64_t dropped() const { return dropped_; }
  size_t waiting() const { return waiting_.size(); }

 private:
  void Fill(double now);
  double Gap();

  const Options options_;
  std::mt19937_64 random_;
  std::deque<double> waiting_;
  double next_ = 0;
  uint64_t arrived_ = 0;
  uint64_t dropped_ = 0;
};

// A core that asks its sources for work, one piece at a time: always from the first on, or in turn.
class Core {
 public:
  struct Work {
    double nanos;
    std::function<void()> done;  // at its end
  };
  // Nothing: this source has no work. Whoever gives it some later calls Wake.
  using Source = std::function<std::optional<Work>()>;
  enum class Order { kFirst, kInTurn };

  Core(EventQueue* events, Order order) : events_(*events), order_(order) {}
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  void AddSource(Source source) { sources_.push_back(std::move(source)); }
  void Wake() {
    if (!busy_) Look();
  }
  double busy_nanos() const { return busy_nanos_; }

 private:
  void Look();

  EventQueue& events_;
  const Order order_;
  std::vector<Source> sources_;
  size_t turn_ = 0;
  bool busy_ = false;
  double busy_nanos_ = 0;
};

// Moves bytes in the order in which they are given to it.
class Link {
 public:
  explicit Link(double bytes_per_nano) : bytes_per_nano_(bytes_per_nano) {}
  // When the last of them is through.
  double Send(double now, double bytes) {
    free_at_ = std::max(free_at_, now) + bytes / bytes_per_nano_;
    moved_ += bytes;
    return free_at_;
  }
  double moved() const { return moved_; }

 private:
  const double bytes_per_nano_;
  double free_at_ = 0;
  double moved_ = 0;
};

}  // namespace pulse::kvmodel
