// What the flows of one loop share: contexts of reads, the predicate's output, counters. Of the
// engine's files only. One loop's, but for the counters.
#pragma once

#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "net/buffer.h"
#include "services/offload/engine.h"
#include "store/device.h"

namespace pulse::offload {

class EngineFlow;

// A read under way.
struct Context {
  EngineFlow* flow = nullptr;  // null: its connection has ended, or has given it up
  net::Ticket ticket = 0;
  uint32_t request_size = 0;
  uint32_t ios = 0;
  bool failed = false;
  bool finished = false;
  bool good = false;
  ReadOp op{};
  RangeGuard::Look look;
  net::Buffer buffer;  // its data begin at a multiple of the unit
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> copy;  // with EngineOptions::copying
  Context* next = nullptr;           // of the free ones
};

// The predicate's output: requests in order. What does not fit voids it.
class Sorted {
 public:
  enum class To : uint32_t { kHost, kAgent, kAnswer };
  struct Item {
    To to;
    uint32_t offset;
    uint32_t size;
    uint32_t replies;
  };
  explicit Sorted(const Program& program) : max_request_(program.max_request), bytes_(kBytes) {
    items_.reserve(kItems);
    view_ = {this, &Sorted::Host, &Sorted::Agent, &Sorted::Answer};
  }
  // Emptied; for the next message.
  Requests* Reset() {
    items_.clear();
    used_ = 0;
    voided_ = false;
    return &view_;
  }
  bool useful() const { return !voided_ && !items_.empty(); }
  const std::vector<Item>& items() const { return items_; }
  std::string_view bytes(const Item& i) const { return {bytes_.data() + i.offset, i.size}; }

 private:
  // As many as there may be, so that nothing is allocated while the program's code runs.
  static constexpr size_t kItems = 4096;
  static constexpr size_t kBytes = size_t{2} << 20;

  static Sorted* Of(Requests* out) { return static_cast<Sorted*>(out->self); }
  static void Host(Requests* out, const void* data, size_t size, uint32_t replies) {
    Of(out)->Add(To::kHost, data, size, kBytes, replies);
  }
  static void Agent(Requests* out, const void* data, size_t size) {
    Of(out)->Add(To::kAgent, data, size, Of(out)->max_request_, 1);
  }
  static void Answer(Requests* out, const void* data, size_t size) {
    Of(out)->Add(To::kAnswer, data, size, kMaxErrorBytes, 1);
  }
  void Add(To to, const void* data, size_t size, size_t most, uint32_t replies);

  const uint32_t max_request_;
  std::vector<Item> items_;
  std::vector<char> bytes_;
  size_t used_ = 0;
  bool voided_ = false;
  Requests view_{};
};

class LoopState {
 public:
  LoopState(Engine* engine, net::EventLoop* loop);

  Context* NewContext();  // null: all are in use
  void FreeContext(Context* c);
  char* RequestOf(const Context* c) {
    return requests_.data() + static_cast<size_t>(c - contexts_.data()) * max_request_;
  }
  std::vector<Context>& contexts() { return contexts_; }
  // Starts the device on `extents` for the context; its flow, if it still has one, is told.
  void Start(Context* c, const std::vector<store::Extent>& extents, char* data);
  void Count(EngineStats::Counter counter, uint64_t n = 1) {
    auto& v = counters[counter];
    v.store(v.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }

  Engine* const engine;
  net::EventLoop* const loop;
  const uint64_t unit;  // of the device: what is read begins and ends at multiples of it
  Sorted sorted;
  std::vector<store::Extent> extents;
  char header[kMaxReplyHeader];
  char trailer[kMaxReplyTrailer];
  std::array<std::atomic<uint64_t>, EngineStats::kCounters> counters{};

 private:
  void Done(Context* c, uint64_t expected, int64_t result);

  const uint32_t max_request_;
  std::vector<Context> contexts_;
  std::vector<char> requests_;
  Context* free_ = nullptr;
};

}  // namespace pulse::offload
