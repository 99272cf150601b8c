// TaskSlots: how many whole compactions an embedded agent runs at a time, for all databases of a
// FileSystem together: each has a TaskRunner of its own, and they share the agent's processors.
//
// Thread-safe, never blocks. A slot is given back when its holder is destroyed, or before.
#pragma once

#include <atomic>
#include <memory>

namespace pulse::lsm {

class TaskSlots {
 public:
  class Slot {
   public:
    explicit Slot(TaskSlots* slots) : slots_(slots) {}
    ~Slot() { GiveBack(); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    void GiveBack() {
      if (!given_back_.exchange(true)) slots_->taken_.fetch_sub(1);
    }

   private:
    TaskSlots* const slots_;
    std::atomic<bool> given_back_{false};
  };

  // Null when `most` are taken. The slots outlive what they give.
  std::shared_ptr<Slot> Take(int most) {
    int taken = taken_.load();
    do {
      if (taken >= most) return nullptr;
    } while (!taken_.compare_exchange_weak(taken, taken + 1));
    return std::make_shared<Slot>(this);
  }
  int taken() const { return taken_.load(); }

 private:
  std::atomic<int> taken_{0};
};

}  // namespace pulse::lsm
