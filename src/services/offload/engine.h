// Engine: a net::Application around an offload program: splits messages, lets the program sort
// requests, reads what the agent answers straight from the store's device into the buffer that the
// socket sends from, and forwards the rest. DDS section 6.2.
//
// A read goes to the host instead when the program says so, has failed or is off; its range is
// beyond what the store has (holes and bytes past the valid length: the store learns of lengths
// only at a sync, so that what is a hole to it may be data that a host was told are written), too
// long for a buffer, or changed meanwhile (RangeGuard); the device fails; no context or buffer is
// free. So offloading never waits for room, and each loop's memory is bounded: `contexts` reads,
// and its pool of buffers.
//
// Order. With Order::kAny, each read answers when it is done. With kRequest, a connection's
// requests also take effect in order: its reads complete first to last; a request for the host that
// comes behind reads under way is held until they are done; a read behind a request that the host
// has not answered goes to the host, and so do all the reads behind one that had to.
//
// The engine outlives its director, and must be gone before the FileStore, whose hooks it takes:
// open it before the first session. Threads: as Application; stats() any.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "net/application.h"
#include "services/files/agent_store.h"
#include "services/files/hooks.h"
#include "services/offload/range_guard.h"
#include "services/offload/runtime.h"

namespace pulse::offload {

struct EngineOptions {
  const Program* program = nullptr;
  files::FileStore* store = nullptr;
  uint64_t table_items = uint64_t{1} << 20;
  uint32_t contexts = 1024;  // reads under way, of each loop
  // Data take two extra copies, as without buffers that a reply is made around; for comparisons.
  bool copying = false;
};

// What became of requests, and why the host got those that it got.
struct EngineStats {
  enum Counter {
    kOffloaded,  // answered by the agent from a file
    kBytes,      // of these
    kAnswered,   // by the predicate itself
    kToHost,     // the predicate said so, or nothing
    kNoPlace,    // `read` said so, or named bytes that cannot be
    kNotThere,   // holes, past the valid length, no such file
    kFull,       // no context or no buffer
    kChanged,    // a host was writing there
    kOrder,      // behind a request of its connection that the host has
    kRejected,   // `reply` said so
    kDevice,     // the device failed
    kOff,        // a function of the program has failed
    kCounters
  };
  std::array<uint64_t, kCounters> values{};
  uint64_t operator[](Counter c) const { return values[c]; }
  CacheTable::Counts table;
  bool off = false;
};

class LoopState;

class Engine final : public net::Application, private files::FileHooks {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Open(const EngineOptions& options);
  ~Engine() override;

  std::unique_ptr<net::Flow> NewFlow(net::Connection* connection) override;
  net::Ordering ordering() const override {
    return runtime_->program().order == Order::kAny ? net::Ordering::kAny : net::Ordering::kRequest;
  }
  EngineStats stats() const;

  const EngineOptions& options() const { return options_; }
  Runtime* runtime() { return runtime_.get(); }
  RangeGuard* guard() { return &guard_; }
  const store::Store& store() const { return options_.store->store(); }
  int device() const { return device_.get(); }

 private:
  explicit Engine(const EngineOptions& options);

  // Of hosts' reads and writes: the guard's changes, cache-on-write and invalidate-on-read. DDS
  // section 6.1.
  void WriteBegins(store::FileId file, uint64_t begin, uint64_t end) override {
    guard_.Begin(file, begin, end);
  }
  void WriteEnds(store::FileId file, uint64_t begin, uint64_t end) override {
    guard_.End(file, begin, end);
  }
  void FileChangeBegins(store::FileId file) override { guard_.BeginFile(file); }
  void FileChangeEnds(store::FileId file) override { guard_.EndFile(file); }
  void Wrote(store::FileId file, uint64_t offset, uint64_t size, const char* data) override {
    if (data != nullptr) {
      runtime_->Cache({file, offset, size, data});
    } else {
      runtime_->Invalidate({file, offset, size});
    }
  }
  void ReadTaken(store::FileId file, uint64_t offset, uint64_t size) override {
    runtime_->Invalidate({file, offset, size});
  }

  const EngineOptions options_;
  RangeGuard guard_;
  std::unique_ptr<Runtime> runtime_;
  bool watches_ = false;
  UniqueFd device_;
  mutable std::mutex mu_;
  std::vector<std::unique_ptr<LoopState>> loops_;
};

}  // namespace pulse::offload
