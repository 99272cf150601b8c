// What a virtual engine charges, by its counters, and what becomes of chunks that it cannot take.
#include "services/ops/virtual_engine.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "base/clock.h"
#include "base/testing.h"
#include "services/ops/queue.h"

namespace pulse::ops {
namespace {

using Price = VirtualEngine::Price;
using testing_util::Text;

// An output so many times as large as the input.
VirtualEngine::Replay Growing(size_t times) {
  return [times](const Chunk& chunk, Result& result) {
    result.bytes.Resize(chunk.size() * times);
    std::fill_n(result.bytes.data(), result.bytes.size(), 'x');
    return absl::OkStatus();
  };
}

Chunk ChunkOf(size_t size) {
  Chunk chunk;
  chunk.input.Resize(size);
  std::fill_n(chunk.input.data(), size, 'i');
  return chunk;
}

absl::Status Do(VirtualEngine& engine, size_t size) {
  Result result;
  return engine.Process(0, ChunkOf(size), result);
}

TEST(VirtualEngineTest, StaticSetting_OneContextForEverySize) {
  Price price;
  price.setup_nanos = 1000;
  price.reconfigure_nanos = 500;
  VirtualEngine engine({"card", Side::kAgent, 1, {}}, price, Growing(1));
  EXPECT_EQ(engine.NanosBefore(100), 1000);
  for (const size_t size : {100u, 200u, 100u}) EXPECT_TRUE(Do(engine, size).ok());
  EXPECT_EQ(engine.NanosBefore(300), 0);
  const auto counters = engine.counters();
  EXPECT_EQ(counters.tasks, 3u);
  EXPECT_EQ(counters.reconfigured, 0u);
  EXPECT_EQ(counters.setup_nanos, 1000);
}

TEST(VirtualEngineTest, ReconfiguredSetting_EachNewSizeIsPaidFor) {
  Price price;
  price.setup_nanos = 1000;
  price.reconfigure_nanos = 500;
  price.setting = VirtualEngine::Setting::kReconfigured;
  VirtualEngine engine({"card", Side::kAgent, 1, {}}, price, Growing(1));
  for (const size_t size : {100u, 100u, 200u, 200u, 100u}) EXPECT_TRUE(Do(engine, size).ok());
  EXPECT_EQ(engine.NanosBefore(100), 0);
  EXPECT_EQ(engine.NanosBefore(101), 500);
  const auto counters = engine.counters();
  EXPECT_EQ(counters.reconfigured, 2u);
  EXPECT_EQ(counters.setup_nanos, 2000);
}

TEST(VirtualEngineTest, KeptSetting_SmallerTasksFitTheContext) {
  Price price;
  price.setup_nanos = 1000;
  price.reconfigure_nanos = 500;
  price.setting = VirtualEngine::Setting::kKept;
  VirtualEngine engine({"card", Side::kAgent, 1, {}}, price, Growing(1));
  for (const size_t size : {100u, 120u, 1u, 129u, 256u, 100u}) EXPECT_TRUE(Do(engine, size).ok());
  EXPECT_EQ(engine.NanosBefore(256), 0);
  EXPECT_EQ(engine.NanosBefore(257), 500);
  EXPECT_EQ(engine.counters().reconfigured, 1u);
}

TEST(VirtualEngineTest, KeptSetting_ASecondLane_KnowsOfTheContextThatIsBeingMade) {
  Price price;
  price.setup_nanos = 400'000'000;
  price.setting = VirtualEngine::Setting::kKept;
  VirtualEngine engine({"card", Side::kAgent, 2, {}}, price, Growing(1));
  std::thread first([&] { Do(engine, 100).IgnoreError(); });
  EXPECT_TRUE(testing_util::Eventually([&] { return engine.counters().tasks == 1; }));
  EXPECT_GT(engine.NanosBefore(100), 0);
  EXPECT_LE(engine.NanosBefore(100), 400'000'000);
  engine.Interrupt();
  first.join();
}

TEST(VirtualEngineTest, Price_IsOfTheLargerSideAndIsWaitedFor) {
  Price price;
  price.bytes_per_second = 1e8;
  price.latency_nanos = 1'000'000;
  VirtualEngine engine({"card", Side::kAgent, 1, {}}, price, Growing(4));
  const int64_t before = NowNanos();
  EXPECT_TRUE(Do(engine, 50000).ok());
  EXPECT_GE(NowNanos() - before, 3'000'000);  // no upper bound: the machine may be busy
  EXPECT_EQ(engine.counters().work_nanos, 2'000'000);
}

TEST(VirtualEngineTest, OutputBeyondTheLargestBuffer_SplitAndRetried) {
  Price price;
  price.bytes_per_second = 1e12;
  price.largest_buffer = 1000;
  VirtualEngine engine({"card", Side::kAgent, 1, {}}, price, Growing(3));
  // 1800 bytes out: one task finds that out, two do it.
  EXPECT_TRUE(Do(engine, 600).ok());
  auto counters = engine.counters();
  EXPECT_EQ(counters.retried, 1u);
  EXPECT_EQ(counters.split, 1u);
  EXPECT_EQ(counters.tasks, 3u);
  // The input alone needs three pieces, and their outputs do not fit: six, then twelve.
  EXPECT_TRUE(Do(engine, 3000).ok());
  counters = engine.counters();
  EXPECT_EQ(counters.retried, 3u);
  EXPECT_EQ(counters.tasks, 3u + 12u + 2u);
}

TEST(VirtualEngineTest, OutputBeyondTheLargestBuffer_RefusedIfSo) {
  Price price;
  price.largest_buffer = 1000;
  price.too_large = VirtualEngine::TooLarge::kRefuse;
  VirtualEngine engine({"card", Side::kAgent, 1, {}}, price, Growing(3));
  const absl::Status refused = Do(engine, 600);
  EXPECT_TRUE(absl::IsUnimplemented(refused)) << refused;
  EXPECT_NE(Text(refused).find("1000 bytes"), std::string::npos) << refused;
  EXPECT_TRUE(Do(engine, 300).ok());
  EXPECT_EQ(engine.counters().refused, 1u);
}

TEST(VirtualEngineTest, Interrupt_EndsTheWait) {
  Price price;
  price.latency_nanos = int64_t{3600} * 1'000'000'000;
  VirtualEngine engine({"card", Side::kAgent, 1, {}}, price, Growing(1));
  std::thread waits([&] { EXPECT_TRUE(absl::IsCancelled(Do(engine, 10))); });
  engine.Interrupt();
  waits.join();
}

// --- In the queue.

class Sizes : public Source {
 public:
  explicit Sizes(std::vector<size_t> sizes) : sizes_(std::move(sizes)) {}
  absl::StatusOr<bool> Next(Chunk& chunk) override {
    if (next_ == sizes_.size()) return false;
    chunk.prefix = 0;
    chunk.input.Clear();
    chunk.input.Resize(sizes_[next_++]);
    std::fill_n(chunk.input.data(), chunk.input.size(), 'i');
    return true;
  }

