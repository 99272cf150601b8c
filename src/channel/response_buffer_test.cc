#include "channel/response_buffer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
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
using testing_util::NoMutex;
using testing_util::RealRing;
using testing_util::TestSeed;
using testing_util::Weak;

// --- In the model: the agent and one thread of the host.

struct Case {
  ResponseShape shape = {.capacity = 16, .batch = 40, .slots = 2};  // two responses of a word
  uint64_t responses = 3;
  bool backwards = false;  // requests finish in pairs, the younger first
  bool hold = false;       // responses are given back in pairs, the later first
  Explorer::Options options = {};
};

template <typename MoverT, typename Memory>
class ResponseModel {
 public:
  explicit ResponseModel(const Case& run)
      : run_(run), host_(Bytes()), mirror_(Bytes()), explorer_(run.options) {}
  bool Explore(uint64_t limit = 2'000'000) {
    return explorer_.Explore([this] { Reset(); }, Bodies(), limit);
  }
  void Sample(uint64_t executions, uint64_t seed) {
    explorer_.Sample([this] { Reset(); }, Bodies(), executions, seed);
  }
  const std::string& failure() const { return explorer_.failure(); }
  uint64_t executions() const { return explorer_.executions(); }

 private:
  uint64_t Bytes() const { return ResponseBytes(run_.shape) - wire::kPage; }
  std::vector<Explorer::Body> Bodies() {
    return {[this] { Agent(); }, [this] { Host(); }};
  }
  void Reset() {
    host_.Reset();
    mirror_.Reset();
    ModelBytes::Share(host_.bytes(), Bytes());
    // Outside of the fibers, so that a failure leaves nothing behind.
    mover_ = std::make_unique<MoverT>(&host_, &mirror_);
    buffer_ = std::make_unique<ResponseBuffer<Memory, MoverT>>(
        mover_.get(), &mover_->local().pointers, mover_->local().bytes(), run_.shape);
    reader_ = std::make_unique<ResponseReader<Memory, NoMutex>>(&host_.pointers, host_.bytes(),
                                                                run_.shape);
  }

  void Agent() {
    auto& buffer = *buffer_;
    uint64_t asked = 0;
    Reservation open[2];
    size_t n = 0;
    while (asked < run_.responses || buffer.undelivered() > 0) {
      explorer_.BeginAttempt();
      bool moved = false;
      const size_t pair = run_.backwards ? 2 : 1;
      while (n < pair && asked < run_.responses && buffer.Allocate(asked, 5, 8, &open[n])) {
        const uint64_t word = ~asked++;
        ModelBytes::Copy(open[n++].data, &word, sizeof(word));
        moved = true;
      }
      if (buffer.corrupt()) explorer_.Fail("an honest host looks corrupt");
      while (n > 0) buffer.Finish(open[--n].ticket, 8);
      if (buffer.Deliver(!moved).value()) moved = true;
      if (!moved) explorer_.WaitForOther();
    }
  }

  void Host() {
    auto& reader = *reader_;
    bool seen[256] = {};
    TakenResponse held[2];
    uint64_t holds = 0;
    for (uint64_t i = 0; i < run_.responses; ++i) {
      TakenResponse r;
      while (true) {
        explorer_.BeginAttempt();
        if (reader.Take(&r)) break;
        if (reader.corrupt()) explorer_.Fail("an honest agent looks corrupt");
        explorer_.WaitForOther();
      }
      uint64_t word = 0;
      ModelBytes::Copy(&word, r.data, sizeof(word));
      if (word != ~r.id || r.kind != 5 || r.result != 8) explorer_.Fail("wrong response", r.id);
      if (r.id >= run_.responses || seen[r.id]) explorer_.Fail("a response twice", r.id);
      seen[r.id] = true;
      if (!run_.backwards && r.id != i) explorer_.Fail("another than was due", r.id);
      // In pairs, given back in the other order.
      held[holds++] = r;
      if (run_.hold && holds == 1 && i + 1 < run_.responses) continue;
      while (holds > 0) reader.Done(held[--holds].ticket);
    }
    TakenResponse r;
    if (reader.Take(&r)) explorer_.Fail("a response to nothing");
  }

