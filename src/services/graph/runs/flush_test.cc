// Chunks, copy plans and flushing.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "base/private_memory.h"
#include "base/testing.h"
#include "mover/test_copy_engine.h"
#include "mover/test_dsa_portal.h"
#include "mover/thread_copy_engine.h"
#include "services/graph/runs/flush_plan.h"
#include "services/graph/runs/test_runs.h"

namespace pulse::graph {
namespace {

using cypher::Value;
using testing_runs::Item;
using testing_util::TestSeed;

class ChunkMemory {
 public:
  ChunkMemory(Side side, uint32_t records)
      : memory_(PrivateMemory::Create(Chunk::Bytes(records)).value()),
        chunk_(Chunk::Format(memory_.data(), side, records)) {}
  Chunk& operator*() { return chunk_; }
  Chunk* operator->() { return &chunk_; }
  char* data() { return memory_.data(); }

 private:
  PrivateMemory memory_;
  Chunk chunk_;
};

TEST(Chunk, Chains_HoldWhatWasAppendedNewestFirst) {
  std::mt19937_64 random(TestSeed());
  for (const uint64_t spread : {uint64_t{5}, uint64_t{700}, uint64_t{1} << 60}) {
    ChunkMemory chunk(Side::kIn, 1024);
    std::map<NodeId, std::vector<EdgeId>> model;
    EdgeId next = 0;
    while (true) {
      const NodeId node = random() % spread;
      Record record;
      record.edge = ++next;
      record.other = random();
      if (!chunk->Append(node, record)) break;
      model[node].push_back(record.edge);
    }
    EXPECT_FALSE(chunk->HasRoom(1));
    EXPECT_EQ(chunk->size(), next - 1);
    EXPECT_EQ(chunk->node_count(), model.size());
    EXPECT_EQ(chunk->side(), Side::kIn);
    std::vector<NodeId> nodes, expected;
    chunk->Nodes(&nodes);
    for (const auto& [node, edges] : model) {
      expected.push_back(node);
      ASSERT_EQ(chunk->Count(node), edges.size());
      uint32_t at = chunk->Head(node);
      for (auto it = edges.rbegin(); it != edges.rend(); ++it) {
        ASSERT_NE(at, kNoRecord);
        ASSERT_EQ(chunk->record(at).edge, *it);
        at = chunk->record(at).previous;
      }
      ASSERT_EQ(at, kNoRecord);
    }
    EXPECT_EQ(nodes, expected);
    EXPECT_EQ(chunk->Head(spread + 1), kNoRecord);
    const auto again = Chunk::Attach(chunk.data(), Chunk::Bytes(1024));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->Head(nodes[0]), chunk->Head(nodes[0]));
  }
}

TEST(Chunk, MemoryThatIsNone_IsRefused) {
  ChunkMemory chunk(Side::kOut, 64);
  EXPECT_TRUE(absl::IsDataLoss(Chunk::Attach(chunk.data(), Chunk::Bytes(64) - 1).status()));
  EXPECT_TRUE(absl::IsDataLoss(Chunk::Attach(chunk.data(), 3).status()));
  for (size_t byte = 0; byte < 24; ++byte) {
    chunk.data()[byte] = static_cast<char>(chunk.data()[byte] ^ 0x80);
    EXPECT_TRUE(absl::IsDataLoss(Chunk::Attach(chunk.data(), Chunk::Bytes(64)).status())) << byte;
    chunk.data()[byte] = static_cast<char>(chunk.data()[byte] ^ 0x80);
  }
  EXPECT_TRUE(Chunk::Attach(chunk.data(), Chunk::Bytes(64)).ok());
}

TEST(Chunk, ReadersBesideTheWriter_SeeWholeChains) {
  ChunkMemory chunk(Side::kOut, 1u << 14);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> walked{0};
  std::thread reader([&] {
    while (!stop.load()) {
      for (NodeId node = 0; node < 50; ++node) {
        uint64_t before = ~uint64_t{0};
        for (uint32_t at = chunk->Head(node); at != kNoRecord; at = chunk->record(at).previous) {
          const Record& record = chunk->record(at);
          // Each record says whose it is, and chains descend.
          ASSERT_EQ(record.other, node);
          ASSERT_LT(record.edge, before);
          before = record.edge;
          walked.fetch_add(1, std::memory_order_relaxed);
        }
      }
    }
  });
  for (EdgeId edge = 0; edge < (1u << 14); ++edge) {
    ASSERT_TRUE(chunk->Append(edge % 50, {edge % 50, edge, 0, 0, 1}));
    if (edge % 4096 == 0) {
      const uint64_t seen = walked.load();
      testing_util::Eventually([&] { return walked.load() != seen || edge == 0; });
    }
  }
  stop = true;
  reader.join();
  EXPECT_GT(walked.load(), 0u);
}

TEST(CopyPlan, PiecesThatFollowEachOther_AreOne) {
  char from[100] = {}, to[100];
  CopyPlan plan;
  plan.Add(from, to, 10);
  plan.Add(from + 10, to + 10, 5);
  plan.Add(from + 15, to + 16, 5);  // not where the last one ends
  plan.Add(from + 30, to + 21, 5);  // the same at the other end
  plan.Add(from + 35, to + 26, 0);  // nothing
  plan.Add(from + 35, to + 26, 1);
  ASSERT_EQ(plan.pieces().size(), 3u);
  EXPECT_EQ(plan.pieces()[0].length, 15u);
  EXPECT_EQ(plan.pieces()[2].length, 6u);
  EXPECT_EQ(plan.bytes(), 26u);
  EXPECT_EQ(plan.added(), 5u);
}

class PlanTest : public ::testing::Test {
 protected:
  PlanTest() : from_(100'000), to_(100'000, 0), random_(TestSeed()) {
    for (char& c : from_) c = static_cast<char>(random_());
    // The same bytes elsewhere: pieces of random lengths, in another order.
    std::vector<std::pair<size_t, size_t>> pieces;
    for (size_t at = 0; at < from_.size();) {
      const size_t n = std::min<size_t>(1 + random_() % 3000, from_.size() - at);
      pieces.emplace_back(at, n);
      at += n;
    }
    std::shuffle(pieces.begin(), pieces.end(), random_);
    size_t at = 0;
    for (const auto& [piece, n] : pieces) {
      plan_.Add(&from_[piece], &to_[at], n);
      expected_.insert(expected_.end(), &from_[piece], &from_[piece] + n);
      at += n;
    }
  }

