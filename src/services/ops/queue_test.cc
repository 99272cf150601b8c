#include "services/ops/queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <new>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/testing.h"

namespace pulse::ops {
namespace {

using testing_util::TestSeed;
using testing_util::Text;

// Gives `count` chunks; what is in them is their number.
class Numbers : public Source {
 public:
  explicit Numbers(uint64_t count) : count_(count) {}

  absl::StatusOr<bool> Next(Chunk& chunk) override {
    EXPECT_FALSE(busy_.exchange(true)) << "two calls of Next at once";
    EXPECT_EQ(chunk.number, next_);
    busy_ = false;
    if (next_ == fail_at) return absl::DataLossError("the source failed");
    if (next_ == count_) return false;
    ++next_;
    chunk.prefix = 0;
    chunk.input.Clear();
    return true;
  }
  absl::Status Load(Chunk& chunk) override {
    if (chunk.number == load_fails_at) return absl::DataLossError("loading failed");
    const std::string text = absl::StrCat(chunk.number);
    chunk.input.Clear();
    chunk.input.Append(text);
    return absl::OkStatus();
  }
  uint64_t SizeOf(const Chunk& chunk) const override { return 1; }
  uint64_t given() const { return next_; }

  uint64_t fail_at = ~uint64_t{0};
  uint64_t load_fails_at = ~uint64_t{0};

 private:
  const uint64_t count_;
  uint64_t next_ = 0;
  std::atomic<bool> busy_{false};
};

// Checks the order.
class InOrder : public Sink {
 public:
  absl::Status Take(const Chunk& chunk, Result& result) override {
    EXPECT_FALSE(busy_.exchange(true)) << "two calls of Take at once";
    EXPECT_EQ(chunk.number, taken_);
    EXPECT_EQ(result.bytes.view(), absl::StrCat("<", chunk.number, ">"));
    ++taken_;
    busy_ = false;
    if (taken_ == fail_after) return absl::ResourceExhaustedError("the sink is full");
    return absl::OkStatus();
  }
  uint64_t taken() const { return taken_; }

  uint64_t fail_after = ~uint64_t{0};

 private:
  uint64_t taken_ = 0;
  std::atomic<bool> busy_{false};
};

class Brackets : public Engine {
 public:
  using Hook = std::function<absl::Status(int lane, uint64_t number)>;

  Brackets(std::string name, int lanes, Side side = Side::kHost, Hook hook = nullptr)
      : Engine({std::move(name), side, lanes, {}}), hook_(std::move(hook)) {}

  absl::Status Process(int lane, const Chunk& chunk, Result& result) override {
    EXPECT_LT(lane, traits().lanes);
    if (hook_) PULSE_RETURN_IF_ERROR(hook_(lane, chunk.number));
    result.bytes.Append("<");
    result.bytes.Append(chunk.data(), chunk.size());
    result.bytes.Append(">");
    return absl::OkStatus();
  }
  void Interrupt() override {
    const std::lock_guard lock(mutex_);
    interrupted_ = true;
    wake_.notify_all();
  }
  void Explain(const PlacementReport& report) override { reports.push_back(report); }
  // Blocks until interrupted.
  absl::Status Hang() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return interrupted_; });
    return absl::CancelledError("interrupted");
  }

  std::vector<PlacementReport> reports;

 private:
  const Hook hook_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool interrupted_ = false;
};

TEST(Queue, ManyLanes_DeliverAllInOrder) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 20; ++round) {
    Numbers source(random() % 2000);
    const uint64_t seed = random();
    Brackets host("host", 3, Side::kHost, [&](int, uint64_t number) {
      if ((number ^ seed) % 7 == 0) std::this_thread::yield();
      return absl::OkStatus();
    });
    Brackets agent("agent", 2, Side::kAgent);
    QueueOptions options;
    options.window = 1 + random() % 20;
    Queue queue(options, {&host, &agent});
    InOrder sink;
    ASSERT_TRUE(queue.Run(source, sink).ok());
    EXPECT_EQ(sink.taken(), source.given());
    const QueueStats& stats = queue.stats();
    EXPECT_EQ(stats.chunks, source.given());
    EXPECT_EQ(stats.engines[0].chunks + stats.engines[1].chunks, source.given());
  }
}

