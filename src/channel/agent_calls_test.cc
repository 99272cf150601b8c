// Calls from the agent to the host: in the model of every execution, with threads on real memory,
// and with a peer on either side that lies.
#include "channel/agent_calls.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "channel/region.h"
#include "channel/ring_test_util.h"

namespace pulse {
namespace {

using model::Explorer;
using model::ModelBytes;
using testing_util::ModelCopyMover;
using testing_util::ModelMemory;
using testing_util::ModelRegion;
using testing_util::ModelSharedMover;
using testing_util::NoMutex;
using testing_util::TestSeed;
using testing_util::Weak;

// --- In the model: the agent and one thread of the host.

struct Case {
  // Two calls of a word, and as many answers of one.
  CallShape shape = {.calls = {.capacity = 16, .batch = 16, .slots = 2},
                     .answers = {.capacity = 64, .limit = 64}};
  uint64_t calls = 2;
  Explorer::Options options = {};
};

template <typename MoverT, typename Memory>
class CallModel {
 public:
  explicit CallModel(const Case& run)
      : run_(run),
        calls_(Bytes()),
        calls_mirror_(Bytes()),
        answers_(run.shape.answers.capacity),
        answers_mirror_(run.shape.answers.capacity),
        explorer_(run.options) {}

  bool Explore(uint64_t limit = 4'000'000) {
    return explorer_.Explore([this] { Reset(); }, Bodies(), limit);
  }
  void Sample(uint64_t executions, uint64_t seed) {
    explorer_.Sample([this] { Reset(); }, Bodies(), executions, seed);
  }
  const std::string& failure() const { return explorer_.failure(); }
  uint64_t executions() const { return explorer_.executions(); }

 private:
  uint64_t Bytes() const { return ResponseBytes(run_.shape.calls) - wire::kPage; }
  std::vector<Explorer::Body> Bodies() {
    return {[this] { Agent(); }, [this] { Host(); }};
  }

  void Reset() {
    for (auto* region : {&calls_, &calls_mirror_, &answers_, &answers_mirror_}) region->Reset();
    ModelBytes::Share(calls_.bytes(), Bytes());
    ModelBytes::Share(answers_.bytes(), run_.shape.answers.capacity);
    // Outside of the fibers, so that a failure leaves nothing behind.
    calls_mover_ = std::make_unique<MoverT>(&calls_, &calls_mirror_);
    answers_mover_ = std::make_unique<MoverT>(&answers_, &answers_mirror_);
    caller_ = std::make_unique<AgentCaller<Memory, MoverT>>(
        ResponseBuffer<Memory, MoverT>(calls_mover_.get(), &calls_mover_->local().pointers,
                                       calls_mover_->local().bytes(), run_.shape.calls),
        ProgressConsumer<Memory, MoverT>(answers_mover_.get(), &answers_mover_->local().pointers,
                                         answers_mover_->local().bytes(), run_.shape.answers),
        run_.shape.calls.slots);
    responder_ = std::make_unique<HostResponder<Memory, NoMutex>>(
        &calls_.pointers, calls_.bytes(), &answers_.pointers, answers_.bytes(), run_.shape);
  }

  void Agent() {
    uint64_t asked = 0, answered = 0;
    while (answered < run_.calls) {
      explorer_.BeginAttempt();
      bool moved = false;
      for (; asked < run_.calls; ++asked) {
        const uint64_t word = asked + 100;
        if (!caller_->Call(asked, Kind(asked), {&word, sizeof(word)})) break;
        moved = true;
      }
      const auto sent = caller_->Send(true);
      if (!sent.ok()) explorer_.Fail("an honest host looks corrupt");
      moved |= *sent;
      for (CallAnswer a;;) {
        const auto some = caller_->NextAnswer(&a);
        if (!some.ok()) explorer_.Fail("an honest host looks corrupt");
        if (!*some) break;
        moved = true;
        uint64_t word = 0;
        if (a.length != sizeof(word)) explorer_.Fail("length");
        ModelBytes::Copy(&word, a.data, sizeof(word));
        if (a.cookie != answered || a.kind != Kind(a.cookie))
          explorer_.Fail("another than was due");
        if (word != ~(a.cookie + 100) || a.result != -static_cast<int64_t>(a.cookie)) {
          explorer_.Fail("wrong answer", a.cookie);
        }
        ++answered;
      }
      if (!moved) explorer_.WaitForOther();
    }
    if (caller_->outstanding() != 0) explorer_.Fail("a call without an answer");
  }

