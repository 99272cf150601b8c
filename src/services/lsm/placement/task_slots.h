// TaskSlots: limits how many whole compactions run at a time: those of a TaskRunner; or, of an
// embedded agent, those of all databases of a FileSystem together.
//
// Thread-safe, never blocks. A slot is given back when its holder is destroyed, or before.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>

namespace pulse::lsm {

class TaskSlots {
 public:
  class Slot {
   public:
    Slot(TaskSlots* slots, bool urgent) : slots_(slots), urgent_(urgent) {}
    ~Slot() { GiveBack(); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    void GiveBack() {
      if (given_back_.exchange(true)) return;
      if (!urgent_) slots_->deeper_.fetch_sub(1);
      slots_->taken_.fetch_sub(1);
    }

   private:
    TaskSlots* const slots_;
    const bool urgent_;
    std::atomic<bool> given_back_{false};
  };

  // Null when `most` are taken; of several, the last is kept for an urgent compaction. Slots must
  // not outlive this object.
  std::shared_ptr<Slot> Take(int most, bool urgent = true) {
    const int least = most > 0 ? 1 : 0;
    if (!urgent && !TakeOne(&deeper_, std::max(least, most - 1))) return nullptr;
    if (TakeOne(&taken_, most)) return std::make_shared<Slot>(this, urgent);
    if (!urgent) deeper_.fetch_sub(1);
    return nullptr;
  }
  int taken() const { return taken_.load(); }

 private:
  static bool TakeOne(std::atomic<int>* count, int most) {
    int taken = count->load();
    do {
      if (taken >= most) return false;
    } while (!count->compare_exchange_weak(taken, taken + 1));
    return true;
  }

  std::atomic<int> taken_{0};
  std::atomic<int> deeper_{0};  // of these: not urgent
};

}  // namespace pulse::lsm
