#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "channel/spsc_ring.h"
#include "channel/test_ring_model.h"

namespace pulse {
namespace {

using model::Explorer;
using model::ModelAtomic;
using model::ModelSlot;
using testing_util::TestSeed;

// --- The ring in the model: every interleaving and every value that a load may return.

// A ring with one fault, to prove that the model finds it. Fault::kNone is the real algorithm.
enum class Fault {
  kNone,
  kTailBeforeSlot,     // an entry is announced before it is written
  kHeadBeforeSlot,     // a slot is given back before it is read
  kOneTooMany,         // the producer believes in one slot more than there is
  kRelaxedTailStore,   // the entry may become visible after its announcement
  kRelaxedTailLoad,    // the entry may be read before its announcement
  kRelaxedHeadStore,   // the slot may be given back before it was read
  kRelaxedHeadLoad,    // the slot may be overwritten before it was given back
  kForgetsToAnnounce,  // the last entry of a lap is not announced
};

template <Fault kFault>
struct Faulty {
  static constexpr auto kRelease = std::memory_order_release;
  static constexpr auto kAcquire = std::memory_order_acquire;
  static constexpr auto kRelaxed = std::memory_order_relaxed;

  template <typename T, template <typename> class Atomic>
  class Producer {
   public:
    Producer(T* slots, uint32_t capacity, Atomic<uint64_t>* head, Atomic<uint64_t>* tail)
        : slots_(slots), mask_(capacity - 1), head_(head), tail_(tail) {}
    bool TryPush(const T& value) {
      const uint64_t room = mask_ + (kFault == Fault::kOneTooMany ? 1 : 0);
      if (next_ - seen_head_ > room) {
        seen_head_ = head_->load(kFault == Fault::kRelaxedHeadLoad ? kRelaxed : kAcquire);
        if (next_ - seen_head_ > room) return false;
      }
      const auto order = kFault == Fault::kRelaxedTailStore ? kRelaxed : kRelease;
      if (kFault == Fault::kTailBeforeSlot) tail_->store(next_ + 1, order);
      slots_[next_ & mask_] = value;
      ++next_;
      if (kFault == Fault::kTailBeforeSlot) return true;
      if (kFault == Fault::kForgetsToAnnounce && next_ % (mask_ + 1) == 0) return true;
      tail_->store(next_, order);
      return true;
    }

   private:
    T* slots_;
    uint64_t mask_;
    Atomic<uint64_t>* head_;
    Atomic<uint64_t>* tail_;
    uint64_t next_ = 0;
    uint64_t seen_head_ = 0;
  };

  template <typename T, template <typename> class Atomic>
  class Consumer {
   public:
    Consumer(const T* slots, uint32_t capacity, Atomic<uint64_t>* head, Atomic<uint64_t>* tail)
        : slots_(slots), mask_(capacity - 1), head_(head), tail_(tail) {}
    bool TryPop(T* out) {
      if (next_ == seen_tail_) {
        seen_tail_ = tail_->load(kFault == Fault::kRelaxedTailLoad ? kRelaxed : kAcquire);
        if (next_ == seen_tail_) return false;
      }
      const auto order = kFault == Fault::kRelaxedHeadStore ? kRelaxed : kRelease;
      if (kFault == Fault::kHeadBeforeSlot) head_->store(next_ + 1, order);
      *out = slots_[next_ & mask_];
      ++next_;
      if (kFault != Fault::kHeadBeforeSlot) head_->store(next_, order);
      return true;
    }
    bool Empty() const { return next_ == seen_tail_ && tail_->load(kAcquire) == next_; }
    bool corrupt() const { return false; }

   private:
    const T* slots_;
    uint64_t mask_;
    Atomic<uint64_t>* head_;
    Atomic<uint64_t>* tail_;
    uint64_t next_ = 0;
    uint64_t seen_tail_ = 0;
  };
};

struct Run {
  uint32_t capacity = 2;
  uint64_t items = 3;
  bool look_first = false;  // the consumer asks Empty() before it pops
  Explorer::Options options = {};
};

// One ring in the model, and what its two threads do.
template <typename Producer, typename Consumer>
class RingModel {
 public:
  explicit RingModel(const Run& run)
      : run_(run), slots_(run.capacity), cells_(run.capacity), explorer_(run.options) {}

  bool Explore(uint64_t limit = 20'000'000) {
    return explorer_.Explore([this] { Reset(); }, Bodies(), limit);
  }
  void Sample(uint64_t executions, uint64_t seed) {
    explorer_.Sample([this] { Reset(); }, Bodies(), executions, seed);
  }
  const std::string& failure() const { return explorer_.failure(); }
  uint64_t executions() const { return explorer_.executions(); }