// Has one chunk; the next one is waited for until the source is stopped.
class Pausing : public Source {
 public:
  absl::StatusOr<bool> Next(Chunk& chunk) override {
    std::unique_lock lock(mutex_);
    chunk.prefix = 0;
    chunk.input.Clear();
    chunk.input.Append("x");
    if (!std::exchange(given_, true)) return true;
    waits_ = true;
    changed_.notify_all();
    // The limit only turns a hang into a failure.
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return stopped_; }));
    return absl::CancelledError("stopped");
  }
  void Stop() override {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  void AwaitWaiting() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waits_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool given_ = false;
  bool waits_ = false;
  bool stopped_ = false;
};

TEST(Queue, ChunkThatFailsWhileTheSourceWaits_StopsIt) {
  Pausing source;
  InOrder sink;
  Brackets engine("one", 2, Side::kHost, [&](int, uint64_t) {
    source.AwaitWaiting();
    return absl::DataLossError("damaged");
  });
  Queue queue({}, {&engine});
  EXPECT_EQ(Text(queue.Run(source, sink)), "damaged");
}

// Gives a large chunk, and then small ones.
class LargeFirst : public Source {
 public:
  static constexpr size_t kLarge = size_t{64} << 20;
  absl::StatusOr<bool> Next(Chunk& chunk) override {
    EXPECT_LT(chunk.input.capacity(), kLarge);
    if (next_ == 40) return false;
    chunk.prefix = 0;
    chunk.input.Clear();
    chunk.input.Resize(next_ == 0 ? kLarge : 100);
    ++next_;
    return true;
  }

 private:
  int next_ = 0;
};

// Results as large as their chunks, in memory that is not written to.
class SameSize : public Engine {
 public:
  SameSize() : Engine({"same", Side::kHost, 1, {}}) {}
  absl::Status Process(int, const Chunk& chunk, Result& result) override {
    EXPECT_LT(result.bytes.capacity(), LargeFirst::kLarge);
    result.bytes.Resize(chunk.size());
    return absl::OkStatus();
  }
};

class Nowhere : public Sink {
 public:
  absl::Status Take(const Chunk&, Result&) override { return absl::OkStatus(); }
};

TEST(Queue, MemoryOfALargeChunk_IsGivenBack) {
  LargeFirst source;
  SameSize engine;
  Nowhere sink;
  Queue queue({}, {&engine});
  ASSERT_TRUE(queue.Run(source, sink).ok());
  EXPECT_EQ(queue.stats().chunks, 40U);
}

TEST(Queue, KnownTotal_EndsWithTheLastChunk) {
  Brackets host("host", 2);
  for (const uint64_t count : {0, 1, 2, 3, 50}) {
    Numbers source(count);
    InOrder sink;
    QueueOptions options;
    options.chunk_bytes = 1;
    options.total_bytes = count;
    Queue queue(options, {&host});
    ASSERT_TRUE(queue.Run(source, sink).ok());
    EXPECT_EQ(sink.taken(), count);
  }
}

TEST(Queue, EmptySource_DeliversNothing) {
  Numbers source(0);
  InOrder sink;
  Brackets engine("one", 2);
  Queue queue({}, {&engine});
  EXPECT_TRUE(queue.Run(source, sink).ok());
  EXPECT_EQ(sink.taken(), 0u);
}