  const Case run_;
  ModelRegion<Memory> host_;
  ModelRegion<Memory> mirror_;
  std::unique_ptr<MoverT> mover_;
  std::unique_ptr<ResponseBuffer<Memory, MoverT>> buffer_;
  std::unique_ptr<ResponseReader<Memory, NoMutex>> reader_;
  Explorer explorer_;
};

template <Weak kWeak = Weak::kNothing>
using SharedModel = ResponseModel<ModelSharedMover<ModelMemory<kWeak>>, ModelMemory<kWeak>>;
template <bool kBackwards = false>
using CopyModel = ResponseModel<ModelCopyMover<ModelMemory<Weak::kNothing>, kBackwards>,
                                ModelMemory<Weak::kNothing>>;

template <typename Model>
void ExpectAllRight(Case run) {
  if (testing_util::kThreadSanitizer) run.options.preemptions = 1;
  Model m(run);
  testing_util::ExpectAllExecutions(&m);
  printf("%llu responses: %llu executions\n", static_cast<unsigned long long>(run.responses),
         static_cast<unsigned long long>(m.executions()));
}

TEST(ResponseModelTest, EveryExecution_SmallBuffer_DeliversEachOnce) {
  ExpectAllRight<SharedModel<>>({.responses = 2, .options = {.stale_loads = 1}});
  ExpectAllRight<CopyModel<>>({.responses = 2, .options = {.stale_loads = 1}});
}

TEST(ResponseModelTest, FewPreemptions_BufferFills_DeliverEachOnce) {
  for (bool backwards : {false, true}) {
    for (bool hold : {false, true}) {
      const Case run{.responses = 5,
                     .backwards = backwards,
                     .hold = hold,
                     .options = {.stale_loads = 1, .preemptions = 3}};
      ExpectAllRight<SharedModel<>>(run);
      ExpectAllRight<CopyModel<>>(run);
    }
  }
}

TEST(ResponseModelTest, RandomExecutions_LargerBuffers_DeliverEachOnce) {
  const uint64_t seed = TestSeed();
  for (uint64_t capacity : {16u, 64u, 512u}) {
    for (uint32_t slots : {2u, 8u}) {
      const Case run{.shape = {.capacity = capacity, .batch = capacity / 2, .slots = slots},
                     .responses = 200,
                     .backwards = capacity > 16,
                     .hold = slots > 2,
                     .options = {.stale_loads = 1'000'000}};
      SharedModel<> shared(run);
      shared.Sample(30, seed + capacity);
      EXPECT_EQ(shared.failure(), "") << capacity << ", seed " << seed;
      CopyModel<> copy(run);
      copy.Sample(30, seed + capacity);
      EXPECT_EQ(copy.failure(), "") << capacity << ", seed " << seed;
    }
  }
}

TEST(ResponseModelTest, Model_MissingBarrier_FindsDataRace) {
  const Case run{.responses = 4, .options = {.stale_loads = 1, .preemptions = 3}};
  SharedModel<Weak::kAcquireLoads> acquire(run);
  acquire.Explore();
  EXPECT_NE(acquire.failure().find("data race"), std::string::npos) << acquire.failure();
  SharedModel<Weak::kReleaseStores> release(run);
  release.Explore();
  EXPECT_NE(release.failure().find("data race"), std::string::npos) << release.failure();
}

TEST(ResponseModelTest, Model_TailMovedBeforeResponses_FindsFailure) {
  CopyModel<true> m({.responses = 3, .options = {.stale_loads = 0, .preemptions = 3}});
  m.Explore();
  EXPECT_NE(m.failure(), "");
}

// --- On real memory.

constexpr ResponseShape kShape{.capacity = 4096, .batch = 1024, .slots = 256};

