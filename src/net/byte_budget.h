// ByteBudget: how many bytes all connections of a server may hold together, and the line of those
// that wait for room.
//
// A connection that needs much room waits while there is too little. The first in line may always
// go on, beyond the limit: so one always gets done, whoever holds the rest, and at most one is
// beyond the limit at a time. For how long it is first, its connection decides.
//
// Thread-safe; nothing blocks. Under the lock, nobody is called but Remote::Post.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "net/application.h"

namespace pulse::net {

class ByteBudget {
 public:
  // A place in line.
  using Place = std::list<std::shared_ptr<Remote>>::iterator;

  // What one connection of many may have without a look at the room that there is.
  static constexpr uint64_t kMostSmall = uint64_t{16} << 10, kLeastSmall = 2048;
  static uint64_t SmallFor(uint64_t limit, uint64_t connections) {
    return std::clamp(limit / 2 / std::max<uint64_t>(connections, 1), kLeastSmall, kMostSmall);
  }

  explicit ByteBudget(uint64_t limit, uint64_t small = kMostSmall) : limit_(limit), small_(small) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  uint64_t held() const { return held_.load(); }
  // Beyond the limit each connection may still have this much of requests, and of replies, with the
  // last one of them: all of them together do not have much more than it.
  uint64_t small() const { return small_; }
  bool IsOver() const { return held() > limit_; }
  // Whether the next reply may be too large to fit, so that its size has to be known.
  bool IsTight() const { return held_.load(std::memory_order_relaxed) > limit_ / 2; }
  bool HasRoomFor(uint64_t bytes) const { return Fits(held(), bytes); }

  void Take(uint64_t bytes) { held_.fetch_add(bytes); }
  // Takes nothing where there is too little room.
  bool TryTake(uint64_t bytes) {
    uint64_t held = held_.load();
    do {
      if (!Fits(held, bytes)) return false;
    } while (!held_.compare_exchange_weak(held, held + bytes));
    return true;
  }
  // Wakes those who wait, where there is more room.
  void Give(uint64_t bytes);

  // `remote` is posted to when it is first, or there may be room; it may still be too little.
  Place Join(std::shared_ptr<Remote> remote);
  bool IsFirst(Place place);
  void Leave(Place place);
  size_t waiting() const { return waiting_.load(); }

  // Of those who wait, how many have asked for more than there was room for, which may be while all
  // hold less than the limit: one more, or one fewer.
  void CountLack(bool lacks) { lacking_.fetch_add(lacks ? 1 : -1); }
  int64_t lacking() const { return lacking_.load(); }

 private:
  bool Fits(uint64_t held, uint64_t bytes) const {
    return held <= limit_ && bytes <= limit_ - held;
  }
  void Wake(size_t count);

  const uint64_t limit_, small_;
  std::atomic<uint64_t> held_{0};
  std::atomic<size_t> waiting_{0};
  std::atomic<int64_t> lacking_{0};
  std::mutex mutex_;
  std::list<std::shared_ptr<Remote>> line_;
};

// What one holder has taken of a budget; gives it back when it goes.
class BudgetShare {
 public:
  BudgetShare() = default;
  BudgetShare(const BudgetShare&) = delete;
  BudgetShare& operator=(const BudgetShare&) = delete;
  ~BudgetShare() { Set(nullptr, 0); }
  // Instead of what it has; `budget` null: nothing.
  void Set(std::shared_ptr<ByteBudget> budget, uint64_t bytes) {
    if (budget != nullptr) budget->Take(bytes);
    if (budget_ != nullptr) budget_->Give(bytes_);
    budget_ = std::move(budget);
    bytes_ = bytes;
  }
  // Beside what it has of the same budget. False, and it has what it had: there is too little room.
  bool TryAdd(const std::shared_ptr<ByteBudget>& budget, uint64_t bytes) {
    if (!budget->TryTake(bytes)) return false;
    budget_ = budget;
    bytes_ += bytes;
    return true;
  }

 private:
  std::shared_ptr<ByteBudget> budget_;
  uint64_t bytes_ = 0;
};

}  // namespace pulse::net
