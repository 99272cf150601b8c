#include "channel/progress_ring.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "channel/ring_test_util.h"

namespace pulse {
namespace {

using model::Explorer;
using model::ModelBytes;
using testing_util::ModelCopyMover;
using testing_util::ModelMemory;
using testing_util::ModelRegion;
using testing_util::ModelSharedMover;
using testing_util::RealRing;
using testing_util::TestSeed;
using testing_util::Weak;

// --- In the model: producers and the consumer in every execution.

struct Case {
  RingShape shape = {.capacity = 64, .limit = 32};  // two messages of one word
  int producers = 2;
  uint64_t messages = 2;  // of each producer
  bool longer = false;    // every other message has two words
  uint64_t hold = 0;      // messages that the consumer holds back before it releases them
  Explorer::Options options = {};
};

template <typename MoverT, typename Memory>
class ProgressModel {
 public:
  explicit ProgressModel(const Case& run)
      : run_(run), host_(run.shape.capacity), mirror_(run.shape.capacity), explorer_(run.options) {}

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
    std::vector<Explorer::Body> bodies{[this] { Consume(); }};
    for (int p = 0; p < run_.producers; ++p) bodies.push_back([this, p] { Produce(p); });
    return bodies;
  }

  void Reset() {
    host_.Reset();
    mirror_.Reset();
    ModelBytes::Share(host_.bytes(), run_.shape.capacity);
  }

  void Produce(int self) {
    ProgressProducer<Memory> ring(&host_.pointers, host_.bytes(), run_.shape);
    for (uint64_t i = 0; i < run_.messages; ++i) {
      const uint64_t word = Word(self, i);
      const uint64_t second = ~word;
      const Piece body = Longer(i) ? Piece{&second, sizeof(second)} : Piece{};
      while (true) {
        explorer_.BeginAttempt();
        const PushResult result = ring.TryPush(7, {&word, sizeof(word)}, body);
        if (result == PushResult::kDone) break;
        if (result == PushResult::kRefused) explorer_.Fail("refused");
        explorer_.WaitForOther();
      }
    }
  }

  void Consume() {
    MoverT mover(&host_, &mirror_);
    BatchConsumer<true, Memory, MoverT> ring(&mover, &mover.local().pointers, mover.local().bytes(),
                                             run_.shape);
    std::array<uint64_t, 3> next{};
    std::array<uint64_t, 64> held;  // ends; a ring of its own
    uint64_t taken = 0, released = 0;
    const uint64_t all = static_cast<uint64_t>(run_.producers) * run_.messages;
    while (taken < all) {
      explorer_.BeginAttempt();
      const auto some = ring.Fetch();
      if (!some.ok()) explorer_.Fail("honest producers look corrupt");
      uint64_t batch = 0;
      for (RingMessage m; ring.Next(&m);) {
        Check(m, &next);
        held[taken++ % held.size()] = m.end;
        batch += MessageSpan(m.length);
      }
      if (ring.corrupt()) explorer_.Fail("honest producers look corrupt");
      if (batch > run_.shape.limit) explorer_.Fail("a batch above the limit", batch);
      if (*some) {
        while (taken - released > run_.hold || (released < taken && taken == all)) {
          ring.Release(held[released++ % held.size()]);
        }
        continue;
      }
      // What is held back is what nobody brings but us.
      if (released < taken) {
        ring.Release(held[released++ % held.size()]);
        continue;
      }
      explorer_.WaitForOther();
    }
    if (ring.Fetch().value()) explorer_.Fail("a message that nobody pushed");
  }

