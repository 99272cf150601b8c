// RecyclePool: objects whose memory is used again when nobody holds them any more. What it gave out
// may outlive it. Thread-safe; does not block.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace pulse::ops {

template <typename T>
class RecyclePool {
 public:
  // As it was left by the last holder, or new.
  std::shared_ptr<T> Get() {
    std::unique_ptr<T> object;
    {
      const std::lock_guard lock(kept_->mutex);
      if (!kept_->objects.empty()) {
        object = std::move(kept_->objects.back());
        kept_->objects.pop_back();
        ++kept_->in_use;
      }
    }
    if (object == nullptr) {
      object = std::make_unique<T>();
      const std::lock_guard lock(kept_->mutex);
      ++kept_->in_use;
    }
    return {object.release(), [kept = kept_](T* done) {
              std::unique_ptr<T> back(done);
              const std::lock_guard lock(kept->mutex);
              --kept->in_use;
              try {
                kept->objects.push_back(std::move(back));
              } catch (const std::bad_alloc&) {
                // One that is not used again.
              }
            }};
  }

  // How many are held.
  size_t in_use() const {
    const std::lock_guard lock(kept_->mutex);
    return kept_->in_use;
  }

 private:
  struct Kept {
    std::mutex mutex;
    std::vector<std::unique_ptr<T>> objects;
    size_t in_use = 0;
  };
  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
};

}  // namespace pulse::ops