struct Pair {
  explicit Pair(MoverKind kind, const ResponseShape& s = kShape)
      : ring(kind, ResponseBytes(s) - wire::kPage),
        agent(MakeResponseBuffer(ring.mover.get(), s).value()),
        host(MakeResponseReader(ring.region.data(), s)) {}
  RingPointers<>& pointers() { return *PointersOf(ring.region.data()); }
  bool Answer(uint64_t id, const std::string& data) {
    Reservation r;
    if (!agent->Allocate(id, 1, data.size(), &r)) return false;
    std::memcpy(r.data, data.data(), data.size());
    agent->Finish(r.ticket, static_cast<int64_t>(data.size()));
    return true;
  }
  bool TakeOne(TakenResponse* r, std::string* data) {
    if (!host->Take(r)) return false;
    data->assign(r->data, static_cast<size_t>(r->result));
    return true;
  }
  RealRing ring;
  std::unique_ptr<ResponseBuffer<>> agent;
  std::unique_ptr<ResponseReader<>> host;
};

class ResponseBufferTest : public ::testing::TestWithParam<MoverKind> {};
INSTANTIATE_TEST_SUITE_P(Movers, ResponseBufferTest,
                         ::testing::Values(MoverKind::kShared, MoverKind::kVmRead),
                         [](const auto& i) { return std::string(MoverName(i.param)); });

TEST_P(ResponseBufferTest, Deliver_FinishedInAnotherOrder_KeepsOrderOfFinishing) {
  Pair p(GetParam());
  Reservation r[4];
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(p.agent->Allocate(100 + i, 2, 8, &r[i]));
    std::memcpy(r[i].data, ("respons" + std::to_string(i)).data(), 8);
  }
  TakenResponse t;
  EXPECT_FALSE(p.agent->Deliver(true).value()) << "nothing has finished";
  p.agent->Finish(r[2].ticket, 8);
  p.agent->Finish(r[1].ticket, -EIO);
  EXPECT_FALSE(p.agent->Deliver(false).value()) << "less than a batch";
  EXPECT_FALSE(p.host->Take(&t));
  EXPECT_TRUE(p.agent->Deliver(true).value()) << "the first is pending, and holds up nobody";
  p.agent->Finish(r[0].ticket, 4);
  EXPECT_TRUE(p.agent->Deliver(true).value());
  const uint64_t order[] = {2, 1, 0};
  const int64_t results[] = {8, -EIO, 4};
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(p.host->Take(&t));
    EXPECT_EQ(t.id, 100 + order[i]);
    EXPECT_EQ(t.kind, 2);
    EXPECT_EQ(t.result, results[i]);
    EXPECT_EQ(t.capacity, 8u);
    EXPECT_EQ(std::string(t.data, 8), "respons" + std::to_string(order[i]));
    p.host->Done(t.ticket);
  }
  EXPECT_FALSE(p.host->Take(&t));
  EXPECT_EQ(p.agent->in_flight(), 1u);
}

TEST_P(ResponseBufferTest, Deliver_FullBatch_IsSentUnaskedInOneCall) {
  Pair p(GetParam());
  const uint64_t before = p.agent->calls();
  uint64_t n = 0;
  while (!p.agent->Deliver(false).value()) ASSERT_TRUE(p.Answer(n++, "12345678"));
  EXPECT_EQ(n, kShape.batch / 40 + 1);
  EXPECT_EQ(p.agent->calls() - before, 1u);
  TakenResponse t;
  while (p.host->Take(&t)) {
    p.host->Done(t.ticket);
    --n;
  }
  EXPECT_EQ(n, 0u);
}

// What has finished lies in more places than a call of the mover takes.
TEST_P(ResponseBufferTest, Deliver_ScatteredData_IsThereWhenAnnounced) {
  Pair p(GetParam());
  Reservation r[256];
  for (uint64_t i = 0; i < 256; ++i) {
    ASSERT_TRUE(p.agent->Allocate(i, 1, 16, &r[i]));
    std::memset(r[i].data, static_cast<int>(i), 16);
  }
  for (uint64_t first : {1u, 0u}) {
    for (uint64_t i = first; i < 256; i += 2) p.agent->Finish(r[i].ticket, 16);
    ASSERT_TRUE(p.agent->Deliver(true).value());
    for (uint64_t i = first; i < 256; i += 2) {
      TakenResponse t;
      std::string data;
      ASSERT_TRUE(p.TakeOne(&t, &data));
      EXPECT_EQ(t.id, i);
      EXPECT_EQ(data, std::string(16, static_cast<char>(i)));
      p.host->Done(t.ticket);
    }
  }
}

