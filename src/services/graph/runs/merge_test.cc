// Merging runs: against a model that keeps all versions of all relationships, with every engine.
#include "services/graph/runs/merge.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "base/testing.h"
#include "mover/test_copy_engine.h"
#include "mover/thread_copy_engine.h"
#include "services/graph/runs/test_runs.h"

namespace pulse::graph {
namespace {

using cypher::Value;
using testing_runs::Item;
using testing_util::Rounds;
using testing_util::TestSeed;

// What polls it also decides how its copies end: in any order, some in part, some not at all.
class UnreliableEngine : public FakeCopyEngine {
 public:
  UnreliableEngine(size_t depth, uint64_t seed) : FakeCopyEngine(depth), random_(seed) {}
  size_t Poll(CopyCompletion* out, size_t max) override {
    for (size_t n = random_() % 4; n > 0 && !open.empty(); --n) {
      const size_t at = random_() % open.size();
      switch (random_() % 4) {
        case 0:
          Finish(at, random_() % (open[at].length + 1), absl::UnavailableError("a page fault"));
          break;
        case 1:
          Finish(at, random_() % (open[at].length + 1));
          break;
        default:
          FinishWell(at);
      }
    }
    return FakeCopyEngine::Poll(out, max);
  }

 private:
  std::mt19937_64 random_;
};

std::vector<std::pair<std::string, std::unique_ptr<CopyEngine>>> Engines(uint64_t seed) {
  std::vector<std::pair<std::string, std::unique_ptr<CopyEngine>>> engines;
  engines.emplace_back("inline", CreateInlineCopyEngine({}).value());
  engines.emplace_back("pieces", CreateInlineCopyEngine({.depth = 3, .piece = 700}).value());
  engines.emplace_back(
      "threads", CreateThreadCopyEngine({.threads = 2, .depth = 16, .stream_bytes = 1024}).value());
  engines.emplace_back("unreliable", std::make_unique<UnreliableEngine>(5, seed));
  return engines;
}

// What a snapshot sees of versions, in any order: relationship to its newest version.
using Seen = std::map<std::tuple<NodeId, Token, NodeId, EdgeId>, Item>;
Seen Look(const std::vector<Item>& versions, uint64_t snapshot) {
  std::map<std::tuple<NodeId, Token, NodeId, EdgeId>, Item> newest;
  for (const Item& item : versions) {
    if (SequenceOf(item.stamp) > snapshot) continue;
    const auto [at, is_new] =
        newest.try_emplace({item.node, item.type, item.other, item.edge}, item);
    if (!is_new && at->second.stamp < item.stamp) at->second = item;
  }
  Seen seen;
  for (auto& [key, item] : newest) {
    if (IsTombstone(item.stamp)) continue;
    item.stamp = 0;
    seen.emplace(key, item);
  }
  return seen;
}

void ExpectSame(const Seen& got, const Seen& expected, const std::string& where) {
  ASSERT_EQ(got.size(), expected.size()) << where;
  auto at = expected.begin();
  for (const auto& [key, item] : got) {
    ASSERT_TRUE(item == at->second) << where << ": " << item << " instead of " << at->second;
    ++at;
  }
}

// A history of a graph, cut into runs.
struct History {
  std::vector<std::vector<Item>> runs;  // the oldest first
  std::vector<Item> all;
  uint64_t last = 0;  // sequence
};

History RandomHistory(std::mt19937_64* random, Side side, int runs) {
  auto& r = *random;
  History history;
  std::vector<Item> alive;
  EdgeId next_edge = 1;
  const uint64_t nodes = 1 + r() % 2000;
  // Some runs touch a part of the nodes only: there is something to copy.
  for (int i = 0; i < runs; ++i) {
    std::vector<Item> run;
    const NodeId from = r() % nodes, width = 1 + (r() % 2 == 0 ? nodes : nodes / 8);
    for (uint64_t n = r() % 3000; n > 0; --n) {
      ++history.last;
      const uint64_t what = r() % 10;
      Item item;
      if (what < 7 || alive.empty()) {
        item.node = (from + r() % width) % nodes;
        item.other = r() % nodes;
        item.type = static_cast<Token>(r() % 3);
        item.edge = next_edge++;
        item.stamp = MakeStamp(history.last);
      } else {
        const size_t at = r() % alive.size();
        item = alive[at];
        alive.erase(alive.begin() + static_cast<std::ptrdiff_t>(at));
        item.stamp = MakeStamp(history.last, what == 9 ? kTombstone : kUpdate);
      }
      item.properties.clear();
      if (!IsTombstone(item.stamp)) {
        if (side == Side::kOut) {
          item.properties[1] = Value::Int(static_cast<int64_t>(r() % 100));
          if (r() % 5 == 0) item.properties[2] = testing_runs::RandomValue(random, int(r() % 8));
        }
        alive.push_back(item);
      }
      run.push_back(item);
    }
    history.all.insert(history.all.end(), run.begin(), run.end());
    testing_runs::Sort(&run);
    history.runs.push_back(std::move(run));
  }
  return history;
}

TEST(MergeRuns, RandomHistories_ShowEverySnapshotWhatItSaw) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < Rounds(30); ++round) {
    const Side side = round % 3 == 0 ? Side::kIn : Side::kOut;
    const History history = RandomHistory(&random, side, 1 + static_cast<int>(random() % 5));
    const uint64_t oldest = random() % (history.last + 1);
    const uint32_t rows = 64u << random() % 6;
    const uint64_t segment_bytes = uint64_t{1} << random() % 21;
    std::vector<std::shared_ptr<const RunReader>> runs;
    for (const auto& items : history.runs) {
      auto run = RunReader::Open(OwnRun(
          testing_runs::RunOf(items, {side, oldest > 50 ? oldest - 50 : 0, rows, segment_bytes}),
          "input"));
      ASSERT_TRUE(run.ok()) << run.status();
      runs.insert(runs.begin(), *run);
    }
    MergeOptions options;
    options.oldest_snapshot = oldest;
    options.bottom = true;
    options.rows_per_segment = rows;
    options.segment_bytes = uint64_t{1} << random() % 21;
    options.buffer_bytes = 4096u << random() % 6;
    options.executor.min_engine_bytes = random() % 2 == 0 ? 1 : 300;
    options.executor.max_piece_bytes = 1 + random() % 5000;
    std::string first;
    for (const auto& [name, engine] : Engines(random())) {
      StringSink sink;
      const auto merged = MergeRuns(runs, options, engine.get(), &sink);
      ASSERT_TRUE(merged.ok()) << name << ": " << merged.status();
      EXPECT_EQ(engine->in_flight(), 0u);
      EXPECT_EQ(merged->stats.records_in, history.all.size());
      EXPECT_EQ(merged->stats.records_out, merged->info.records);
      EXPECT_EQ(merged->stats.records_in - merged->stats.records_out,
                merged->stats.versions_dropped + merged->stats.tombstones_dropped);
      EXPECT_EQ(merged->info.bytes, sink.bytes().size());
      if (first.empty()) first = sink.bytes();
      ASSERT_TRUE(first == sink.bytes()) << name << " wrote other bytes";
    }
    const auto out = RunReader::Open(OwnRun(first, "merged"));
    ASSERT_TRUE(out.ok()) << out.status();
    ASSERT_TRUE((*out)->Verify().ok());
    const auto items = testing_runs::ReadItems(**out);
    ASSERT_TRUE(items.ok()) << items.status();
    for (uint64_t snapshot : {oldest, oldest + random() % 100, history.last}) {
      ExpectSame(Look(*items, snapshot), Look(history.all, snapshot),
                 "snapshot " + std::to_string(snapshot));
    }
    // At the bottom nothing is left to hide, and nothing is kept that no snapshot sees.
    std::map<Token, uint64_t> types;
    std::set<std::tuple<NodeId, Token, NodeId, EdgeId>> settled;
    for (const Item& item : *items) {
      types[item.type] += IsTombstone(item.stamp) ? 0 : 1;
      if (SequenceOf(item.stamp) > oldest) continue;
      EXPECT_FALSE(HidesOlder(item.stamp)) << item;
      EXPECT_TRUE(settled.insert({item.node, item.type, item.other, item.edge}).second) << item;
    }
    std::erase_if(types, [](const auto& type) { return type.second == 0; });
    EXPECT_EQ((std::map<Token, uint64_t>((*out)->info().types.begin(), (*out)->info().types.end())),
              types);
  }
}