  void Check(const RingMessage& m, std::array<uint64_t, 3>* next) {
    uint64_t words[2] = {};
    if (m.kind != 7 || m.length < 8 || m.length > 16) explorer_.Fail("kind or length");
    ModelBytes::Copy(words, m.data, m.length);
    const uint64_t self = words[0] >> 32;
    if (self >= next->size()) explorer_.Fail("a message from nobody", words[0]);
    const uint64_t i = (*next)[self]++;
    if (words[0] != Word(static_cast<int>(self), i)) {
      explorer_.Fail("another message than was due from this producer", words[0]);
    }
    if (m.length != (Longer(i) ? 16u : 8u)) explorer_.Fail("length");
    if (Longer(i) && words[1] != ~words[0]) explorer_.Fail("half a message");
  }

  bool Longer(uint64_t i) const { return run_.longer && i % 2 == 1; }
  static uint64_t Word(int self, uint64_t i) { return static_cast<uint64_t>(self) << 32 | (i + 1); }

  const Case run_;
  ModelRegion<Memory> host_;
  ModelRegion<Memory> mirror_;
  Explorer explorer_;
};

template <Weak kWeak = Weak::kNothing>
using SharedModel = ProgressModel<ModelSharedMover<ModelMemory<kWeak>>, ModelMemory<kWeak>>;
template <bool kBackwards = false, Weak kWeak = Weak::kNothing>
using CopyModel = ProgressModel<ModelCopyMover<ModelMemory<kWeak>, kBackwards>, ModelMemory<kWeak>>;

template <typename Model>
void ExpectAllRight(Case run) {
  if (testing_util::kThreadSanitizer) run.options.preemptions = 1;
  Model m(run);
  testing_util::ExpectAllExecutions(&m);
  printf("%d producers, %llu messages each: %llu executions\n", run.producers,
         static_cast<unsigned long long>(run.messages),
         static_cast<unsigned long long>(m.executions()));
}

TEST(ProgressModelTest, EveryExecution_OneProducer_DeliversAllInOrder) {
  ExpectAllRight<SharedModel<>>({.producers = 1, .messages = 2, .options = {.stale_loads = 1}});
  ExpectAllRight<CopyModel<>>({.producers = 1, .messages = 2, .options = {.stale_loads = 0}});
}

// A mover's copy of what is in the middle of being written is no race, but must not be used: here
// each write is a scheduling point too.
TEST(ProgressModelTest, EveryInterleaving_OfTheCopies_DeliversAllInOrder) {
  ExpectAllRight<CopyModel<>>(
      {.messages = 1, .options = {.clocks = false, .stale_loads = 0, .preemptions = 4}});
  ExpectAllRight<CopyModel<>>({.shape = {.capacity = 64, .limit = 48},
                               .messages = 2,
                               .longer = true,
                               .options = {.clocks = false, .stale_loads = 0, .preemptions = 2}});
}

// Larger cases, with as many preemptions as the search can afford.
TEST(ProgressModelTest, FewPreemptions_OneProducerFillsRing_DeliverAllInOrder) {
  const Case run{.producers = 1, .messages = 3, .options = {.stale_loads = 1, .preemptions = 4}};
  ExpectAllRight<SharedModel<>>(run);
  ExpectAllRight<CopyModel<>>(run);
}

TEST(ProgressModelTest, FewPreemptions_TwoProducers_DeliverAllInOrder) {
  const Case run{.messages = 1, .options = {.stale_loads = 1, .preemptions = 4}};
  ExpectAllRight<SharedModel<>>(run);
  ExpectAllRight<CopyModel<>>(run);
}

TEST(ProgressModelTest, FewPreemptions_TwoProducersFillRing_DeliverAllInOrder) {
  const Case run{.messages = 3, .options = {.stale_loads = 0, .preemptions = 2}};
  ExpectAllRight<SharedModel<>>(run);
  ExpectAllRight<CopyModel<>>(run);
}

TEST(ProgressModelTest, FewPreemptions_ThreeProducersRoomForTwo_DeliverAllInOrder) {
  const Case run{.producers = 3, .messages = 1, .options = {.stale_loads = 1, .preemptions = 2}};
  ExpectAllRight<SharedModel<>>(run);
  ExpectAllRight<CopyModel<>>(run);
}

TEST(ProgressModelTest, FewPreemptions_PaddingAndHeldMessages_DeliverAllInOrder) {
  const Case run{.shape = {.capacity = 64, .limit = 64},
                 .messages = 3,
                 .longer = true,
                 .hold = 2,
                 .options = {.stale_loads = 0, .preemptions = 2}};
  ExpectAllRight<SharedModel<>>(run);
  ExpectAllRight<CopyModel<>>(run);
}

TEST(ProgressModelTest, RandomExecutions_LargerRings_DeliverAllInOrder) {
  const uint64_t seed = TestSeed();
  for (uint64_t capacity : {64u, 256u, 4096u}) {
    for (uint64_t limit : {capacity / 2, capacity}) {
      for (uint64_t hold : {0u, 3u, 60u}) {
        const Case run{.shape = {.capacity = capacity, .limit = limit},
                       .producers = 3,
                       .messages = 40,
                       .longer = limit >= 64,
                       .hold = hold,
                       .options = {.stale_loads = 1'000'000}};
        SharedModel<> shared(run);
        shared.Sample(20, seed + capacity + limit + hold);
        EXPECT_EQ(shared.failure(), "") << capacity << ' ' << limit << ' ' << hold << ' ' << seed;
        CopyModel<> copy(run);
        copy.Sample(20, seed + capacity + limit + hold);
        EXPECT_EQ(copy.failure(), "") << capacity << ' ' << limit << ' ' << hold << ' ' << seed;
      }
    }
  }
}

// The model must tell a broken ring from a right one, or the tests above prove nothing.
TEST(ProgressModelTest, Model_MissingBarrier_FindsDataRace) {
  const Case run{.messages = 3, .options = {.stale_loads = 1, .preemptions = 2}};
  SharedModel<Weak::kAcquireLoads> acquire(run);
  acquire.Explore();
  EXPECT_NE(acquire.failure().find("data race"), std::string::npos) << acquire.failure();
  SharedModel<Weak::kReleaseStores> release(run);
  release.Explore();
  EXPECT_NE(release.failure().find("data race"), std::string::npos) << release.failure();
  SharedModel<Weak::kReleaseAdds> add(run);
  add.Explore();
  EXPECT_NE(add.failure().find("data race"), std::string::npos) << add.failure();
}

TEST(ProgressModelTest, Model_TailReadBeforeProgress_FindsFailure) {
  CopyModel<true> m(
      {.messages = 1, .options = {.clocks = false, .stale_loads = 0, .preemptions = 3}});
  m.Explore();
  EXPECT_NE(m.failure(), "");
}

// --- On real memory.

constexpr RingShape kShape{.capacity = 4096, .limit = 2048};

struct Pair {
  explicit Pair(MoverKind kind, const RingShape& s = kShape)
      : ring(kind, s.capacity),
        producer(MakeProgressProducer(ring.region.data(), s)),
        consumer(MakeProgressConsumer(ring.mover.get(), s).value()) {}
  RingPointers<>& pointers() { return *PointersOf(ring.region.data()); }
  PushResult Push(const std::string& text, uint16_t kind = 1) {
    return producer.TryPush(kind, {text.data(), text.size()});
  }
  // All that is there, each released at once.
  std::vector<std::string> Drain() {
    std::vector<std::string> out;
    while (consumer.Fetch().value()) {
      for (RingMessage m; consumer.Next(&m);) {
        out.emplace_back(m.data, m.length);
        consumer.Release(m.end);
      }
    }
    return out;
  }
  RealRing ring;
  ProgressProducer<> producer;
  ProgressConsumer<> consumer;
};

class ProgressRingTest : public ::testing::TestWithParam<MoverKind> {};
INSTANTIATE_TEST_SUITE_P(Movers, ProgressRingTest,
                         ::testing::Values(MoverKind::kShared, MoverKind::kVmRead),
                         [](const auto& i) { return std::string(MoverName(i.param)); });

TEST_P(ProgressRingTest, Messages_OfAllLengths_ArriveInOrder) {
  Pair p(GetParam());
  EXPECT_FALSE(p.consumer.Fetch().value());
  std::mt19937_64 random(TestSeed());
  for (int lap = 0; lap < 300; ++lap) {
    std::vector<std::string> in;
    while (true) {
      std::string text(random() % (lap % 3 == 0 ? 1000 : 60), static_cast<char>('a' + lap % 26));
      if (p.Push(text) != PushResult::kDone) break;
      in.push_back(std::move(text));
      if (random() % 8 == 0) break;
    }
    ASSERT_EQ(p.Drain(), in) << lap;
  }
}

TEST_P(ProgressRingTest, Push_RingFullToLimit_IsRetryUntilDrained) {
  Pair p(GetParam());
  size_t n = 0;
  while (p.Push("12345678") == PushResult::kDone) ++n;
  EXPECT_EQ(n, kShape.limit / 16);
  EXPECT_EQ(p.Push("12345678"), PushResult::kRetry);
  EXPECT_EQ(p.Drain().size(), n);
  EXPECT_EQ(p.Push("12345678"), PushResult::kDone);
}

TEST_P(ProgressRingTest, LongestMessage_EmptyRing_FitsAndLongerIsRefused) {
  for (uint64_t align : {8u, 64u, 512u}) {
    Pair p(GetParam());
    const std::string longest(p.producer.MaxMessage(align), 'x');
    for (int i = 0; i < 200; ++i) {
      ASSERT_EQ(p.producer.TryPush(1, {}, {longest.data(), longest.size()}, align),
                PushResult::kDone)
          << align << ' ' << i;
      ASSERT_EQ(p.Drain(), std::vector<std::string>{longest});
      ASSERT_EQ(p.Push(std::string(static_cast<size_t>(i), 'y')), PushResult::kDone);
      ASSERT_EQ(p.Drain().size(), 1u);
      ASSERT_FALSE(p.consumer.Fetch().value());
    }
    const std::string more = longest + "12345678";
    EXPECT_EQ(p.producer.TryPush(1, {}, {more.data(), more.size()}, align), PushResult::kRefused);
  }
  Pair p(GetParam());
  EXPECT_EQ(p.producer.TryPush(1, {"odd", 3}, {"body", 4}, 512), PushResult::kRefused);
}

TEST_P(ProgressRingTest, Body_AnyAlignment_ArrivesAligned) {
  Pair p(GetParam(), {.capacity = 64 << 10, .limit = 32 << 10});
  std::mt19937_64 random(TestSeed());
  const std::string body(1500, 'b');
  for (int i = 0; i < 2000; ++i) {
    const uint64_t align = uint64_t{8} << random() % 10;
    const size_t head = 8 * (random() % 5);
    const std::string text(head, 'h');
    ASSERT_EQ(p.producer.TryPush(3, {text.data(), head}, {body.data(), body.size()}, align),
              PushResult::kDone);
    ASSERT_TRUE(p.consumer.Fetch().value());
    RingMessage m;
    ASSERT_TRUE(p.consumer.Next(&m));
    ASSERT_EQ(std::string(m.data, m.length), text + body);
    ASSERT_EQ(reinterpret_cast<uintptr_t>(m.data + head) % align, 0u);
    p.consumer.Release(m.end);
    ASSERT_FALSE(p.consumer.Next(&m));
  }
}

// A request's bytes stay where they are until it is released, whatever the producers do.
TEST_P(ProgressRingTest, HeldMessage_ProducersGoOn_IsNotOverwritten) {
  Pair p(GetParam());
  std::mt19937_64 random(TestSeed());
  std::deque<std::pair<RingMessage, std::string>> held;
  uint64_t sent = 0, got = 0;
  while (got < 20'000) {
    while (sent < got + 200 && p.Push("message " + std::to_string(sent)) == PushResult::kDone) {
      ++sent;
    }
    ASSERT_TRUE(p.consumer.Fetch().ok());
    for (RingMessage m; p.consumer.Next(&m);) {
      held.emplace_back(m, "message " + std::to_string(got++));
    }
    size_t keep = random() % 150;
    if (random() % 10 == 0) keep = 0;
    for (const auto& [m, text] : held) ASSERT_EQ(std::string(m.data, m.length), text);
    for (; held.size() > keep; held.pop_front()) p.consumer.Release(held.front().first.end);
  }
}

// The price: few messages cost one call of the mover, and all of a full ring two.
TEST(ProgressRingCostTest, Fetch_OneMessageOrFullRing_TakesOneOrThreeCalls) {
  Pair p(MoverKind::kVmRead);
  RingMessage m;
  ASSERT_EQ(p.Push("one"), PushResult::kDone);
  uint64_t before = p.consumer.calls();
  ASSERT_TRUE(p.consumer.Fetch().value());
  ASSERT_TRUE(p.consumer.Next(&m));
  EXPECT_EQ(p.consumer.calls() - before, 1u);
  while (p.Push("12345678") == PushResult::kDone) {
  }
  before = p.consumer.calls();
  ASSERT_TRUE(p.consumer.Fetch().value());
  EXPECT_EQ(p.consumer.calls() - before, 3u) << "pointers, messages, and the space given back";
  size_t n = 0;
  while (p.consumer.Next(&m)) ++n;
  EXPECT_GT(n, 100u);
}

TEST_P(ProgressRingTest, Push_PositionsWrapAround_IsDone) {
  RealRing ring(GetParam(), kShape.capacity);
  // Nobody gets there by pushing, so the consumer is only asked about its arithmetic: a tail below
  // the head by 64 bits is one ahead of it.
  RingPointers<>& pointers = *PointersOf(ring.region.data());
  pointers.head = pointers.tail = pointers.progress = ~uint64_t{0} - 15;
  auto producer = MakeProgressProducer(ring.region.data(), kShape);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(producer.TryPush(1, {"12345678", 8}), PushResult::kDone) << i;
  }
  EXPECT_EQ(pointers.tail.load(), pointers.progress.load());
  EXPECT_LT(pointers.tail.load(), 1000u) << "did not wrap";
}

