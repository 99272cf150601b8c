// AgentLanes: an agent as the threads of a batch use it, each as one lane. The engine that the
// agent has for an order is shared by all of them; what the agent cannot do, or not any more, the
// lane's own thread does in this process, and it is counted.
//
// Thread-safe. Outlives the engines that it makes. Make blocks for the agent's answer, the first
// time for each order. Sections 4.1 and 4.2 of the co-processing paper, for tasks that are too
// small to be divided.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/ops/engine_order.h"

namespace pulse::ops {

class AgentLanes {
 public:
  // Orders whose engine is kept at the agent, which has room for sixteen of a program: the others
  // are for what is not a batch.
  static constexpr size_t kMostKept = 8;

  // `host_may`: this process does what the agent does not; else that is an error.
  AgentLanes(std::shared_ptr<EngineSupplier> agent, bool host_may)
      : agent_(std::move(agent)), host_may_(host_may) {}

  int threads() const { return agent_->threads(); }

  // Chunks that the agent has done, and those of its lanes that the host did in its place.
  uint64_t done() const { return done_.load(std::memory_order_relaxed); }
  uint64_t fallen_back() const { return fallen_back_.load(std::memory_order_relaxed); }
  bool lost() const { return lost_.load(std::memory_order_relaxed); }

  // What one thread makes its engines by, which then knows who did what it was given. Outlives
  // them; `lanes` outlives it. For that thread alone.
  class OfThread : public EngineSupplier {
   public:
    explicit OfThread(AgentLanes* lanes) : lanes_(lanes) {}
    int threads() const override { return lanes_->threads(); }
    absl::StatusOr<std::unique_ptr<Engine>> Make(const EngineOrder& order, EngineTraits traits,
                                                 MakeLocal local) override {
      return lanes_->MakeLane(order, std::move(traits), std::move(local), &fallen_back_);
    }
    // Chunks that the host did in the agent's place.
    uint64_t fallen_back() const { return fallen_back_; }

   private:
    AgentLanes* const lanes_;
    uint64_t fallen_back_ = 0;
  };

 private:
  class Lane;
  using MakeLocal = EngineSupplier::MakeLocal;
  using Shared = std::shared_ptr<Engine>;

  // An engine with one lane, for one thread, which counts in `fallen_back`, too. Fails only if the
  // host may not take the agent's place.
  absl::StatusOr<std::unique_ptr<Engine>> MakeLane(const EngineOrder& order, EngineTraits traits,
                                                   MakeLocal local, uint64_t* fallen_back);

  // Null: the agent does not do this, or not now.
  absl::StatusOr<Shared> Find(const std::string& key, const EngineOrder& order,
                              const MakeLocal& local);
  void Lose(const absl::Status& why);

  const std::shared_ptr<EngineSupplier> agent_;
  const bool host_may_;
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> fallen_back_{0};
  std::atomic<bool> lost_{false};
  std::mutex mutex_;
  std::list<std::pair<std::string, Shared>> kept_;  // the last used in front
};

}  // namespace pulse::ops