 private:
  std::vector<Explorer::Body> Bodies() {
    return {[this] { Produce(); }, [this] { Consume(); }};
  }

  void Reset() {
    head_.Reset(0);
    tail_.Reset(0);
    for (size_t i = 0; i < slots_.size(); ++i) slots_[i].Share(&cells_[i]);
  }

  void Produce() {
    Producer ring(slots_.data(), run_.capacity, &head_, &tail_);
    for (uint64_t i = 1; i <= run_.items; ++i) {
      const ModelSlot value(i);
      while (true) {
        explorer_.BeginAttempt();
        if (ring.TryPush(value)) break;
        explorer_.WaitForOther();
      }
    }
  }

  void Consume() {
    Consumer ring(slots_.data(), run_.capacity, &head_, &tail_);
    for (uint64_t i = 1; i <= run_.items; ++i) {
      ModelSlot out;
      while (true) {
        explorer_.BeginAttempt();
        const bool empty = run_.look_first && ring.Empty();
        if (!empty) {
          if (ring.TryPop(&out)) break;
          if (ring.corrupt()) explorer_.Fail("an honest producer looks corrupt");
          if (run_.look_first) explorer_.Fail("Empty() said no, and there was nothing");
        }
        explorer_.WaitForOther();
      }
      if (out.torn()) explorer_.Fail("torn entry");
      if (out.value() != i) explorer_.Fail("another entry than was due", out.value());
    }
    ModelSlot out;
    if (ring.TryPop(&out)) explorer_.Fail("an entry that nobody pushed");
  }

  const Run run_;
  std::vector<ModelSlot> slots_;
  std::vector<ModelSlot::Cell> cells_;
  ModelAtomic<uint64_t> head_;
  ModelAtomic<uint64_t> tail_;
  Explorer explorer_;
};

using RealModel =
    RingModel<RingProducer<ModelSlot, ModelAtomic>, RingConsumer<ModelSlot, ModelAtomic>>;
template <Fault kFault>
using FaultyModel = RingModel<typename Faulty<kFault>::template Producer<ModelSlot, ModelAtomic>,
                              typename Faulty<kFault>::template Consumer<ModelSlot, ModelAtomic>>;

template <typename Model>
void ExpectAllRight(const Run& run) {
  Model m(run);
  const bool all = m.Explore();
  EXPECT_EQ(m.failure(), "");
  EXPECT_TRUE(all) << "not every execution was run: " << m.executions();
  printf("capacity %u, %llu entries: %llu executions\n", run.capacity,
         static_cast<unsigned long long>(run.items),
         static_cast<unsigned long long>(m.executions()));
}

TEST(RingModelTest, EveryExecution_SmallRing_DeliversAllInOrder) {
  ExpectAllRight<RealModel>({.capacity = 2, .items = 3, .options = {.stale_loads = 3}});
}

TEST(RingModelTest, EveryExecution_RingOfOneSlot_DeliversAllInOrder) {
  ExpectAllRight<RealModel>({.capacity = 1, .items = 3, .options = {.stale_loads = 3}});
}

TEST(RingModelTest, EveryInterleaving_OfTheCopies_DeliversAllInOrder) {
  ExpectAllRight<RealModel>(
      {.capacity = 1, .items = 2, .options = {.clocks = false, .stale_loads = 0}});
  ExpectAllRight<RealModel>(
      {.capacity = 2, .items = 3, .options = {.clocks = false, .stale_loads = 0}});
}

TEST(RingModelTest, Empty_EveryExecution_NeverHidesNorPromisesAnEntry) {
  ExpectAllRight<RealModel>(
      {.capacity = 2, .items = 3, .look_first = true, .options = {.stale_loads = 2}});
}

TEST(RingModelTest, RandomExecutions_LargerRings_DeliverAllInOrder) {
  const uint64_t seed = TestSeed();
  for (uint32_t capacity : {1u, 2u, 4u, 8u, 64u}) {
    RealModel m({.capacity = capacity, .items = 200, .options = {.stale_loads = 1'000'000}});
    m.Sample(50, seed + capacity);
    EXPECT_EQ(m.failure(), "") << "capacity " << capacity << ", seed " << seed;
    EXPECT_EQ(m.executions(), 50u);
  }
}

// The model must tell a broken ring from a right one, or the tests above prove nothing.
template <Fault kFault>
std::string FailureOf(bool clocks) {
  FaultyModel<kFault> m(
      {.capacity = 2, .items = 4, .options = {.clocks = clocks, .stale_loads = 1}});
  m.Explore();
  return m.failure();
}

TEST(RingModelTest, Model_FaultyRingWithoutClocks_FindsItByValues) {
  EXPECT_NE(FailureOf<Fault::kTailBeforeSlot>(false), "");
  EXPECT_NE(FailureOf<Fault::kHeadBeforeSlot>(false), "");
  EXPECT_NE(FailureOf<Fault::kOneTooMany>(false), "");
  EXPECT_NE(FailureOf<Fault::kForgetsToAnnounce>(false), "");
}

TEST(RingModelTest, Model_MissingBarrier_FindsDataRace) {
  for (const std::string& failure :
       {FailureOf<Fault::kTailBeforeSlot>(true), FailureOf<Fault::kHeadBeforeSlot>(true),
        FailureOf<Fault::kRelaxedTailStore>(true), FailureOf<Fault::kRelaxedTailLoad>(true),
        FailureOf<Fault::kRelaxedHeadStore>(true), FailureOf<Fault::kRelaxedHeadLoad>(true)}) {
    EXPECT_NE(failure.find("data race"), std::string::npos) << "found: \"" << failure << '"';
  }
}

TEST(RingModelTest, Model_FaultyRingSampled_FindsTheFault) {
  const uint64_t seed = TestSeed();
  FaultyModel<Fault::kTailBeforeSlot> early({.capacity = 8, .items = 100});
  early.Sample(50, seed);
  EXPECT_NE(early.failure(), "") << "seed " << seed;
  FaultyModel<Fault::kRelaxedHeadLoad> relaxed({.capacity = 8, .items = 100});
  relaxed.Sample(50, seed);
  EXPECT_NE(relaxed.failure(), "") << "seed " << seed;
}

TEST(RingModelTest, Model_CorrectRing_FindsNothing) {
  ExpectAllRight<FaultyModel<Fault::kNone>>({.capacity = 2, .items = 3});
}

// --- The ring on the machine itself.

// Opens the cursors of both ends, to start them where no test could push them to.
template <typename Tag, typename Tag::Type kMember>
struct Open {
  friend typename Tag::Type MemberOf(Tag) { return kMember; }
};
using Producer = RingProducer<uint64_t>;
using Consumer = RingConsumer<uint64_t>;
#define PULSE_OPEN(Class, member)           \
  struct Class##_##member {                 \
    using Type = uint64_t Class::*;         \
    friend Type MemberOf(Class##_##member); \
  };                                        \
  template struct Open<Class##_##member, &Class::member>
PULSE_OPEN(Producer, next_);
PULSE_OPEN(Producer, seen_head_);
PULSE_OPEN(Consumer, next_);
PULSE_OPEN(Consumer, seen_tail_);
#undef PULSE_OPEN

// Slots with a guard on either side.
class RingTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kCapacity = 8;
  static constexpr uint64_t kGuard = 0x5afe5afe5afe5afe;