TEST(Queue, Split_SharesByPercentage) {
  Numbers source(400);
  InOrder sink;
  Brackets host("host", 2);
  Brackets agent("agent", 1, Side::kAgent);
  QueueOptions options;
  options.placement = {Placement::Kind::kSplit, 25};
  Queue queue(options, {&host, &agent});
  ASSERT_TRUE(queue.Run(source, sink).ok());
  EXPECT_EQ(queue.stats().engines[1].chunks, 100u);
}

TEST(Queue, Report_SaysWhatEachSideDidAndHowFast) {
  // A clock that moves by itself: each look at it is 10 ms later.
  std::atomic<int64_t> time{1};
  Numbers source(400);
  InOrder sink;
  Brackets host("host", 2);
  Brackets agent("agent", 1, Side::kAgent);
  QueueOptions options;
  options.placement = {Placement::Kind::kSplit, 25};
  options.clock = [&] { return time += 10'000'000; };
  options.tick_every = std::chrono::milliseconds(1);
  std::vector<PlacementReport> reports;
  options.report = [&](const PlacementReport& report) { reports.push_back(report); };
  Queue queue(options, {&host, &agent});
  ASSERT_TRUE(queue.Run(source, sink).ok());
  ASSERT_FALSE(reports.empty());
  PlacementReport sum;
  for (const PlacementReport& report : reports) {
    sum.AddCountsOf(report);
    EXPECT_EQ(report.placement, Placement::Kind::kSplit);
    EXPECT_EQ(report.ended, &report == &reports.back());
  }
  EXPECT_EQ(sum.of(Side::kHost).chunks, 300u);
  EXPECT_EQ(sum.of(Side::kAgent).chunks, 100u);
  EXPECT_EQ(sum.of(Side::kHost).bytes + sum.of(Side::kAgent).bytes, queue.stats().input_bytes);
  const PlacementReport& last = reports.back();
  EXPECT_TRUE(last.BothAreKnown());
  EXPECT_EQ(last.of(Side::kHost).rate, queue.stats().RateOf(Side::kHost));
  EXPECT_EQ(last.of(Side::kAgent).rate, queue.stats().RateOf(Side::kAgent));
  EXPECT_GT(last.whole, 0);
  EXPECT_EQ(last.C1(), last.of(Side::kAgent).rate > last.of(Side::kHost).rate);
  // The line says the same.
  EXPECT_NE(
      queue.stats().Explain().find(last.C1() ? "C1 (agent faster) yes" : "C1 (agent faster) no"),
      std::string::npos);
  // Both engines were told.
  for (const Brackets* engine : {&host, &agent}) {
    ASSERT_EQ(engine->reports.size(), reports.size());
    EXPECT_TRUE(engine->reports.back().ended);
  }
}

TEST(Queue, Report_OfALongRun_ComesWhileItRuns) {
  std::atomic<int64_t> time{1};
  std::atomic<int> reports{0};
  Numbers source(3);
  InOrder sink;
  // The second chunk ends once a report has come.
  Brackets host("host", 1, Side::kHost, [&](int, uint64_t number) {
    while (number == 1 && reports == 0) std::this_thread::yield();
    return absl::OkStatus();
  });
  QueueOptions options;
  options.clock = [&] { return time += 500'000'000; };
  options.tick_every = std::chrono::milliseconds(1);
  bool ended = false;
  options.report = [&](const PlacementReport& report) {
    ++reports;
    ended = report.ended;
  };
  Queue queue(options, {&host});
  ASSERT_TRUE(queue.Run(source, sink).ok());
  EXPECT_GT(reports, 1);
  EXPECT_TRUE(ended);
}