TEST_P(ProgressRingTest, UnfinishedPush_OthersPush_HoldsBackTheBatchOnly) {
  Pair p(GetParam());
  ASSERT_EQ(p.Push("before"), PushResult::kDone);
  p.pointers().tail += 16;  // reserved, not written
  EXPECT_FALSE(p.consumer.Fetch().value());
  size_t n = 0;
  while (p.Push("after") == PushResult::kDone) ++n;
  EXPECT_LT(n, kShape.limit / 16);
  EXPECT_FALSE(p.consumer.Fetch().value());
  const MessageHeader late{8, 9, 0};
  std::memcpy(MessagesOf(p.ring.region.data()) + 16, &late, sizeof(late));
  p.pointers().progress += 16;
  EXPECT_EQ(p.Drain().size(), n + 2);
}

// --- A peer that lies.

TEST_P(ProgressRingTest, Fetch_ImpossibleTail_IsCorruptForGood) {
  for (uint64_t tail : {kShape.limit + 8, uint64_t{1} << 40, ~uint64_t{7}, uint64_t{12}}) {
    Pair p(GetParam());
    p.pointers().tail = p.pointers().progress = tail;
    EXPECT_FALSE(p.consumer.Fetch().ok()) << tail;
    EXPECT_TRUE(p.consumer.corrupt());
    p.pointers().tail = p.pointers().progress = 0;
    EXPECT_TRUE(absl::IsDataLoss(p.consumer.Fetch().status())) << "once is for good";
  }
  Pair p(GetParam());
  ASSERT_EQ(p.Push("one"), PushResult::kDone);
  ASSERT_EQ(p.Drain().size(), 1u);
  p.pointers().tail = p.pointers().progress = 0;
  EXPECT_FALSE(p.consumer.Fetch().ok()) << "a tail that went back";
}