  std::vector<char> from_, to_, expected_;
  CopyPlan plan_;
  std::mt19937_64 random_;
};

TEST_F(PlanTest, PartialCompletionsOutOfOrderOnAFullQueue_CopyEveryByte) {
  FakeCopyEngine engine(4);
  PlanExecutor executor(&engine, {.min_engine_bytes = 100, .max_piece_bytes = 1000});
  executor.Start(plan_);
  EXPECT_EQ(engine.open.size(), 4u) << "it submits what the engine takes, and does not wait";
  while (!executor.Poll()) {
    const size_t at = random_() % engine.open.size();
    if (random_() % 2 == 0) {
      engine.Finish(at, random_() % (engine.open[at].length + 1));
    } else {
      engine.FinishWell(at);
    }
  }
  ASSERT_TRUE(executor.Wait().ok());
  EXPECT_EQ(to_, expected_);
  const ExecutorStats& stats = executor.stats();
  EXPECT_EQ(stats.bytes, to_.size());
  EXPECT_EQ(stats.engine_bytes + stats.small_bytes + stats.fallback_bytes, to_.size());
  EXPECT_GT(stats.partial, 0u);
  EXPECT_GT(stats.full, 0u);
  EXPECT_EQ(stats.failures, 0u);
}

TEST_F(PlanTest, EngineThatIsAlwaysUnavailable_LeavesItToTheCallerAndSaysWhy) {
  FakeCopyEngine engine(8);
  PlanExecutor executor(&engine, {.min_engine_bytes = 1, .attempts = 3});
  executor.Start(plan_);
  while (!executor.Poll()) engine.Finish(0, 0, absl::UnavailableError("the portal is gone"));
  ASSERT_TRUE(executor.Wait().ok());
  EXPECT_EQ(to_, expected_);
  EXPECT_EQ(executor.stats().fallback_bytes, to_.size());
  EXPECT_EQ(executor.stats().engine_bytes, 0u);
  EXPECT_EQ(executor.stats().last_failure.message(), "the portal is gone");
  EXPECT_EQ(executor.stats().failures, 3 * plan_.pieces().size());
}

TEST_F(PlanTest, PieceThatNoEngineCanDo_IsAnError) {
  auto engine = CreateInlineCopyEngine({}).value();
  PlanExecutor executor(engine.get());
  CopyPlan plan;
  plan.Add(&from_[0], &from_[5], 50);
  executor.Start(plan);
  EXPECT_TRUE(absl::IsInvalidArgument(executor.Wait()));
}

TEST_F(PlanTest, ExecutorThatGoesEarly_WaitsForTheEngine) {
  auto engine = CreateThreadCopyEngine({.threads = 2, .depth = 1000}).value();
  {
    PlanExecutor executor(engine.get(), {.min_engine_bytes = 1});
    executor.Start(plan_);
  }
  EXPECT_EQ(engine->in_flight(), 0u);
}

using PropertiesOfStamps = std::map<uint64_t, cypher::Properties>;

// Each record has a stamp of its own.
class PropertiesByStamp : public PropertySource {
 public:
  explicit PropertiesByStamp(const PropertiesOfStamps* properties) : properties_(properties) {}
  const cypher::Properties* Find(const Record& record) override {
    EXPECT_TRUE(announced_.contains(record.stamp));
    const auto it = properties_->find(record.stamp);
    return it == properties_->end() ? nullptr : &it->second;
  }
  void Prefetch(std::span<const Record> records) override {
    for (const Record& record : records) announced_.insert(record.stamp);
  }