  void Host() {
    for (uint64_t i = 0; i < run_.calls; ++i) {
      HostCall call;
      while (true) {
        explorer_.BeginAttempt();
        if (responder_->Take(&call)) break;
        if (responder_->corrupt()) explorer_.Fail("an honest agent looks corrupt");
        explorer_.WaitForOther();
      }
      uint64_t word = 0;
      if (call.length != sizeof(word) || call.kind != Kind(i)) explorer_.Fail("wrong call");
      ModelBytes::Copy(&word, call.data, sizeof(word));
      if (word != i + 100) explorer_.Fail("another call than was due", word);
      word = ~word;
      while (true) {
        explorer_.BeginAttempt();
        const PushResult result =
            responder_->Answer(call, -static_cast<int64_t>(i), {&word, sizeof(word)});
        if (result == PushResult::kDone) break;
        if (result == PushResult::kRefused) explorer_.Fail("refused");
        explorer_.WaitForOther();
      }
    }
    HostCall none;
    if (responder_->Take(&none)) explorer_.Fail("a call that nobody made");
  }

  static uint16_t Kind(uint64_t i) { return static_cast<uint16_t>(1 + i % 3); }

  const Case run_;
  ModelRegion<Memory> calls_, calls_mirror_, answers_, answers_mirror_;
  std::unique_ptr<MoverT> calls_mover_, answers_mover_;
  std::unique_ptr<AgentCaller<Memory, MoverT>> caller_;
  std::unique_ptr<HostResponder<Memory, NoMutex>> responder_;
  Explorer explorer_;
};

template <Weak kWeak = Weak::kNothing>
using SharedModel = CallModel<ModelSharedMover<ModelMemory<kWeak>>, ModelMemory<kWeak>>;
using CopyModel =
    CallModel<ModelCopyMover<ModelMemory<Weak::kNothing>>, ModelMemory<Weak::kNothing>>;

template <typename Model>
void ExpectAllRight(Case run) {
  if (testing_util::kThreadSanitizer) run.options.preemptions = 1;
  Model m(run);
  testing_util::ExpectAllExecutions(&m);
  printf("%llu calls: %llu executions\n", static_cast<unsigned long long>(run.calls),
         static_cast<unsigned long long>(m.executions()));
}

TEST(CallModelTest, OneCall_EveryExecution_IsAnsweredOnce) {
  ExpectAllRight<SharedModel<>>({.calls = 1, .options = {.stale_loads = 1, .preemptions = 4}});
  ExpectAllRight<CopyModel>({.calls = 1, .options = {.stale_loads = 1, .preemptions = 4}});
}

TEST(CallModelTest, MoreCallsThanThereIsRoomFor_FewPreemptions_AllAreAnswered) {
  ExpectAllRight<SharedModel<>>({.calls = 4, .options = {.stale_loads = 1, .preemptions = 2}});
  ExpectAllRight<CopyModel>({.calls = 4, .options = {.stale_loads = 0, .preemptions = 2}});
}

TEST(CallModelTest, LargerRings_RandomExecutions_AllAreAnswered) {
  const uint64_t seed = TestSeed();
  for (uint32_t slots : {2u, 8u}) {
    const Case run{.shape = {.calls = {.capacity = 8 * slots, .batch = 16, .slots = slots},
                             .answers = {.capacity = 128, .limit = 128}},
                   .calls = 100,
                   .options = {.stale_loads = 1'000'000}};
    SharedModel<> shared(run);
    shared.Sample(20, seed + slots);
    EXPECT_EQ(shared.failure(), "") << slots << ", seed " << seed;
    CopyModel copy(run);
    copy.Sample(20, seed + slots);
    EXPECT_EQ(copy.failure(), "") << slots << ", seed " << seed;
  }
}

TEST(CallModelTest, MissingBarriers_AreFound) {
  const Case run{.calls = 3, .options = {.stale_loads = 1, .preemptions = 3}};
  SharedModel<Weak::kAcquireLoads> acquire(run);
  acquire.Explore();
  EXPECT_NE(acquire.failure(), "");
  SharedModel<Weak::kReleaseStores> release_stores(run);
  release_stores.Explore();
  EXPECT_NE(release_stores.failure(), "");
  SharedModel<Weak::kReleaseAdds> release_adds(run);
  release_adds.Explore();
  EXPECT_NE(release_adds.failure(), "");
}

// --- On real memory.

constexpr CallShape kShape{.calls = {.capacity = 8192, .batch = 256, .slots = 16},
                           .answers = {.capacity = 8192, .limit = 4096}};

class AgentCallsTest : public ::testing::TestWithParam<MoverKind> {
 protected:
  void SetUp() override {
    region_ = Region::CreatePrivate(CallBytes(kShape)).value();
    calls_ = NewMover(0, ResponseBytes(kShape.calls));
    answers_ = NewMover(AnswersOffset(kShape), RingBytes(kShape.answers));
    if (calls_ == nullptr || answers_ == nullptr) GTEST_SKIP() << "no process_vm_readv here";
    caller_ = MakeAgentCaller(calls_.get(), answers_.get(), kShape).value();
    responder_ = MakeHostResponder(region_.data(), kShape);
  }
  std::unique_ptr<Mover> NewMover(size_t offset, size_t bytes) {
    auto made = testing_util::MoverTo(GetParam(), region_.data() + offset, bytes);
    return made.ok() ? *std::move(made) : nullptr;
  }
  bool Call(uint64_t cookie, const std::string& text, uint16_t kind = 5) {
    return caller_->Call(cookie, kind, {text.data(), text.size()});
  }
  HostCall TakeOne() {
    HostCall call;
    EXPECT_TRUE(responder_->Take(&call));
    return call;
  }
  ResponseEntry* Entry(uint64_t i) {
    return reinterpret_cast<ResponseEntry*>(MessagesOf(region_.data()) + kShape.calls.capacity) + i;
  }