TEST_P(ProgressRingTest, Next_ImpossibleLength_IsCorrupt) {
  for (uint32_t length : {9u, 4096u, 0x7fffffffu, 0xffffffffu}) {
    for (uint16_t kind : {kPadding, uint16_t{1}}) {
      Pair p(GetParam());
      ASSERT_EQ(p.Push("12345678"), PushResult::kDone);
      const MessageHeader lie{length, kind, 0};
      std::memcpy(MessagesOf(p.ring.region.data()), &lie, sizeof(lie));
      ASSERT_TRUE(p.consumer.Fetch().value());
      RingMessage m;
      EXPECT_FALSE(p.consumer.Next(&m)) << length;
      EXPECT_TRUE(p.consumer.corrupt()) << length;
      EXPECT_FALSE(p.consumer.Fetch().ok());
    }
  }
}

TEST_P(ProgressRingTest, Next_MessageWraps_IsCorrupt) {
  Pair p(GetParam());
  while (p.pointers().tail.load() < kShape.capacity - 16) {
    ASSERT_EQ(p.Push("12345678"), PushResult::kDone);
    ASSERT_EQ(p.Drain().size(), 1u);
  }
  const MessageHeader lie{16, 1, 0};
  std::memcpy(MessagesOf(p.ring.region.data()) + kShape.capacity - 16, &lie, sizeof(lie));
  p.pointers().tail = p.pointers().progress = kShape.capacity + 8;
  ASSERT_TRUE(p.consumer.Fetch().value());
  RingMessage m;
  EXPECT_FALSE(p.consumer.Next(&m));
  EXPECT_TRUE(p.consumer.corrupt());
}