 private:
  const PropertiesOfStamps* const properties_;
  std::set<uint64_t> announced_;
};

// What one flush makes, from chunks to a run, by each engine.
TEST(Flush, ChunksOfRandomRecords_BecomeTheirSortedRun) {
  std::mt19937_64 random(TestSeed());
  for (const Side side : {Side::kOut, Side::kIn}) {
    for (const uint64_t spread : {uint64_t{7}, uint64_t{3000}, uint64_t{1} << 50}) {
      std::vector<std::unique_ptr<ChunkMemory>> memory;
      std::vector<Chunk> chunks;
      std::vector<Item> items;
      PropertiesOfStamps properties;
      uint64_t sequence = 0;
      for (int c = 0; c < 3; ++c) {
        memory.push_back(std::make_unique<ChunkMemory>(side, 4096));
        for (uint64_t n = random() % 4000; n > 0; --n) {
          Item item;
          item.node = random() % spread;
          item.other = random() % 1000;
          item.edge = random() % 2 == 0 ? ++sequence : LocalEdgeId(random() % 9, ++sequence);
          item.type = static_cast<Token>(random() % 3);
          item.stamp = MakeStamp(++sequence, random() % 3);
          if (!(*memory.back())
                   ->Append(item.node, {item.other, item.edge, item.stamp, 0, item.type})) {
            break;
          }
          if (side == Side::kOut && !IsTombstone(item.stamp)) {
            item.properties[4] = Value::Int(static_cast<int64_t>(sequence));
            if (n % 3 == 0) item.properties[2] = testing_runs::RandomValue(&random, int(n % 8));
            auto& list = properties[item.stamp];
            for (const auto& [key, value] : item.properties) list.emplace_back(key, value);
          }
          items.push_back(item);
        }
        chunks.push_back(**memory.back());
      }
      std::vector<Record> first;
      for (int e = 0; e < 3; ++e) {
        auto engine = e == 0   ? CreateInlineCopyEngine({}).value()
                      : e == 1 ? CreateInlineCopyEngine({.depth = 2, .piece = 40}).value()
                               : CreateThreadCopyEngine({.threads = 2}).value();
        std::vector<Record> sorted(items.size());
        const FlushPlan plan = PlanFlush(chunks, sorted.data());
        ASSERT_EQ(plan.records, items.size());
        EXPECT_EQ(plan.copies.bytes(), items.size() * sizeof(Record));
        PlanExecutor executor(engine.get(), {.min_engine_bytes = 33});
        executor.Start(plan.copies);
        ASSERT_TRUE(executor.Wait().ok());
        if (e == 0) first = sorted;
        ASSERT_EQ(std::memcmp(first.data(), sorted.data(), sorted.size() * sizeof(Record)), 0) << e;
        StringSink sink;
        auto builder = RunBuilder::Create({.side = side}, &sink).value();
        PropertiesByStamp source(&properties);
        const absl::Status added = AddSorted(plan, sorted.data(), &source, builder.get());
        ASSERT_TRUE(added.ok()) << added;
        ASSERT_TRUE(builder->Finish().ok());
        const auto run = RunReader::Open(OwnRun(sink.bytes(), "flushed"));
        ASSERT_TRUE(run.ok()) << run.status();
        const auto read = testing_runs::ReadItems(**run);
        ASSERT_TRUE(read.ok()) << read.status();
        std::vector<Item> expected = items;
        testing_runs::Sort(&expected);
        ASSERT_EQ(*read, expected);
      }
    }
  }
}

// A node's records in a row are one piece, whatever their number.
TEST(Flush, RecordsOfOneNodeInARow_AreOnePiece) {
  ChunkMemory chunk(Side::kOut, 1024);
  for (NodeId node = 0; node < 8; ++node) {
    for (EdgeId e = 0; e < 100; ++e) ASSERT_TRUE(chunk->Append(7 - node, {e, e, 0, 0, 1}));
  }
  std::vector<Record> sorted(800);
  const Chunk chunks[] = {*chunk};
  EXPECT_EQ(PlanFlush(chunks, sorted.data()).copies.pieces().size(), 8u);
}

// Be it at once or after some: a queue that has gone, or that others keep full.
TEST(CopyPlan, EngineThatTakesNothingMore_IsDoneByTheCaller) {
  std::mt19937_64 random(TestSeed());
  for (const uint64_t takes : {uint64_t{0}, uint64_t{5}}) {
    TestDsaPortal::Counts counts;
    const auto engine = CreateDsaCopyEngine(std::make_unique<TestDsaPortal>(
                                                random(), TestDsaFaults{.takes = takes}, &counts),
                                            {.depth = 8, .batch = 1 + random() % 4})
                            .value();
    std::string from(300'000, '\0'), to(from.size(), '\0');
    for (char& c : from) c = static_cast<char>(random());
    ExecutorOptions options;
    options.max_piece_bytes = 4096;
    options.refusals = 20;
    PlanExecutor executor(engine.get(), options);
    for (int half = 0; half < 2; ++half) {
      const size_t at = static_cast<size_t>(half) * 150'000;
      CopyPlan plan;
      plan.Add(&from[at], &to[at], 150'000);
      executor.Start(plan);
      ASSERT_TRUE(executor.Wait().ok());
      EXPECT_TRUE(to.compare(at, 150'000, from, at, 150'000) == 0) << takes;
      EXPECT_EQ(executor.stats().failures, 1u) << "it is asked once only";
    }
    const ExecutorStats& stats = executor.stats();
    EXPECT_EQ(stats.engine_bytes + stats.fallback_bytes, from.size());
    EXPECT_EQ(stats.engine_bytes > 0, takes > 0);
    EXPECT_TRUE(absl::IsUnavailable(stats.last_failure)) << stats.last_failure;
  }
}

}  // namespace
}  // namespace pulse::graph
