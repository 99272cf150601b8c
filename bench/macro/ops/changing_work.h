// What changes while an operation runs: engines that become slower at some chunk, and pieces of
// many sizes. No fixed split fits all of it; `auto` is to follow.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/macro/ops/work.h"
#include "services/ops/engine.h"

namespace pulse::bench {

// How many times as long a chunk takes: 1 or more. Any thread.
using Slowness = std::function<double(const ops::Chunk&)>;

// An engine that works, and whose lane then sleeps: a processor of which others take their share.
// Thread-safe as every Engine.
class SlowedEngine : public ops::Engine {
 public:
  SlowedEngine(std::unique_ptr<ops::Engine> engine, Slowness slowness)
      : Engine(engine->traits()), engine_(std::move(engine)), slowness_(std::move(slowness)) {}

  absl::Status Process(int lane, const ops::Chunk& chunk, ops::Result& result) override;
  void Begin() override;
  void Interrupt() override;

 private:
  const std::unique_ptr<ops::Engine> engine_;
  const Slowness slowness_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool interrupted_ = false;
};

// One virtual engine for the chunks of which `is_slow` says no, and one for the others. At the
// change the one still has in flight what it was given, while the other begins.
class StagedEngine : public ops::Engine {
 public:
  using IsSlow = std::function<bool(const ops::Chunk&)>;
  StagedEngine(std::unique_ptr<ops::VirtualEngine> fast, std::unique_ptr<ops::VirtualEngine> slow,
               IsSlow is_slow)
      : Engine(fast->traits()),
        fast_(std::move(fast)),
        slow_(std::move(slow)),
        is_slow_(std::move(is_slow)) {}

  absl::Status Process(int lane, const ops::Chunk& chunk, ops::Result& result) override;
  int64_t NanosBefore(uint64_t bytes) const override { return fast_->NanosBefore(bytes); }
  void Begin() override;
  void Interrupt() override;

 private:
  const std::unique_ptr<ops::VirtualEngine> fast_;
  const std::unique_ptr<ops::VirtualEngine> slow_;
  const IsSlow is_slow_;
};

// The files in slices of `least` to `most` bytes, as many of each power of two, in an order that
// the seed gives. Not for regular expressions, whose slices end with lines.
absl::StatusOr<OpsWork> MakeMixedWork(OpsKind kind, const std::vector<CorpusFile>& files,
                                      uint64_t least, uint64_t most, uint64_t seed);

}  // namespace pulse::bench