TEST(ProgressProducerTest, Push_DishonestPointers_StaysFull) {
  Pair p(MoverKind::kShared);
  ASSERT_EQ(p.Push("12345678"), PushResult::kDone);
  for (uint64_t head : {uint64_t{24}, uint64_t{1} << 63, uint64_t{1} << 20}) {
    p.pointers().head = head;
    EXPECT_EQ(p.Push("12345678"), PushResult::kRetry) << head;
  }
  p.pointers().head = 0;
  p.pointers().tail = 21;
  EXPECT_EQ(p.Push("12345678"), PushResult::kRetry) << "not a multiple of 8";
}

TEST(ProgressConsumerTest, Make_ImpossibleShape_IsRefused) {
  RealRing ring(MoverKind::kShared, 4096);
  for (const RingShape& s :
       {RingShape{.capacity = 8192, .limit = 4096}, RingShape{.capacity = 4095, .limit = 2048},
        RingShape{.capacity = 4096, .limit = 8192}, RingShape{.capacity = 0, .limit = 0},
        RingShape{.capacity = 64, .limit = 64}, RingShape{.capacity = 4096, .limit = 65}}) {
    EXPECT_FALSE(MakeProgressConsumer(ring.mover.get(), s).ok()) << s.capacity << ' ' << s.limit;
  }
}