  Region region_;
  std::unique_ptr<Mover> calls_, answers_;
  std::unique_ptr<AgentCaller<>> caller_;
  std::unique_ptr<HostResponder<>> responder_;
  CallAnswer answer_;
};
INSTANTIATE_TEST_SUITE_P(Movers, AgentCallsTest,
                         ::testing::Values(MoverKind::kShared, MoverKind::kVmRead),
                         [](const auto& i) { return std::string(MoverName(i.param)); });

TEST_P(AgentCallsTest, Calls_AnsweredInAnotherOrder_MeetTheirCookies) {
  ASSERT_TRUE(Call(11, "first"));
  ASSERT_TRUE(Call(22, ""));
  EXPECT_FALSE(responder_->Ready()) << "not a batch yet";
  EXPECT_FALSE(caller_->Send(false).value());
  EXPECT_TRUE(caller_->Send(true).value());
  EXPECT_TRUE(responder_->Ready());
  const HostCall first = TakeOne(), second = TakeOne();
  EXPECT_EQ(std::string(first.data, first.length), "first");
  EXPECT_EQ(second.length, 0u);
  EXPECT_FALSE(caller_->NextAnswer(&answer_).value());
  EXPECT_EQ(responder_->Answer(second, -7, {}), PushResult::kDone);
  EXPECT_EQ(responder_->Answer(first, 3, {"yes", 3}), PushResult::kDone);
  ASSERT_TRUE(caller_->NextAnswer(&answer_).value());
  EXPECT_EQ(answer_.cookie, 22u);
  EXPECT_EQ(answer_.result, -7);
  EXPECT_EQ(answer_.length, 0u);
  ASSERT_TRUE(caller_->NextAnswer(&answer_).value());
  EXPECT_EQ(answer_.cookie, 11u);
  EXPECT_EQ(std::string(answer_.data, answer_.length), "yes");
  EXPECT_EQ(caller_->outstanding(), 0u);
}

TEST_P(AgentCallsTest, Call_NoSlotFree_IsRefusedUntilOneIsAnswered) {
  for (uint64_t i = 0; i < kShape.calls.slots; ++i) ASSERT_TRUE(Call(i, "x")) << i;
  EXPECT_FALSE(Call(99, "x"));
  ASSERT_TRUE(caller_->Send(true).ok());
  EXPECT_EQ(responder_->Answer(TakeOne(), 0, {}), PushResult::kDone);
  EXPECT_FALSE(Call(99, "x")) << "its answer was not taken";
  ASSERT_TRUE(caller_->NextAnswer(&answer_).value());
  EXPECT_TRUE(Call(99, "x"));
}

TEST_P(AgentCallsTest, PayloadOrAnswerTooLong_IsRefusedAndHarmsNothing) {
  EXPECT_FALSE(Call(1, std::string(caller_->MaxPayload() + 1, 'x')));
  EXPECT_FALSE(Call(1, "x", kPadding));
  EXPECT_EQ(caller_->outstanding(), 0u);
  ASSERT_TRUE(Call(1, std::string(caller_->MaxPayload(), 'x')));
  ASSERT_TRUE(caller_->Send(true).ok());
  const HostCall call = TakeOne();
  const std::string longest(responder_->MaxAnswer(), 'y'), longer = longest + "y";
  EXPECT_EQ(responder_->Answer(call, 0, {longer.data(), longer.size()}), PushResult::kRefused);
  EXPECT_EQ(responder_->Answer(call, 0, {longest.data(), longest.size()}), PushResult::kDone);
  ASSERT_TRUE(caller_->NextAnswer(&answer_).value());
  EXPECT_EQ(std::string(answer_.data, answer_.length), longest);
}

// Many threads answer, each call with its own payload, while the agent goes round.
TEST_P(AgentCallsTest, ManyHostThreads_AnswerEachCallOnce) {
  if (testing_util::kThreadSanitizer && GetParam() == MoverKind::kVmRead) {
    GTEST_SKIP() << "the sanitizer does not see the kernel's copies";
  }
  constexpr uint64_t kCalls = 20'000;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop.load()) {
        HostCall call;
        if (!responder_->Take(&call)) {
          std::this_thread::yield();
          continue;
        }
        const std::string text(call.data, call.length);
        while (responder_->Answer(call, static_cast<int64_t>(call.length),
                                  {text.data(), text.size()}) != PushResult::kDone) {
          std::this_thread::yield();
        }
      }
    });
  }
  uint64_t asked = 0, answered = 0;
  std::vector<bool> seen(kCalls, false);
  bool right = true;
  while (answered < kCalls && right) {
    while (asked < kCalls && Call(asked, std::to_string(asked * asked))) ++asked;
    right = caller_->Send(true).ok();
    while (right) {
      const auto some = caller_->NextAnswer(&answer_);
      right = some.ok();
      if (!right || !*some) break;
      const std::string text(answer_.data, answer_.length);
      right = answer_.cookie < kCalls && !seen[answer_.cookie] &&
              text == std::to_string(answer_.cookie * answer_.cookie) &&
              answer_.result == static_cast<int64_t>(text.size());
      if (right) seen[answer_.cookie] = true;
      ++answered;
    }
    if (GetParam() == MoverKind::kShared) std::this_thread::yield();
  }
  stop.store(true);
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(right) << "answer " << answered;
  EXPECT_FALSE(responder_->corrupt());
  EXPECT_EQ(caller_->outstanding(), 0u);
}

