// PointerTable: a hash table of pointers to things that know their own hash, open-addressed,
// without tombstones. Pool: where such things live, without an allocation each. A store has
// millions of both.
//
// Not thread-safe; never blocks. Pool destroys what is left in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace pulse::store {

// T has `uint64_t hash() const`, well mixed.
template <typename T>
class PointerTable {
 public:
  size_t size() const { return size_; }

  template <typename Matches>
  T* Find(uint64_t hash, Matches matches) const {
    if (slots_.empty()) return nullptr;
    for (size_t i = hash & mask();; i = (i + 1) & mask()) {
      if (slots_[i].item == nullptr) return nullptr;
      if (slots_[i].hash == hash && matches(*slots_[i].item)) return slots_[i].item;
    }
  }

  void Insert(T* item) {
    if ((size_ + 1) * 4 > slots_.size() * 3) Rehash(slots_.empty() ? 8 : slots_.size() * 2);
    ++size_;
    Place({item->hash(), item});
  }

  // `item` is in the table.
  void Erase(const T* item) {
    size_t hole = item->hash() & mask();
    while (slots_[hole].item != item) hole = (hole + 1) & mask();
    --size_;
    for (size_t i = (hole + 1) & mask(); slots_[i].item != nullptr; i = (i + 1) & mask()) {
      // What may not stand before its place stays; all else moves into the hole.
      const size_t home = slots_[i].hash & mask();
      if (((i - home) & mask()) < ((i - hole) & mask())) continue;
      slots_[hole] = slots_[i];
      hole = i;
    }
    slots_[hole] = {};
  }

  void Reserve(size_t n) {
    size_t slots = 8;
    while (slots * 3 < n * 4) slots *= 2;
    if (slots > slots_.size()) Rehash(slots);
  }

  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const Slot& slot : slots_) {
      if (slot.item != nullptr) visit(*slot.item);
    }
  }

 private:
  // The hash stands here, too, since the item itself is a cache miss away.
  struct Slot {
    uint64_t hash = 0;
    T* item = nullptr;
  };

  size_t mask() const { return slots_.size() - 1; }
  void Place(const Slot& slot) {
    size_t i = slot.hash & mask();
    while (slots_[i].item != nullptr) i = (i + 1) & mask();
    slots_[i] = slot;
  }
  void Rehash(size_t slots) {
    std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
    for (const Slot& slot : old) {
      if (slot.item != nullptr) Place(slot);
    }
  }

  std::vector<Slot> slots_;  // a power of two, or none
  size_t size_ = 0;
};

template <typename T>
class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    for (auto& chunk : chunks_) {
      for (size_t i = 0; i < kChunk; ++i) {
        if (chunk[i].used) chunk[i].item().~T();
      }
    }
  }

  T* New() {
    if (free_ == nullptr) Grow();
    Cell* cell = std::exchange(free_, free_->next);
    cell->used = true;
    return new (cell->bytes) T();
  }
  void Delete(T* item) {
    Cell* cell = reinterpret_cast<Cell*>(item);
    item->~T();
    cell->used = false;
    cell->next = free_;
    free_ = cell;
  }

 private:
  static constexpr size_t kChunk = 512;
  struct Cell {
    alignas(T) unsigned char bytes[sizeof(T)];
    Cell* next = nullptr;
    bool used = false;
    T& item() { return *std::launder(reinterpret_cast<T*>(bytes)); }
  };

  void Grow() {
    chunks_.emplace_back(new Cell[kChunk]);
    for (size_t i = kChunk; i-- > 0;) {
      chunks_.back()[i].next = free_;
      free_ = &chunks_.back()[i];
    }
  }

  std::vector<std::unique_ptr<Cell[]>> chunks_;
  Cell* free_ = nullptr;
};

}  // namespace pulse::store