// --- Threads, and processes.

// Each producer's messages carry its number, a count and a length that follows from them.
void ProduceAll(ProgressProducer<>* ring, uint64_t self, uint64_t messages) {
  std::array<uint64_t, 32> words;
  for (uint64_t i = 0; i < messages; ++i) {
    const size_t n = 2 + (self * 7 + i) % 30;
    words[0] = self;
    words[1] = i;
    for (size_t k = 2; k < n; ++k) words[k] = (self << 40) + i * k;
    while (ring->TryPush(1, {words.data(), 16}, {words.data() + 2, (n - 2) * 8}) !=
           PushResult::kDone) {
      std::this_thread::yield();
    }
  }
}

// Counts of what was wrong.
struct Wrong {
  uint64_t order = 0, content = 0;
};
Wrong ConsumeAll(ProgressConsumer<>* ring, uint64_t producers, uint64_t messages) {
  Wrong wrong;
  std::vector<uint64_t> next(producers);
  for (uint64_t left = producers * messages; left > 0;) {
    const auto some = ring->Fetch();
    EXPECT_TRUE(some.ok()) << some.status();
    if (!some.ok()) break;
    if (!*some) std::this_thread::yield();
    for (RingMessage m; ring->Next(&m); --left) {
      std::array<uint64_t, 32> words{};
      std::memcpy(words.data(), m.data, std::min<size_t>(m.length, sizeof(words)));
      const uint64_t self = words[0];
      if (self >= producers || m.length != (2 + (self * 7 + words[1]) % 30) * 8) {
        ++wrong.content;
        continue;
      }
      wrong.order += words[1] != next[self]++;
      for (size_t k = 2; k < m.length / 8; ++k)
        wrong.content += words[k] != (self << 40) + words[1] * k;
      ring->Release(m.end);
    }
    EXPECT_FALSE(ring->corrupt());
    if (ring->corrupt()) break;
  }
  return wrong;
}