// --- A host that lies.

TEST_P(AgentCallsTest, HostileAnswer_IsDataLossForGood) {
  struct Lie {
    const char* what;
    uint64_t id;
    uint16_t kind;
    size_t length;
  };
  for (const Lie& lie :
       {Lie{"a slot that is not open", 3, 5, 16}, Lie{"no such slot", 16, 5, 16},
        Lie{"a slot far out", 0xffffffff, 5, 16}, Lie{"another turn", uint64_t{1} << 32, 5, 16},
        Lie{"another kind", 0, 6, 16}, Lie{"half a header", 0, 5, 8}, Lie{"no header", 0, 5, 0}}) {
    SetUp();
    ASSERT_TRUE(Call(1, "x"));
    ASSERT_TRUE(caller_->Send(true).ok());
    auto forger = MakeProgressProducer(region_.data() + AnswersOffset(kShape), kShape.answers);
    const AnswerHeader header{lie.id, 0};
    ASSERT_EQ(forger.TryPush(lie.kind, {&header, lie.length}), PushResult::kDone);
    EXPECT_TRUE(absl::IsDataLoss(caller_->NextAnswer(&answer_).status())) << lie.what;
    EXPECT_TRUE(absl::IsDataLoss(caller_->NextAnswer(&answer_).status())) << lie.what;
    EXPECT_TRUE(absl::IsDataLoss(caller_->Send(true).status())) << lie.what;
  }
}