  RingTest() { memory_.fill(kGuard); }
  ~RingTest() override {
    for (size_t i = 0; i < kCapacity; ++i) {
      EXPECT_EQ(memory_[i], kGuard) << "written before the slots";
      EXPECT_EQ(memory_[2 * kCapacity + i], kGuard) << "written behind the slots";
    }
  }
  void StartAt(uint64_t cursor) {
    head_ = tail_ = cursor;
    producer_.*MemberOf(Producer_next_{}) = cursor;
    producer_.*MemberOf(Producer_seen_head_{}) = cursor;
    consumer_.*MemberOf(Consumer_next_{}) = cursor;
    consumer_.*MemberOf(Consumer_seen_tail_{}) = cursor;
  }
  void Fill() {
    while (producer_.TryPush(producer_.pushed())) {
    }
  }

  std::array<uint64_t, 3 * kCapacity> memory_;
  std::atomic<uint64_t> head_{0};
  std::atomic<uint64_t> tail_{0};
  Producer producer_{memory_.data() + kCapacity, kCapacity, &head_, &tail_};
  Consumer consumer_{memory_.data() + kCapacity, kCapacity, &head_, &tail_};
};

TEST_F(RingTest, Ring_FilledAndEmptied_TakesItsCapacityInOrder) {
  uint64_t v = 0;
  EXPECT_TRUE(consumer_.Empty());
  EXPECT_FALSE(consumer_.TryPop(&v));
  for (uint64_t i = 0; i < kCapacity; ++i) EXPECT_TRUE(producer_.TryPush(i)) << i;
  EXPECT_FALSE(producer_.TryPush(99));
  EXPECT_EQ(producer_.pushed(), kCapacity);
  EXPECT_FALSE(consumer_.Empty());
  for (uint64_t i = 0; i < kCapacity; ++i) {
    ASSERT_TRUE(consumer_.TryPop(&v)) << i;
    EXPECT_EQ(v, i);
  }
  EXPECT_FALSE(consumer_.TryPop(&v));
  EXPECT_TRUE(consumer_.Empty());
  EXPECT_FALSE(consumer_.corrupt());
}

TEST_F(RingTest, Ring_ManyLaps_KeepsTheOrder) {
  uint64_t next_in = 0, next_out = 0, v = 0;
  for (int lap = 0; lap < 1000; ++lap) {
    for (int i = 0; i < lap % 9; ++i) next_in += producer_.TryPush(next_in);
    for (int i = 0; i < (lap * 7) % 10; ++i) {
      if (!consumer_.TryPop(&v)) break;
      ASSERT_EQ(v, next_out++);
    }
  }
  EXPECT_GT(next_out, 1000u);
}

TEST_F(RingTest, Ring_CursorsWrapAround_KeepsTheOrder) {
  StartAt(~uint64_t{0} - 11);
  uint64_t v = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    for (uint64_t k = 0; k < kCapacity; ++k) ASSERT_TRUE(producer_.TryPush(i * 100 + k)) << i;
    ASSERT_FALSE(producer_.TryPush(0));
    for (uint64_t k = 0; k < kCapacity; ++k) {
      ASSERT_TRUE(consumer_.TryPop(&v)) << i;
      ASSERT_EQ(v, i * 100 + k);
    }
    ASSERT_FALSE(consumer_.TryPop(&v));
    ASSERT_FALSE(consumer_.corrupt());
  }
  EXPECT_LT(producer_.pushed(), 1000u) << "the cursor did not wrap";
}