TEST(Queue, EngineThatIsLost_CostsNothingButTime) {
  Numbers source(500);
  InOrder sink;
  Brackets host("host", 1);
  Brackets agent("agent", 2, Side::kAgent, [](int, uint64_t number) {
    return number >= 50 ? absl::UnavailableError("the agent died") : absl::OkStatus();
  });
  QueueOptions options;
  options.placement = {Placement::Kind::kSplit, 50};
  PlacementReport sum;
  options.report = [&](const PlacementReport& report) { sum.AddCountsOf(report); };
  options.tick_every = std::chrono::milliseconds(1);
  std::atomic<int64_t> time{0};
  options.clock = [&] { return time += 10'000'000; };
  Queue queue(options, {&host, &agent});
  ASSERT_TRUE(queue.Run(source, sink).ok());
  EXPECT_EQ(sink.taken(), 500u);
  EXPECT_TRUE(queue.stats().engines[1].lost);
  // Of all reports together: it was lost once.
  EXPECT_EQ(sum.of(Side::kAgent).lost, 1u);
  EXPECT_EQ(sum.of(Side::kHost).lost, 0u);
  EXPECT_EQ(sum.of(Side::kAgent).busy_nanos,
            static_cast<uint64_t>(queue.stats().engines[1].busy_nanos));
  EXPECT_GT(sum.of(Side::kHost).busy_nanos, 0u);
  EXPECT_NE(queue.stats().Explain().find("the agent died"), std::string::npos);
  // So it was with the next queue that has the same engines.
  Numbers again(500);
  InOrder sink_again;
  Queue next(options, {&host, &agent});
  ASSERT_TRUE(next.Run(again, sink_again).ok());
  EXPECT_TRUE(next.stats().engines[1].lost);
  EXPECT_EQ(sum.of(Side::kAgent).lost, 1u);
}

TEST(Queue, LastEngineIsLost_SaysItsError) {
  Numbers source(500);
  InOrder sink;
  Brackets engine("only", 2, Side::kHost, [](int, uint64_t number) {
    return number == 30 ? absl::UnavailableError("unplugged") : absl::OkStatus();
  });
  Queue queue({}, {&engine});
  const absl::Status status = queue.Run(source, sink);
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_NE(Text(status).find("only"), std::string::npos);
  EXPECT_NE(Text(status).find("unplugged"), std::string::npos);
}

TEST(Queue, EngineThatHangs_IsOvertakenAndInterrupted) {
  Numbers source(300);
  InOrder sink;
  Brackets host("host", 1);
  std::atomic<bool> hung{false};
  Brackets* hanging = nullptr;
  Brackets agent("agent", 1, Side::kAgent, [&](int, uint64_t) {
    hung = true;
    return hanging->Hang();
  });
  hanging = &agent;
  Queue queue({}, {&host, &agent});
  ASSERT_TRUE(queue.Run(source, sink).ok());
  EXPECT_EQ(sink.taken(), 300u);
  // Unless it began too late to get a chunk.
  EXPECT_EQ(queue.stats().engines[0].redone, hung ? 1u : 0u);
}

TEST(Queue, ErrorOfAChunk_ComesAfterAllBeforeIt) {
  for (const uint64_t bad : {0, 1, 77, 199}) {
    Numbers source(200);
    InOrder sink;
    Brackets engine("one", 3, Side::kHost, [&](int, uint64_t number) {
      return number == bad ? absl::DataLossError("bad chunk") : absl::OkStatus();
    });
    Queue queue({}, {&engine});
    const absl::Status status = queue.Run(source, sink);
    EXPECT_EQ(status, absl::DataLossError("bad chunk"));
    EXPECT_EQ(sink.taken(), bad);
  }
}

TEST(Queue, ErrorOfTheSource_ComesAfterAllBeforeIt) {
  Numbers source(200);
  source.fail_at = 120;
  InOrder sink;
  Brackets engine("one", 3);
  Queue queue({}, {&engine});
  EXPECT_EQ(queue.Run(source, sink), absl::DataLossError("the source failed"));
  EXPECT_EQ(sink.taken(), 120u);
}

TEST(Queue, ErrorOfLoading_ComesAfterAllBeforeIt) {
  Numbers source(200);
  source.load_fails_at = 33;
  InOrder sink;
  Brackets engine("one", 3);
  Queue queue({}, {&engine});
  EXPECT_EQ(queue.Run(source, sink), absl::DataLossError("loading failed"));
  EXPECT_EQ(sink.taken(), 33u);
}

