// What the tests of the message rings share: rings in the model of test_ring_model.h, movers for
// it, and rings on real memory. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "base/testing.h"
#include "channel/message_ring.h"
#include "channel/region.h"
#include "channel/test_ring_model.h"
#include "mover/mover.h"

namespace pulse::testing_util {

// The model runs in one thread, so the thread sanitizer has nothing to find there, and takes
// minutes over it: it gets a short search. Nor does it see that the kernel's copy of a pointer
// orders what two threads wrote before and after it: tests of threads on `vmread` are not for it.
// (kThreadSanitizer of base/testing.h.)

// Memory orders that are weakened on purpose, to prove that the model misses them.
enum class Weak { kNothing, kAcquireLoads, kReleaseStores, kReleaseAdds };

template <typename T, Weak kWeak>
class MaybeWeakAtomic : public model::ModelAtomic<T> {
 public:
  using model::ModelAtomic<T>::ModelAtomic;
  T load(std::memory_order order) const {
    return model::ModelAtomic<T>::load(kWeak == Weak::kAcquireLoads ? kRelaxed : order);
  }
  void store(T value, std::memory_order order) {
    model::ModelAtomic<T>::store(value, kWeak == Weak::kReleaseStores ? kRelaxed : order);
  }
  T fetch_add(T by, std::memory_order order) {
    return model::ModelAtomic<T>::fetch_add(by, kWeak == Weak::kReleaseAdds ? kRelaxed : order);
  }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;
};

template <Weak kWeak>
struct ModelMemory {
  template <typename T>
  using Atomic = MaybeWeakAtomic<T, kWeak>;
  static void Copy(void* to, const void* from, size_t n) { model::ModelBytes::Copy(to, from, n); }
};

// For the sides of a ring whose calls the model does not interleave.
struct NoMutex {
  void lock() {}
  void unlock() {}
};

// A region of the model: pointers, and messages that are watched for races.
template <typename Memory>
struct ModelRegion {
  explicit ModelRegion(uint64_t capacity) : messages(capacity / 8) {}
  void Reset() {
    for (auto* word : {&pointers.progress, &pointers.tail, &pointers.head}) word->Reset(0);
    std::fill(messages.begin(), messages.end(), 0);
  }
  char* bytes() { return reinterpret_cast<char*>(messages.data()); }

  RingPointers<Memory> pointers;
  std::vector<uint64_t> messages;
};

// The mover `shared`: local memory is the host's.
template <typename Memory>
class ModelSharedMover {
 public:
  ModelSharedMover(ModelRegion<Memory>* host, ModelRegion<Memory>*) : local_(*host) {}
  MoverKind kind() const { return MoverKind::kShared; }
  absl::Status PullSpans(const MoverSpan*, size_t) { return absl::OkStatus(); }
  absl::Status PushSpans(const MoverSpan*, size_t) { return absl::OkStatus(); }
  ModelRegion<Memory>& local() { return local_; }

 private:
  ModelRegion<Memory>& local_;
};

// The mover `vmread`: copies between the host's memory and its own, in the order of the spans. With
// kBackwards it breaks that promise.
template <typename Memory, bool kBackwards = false>
class ModelCopyMover {
 public:
  ModelCopyMover(ModelRegion<Memory>* host, ModelRegion<Memory>* mirror)
      : host_(*host), local_(*mirror) {
    auto& p = local_.pointers;
    for (auto* word : {&p.progress, &p.tail, &p.head}) word->MakePrivate();
  }
  MoverKind kind() const { return MoverKind::kVmRead; }
  ModelRegion<Memory>& local() { return local_; }

  absl::Status PullSpans(const MoverSpan* spans, size_t n) {
    for (size_t i = 0; i < n; ++i) {
      const MoverSpan& s = spans[i];
      if (s.length == 0) continue;
      if (s.offset >= wire::kPage) {
        const uint64_t at = s.offset - wire::kPage;
        model::Explorer::Get().Step();
        model::ModelBytes::CopyUnwatched(local_.bytes() + at, host_.bytes() + at, s.length);
        continue;
      }
      auto covers = [&](uint64_t offset) {
        return s.offset <= offset && offset + 8 <= s.offset + s.length;
      };
      if (kBackwards && covers(kTailOffset)) Pull(host_.pointers.tail, local_.pointers.tail);
      if (covers(kProgressOffset)) Pull(host_.pointers.progress, local_.pointers.progress);
      if (!kBackwards && covers(kTailOffset)) Pull(host_.pointers.tail, local_.pointers.tail);
      if (covers(kHeadOffset)) Pull(host_.pointers.head, local_.pointers.head);
    }
    return absl::OkStatus();
  }
  absl::Status PushSpans(const MoverSpan* spans, size_t n) {
    for (size_t k = 0; k < n; ++k) {
      const MoverSpan& s = spans[kBackwards ? n - 1 - k : k];
      if (s.length == 0) continue;
      if (s.offset == kHeadOffset) Push(local_.pointers.head, host_.pointers.head);
      if (s.offset == kTailOffset) Push(local_.pointers.tail, host_.pointers.tail);
      if (s.offset < wire::kPage) continue;
      const uint64_t at = s.offset - wire::kPage;
      model::Explorer::Get().Step();
      // Watched: the host must not be reading what is overwritten.
      model::ModelBytes::Copy(host_.bytes() + at, local_.bytes() + at, s.length);
    }
    return absl::OkStatus();
  }

 private:
  template <typename Word>
  static void Pull(const Word& from, Word& to) {
    to.Reset(from.load(std::memory_order_acquire));
  }
  template <typename Word>
  static void Push(const Word& from, Word& to) {
    to.store(from.load(std::memory_order_relaxed), std::memory_order_release);
  }
  ModelRegion<Memory>& host_;
  ModelRegion<Memory>& local_;
};

// A mover to memory of this process; an error where it may not read itself (kVmRead).
inline absl::StatusOr<std::unique_ptr<Mover>> MoverTo(MoverKind kind, char* at, size_t bytes) {
  if (kind == MoverKind::kShared) return Mover::CreateShared(at, bytes);
  return Mover::CreateVmRead(getpid(), reinterpret_cast<uintptr_t>(at), bytes);
}

// Runs every execution of a model (or all with few preemptions): none fails.
template <typename Model>
void ExpectAllExecutions(Model* m) {
  const bool all = m->Explore();
  EXPECT_EQ(m->failure(), "");
  EXPECT_TRUE(all) << "not every execution was run: " << m->executions();
}

// A region on real memory and a mover to it, in one process.
struct RealRing {
  RealRing(MoverKind kind, uint64_t capacity)
      : region(Region::CreatePrivate(wire::kPage + capacity).value()) {
    auto made = MoverTo(kind, region.data(), wire::kPage + capacity);
    if (made.ok()) mover = *std::move(made);
    status = made.status();
  }

  Region region;
  std::unique_ptr<Mover> mover;
  absl::Status status = absl::OkStatus();
};

}  // namespace pulse::testing_util