TEST_P(ProgressRingTest, ManyProducers_OneConsumer_DeliverAllInOrder) {
  if (testing_util::kThreadSanitizer && GetParam() == MoverKind::kVmRead) {
    GTEST_SKIP() << "the sanitizer does not see what the kernel orders";
  }
  constexpr uint64_t kProducers = 8, kMessages = 20'000;
  Pair p(GetParam(), {.capacity = 16 << 10, .limit = 8 << 10});
  std::vector<std::thread> producers;
  for (uint64_t i = 0; i < kProducers; ++i) {
    producers.emplace_back(ProduceAll, &p.producer, i, kMessages);
  }
  const Wrong wrong = ConsumeAll(&p.consumer, kProducers, kMessages);
  for (std::thread& t : producers) t.join();
  EXPECT_EQ(wrong.order, 0u);
  EXPECT_EQ(wrong.content, 0u);
}

TEST(ProgressRingProcessTest, VmRead_BetweenTwoProcesses_DeliversAllInOrder) {
  if (testing_util::kThreadSanitizer) {
    GTEST_SKIP() << "the sanitizer does not see what the kernel orders";
  }
  constexpr uint64_t kProducers = 6, kMessages = 20'000;
  constexpr RingShape kSmall{.capacity = 16 << 10, .limit = 8 << 10};
  auto region = Region::CreatePrivate(RingBytes(kSmall));
  ASSERT_TRUE(region.ok());
  const pid_t parent = getpid();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto ring = MakeProgressProducer(region->data(), kSmall);
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < kProducers; ++i) threads.emplace_back(ProduceAll, &ring, i, kMessages);
    for (std::thread& t : threads) t.join();
    testing_util::StayUntilKilled(parent);  // its memory is needed until then
  }
  auto mover =
      Mover::CreateVmRead(child, reinterpret_cast<uintptr_t>(region->data()), RingBytes(kSmall));
  if (mover.ok()) {
    auto ring = MakeProgressConsumer(mover->get(), kSmall).value();
    const Wrong wrong = ConsumeAll(&ring, kProducers, kMessages);
    EXPECT_EQ(wrong.order, 0u);
    EXPECT_EQ(wrong.content, 0u);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (absl::IsPermissionDenied(mover.status())) GTEST_SKIP() << mover.status();
  ASSERT_TRUE(mover.ok()) << mover.status();
  EXPECT_EQ(PointersOf(region->data())->tail.load(), 0u) << "this process's copy was not the ring";
}

}  // namespace
}  // namespace pulse