 private:
  const std::vector<size_t> sizes_;
  size_t next_ = 0;
};

class Counts : public Sink {
 public:
  absl::Status Take(const Chunk& chunk, Result& result) override {
    EXPECT_EQ(chunk.number, chunks++);
    EXPECT_EQ(result.bytes.size(), chunk.size() * 3);
    return absl::OkStatus();
  }
  uint64_t chunks = 0;
};

class Threefold : public Engine {
 public:
  using Engine::Engine;
  absl::Status Process(int lane, const Chunk& chunk, Result& result) override {
    return Growing(3)(chunk, result);
  }
};

Price Small() {
  Price price;
  price.bytes_per_second = 1e10;
  price.largest_buffer = 1000;
  price.too_large = VirtualEngine::TooLarge::kRefuse;
  return price;
}

class RefusedChunks : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Placements, RefusedChunks,
                         ::testing::Values("auto", "agent", "paper", "split=50", "split=100"),
                         [](const auto& param) {
                           std::string name = param.param;
                           std::erase(name, '=');
                           return name;
                         });

TEST_P(RefusedChunks, Queue_CardRefusesChunks_HostDoesThem) {
  std::vector<size_t> sizes;
  for (size_t i = 0; i < 200; ++i) sizes.push_back(i % 4 == 1 ? 800 : 200);
  Sizes source(sizes);
  Counts sink;
  VirtualEngine card({"card", Side::kAgent, 4, {}}, Small(), Growing(3));
  Threefold host({"host", Side::kHost, 1, {}});
  QueueOptions options;
  options.placement = *Placement::Parse(GetParam());
  options.chunk_bytes = 300;
  PlacementReport sum;
  options.report = [&](const PlacementReport& report) { sum.AddCountsOf(report); };
  Queue queue(options, {&host, &card});
  ASSERT_TRUE(queue.Run(source, sink).ok()) << queue.stats().Explain();
  EXPECT_EQ(sink.chunks, sizes.size());
  EXPECT_EQ(queue.stats().engines[1].refused, card.counters().refused);
  EXPECT_EQ(sum.of(Side::kAgent).refused, card.counters().refused);
  EXPECT_EQ(sum.of(Side::kAgent).discarded, queue.stats().engines[1].discarded);
  if (absl::string_view(GetParam()) == "split=100" || absl::string_view(GetParam()) == "agent") {
    // A chunk that a second lane begins when the first is late is refused by both.
    EXPECT_GE(card.counters().refused, 50u);
    EXPECT_LE(card.counters().refused, 50u + queue.stats().engines[1].redone);
    EXPECT_EQ(queue.stats().engines[0].chunks, 50u);
  }
}

TEST(VirtualEngineTest, InTheQueue_TheReportHasTtOtC1C2AndTheBreakEven) {
  Sizes source(std::vector<size_t>(300, 100));
  Counts sink;
  Price price;
  price.setup_nanos = 2'000'000;
  price.bytes_per_second = 1e9;
  VirtualEngine card({"card", Side::kAgent, 2, {}}, price, Growing(3));
  Threefold host({"host", Side::kHost, 1, {}});
  QueueOptions options;
  options.placement = *Placement::Parse("split=50");
  options.chunk_bytes = 100;
  Queue queue(options, {&host, &card});
  ASSERT_TRUE(queue.Run(source, sink).ok());
  const std::string said = queue.stats().Explain();
  for (const char* word :
       {"TT of the host", "of the agent", "OT", "C1", "C2", "set-up of 2 ms, break-even at"}) {
    EXPECT_NE(said.find(word), std::string::npos) << word << ": " << said;
  }
  EXPECT_EQ(queue.stats().engines[1].most_before_nanos, 2'000'000);
  // The other lane has waited for the same context, and no longer.
  EXPECT_LE(queue.stats().engines[1].before_nanos, 4'000'000);
}

// It refuses large chunks, and is there; who took them is lost.
TEST(RefusedChunksTest, EngineThatTookIt_Lost_IsAnError) {
  class LostAtLarge : public Engine {
   public:
    using Engine::Engine;
    absl::Status Process(int lane, const Chunk& chunk, Result& result) override {
      if (chunk.size() > 500) return absl::UnavailableError("it is gone");
      return Growing(3)(chunk, result);
    }
  };
  Sizes source({800});
  Counts sink;
  VirtualEngine card({"card", Side::kAgent, 1, {}}, Small(), Growing(3));
  LostAtLarge host({"host", Side::kHost, 1, {}});
  QueueOptions options;
  options.placement = *Placement::Parse("agent");
  Queue queue(options, {&host, &card});
  const absl::Status status = queue.Run(source, sink);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(card.counters().refused, 1u);
}

TEST(RefusedChunksTest, NoOtherEngine_IsAnError) {
  Sizes source({100, 800, 100});
  Counts sink;
  VirtualEngine card({"card", Side::kAgent, 2, {}}, Small(), Growing(3));
  Queue queue({}, {&card});
  const absl::Status status = queue.Run(source, sink);
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_NE(Text(status).find("chunk 1"), std::string::npos) << status;
}

}  // namespace
}  // namespace pulse::ops