TEST_F(RingTest, Push_DishonestHead_StaysFull) {
  Fill();
  const uint64_t full = producer_.pushed();
  // In the future; behind where it was; far away.
  for (uint64_t head : {full + 1, full + 1000, ~uint64_t{0}, uint64_t{1} << 63}) {
    head_ = head;
    EXPECT_FALSE(producer_.TryPush(1)) << head;
  }
  head_ = 5;
  EXPECT_TRUE(producer_.TryPush(1)) << "an honest head is believed again";
  Fill();
  head_ = 4;
  EXPECT_FALSE(producer_.TryPush(1)) << "a head that went back";
}

TEST_F(RingTest, Pop_ImpossibleTail_IsCorrupt) {
  for (uint64_t tail : {uint64_t{kCapacity} + 1, uint64_t{1} << 40, ~uint64_t{0}}) {
    Consumer c(memory_.data() + kCapacity, kCapacity, &head_, &tail_);
    tail_ = tail;
    uint64_t v = 77;
    EXPECT_FALSE(c.Empty()) << "whoever looks must be led to TryPop";
    EXPECT_FALSE(c.TryPop(&v)) << tail;
    EXPECT_TRUE(c.corrupt()) << tail;
    EXPECT_EQ(v, 77u);
  }
  tail_ = kCapacity;  // the most that an honest producer announces
  uint64_t v;
  EXPECT_TRUE(consumer_.TryPop(&v));
  EXPECT_FALSE(consumer_.corrupt());
}

TEST_F(RingTest, Pop_TailGoesBack_IsCorrupt) {
  uint64_t v;
  ASSERT_TRUE(producer_.TryPush(1));
  ASSERT_TRUE(consumer_.TryPop(&v));
  tail_ = 0;
  EXPECT_FALSE(consumer_.TryPop(&v));
  EXPECT_TRUE(consumer_.corrupt());
}

TEST_F(RingTest, PushAndPop_RandomPeer_StayInBounds) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t near = producer_.pushed() + random() % 32 - 16;
    head_ = random() % 4 == 0 ? random() : near;
    producer_.TryPush(i);
    tail_ = random() % 4 == 0 ? random() : near;
    uint64_t v = 0;
    if (consumer_.TryPop(&v)) {
      ASSERT_TRUE(v == kGuard || v < 100'000) << v;
    }
  }
}

TEST(RingThreadsTest, TwoThreads_AMillionEntries_ArriveInOrder) {
  struct Entry {
    uint64_t a, b, c;
  };
  constexpr uint64_t kEntries = 1'000'000;
  auto slots = std::make_unique<std::array<Entry, 64>>();
  alignas(64) std::atomic<uint64_t> head{0};
  alignas(64) std::atomic<uint64_t> tail{0};
  std::thread producer([&] {
    RingProducer<Entry> ring(slots->data(), 64, &head, &tail);
    for (uint64_t i = 0; i < kEntries; ++i) {
      while (!ring.TryPush({i, ~i, i * 3})) std::this_thread::yield();
    }
  });
  RingConsumer<Entry> ring(slots->data(), 64, &head, &tail);
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < kEntries; ++i) {
    Entry e{};
    while (!ring.TryPop(&e) && !ring.corrupt()) std::this_thread::yield();
    wrong += e.a != i || e.b != ~i || e.c != i * 3;
  }
  producer.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_TRUE(ring.Empty());
  EXPECT_FALSE(ring.corrupt());
}

}  // namespace
}  // namespace pulse