TEST_P(ResponseBufferTest, Allocate_BufferFull_FailsUntilOldestIsDone) {
  Pair p(GetParam());
  const std::string data(64, 'x');
  uint64_t n = 0;
  while (p.Answer(n, data)) ++n;
  EXPECT_EQ(n, kShape.capacity / 64);
  ASSERT_TRUE(p.agent->Deliver(true).value());
  EXPECT_FALSE(p.Answer(n, data));
  TakenResponse a, b, c;
  ASSERT_TRUE(p.host->Take(&a));
  ASSERT_TRUE(p.host->Take(&b));
  ASSERT_TRUE(p.host->Take(&c));
  p.host->Done(b.ticket);
  EXPECT_FALSE(p.Answer(n, data)) << "the first is still being read";
  p.host->Done(a.ticket);
  EXPECT_TRUE(p.Answer(n, data));
  EXPECT_TRUE(p.Answer(n + 1, data));
  EXPECT_FALSE(p.Answer(n + 2, data));
  p.host->Done(a.ticket);  // once more means nothing
  EXPECT_FALSE(p.Answer(n + 2, data));
}

TEST_P(ResponseBufferTest, Allocate_AllTicketsTaken_FailsUntilOldestIsDone) {
  Pair p(GetParam(), {.capacity = 64 << 10, .batch = 64 << 10, .slots = 8});
  Reservation r[9];
  for (uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(p.agent->Allocate(i, 1, 0, &r[i]));
  EXPECT_FALSE(p.agent->Allocate(8, 1, 0, &r[8]));
  TakenResponse t;
  p.agent->Finish(r[5].ticket, 0);
  ASSERT_TRUE(p.agent->Deliver(true).value());
  ASSERT_TRUE(p.host->Take(&t));
  p.host->Done(t.ticket);
  EXPECT_FALSE(p.agent->Allocate(8, 1, 0, &r[8])) << "those before it are under way";
  p.agent->Finish(r[0].ticket, 0);
  EXPECT_FALSE(p.agent->Allocate(8, 1, 0, &r[8])) << "the host does not have it";
  ASSERT_TRUE(p.agent->Deliver(true).value());
  ASSERT_TRUE(p.host->Take(&t));
  p.host->Done(t.ticket);
  EXPECT_TRUE(p.agent->Allocate(8, 1, 0, &r[8]));
}

TEST_P(ResponseBufferTest, LargestResponse_EmptyBuffer_FitsAndLargerFails) {
  for (uint64_t align : {8u, 64u, 512u}) {
    Pair p(GetParam());
    const uint64_t most = p.agent->MaxData(align);
    ASSERT_GT(most, 1000u);
    for (uint64_t i = 0; i < 200; ++i) {
      Reservation r;
      ASSERT_TRUE(p.agent->Allocate(i, 1, most, &r, align)) << align << ' ' << i;
      ASSERT_EQ((r.data - MessagesOf(p.ring.mover->local())) % static_cast<ptrdiff_t>(align), 0);
      std::memset(r.data, static_cast<int>('a' + i % 26), most);
      p.agent->Finish(r.ticket, static_cast<int64_t>(most));
      ASSERT_TRUE(p.agent->Deliver(true).value());
      TakenResponse t;
      std::string data;
      ASSERT_TRUE(p.TakeOne(&t, &data));
      ASSERT_EQ(data, std::string(most, static_cast<char>('a' + i % 26)));
      p.host->Done(t.ticket);
      ASSERT_TRUE(p.Answer(i, std::string(i % 40, 'x')));
      ASSERT_TRUE(p.agent->Deliver(true).value());
      ASSERT_TRUE(p.TakeOne(&t, &data));
      ASSERT_EQ(data, std::string(i % 40, 'x'));
      p.host->Done(t.ticket);
    }
    Reservation r;
    EXPECT_FALSE(p.agent->Allocate(0, 1, most + 8, &r, align));
  }
}

// Any order of finishing and of giving back, any sizes, against a queue that says what must come.
TEST_P(ResponseBufferTest, RandomRequests_FinishedInAnyOrder_ArriveAsFinished) {
  const uint64_t seed = TestSeed();
  std::mt19937_64 random(seed);
  Pair p(GetParam());
  struct Open {
    Reservation r;
    std::string data;
  };
  std::map<uint64_t, Open> open;
  std::deque<std::pair<uint64_t, std::string>> due;
  std::vector<TakenResponse> held;
  uint64_t next = 0, got = 0;
  for (int step = 0; step < 200'000; ++step) {
    const uint64_t what = random() % 8;
    if (what < 3) {
      const std::string data(random() % (random() % 50 == 0 ? 900 : 100),
                             static_cast<char>('a' + next % 26));
      Reservation r;
      if (p.agent->Allocate(next, 1, data.size(), &r, uint64_t{8} << random() % 5)) {
        open[next++] = {r, data};
      }
    } else if (what < 6 && !open.empty()) {
      auto it = open.begin();
      std::advance(it, static_cast<ptrdiff_t>(random() % open.size()));
      std::memcpy(it->second.r.data, it->second.data.data(), it->second.data.size());
      p.agent->Finish(it->second.r.ticket, static_cast<int64_t>(it->second.data.size()));
      due.emplace_back(it->first, it->second.data);
      open.erase(it);
    } else if (what == 6) {
      ASSERT_TRUE(p.agent->Deliver(random() % 2 == 0).ok());
    } else {
      TakenResponse t;
      std::string data;
      if (p.TakeOne(&t, &data)) {
        ++got;
        ASSERT_EQ(t.id, due.front().first) << seed;
        ASSERT_EQ(data, due.front().second) << seed;
        due.pop_front();
        held.push_back(t);
      }
      while (held.size() > random() % 3) {
        const size_t at = random() % held.size();
        p.host->Done(held[at].ticket);
        held.erase(held.begin() + static_cast<ptrdiff_t>(at));
      }
    }
  }
  EXPECT_GT(got, 1000u);
  EXPECT_FALSE(p.host->corrupt());
  EXPECT_FALSE(p.agent->corrupt());
}

TEST_P(ResponseBufferTest, Take_ManyThreads_GetsEachResponseOnce) {
  constexpr uint64_t kResponses = 50'000;
  Pair p(GetParam());
  std::atomic<uint64_t> taken{0}, sum{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (taken.load() < kResponses) {
        TakenResponse t;
        if (!p.host->Take(&t)) {
          std::this_thread::yield();
          continue;
        }
        uint64_t words[2];
        std::memcpy(words, t.data, sizeof(words));
        wrong += words[0] != t.id || words[1] != ~t.id || t.result != 16;
        sum += t.id;
        p.host->Done(t.ticket);
        ++taken;
      }
    });
  }
  for (uint64_t i = 0; i < kResponses;) {
    Reservation r;
    if (p.agent->Allocate(i, 1, 16, &r)) {
      const uint64_t words[2] = {i, ~i};
      std::memcpy(r.data, words, sizeof(words));
      p.agent->Finish(r.ticket, 16);
      ++i;
      ASSERT_TRUE(p.agent->Deliver(false).ok());
    } else {
      ASSERT_TRUE(p.agent->Deliver(true).ok());
      std::this_thread::yield();
    }
  }
  ASSERT_TRUE(p.agent->Deliver(true).ok());
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(taken.load(), kResponses);
  EXPECT_EQ(sum.load(), kResponses * (kResponses - 1) / 2);
  EXPECT_EQ(wrong.load(), 0u);
}