// Values of 16 KB: segments end by their bytes, and are copied whole where they are large enough.
TEST(MergeRuns, LargeValues_MakeSegmentsOfFewRowsThatAreCopied) {
  constexpr uint64_t kLimit = 64 << 10;
  const auto text = [](uint64_t i) { return std::string(16'000 + i % 7, char('a' + i % 26)); };
  const auto check = [&](const RunReader& run, uint64_t records) {
    ASSERT_TRUE(run.Verify().ok());
    ASSERT_EQ(run.info().records, records);
    ASSERT_GE(run.segments(), records / 5);
    cypher::Properties properties;
    for (uint64_t i = 0; i < records; ++i) {
      ASSERT_TRUE(run.ReadProperties(i, &properties).ok());
      ASSERT_EQ(properties.size(), i % 3 == 0 ? 3u : 2u);
      ASSERT_EQ(properties[0].second.as_int(), static_cast<int64_t>(i));
      ASSERT_EQ(properties[1].second.as_string(), text(i));
    }
    for (size_t k = 0; k < run.info().keys.size(); ++k) {
      for (size_t s = 0; s < run.segments(); ++s) {
        EXPECT_LE(run.RawSegment(k, s).bytes, kLimit + 17'000) << "key " << k << " segment " << s;
      }
    }
  };
  std::vector<std::shared_ptr<const RunReader>> runs;
  constexpr uint64_t kRecords = 300;
  for (uint64_t half = 0; half < 2; ++half) {
    StringSink sink;
    const auto builder = *RunBuilder::Create({.segment_bytes = kLimit}, &sink);
    for (uint64_t i = half * kRecords / 2; i < (half + 1) * kRecords / 2; ++i) {
      const NodeId other = 1;
      const EdgeId edge = i;
      ASSERT_TRUE(builder->Add(i, std::vector<ListInput>{{0, {&other, 1}, {&edge, 1}, {}}}).ok());
    }
    // Each key comes in pieces of its own, so that one is ahead of another.
    std::vector<int64_t> numbers;
    for (uint64_t i = half * kRecords / 2; i < (half + 1) * kRecords / 2; ++i) {
      numbers.push_back(static_cast<int64_t>(i));
      if (numbers.size() == 5) {
        ASSERT_TRUE(builder->AppendInts(1, numbers).ok());
        numbers.clear();
      }
      const Value value = Value::String(text(i));
      ASSERT_TRUE(builder->AppendValues(2, {&value, 1}).ok());
      if (i % 3 != 0) continue;
      ASSERT_TRUE(builder->FillNulls(3, i - half * kRecords / 2).ok());
      const Value list = Value::List({Value::String(std::string(100, 'l')), Value::Int(1)});
      ASSERT_TRUE(builder->AppendValues(3, {&list, 1}).ok());
    }
    ASSERT_TRUE(builder->Finish().ok());
    runs.push_back(*RunReader::Open(OwnRun(sink.bytes(), "half")));
    ASSERT_GT(runs.back()->segments(), 20u);
  }
  const auto engine = CreateInlineCopyEngine({}).value();
  MergeOptions options;
  options.segment_bytes = kLimit;
  StringSink sink;
  const auto merged = MergeRuns(runs, options, engine.get(), &sink);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_GT(merged->stats.column_bytes_copied, merged->stats.column_bytes_encoded);
  check(**RunReader::Open(OwnRun(sink.bytes(), "merged")), kRecords);
  // Runs of large segments, as older versions made them, are cut anew where they are encoded anew.
  StringSink large, cut;
  options.segment_bytes = uint64_t{1} << 40;
  ASSERT_TRUE(MergeRuns(runs, options, engine.get(), &large).ok());
  const auto old = *RunReader::Open(OwnRun(large.bytes(), "old"));
  options.segment_bytes = kLimit;
  options.last_node = kRecords - 2;  // not a whole segment
  const std::shared_ptr<const RunReader> one[] = {old};
  ASSERT_TRUE(MergeRuns(one, options, engine.get(), &cut).ok());
  check(**RunReader::Open(OwnRun(cut.bytes(), "cut")), kRecords - 1);
}

TEST(MergeRuns, AboveOtherLevels_StillHidesWhatLiesBelow) {
  std::mt19937_64 random(TestSeed());
  const auto engine = CreateInlineCopyEngine({}).value();
  for (int round = 0; round < Rounds(30); ++round) {
    const History history = RandomHistory(&random, Side::kOut, 4);
    const uint64_t oldest = random() % (history.last + 1);
    std::vector<std::shared_ptr<const RunReader>> upper;
    for (size_t i = 2; i < 4; ++i) {
      auto run = RunReader::Open(OwnRun(testing_runs::RunOf(history.runs[i], {}), "input"));
      upper.insert(upper.begin(), *run);
    }
    StringSink sink;
    MergeOptions options;
    options.oldest_snapshot = oldest;
    ASSERT_TRUE(MergeRuns(upper, options, engine.get(), &sink).ok());
    const auto out = RunReader::Open(OwnRun(sink.bytes(), "merged"));
    ASSERT_TRUE(out.ok()) << out.status();
    const auto items = testing_runs::ReadItems(**out);
    ASSERT_TRUE(items.ok());
    // As a reader does it: of each relationship what the upper run says, else the lower ones.
    std::vector<Item> below = history.runs[0];
    below.insert(below.end(), history.runs[1].begin(), history.runs[1].end());
    Seen got;
    std::set<std::tuple<NodeId, Token, NodeId, EdgeId>> hidden;
    for (Item item : *items) {  // of one relationship, the newest comes first
      const auto key = std::tuple(item.node, item.type, item.other, item.edge);
      if (!hidden.insert(key).second || IsTombstone(item.stamp)) continue;
      item.stamp = 0;
      got.emplace(key, item);
    }
    for (const auto& [key, item] : Look(below, history.last)) {
      if (!hidden.contains(key)) got.emplace(key, item);
    }
    const Seen expected = Look(history.all, history.last);
    ExpectSame(got, expected, "both levels");
  }
}

TEST(MergeRuns, RangesOfNodes_TogetherAreTheWhole) {
  std::mt19937_64 random(TestSeed());
  const auto engine = CreateInlineCopyEngine({}).value();
  const History history = RandomHistory(&random, Side::kOut, 3);
  std::vector<std::shared_ptr<const RunReader>> runs;
  for (const auto& items : history.runs) {
    runs.insert(runs.begin(), *RunReader::Open(OwnRun(testing_runs::RunOf(items, {}), "input")));
  }
  MergeOptions options;
  options.bottom = true;
  options.oldest_snapshot = history.last;
  std::vector<Item> joined;
  uint64_t records_in = 0;
  for (NodeId from = 0; from < 2100;) {
    options.first_node = from;
    options.last_node = from + random() % 300;
    from = options.last_node + 1;
    StringSink sink;
    const auto merged = MergeRuns(runs, options, engine.get(), &sink);
    ASSERT_TRUE(merged.ok()) << merged.status();
    records_in += merged->stats.records_in;
    const auto items = testing_runs::ReadItems(**RunReader::Open(OwnRun(sink.bytes(), "part")));
    ASSERT_TRUE(items.ok());
    for (const Item& item : *items) {
      EXPECT_GE(item.node, options.first_node);
      EXPECT_LE(item.node, options.last_node);
    }
    joined.insert(joined.end(), items->begin(), items->end());
  }
  EXPECT_EQ(records_in, history.all.size());
  ExpectSame(Look(joined, history.last), Look(history.all, history.last), "all ranges");
}

// Runs of blocks that do not meet: nothing is encoded but a few directories.
TEST(MergeRuns, DisjointNodes_AreCopiedNotEncoded) {
  std::vector<std::shared_ptr<const RunReader>> runs;
  uint64_t bytes = 0, nodes = 0;
  for (NodeId part = 0; part < 4; ++part) {
    std::vector<Item> items;
    for (NodeId group = part; group < 200; group += 4) {
      for (NodeId node = group * 64; node < group * 64 + 64; ++node, ++nodes) {
        for (EdgeId e = 0; e < 30; ++e) {
          items.push_back(
              {node, 1, e * 1000 + node, LocalEdgeId(node, e), 0, {{7, Value::Int(5)}}});
        }
      }
    }
    const std::string run = testing_runs::RunOf(items, {});
    bytes += run.size();
    runs.push_back(*RunReader::Open(OwnRun(run, "input")));
  }
  const auto engine = CreateInlineCopyEngine({}).value();
  StringSink sink;
  const auto merged = MergeRuns(runs, {.bottom = true}, engine.get(), &sink);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->stats.nodes_copied, nodes);
  EXPECT_EQ(merged->stats.nodes_merged, 0u);
  EXPECT_EQ(merged->stats.bytes_encoded, 0u);
  EXPECT_GT(merged->stats.bytes_copied, bytes * 8 / 10);
  EXPECT_GT(merged->stats.copies.engine_bytes, bytes * 8 / 10);
  EXPECT_TRUE((*RunReader::Open(OwnRun(sink.bytes(), "merged")))->Verify().ok());
}

// A large run and a small one that does not touch most of its rows.
TEST(MergeRuns, WholeSegments_AreCopiedNotEncoded) {
  std::vector<Item> large, small;
  for (NodeId node = 0; node < 20'000; ++node) {
    for (EdgeId e = 0; e < 5; ++e) {
      large.push_back({node,
                       1,
                       e,
                       LocalEdgeId(node, e),
                       0,
                       {{7, Value::Int(static_cast<int64_t>(node))}, {9, Value::String("text")}}});
    }
  }
  for (NodeId node = 9000; node < 9100; ++node) {
    small.push_back({node, 1, 3, node, 0, {{7, Value::Int(-1)}, {8, Value::Float(1)}}});
  }
  const std::vector<std::shared_ptr<const RunReader>> runs = {
      *RunReader::Open(OwnRun(testing_runs::RunOf(small, {}), "small")),
      *RunReader::Open(OwnRun(testing_runs::RunOf(large, {}), "large"))};
  const auto engine = CreateInlineCopyEngine({}).value();
  StringSink sink;
  const auto merged = MergeRuns(runs, {.bottom = true, .check_copied = true}, engine.get(), &sink);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_EQ(merged->stats.nodes_merged, 100u);
  EXPECT_GT(merged->stats.column_bytes_copied, 4 * merged->stats.column_bytes_encoded);
  std::vector<Item> expected = large;
  expected.insert(expected.end(), small.begin(), small.end());
  testing_runs::Sort(&expected);
  const auto items = testing_runs::ReadItems(**RunReader::Open(OwnRun(sink.bytes(), "merged")));
  ASSERT_TRUE(items.ok()) << items.status();
  EXPECT_EQ(*items, expected);
}

TEST(MergeRuns, DamagedInput_IsDataLossOrStaysFound) {
  std::mt19937_64 random(TestSeed());
  const History history = RandomHistory(&random, Side::kOut, 2);
  const auto engine = CreateInlineCopyEngine({}).value();
  std::string bad = testing_runs::RunOf(history.runs[0], {});
  const auto other = *RunReader::Open(OwnRun(testing_runs::RunOf(history.runs[1], {}), "other"));
  for (int i = 0; i < 200; ++i) {
    const size_t at = random() % bad.size();
    bad[at] = static_cast<char>(bad[at] ^ 4);
    const auto run = RunReader::Open(OwnRun(bad, "bad"));
    for (const bool check : {false, true}) {
      if (!run.ok()) continue;
      StringSink sink;
      const std::vector<std::shared_ptr<const RunReader>> runs = {other, *run};
      const auto merged =
          MergeRuns(runs, {.bottom = true, .check_copied = check}, engine.get(), &sink);
      if (merged.ok()) {
        EXPECT_FALSE(check) << "byte " << at;
        const auto out = RunReader::Open(OwnRun(sink.bytes(), "merged"));
        ASSERT_TRUE(out.ok());
        EXPECT_TRUE(absl::IsDataLoss((*out)->Verify())) << "byte " << at;
      } else {
        EXPECT_TRUE(absl::IsDataLoss(merged.status())) << merged.status();
      }
    }
    bad[at] = static_cast<char>(bad[at] ^ 4);
  }
}

class FullSink : public RunSink {
 public:
  absl::Status Append(absl::string_view bytes) override {
    if (bytes.size() > room_) return absl::ResourceExhaustedError("no space left");
    room_ -= bytes.size();
    return absl::OkStatus();
  }
  size_t room_ = 10'000;
};

TEST(MergeRuns, SinkWithoutSpace_SaysSoAndLetsGo) {
  std::mt19937_64 random(TestSeed());
  std::vector<Item> items;
  for (NodeId node = 0; node < 5000; ++node) items.push_back({node, 1, random(), random(), 0, {}});
  const std::vector<std::shared_ptr<const RunReader>> runs = {
      *RunReader::Open(OwnRun(testing_runs::RunOf(items, {}), "input"))};
  for (const auto& [name, engine] : Engines(random())) {
    FullSink sink;
    const auto merged = MergeRuns(runs, {.buffer_bytes = 4096}, engine.get(), &sink);
    EXPECT_TRUE(absl::IsResourceExhausted(merged.status())) << name;
    EXPECT_EQ(engine->in_flight(), 0u) << name;
  }
}

TEST(MergeRuns, BothDirectionsOrNothing_IsRefused) {
  const auto engine = CreateInlineCopyEngine({}).value();
  StringSink sink;
  EXPECT_TRUE(absl::IsInvalidArgument(MergeRuns({}, {}, engine.get(), &sink).status()));
  const std::vector<std::shared_ptr<const RunReader>> runs = {
      *RunReader::Open(OwnRun(testing_runs::RunOf({}, {Side::kOut}), "out")),
      *RunReader::Open(OwnRun(testing_runs::RunOf({}, {Side::kIn}), "in"))};
  EXPECT_TRUE(absl::IsInvalidArgument(MergeRuns(runs, {}, engine.get(), &sink).status()));
}

// A sink that is asked whether to go on, and has nothing to do besides.
class TiredSink : public StringSink {
 public:
  explicit TiredSink(int patience) : patience_(patience) {}
  absl::Status Continue() override {
    return patience_-- > 0 ? absl::OkStatus() : absl::CancelledError("enough");
  }
  int patience() const { return patience_; }

 private:
  int patience_;
};

std::shared_ptr<const RunReader> Reader(std::string bytes) {
  auto run = RunReader::Open(OwnRun(std::move(bytes), "a run"));
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *run : nullptr;
}

// Millions of rows that no byte stands for: nothing is written for a long time.
TEST(MergeRuns, LyingRunOfManyRows_CanBeGivenUp) {
  std::vector<Item> items, keyed;
  for (EdgeId i = 0; i < 20'000; ++i) items.push_back({i, 1, i + 1, i, 0, {}});
  testing_runs::LyingRun lying(testing_runs::RunOf(items, {}));
  lying.meta[2] = testing_runs::RunOf(items, {}).size() * 60;
  keyed.push_back({5, 1, 6, 1'000'000, 0, {{3, Value::Int(1)}}});
  const std::vector<std::shared_ptr<const RunReader>> runs = {
      Reader(lying.Bytes()), Reader(testing_runs::RunOf(keyed, {}))};
  const uint64_t rows = runs[0]->info().records;
  ASSERT_GT(rows, 5'000'000u);
  // Fewer than a group each, and some of the rows.
  const auto engine = CreateInlineCopyEngine({}).value();
  TiredSink tired(500);
  const auto merged = MergeRuns(runs, {}, engine.get(), &tired);
  EXPECT_TRUE(absl::IsCancelled(merged.status())) << merged.status();
  TiredSink patient(1 << 30);
  EXPECT_FALSE(absl::IsCancelled(MergeRuns(runs, {}, engine.get(), &patient).status()));
  EXPECT_GT((1 << 30) - patient.patience(), static_cast<int>(rows / 4096));
}

// One node: groups do not ask.
TEST(MergeRuns, LargeHub_CanBeGivenUpAndHasABound) {
  std::vector<std::shared_ptr<const RunReader>> runs;
  for (const EdgeId first : {0, 1'000'000}) {
    std::vector<Item> items;
    for (EdgeId i = 0; i < 200'000; ++i) items.push_back({7, 1, i, first + i, 0, {}});
    runs.push_back(Reader(testing_runs::RunOf(items, {})));
  }
  const auto engine = CreateInlineCopyEngine({}).value();
  TiredSink tired(8);
  EXPECT_TRUE(absl::IsCancelled(MergeRuns(runs, {}, engine.get(), &tired).status()));
  EXPECT_TRUE(tired.bytes().empty());
  StringSink sink;
  const auto merged = MergeRuns(runs, {.most_node_bytes = 400'000 * 40}, engine.get(), &sink);
  EXPECT_TRUE(absl::IsResourceExhausted(merged.status())) << merged.status();
  EXPECT_TRUE(MergeRuns(runs, {.most_node_bytes = 400'000 * 100}, engine.get(), &sink).ok());
}

}  // namespace
}  // namespace pulse::graph