TEST(Queue, NoMemoryInALane_IsAnErrorOfItsChunk) {
  class Starved : public Numbers {
   public:
    using Numbers::Numbers;
    absl::Status Load(Chunk& chunk) override {
      if (chunk.number == 7) throw std::bad_alloc();
      return Numbers::Load(chunk);
    }
  };
  Brackets engine("e", 3);
  Starved source(100);
  InOrder sink;
  Queue queue({}, {&engine});
  const absl::Status status = queue.Run(source, sink);
  EXPECT_TRUE(absl::IsInternal(status)) << Text(status);
  EXPECT_EQ(sink.taken(), 7u);
}

TEST(Queue, ErrorOfTheSink_EndsAtOnce) {
  Numbers source(100000);
  InOrder sink;
  sink.fail_after = 10;
  Brackets engine("one", 2);
  QueueOptions options;
  options.window = 8;
  Queue queue(options, {&engine});
  EXPECT_TRUE(absl::IsResourceExhausted(queue.Run(source, sink)));
  EXPECT_EQ(sink.taken(), 10u);
  EXPECT_LE(source.given(), 10u + 8u);
}

TEST(Queue, Cancel_InterruptsEngines) {
  Numbers source(100);
  InOrder sink;
  std::atomic<int> hanging{0};
  Brackets* self = nullptr;
  Brackets engine("one", 2, Side::kHost, [&](int, uint64_t) {
    ++hanging;
    return self->Hang();
  });
  self = &engine;
  Queue* running = nullptr;
  QueueOptions options;
  options.tick_every = std::chrono::milliseconds(1);
  options.tick = [&] {
    if (hanging == 2) running->Cancel();
  };
  Queue queue(options, {&engine});
  running = &queue;
  EXPECT_TRUE(absl::IsCancelled(queue.Run(source, sink)));
  EXPECT_EQ(sink.taken(), 0u);
}

TEST(Queue, Window_BoundsWhatIsClaimed) {
  Numbers source(1000);
  std::atomic<uint64_t> delivered{0};
  std::atomic<uint64_t> most{0};
  Brackets engine("one", 4, Side::kHost, [&](int, uint64_t number) {
    // A chunk that is done a second time may have been delivered by now.
    const uint64_t by_now = delivered;
    const uint64_t ahead = number > by_now ? number - by_now : 0;
    uint64_t before = most;
    while (ahead > before && !most.compare_exchange_weak(before, ahead)) {
    }
    return absl::OkStatus();
  });
  class Counting : public InOrder {
   public:
    explicit Counting(std::atomic<uint64_t>& n) : n_(n) {}
    absl::Status Take(const Chunk& chunk, Result& result) override {
      const absl::Status status = InOrder::Take(chunk, result);
      ++n_;
      return status;
    }

   private:
    std::atomic<uint64_t>& n_;
  } sink(delivered);
  QueueOptions options;
  options.window = 5;
  Queue queue(options, {&engine});
  ASSERT_TRUE(queue.Run(source, sink).ok());
  EXPECT_LT(most, 5u);
}

TEST(Queue, RateTable_KeepsWhatWasLearnt) {
  RateTable rates;
  QueueOptions options;
  options.operation = "brackets";
  options.rates = &rates;
  options.chunk_bytes = 1;
  Brackets engine("one", 1);
  Numbers source(10);
  InOrder sink;
  Queue queue(options, {&engine});
  ASSERT_TRUE(queue.Run(source, sink).ok());
  EXPECT_GT(queue.stats().engines[0].bytes_per_second, 0);
  EXPECT_GT(rates.Get({"brackets", 0, "one"}).BytesPerSecond(1, NowNanos()), 0);
}

}  // namespace
}  // namespace pulse::ops
