// Ring: a queue that grows by doubling and holds no memory until it is used, nor after Release().
// One thread's. Elements move when it grows.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace pulse::net {

// What a string has allocated.
inline size_t HeapBytes(const std::string& text) {
  return text.capacity() > std::string().capacity() ? text.capacity() + 1 : 0;
}

// Empties a string or another container and frees what it has allocated; assigning an empty one
// would keep the memory.
template <typename Container>
void FreeBytes(Container* container) {
  Container().swap(*container);
}

template <typename T>
class Ring {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  size_t memory() const { return capacity_ * sizeof(T); }

  T& operator[](size_t i) { return items_[(begin_ + i) & (capacity_ - 1)]; }
  T& front() { return (*this)[0]; }
  T& back() { return (*this)[size_ - 1]; }

  T& push_back(T value) {
    if (size_ == capacity_) Enlarge();
    T& slot = (*this)[size_++];
    slot = std::move(value);
    return slot;
  }
  void pop_front() {
    front() = T();
    begin_ = (begin_ + 1) & (capacity_ - 1);
    --size_;
  }
  void pop_back() {
    back() = T();
    --size_;
  }
  void clear() {
    while (!empty()) pop_back();
  }
  // Gives the memory back when nothing is in it.
  void Release() {
    if (!empty()) return;
    items_.reset();
    capacity_ = begin_ = 0;
  }

 private:
  void Enlarge() {
    const size_t larger = capacity_ == 0 ? 8 : capacity_ * 2;
    auto items = std::make_unique<T[]>(larger);
    for (size_t i = 0; i < size_; ++i) items[i] = std::move((*this)[i]);
    items_ = std::move(items);
    capacity_ = larger;
    begin_ = 0;
  }

  std::unique_ptr<T[]> items_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t size_ = 0;
};

}  // namespace pulse::net