TEST_P(AgentCallsTest, AnswerTwice_IsDataLoss) {
  ASSERT_TRUE(Call(1, "x"));
  ASSERT_TRUE(caller_->Send(true).ok());
  const HostCall call = TakeOne();
  ASSERT_EQ(responder_->Answer(call, 0, {}), PushResult::kDone);
  ASSERT_EQ(responder_->Answer(call, 0, {}), PushResult::kDone) << "the host's own mistake";
  EXPECT_TRUE(caller_->NextAnswer(&answer_).value());
  ASSERT_TRUE(Call(2, "y")) << "in the same slot";
  EXPECT_TRUE(absl::IsDataLoss(caller_->NextAnswer(&answer_).status()));
}

TEST_P(AgentCallsTest, HostGivesBackWhatItWasNotGiven_IsDataLoss) {
  PointersOf(region_.data())->head.store(1000);
  for (uint64_t i = 0; i < 100 && Call(i, std::string(2000, 'x')); ++i) {
  }
  EXPECT_TRUE(absl::IsDataLoss(caller_->Send(true).status()));
}

// --- An agent that lies.

TEST_P(AgentCallsTest, HostileCall_IsNotTakenAndMarksTheRing) {
  for (int lie = 0; lie < 6; ++lie) {
    SetUp();
    ASSERT_TRUE(Call(1, "x"));
    ASSERT_TRUE(caller_->Send(true).ok());
    ResponseEntry* const e = Entry(0);
    if (lie == 0) e->kind = kPadding;
    if (lie == 1) e->offset = static_cast<uint32_t>(kShape.calls.capacity) + 8;
    if (lie == 2) e->length = static_cast<uint32_t>(kShape.calls.capacity) + 1;
    if (lie == 3) e->ticket = kShape.calls.slots;
    if (lie == 4) PointersOf(region_.data())->tail.store(kShape.calls.slots + 1);
    if (lie == 5) e->ticket = 0xffffffff;
    HostCall call;
    EXPECT_FALSE(responder_->Take(&call)) << lie;
    EXPECT_TRUE(responder_->corrupt()) << lie;
    EXPECT_FALSE(responder_->Take(&call)) << lie;
  }
}

// Random bytes all over the region: neither side leaves its memory, loops or crashes.
TEST_P(AgentCallsTest, RandomRegion_IsSurvived) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 300; ++round) {
    SetUp();
    for (int step = 0; step < 60; ++step) {
      const size_t at = random() % 3 == 0   ? random() % 192
                        : random() % 2 == 0 ? AnswersOffset(kShape) + random() % 192
                                            : random() % CallBytes(kShape);
      if (step % 4 == 0) region_.data()[at] = static_cast<char>(random());
      Call(random(), std::string(random() % 300, 'r'));
      (void)caller_->Send(true).ok();
      HostCall call;
      if (responder_->Take(&call)) {
        ASSERT_LE(call.length, kShape.calls.capacity);
        ASSERT_GE(call.data, region_.data());
        ASSERT_LE(call.data + call.length, region_.data() + AnswersOffset(kShape));
        (void)responder_->Answer(call, 0, {call.data, std::min<uint64_t>(call.length, 100)});
      }
      const auto some = caller_->NextAnswer(&answer_);
      if (some.ok() && *some) {
        ASSERT_LE(answer_.length, kShape.answers.capacity);
      }
      ASSERT_LE(caller_->outstanding(), kShape.calls.slots);
    }
  }
}

TEST(AgentCallsShape, ImpossibleSizes_AreRefused) {
  EXPECT_TRUE(Valid(CallShape{}));
  CallShape odd = kShape;
  odd.calls.slots = 3;
  EXPECT_FALSE(Valid(odd));
  std::vector<char> memory(2 * wire::kPage);
  auto small = Mover::CreateShared(memory.data(), memory.size());
  EXPECT_TRUE(absl::IsInvalidArgument(MakeAgentCaller(small.get(), small.get(), kShape).status()));
}

}  // namespace
}  // namespace pulse