// --- Peers that lie.

TEST_P(ResponseBufferTest, Allocate_ImpossibleHead_IsCorruptForGood) {
  const std::string data(64, 'x');
  for (uint64_t head : {uint64_t{65}, uint64_t{1} << 60, ~uint64_t{0}}) {
    Pair p(GetParam());
    uint64_t n = 0;
    while (p.Answer(n, data)) ++n;
    ASSERT_TRUE(p.agent->Deliver(true).value());
    p.pointers().head = head;
    EXPECT_FALSE(p.Answer(n, data)) << head;
    EXPECT_TRUE(p.agent->corrupt()) << head;
    p.pointers().head = 64;
    EXPECT_FALSE(p.Answer(n, data)) << "once is for good";
  }
}

// I/O may still write there.
TEST_P(ResponseBufferTest, Allocate_HostGivesBackUndelivered_IsCorrupt) {
  for (bool finished : {false, true}) {
    Pair p(GetParam());
    Reservation r;
    ASSERT_TRUE(p.agent->Allocate(1, 1, p.agent->MaxData(), &r));
    ASSERT_TRUE(p.Answer(2, "done"));
    ASSERT_TRUE(p.agent->Deliver(true).value());
    if (finished) p.agent->Finish(r.ticket, 0);
    p.pointers().head = 1;
    EXPECT_FALSE(p.agent->Allocate(3, 1, p.agent->MaxData(), &r));
    EXPECT_TRUE(p.agent->corrupt());
  }
}

TEST(ResponseReaderTest, Take_ImpossibleTailOrEntry_IsCorrupt) {
  TakenResponse t;
  for (uint64_t tail : {uint64_t{kShape.slots} + 1, uint64_t{1} << 60, ~uint64_t{0}}) {
    Pair p(MoverKind::kShared);
    p.pointers().tail = tail;
    EXPECT_FALSE(p.host->Take(&t)) << tail;
    EXPECT_TRUE(p.host->corrupt()) << tail;
  }
  const auto lie = [&](void (*change)(ResponseEntry*)) {
    Pair p(MoverKind::kShared);
    ASSERT_TRUE(p.Answer(0, "12345678"));
    ASSERT_TRUE(p.Answer(1, "12345678"));
    ASSERT_TRUE(p.agent->Deliver(true).value());
    char* const at = MessagesOf(p.ring.region.data()) + kShape.capacity + sizeof(ResponseEntry);
    ResponseEntry entry;
    std::memcpy(&entry, at, sizeof(entry));
    change(&entry);
    std::memcpy(at, &entry, sizeof(entry));
    ASSERT_TRUE(p.host->Take(&t));
    EXPECT_FALSE(p.host->Take(&t));
    EXPECT_TRUE(p.host->corrupt());
  };
  lie([](ResponseEntry* e) { e->offset = kShape.capacity + 8; });
  lie([](ResponseEntry* e) { e->offset = 0xffffffff; });
  lie([](ResponseEntry* e) { e->length = kShape.capacity; });
  lie([](ResponseEntry* e) { e->length = 0xfffffff8; });
  lie([](ResponseEntry* e) { e->ticket = kShape.slots; });
  lie([](ResponseEntry* e) { e->ticket = 0; });  // the first's, which is not given back
}

TEST(ResponseBufferShapeTest, Make_ImpossibleShape_IsRefused) {
  RealRing ring(MoverKind::kShared, 4096 + 64 * sizeof(ResponseEntry));
  EXPECT_TRUE(MakeResponseBuffer(ring.mover.get(), {4096, 1024, 64}).ok());
  for (const ResponseShape& s :
       {ResponseShape{8192, 1024, 64}, ResponseShape{4096, 8192, 64}, ResponseShape{4096, 1024, 0},
        ResponseShape{4096, 1024, 63}, ResponseShape{4096, 1024, 128},
        ResponseShape{4096, 1024, 1u << 21}, ResponseShape{4095, 1024, 64},
        ResponseShape{64, 64, 64}}) {
    EXPECT_FALSE(MakeResponseBuffer(ring.mover.get(), s).ok()) << s.capacity << ' ' << s.slots;
  }
}

}  // namespace
}  // namespace pulse
