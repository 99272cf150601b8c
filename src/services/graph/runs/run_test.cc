// Runs: what is written is what is read, by each way of reading.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "base/crc32c.h"
#include "base/testing.h"
#include "services/graph/runs/bits.h"
#include "services/graph/runs/test_runs.h"
#include "services/graph/runs/value_codec.h"

namespace pulse::graph {
namespace {

using cypher::Value;
using testing_runs::Item;
using testing_util::TestSeed;
using testing_util::Text;

std::shared_ptr<const RunReader> MustOpen(std::string bytes) {
  auto run = RunReader::Open(OwnRun(std::move(bytes), "test.run"));
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *run : nullptr;
}

TEST(Bits, AnyWidth_UnpacksWhatWasPacked) {
  std::mt19937_64 random(TestSeed());
  for (int width = 0; width <= 64; ++width) {
    if (width > 56 && width < 64) continue;
    std::vector<uint64_t> numbers(1 + random() % 600);
    for (uint64_t& n : numbers) n = random() & LowBits(width);
    std::string packed;
    PackBits(
        numbers.size(), width, [&](size_t i) { return numbers[i]; }, &packed);
    EXPECT_EQ(packed.size(), PackedBytes(numbers.size(), width));
    packed.append(8, '\x5a');
    std::vector<uint64_t> out(numbers.size());
    UnpackBits(packed.data(), width, 0, out.size(), 7, out.data());
    for (size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(out[i], numbers[i] + 7) << width;
      ASSERT_EQ(BitsAt(packed.data(), width, i), numbers[i]);
    }
    const size_t first = random() % numbers.size();
    UnpackBits(packed.data(), width, first, numbers.size() - first, 0, out.data());
    for (size_t i = first; i < numbers.size(); ++i) ASSERT_EQ(out[i - first], numbers[i]) << width;
    out.resize(numbers.size() + 1);
    UnpackSums(packed.data(), width, out.size(), 1000, out.data());
    uint64_t sum = 1000;
    for (size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_EQ(out[i], sum) << width;
      sum += numbers[i];
    }
    ASSERT_EQ(out.back(), sum);
  }
}

TEST(Value, EveryStoredType_EncodedAndDecoded_IsEqual) {
  const std::vector<Value> values = {
      Value(),
      Value::Bool(true),
      Value::Int(std::numeric_limits<int64_t>::min()),
      Value::Int(std::numeric_limits<int64_t>::max()),
      Value::Float(-0.0),
      Value::Float(std::nan("")),
      Value::String(std::string("a\0b", 3)),
      Value::List({Value::Int(1), Value::List({Value::String("deep")}), Value()}),
      Value::Map({{"a", Value::Int(1)}, {"b", Value::Map({})}}),
      Value::Date(-3),
      Value::LocalTime(86'399'999'999'999),
      Value::Time(5, -3600),
      Value::LocalDateTime(-1, 999'999'999),
      Value::MakeDateTime({1, 2, 3600, "Europe/Berlin"}),
      Value::MakeDuration({-1, 2, -3, 4})};
  std::string bytes;
  for (const Value& value : values) ASSERT_TRUE(EncodeValue(value, &bytes).ok());
  absl::string_view in(bytes);
  for (const Value& value : values) {
    Value back;
    ASSERT_TRUE(DecodeValue(&in, &back).ok());
    EXPECT_TRUE(testing_runs::SameValue(back, value)) << TypeName(value.type());
  }
  EXPECT_TRUE(in.empty());
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeValue(Value::List({Value::Node(1)}), &bytes)));
}

TEST(Value, Cut_IsDataLoss) {
  std::string bytes;
  ASSERT_TRUE(
      EncodeValue(Value::Map({{"key", Value::List({Value::String("text")})}}), &bytes).ok());
  for (size_t n = 0; n < bytes.size(); ++n) {
    absl::string_view in(bytes.data(), n);
    Value value;
    EXPECT_TRUE(absl::IsDataLoss(DecodeValue(&in, &value))) << n;
    EXPECT_EQ(in.size(), n);
  }
}

// A random graph's records of one side: some hubs, several types and versions, local and counted
// identifiers.
std::vector<Item> RandomItems(std::mt19937_64* random, Side side, uint64_t nodes, size_t count) {
  auto& r = *random;
  std::vector<Item> items;
  const NodeId base = r() % 3 == 0 ? r() >> 8 : r() % 1000;
  for (size_t i = 0; i < count; ++i) {
    Item item;
    item.node = base + (r() % 4 == 0 ? r() % 3 : r() % nodes);
    item.type = static_cast<Token>(r() % 10 == 0 ? r() % 300 : 1);
    item.other = r() % 20 == 0 ? r() : r() % nodes;
    const NodeId source = side == Side::kOut ? item.node : item.other;
    item.edge = r() % 8 != 0 && source <= kMaxLocalSource
                    ? LocalEdgeId(source, (i * 7) & kMaxOrdinal)
                    : i + 1'000'000;
    if (r() % 6 == 0) item.stamp = MakeStamp(r() % 2000, r() % 4 == 0 ? r() % 3 : 0);
    if (side == Side::kOut) {
      item.properties[1] = Value::Int(static_cast<int64_t>(r() % 100));
      if (r() % 3 != 0) item.properties[5] = testing_runs::RandomValue(random, int(r() % 8));
      if (i % 7000 > 6000) item.properties[2] = Value::Float(static_cast<double>(r() % 64));
    }
    items.push_back(item);
    // A later version of the same.
    if (r() % 30 == 0) {
      item.stamp = MakeStamp(3000 + i, kUpdate);
      items.push_back(item);
    }
  }
  testing_runs::Sort(&items);
  const auto same = [](const Item& a, const Item& b) { return a.Order() == b.Order(); };
  items.erase(std::unique(items.begin(), items.end(), same), items.end());
  return items;
}

TEST(Run, RandomGraphs_ReadBackByScanByNodeAndByRelationship) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 12; ++round) {
    const Side side = round % 2 == 0 ? Side::kOut : Side::kIn;
    const uint64_t nodes = 1 + random() % (round < 6 ? 50 : 30'000);
    std::vector<Item> items = RandomItems(&random, side, nodes, 1 + random() % 12'000);
    const RunOptions options{side, /*horizon=*/1000, 64u << random() % 7};
    const auto run = MustOpen(testing_runs::RunOf(items, options));
    ASSERT_NE(run, nullptr);
    ASSERT_TRUE(run->Verify().ok());
    for (Item& item : items) item = testing_runs::Stored(item, options.horizon);
    const auto all = testing_runs::ReadItems(*run);
    ASSERT_TRUE(all.ok()) << all.status();
    ASSERT_EQ(*all, items);
    EXPECT_EQ(run->info().records, items.size());
    EXPECT_EQ(run->info().first_node, items.front().node);
    EXPECT_EQ(run->info().last_node, items.back().node);

    std::map<NodeId, size_t> counts;
    uint64_t tombstones = 0, updates = 0;
    for (const Item& item : items) {
      ++counts[item.node];
      tombstones += IsTombstone(item.stamp) ? 1 : 0;
      updates += (item.stamp & 3) == kUpdate ? 1 : 0;
    }
    EXPECT_EQ(run->info().nodes, counts.size());
    EXPECT_EQ(run->info().tombstones, tombstones);
    EXPECT_EQ(run->info().updates, updates);
    for (int i = 0; i < 2000; ++i) {
      const NodeId node =
          i % 2 == 0 ? items[random() % items.size()].node : items.front().node + random() % nodes;
      const auto view = run->Find(node);
      ASSERT_TRUE(view.ok());
      const auto count = counts.find(node);
      ASSERT_EQ(view->count(), count == counts.end() ? 0 : count->second);
      ASSERT_EQ(run->Contains(node), count != counts.end());
    }
    // Parts of it.
    const NodeId from = items[random() % items.size()].node, to = from + random() % 300;
    std::vector<Item> part;
    for (const Item& item : items) {
      if (item.node >= from && item.node <= to) part.push_back(item);
    }
    const auto read = testing_runs::ReadItems(*run, from, to);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(*read, part);

    std::vector<EdgeRef> refs;
    for (const Item& item : items) {
      refs.push_back({item.edge, item.node, item.other, item.type});
      if (side == Side::kIn) std::swap(refs.back().source, refs.back().target);
    }
    std::vector<uint64_t> positions(refs.size());
    ASSERT_TRUE(EdgeLocator(run.get()).FindAll(refs, kMaxSequence, positions.data()).ok());
    for (size_t i = 0, first = 0; i < items.size(); ++i) {
      if (!(refs[i].id == refs[first].id && refs[i].source == refs[first].source &&
            refs[i].target == refs[first].target && refs[i].type == refs[first].type)) {
        first = i;  // the newest version of another one
      }
      ASSERT_EQ(positions[i], IsTombstone(items[first].stamp) ? kNoPosition : first) << items[i];
    }

    EdgeLocator scan(run.get()), jump(run.get());
    for (int i = 0; i < 4000; ++i) {
      const bool in_order = i < 2000 && static_cast<size_t>(i) < items.size();
      const size_t at = in_order ? static_cast<size_t>(i) : random() % items.size();
      const Item& item = items[at];
      EdgeRef ref{item.edge, item.node, item.other, item.type};
      if (side == Side::kIn) std::swap(ref.source, ref.target);
      const uint64_t sequence = random() % 2 == 0 ? kMaxSequence : random() % 4000;
      // The model's answer: the first of its versions that is not newer.
      size_t expected = at;
      const auto same = [&](size_t k) {
        return items[k].node == item.node && items[k].type == item.type &&
               items[k].other == item.other && items[k].edge == item.edge;
      };
      while (expected > 0 && same(expected - 1)) --expected;
      while (expected < items.size() && same(expected) &&
             SequenceOf(items[expected].stamp) > sequence) {
        ++expected;
      }
      const bool exists = expected < items.size() && same(expected);
      const auto found = (in_order ? scan : jump).Find(ref, sequence);
      ASSERT_TRUE(found.ok());
      ASSERT_EQ(found->position, exists ? expected : kNoPosition) << item;
      if (exists) {
        ASSERT_EQ(found->stamp, items[expected].stamp);
      }
      ref.id ^= 1u << 30;
      const auto none = jump.Find(ref);
      ASSERT_TRUE(none.ok());
      ASSERT_EQ(none->position, kNoPosition);
    }
  }
}

// The same views and numbers, in whichever order nodes are asked for.
TEST(Run, FinderCountsAndLoops_AgreeWithFind) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 12; ++round) {
    const Side side = round % 2 == 0 ? Side::kOut : Side::kIn;
    const uint64_t nodes = 1 + random() % (round < 6 ? 200 : 5000);
    const std::vector<Item> items = RandomItems(&random, side, nodes, 1 + random() % 9000);
    const auto run = MustOpen(testing_runs::RunOf(items, {side, 1000, 64}));
    ASSERT_NE(run, nullptr);
    RunReader::Finder finder(run.get());
    std::vector<NodeId> asked;
    NodeId node = items.front().node;
    for (int i = 0; i < 3000; ++i) {
      // Mostly the next one or one that is near, forwards more often than back.
      node = random() % 50 == 0 ? items[random() % items.size()].node : node + random() % 4;
      if (random() % 20 == 0) node -= std::min<NodeId>(node, random() % 100);
      asked.push_back(node);
      NodeView view;
      ASSERT_TRUE(finder.Find(node, &view).ok());
      const auto expected = run->Find(node);
      ASSERT_TRUE(expected.ok());
      ASSERT_EQ(view.count(), expected->count());
      if (view.count() == 0) continue;
      ASSERT_EQ(view.node(), node);
      ASSERT_EQ(view.position(), expected->position());
      ASSERT_EQ(view.data(), expected->data());
      ASSERT_EQ(view.bytes(), expected->bytes());
    }
    std::vector<uint64_t> counts(asked.size(), 5);
    ASSERT_TRUE(run->AddCounts(asked, counts).ok());
    for (size_t i = 0; i < asked.size(); ++i) {
      ASSERT_EQ(counts[i], run->Find(asked[i])->count() + 5);
    }
    for (int i = 0; i < 50; ++i) {
      const Item& item = items[random() % items.size()];
      uint64_t expected = 0, found = 0;
      for (const Item& other : items) {
        expected += other.node == item.node && other.other == item.other ? 1 : 0;
      }
      const auto view = run->Find(item.node);
      NodeView::Lists lists(*view);
      for (ListView list; lists.Next(&list);) found += list.CountOther(item.other);
      ASSERT_EQ(found, expected);
    }
  }
}

TEST(Run, GatheredColumns_AreTheirRecordsProperties) {
  std::mt19937_64 random(TestSeed());
  const std::vector<Item> items = RandomItems(&random, Side::kOut, 500, 20'000);
  const auto run = MustOpen(testing_runs::RunOf(items, {Side::kOut, 0, 256}));
  ASSERT_NE(run, nullptr);
  for (const Token key : {1u, 2u, 5u, 77u}) {
    for (int round = 0; round < 20; ++round) {
      std::vector<uint64_t> positions;
      uint64_t at = random() % items.size();
      for (size_t i = random() % 2000; i > 0; --i) {
        positions.push_back(random() % 50 == 0 ? kNoPosition : at);
        at = round % 2 == 0 ? (at + 1) % items.size() : random() % items.size();
      }
      std::vector<uint32_t> slots(positions.size());
      for (size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<uint32_t>(i);
      if (round % 3 != 0) std::shuffle(slots.begin(), slots.end(), random);
      cypher::Column column;
      ColumnGather gather(positions.size(), &column);
      ASSERT_TRUE(
          run->Gather(key, positions, round % 3 == 0 ? std::span<const uint32_t>() : slots, &gather)
              .ok());
      for (size_t i = 0; i < positions.size(); ++i) {
        Value expected;
        if (positions[i] != kNoPosition) {
          const auto& of = items[positions[i]].properties;
          if (const auto it = of.find(key); it != of.end()) expected = it->second;
        }
        const size_t slot = slots[i];
        Value got;
        if (column.kind == cypher::Column::Kind::kValues) {
          got = column.values[slot];
        } else if (column.valid[slot] != 0) {
          got = column.kind == cypher::Column::Kind::kInts ? Value::Int(column.ints[slot])
                                                           : Value::Float(column.floats[slot]);
        }
        ASSERT_TRUE(testing_runs::SameValue(got, expected)) << key << " at " << positions[i];
      }
    }
  }
}

TEST(Run, Zones_BoundTheirSegments) {
  std::mt19937_64 random(TestSeed());
  const std::vector<Item> items = RandomItems(&random, Side::kOut, 300, 5000);
  const auto run = MustOpen(testing_runs::RunOf(items, {Side::kOut, 0, 128}));
  ASSERT_NE(run, nullptr);
  ASSERT_EQ(run->SegmentStart(run->segments()), items.size());
  for (size_t s = 0; s < run->segments(); ++s) {
    const ColumnZone zone = run->Zone(1, s);
    int64_t least = 1000, most = -1;
    for (uint64_t i = run->SegmentStart(s); i < run->SegmentStart(s + 1); ++i) {
      const int64_t value = items[i].properties.at(1).as_int();
      least = std::min(least, value);
      most = std::max(most, value);
    }
    EXPECT_EQ(zone.kind, ColumnKind::kInts);
    EXPECT_EQ(zone.min, least);
    EXPECT_EQ(zone.max, most);
    EXPECT_EQ(zone.nulls, 0u);
  }
}

TEST(Run, Empty_IsOneWithoutNodes) {
  const auto run = MustOpen(testing_runs::RunOf({}, {}));
  ASSERT_NE(run, nullptr);
  EXPECT_FALSE(run->Contains(0));
  EXPECT_EQ(run->Find(7)->count(), 0u);
  EXPECT_TRUE(testing_runs::ReadItems(*run)->empty());
  EXPECT_TRUE(run->Verify().ok());
}

TEST(Run, InputOutOfOrder_IsRefused) {
  const NodeId others[] = {5, 4};
  const EdgeId edges[] = {1, 2};
  const ListInput descending{1, others, edges, {}};
  const ListInput one{1, {others, 1}, {edges, 1}, {}};
  const ListInput uneven{1, others, {edges, 1}, {}};
  const ListInput twice[] = {one, one};
  StringSink sink;
  const auto fresh = [&] { return *RunBuilder::Create({}, &sink); };
  EXPECT_TRUE(absl::IsInvalidArgument(fresh()->Add(1, {&descending, 1})));
  EXPECT_TRUE(absl::IsInvalidArgument(fresh()->Add(1, {&uneven, 1})));
  EXPECT_TRUE(absl::IsInvalidArgument(fresh()->Add(1, twice)));
  EXPECT_TRUE(absl::IsInvalidArgument(fresh()->Add(1, {})));
  auto builder = fresh();
  ASSERT_TRUE(builder->Add(2, {&one, 1}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(builder->Add(2, {&one, 1})));
  const int64_t rows[] = {1, 2};
  auto rows_builder = fresh();
  ASSERT_TRUE(rows_builder->Add(2, {&one, 1}).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(rows_builder->AppendInts(1, rows)));
  EXPECT_TRUE(absl::IsInvalidArgument(RunBuilder::Create({.rows_per_segment = 3}, &sink).status()));
}

TEST(Run, MappedFile_ReadsAsMemoryDoes_AtAnyOffset) {
  std::mt19937_64 random(TestSeed());
  const std::vector<Item> items = RandomItems(&random, Side::kOut, 100, 1000);
  const std::string bytes = testing_runs::RunOf(items, {});
  const testing_util::ScratchPath path("run");
  for (const size_t before : {0, 3, 4097}) {
    std::ofstream(path.get(), std::ios::binary) << std::string(before, 'x') << bytes << "behind";
    const auto mapped = MapRun(path.get(), before, bytes.size());
    ASSERT_TRUE(mapped.ok());
    const auto run = RunReader::Open(*mapped);
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_EQ(testing_runs::ReadItems(**run)->size(), items.size());
  }
  EXPECT_TRUE(absl::IsNotFound(MapRun(path.get() + "-not").status()));
  std::ofstream(path.get(), std::ios::binary | std::ios::trunc).flush();
  EXPECT_TRUE(absl::IsDataLoss(RunReader::Open(*MapRun(path.get())).status()));
}

TEST(Run, MappedForLookups_ReadsAsMemoryDoes_InEveryWay) {
  std::mt19937_64 random(TestSeed());
  const std::vector<Item> items = RandomItems(&random, Side::kOut, 3000, 20'000);
  const std::string bytes = testing_runs::RunOf(items, {Side::kOut, 500, 256});
  const testing_util::ScratchPath path("run");
  const auto memory = MustOpen(bytes);
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(ForLookups(OwnRun(bytes, "memory")).pages, nullptr);
  for (const size_t before : {0, 4099}) {
    std::ofstream(path.get(), std::ios::binary) << std::string(before, 'x') << bytes;
    RunBytes mapped = ForLookups(*MapRun(path.get(), before));
    ASSERT_NE(mapped.pages, nullptr);
    ASSERT_NE(mapped.pages, mapped.data);
    const auto run = *RunReader::Open(std::move(mapped));
    std::vector<NodeId> asked;
    RunReader::Finder finder(run.get());
    for (int i = 0; i < 5000; ++i) {
      asked.push_back(i % 100 < 80 && i > 0 ? asked.back() + random() % 4 : random() % 3000);
      const auto expected = *memory->Find(asked.back()), found = *run->Find(asked.back());
      NodeView next;
      ASSERT_TRUE(finder.Find(asked.back(), &next).ok());
      for (const NodeView& view : {found, next}) {
        ASSERT_EQ(view.count(), expected.count());
        if (view.count() == 0) continue;
        ASSERT_EQ(view.position(), expected.position());
        ASSERT_EQ(std::string_view(view.data(), view.bytes()),
                  std::string_view(expected.data(), expected.bytes()));
      }
    }
    std::vector<uint64_t> counts(asked.size()), expected_counts(asked.size());
    ASSERT_TRUE(run->AddCounts(asked, counts).ok());
    ASSERT_TRUE(memory->AddCounts(asked, expected_counts).ok());
    EXPECT_EQ(counts, expected_counts);
    for (int round = 0; round < 40; ++round) {
      std::vector<uint64_t> positions;
      uint64_t at = random() % items.size();
      for (size_t i = 1 + random() % 300; i > 0; --i) {
        positions.push_back(at);
        at = (round % 2 == 0 ? at + 1 : random()) % items.size();
      }
      cypher::Column found, expected;
      ColumnGather gather(positions.size(), &found), expecting(positions.size(), &expected);
      ASSERT_TRUE(run->Gather(1, positions, {}, &gather).ok());
      ASSERT_TRUE(memory->Gather(1, positions, {}, &expecting).ok());
      EXPECT_EQ(found.ints, expected.ints);
      EXPECT_EQ(found.valid, expected.valid);
      cypher::Properties properties, expected_properties;
      ASSERT_TRUE(run->ReadProperties(at, &properties).ok());
      ASSERT_TRUE(memory->ReadProperties(at, &expected_properties).ok());
      ASSERT_EQ(properties.size(), expected_properties.size());
      for (size_t i = 0; i < properties.size(); ++i) {
        EXPECT_EQ(properties[i].first, expected_properties[i].first);
        EXPECT_TRUE(testing_runs::SameValue(properties[i].second, expected_properties[i].second));
      }
    }
    EXPECT_TRUE(run->Verify().ok());
    EXPECT_EQ(testing_runs::ReadItems(*run)->size(), items.size());
  }
}

TEST(RunDamage, MappedForLookups_IsFoundByALookup) {
  std::mt19937_64 random(TestSeed());
  const std::vector<Item> items = RandomItems(&random, Side::kOut, 300, 2000);
  std::string bytes = testing_runs::RunOf(items, {});
  const GroupEntry group = MustOpen(bytes)->groups()[0];
  bytes[group.offset + random() % group.bytes] ^= 1;
  const testing_util::ScratchPath path("run");
  std::ofstream(path.get(), std::ios::binary) << bytes;
  const auto run = *RunReader::Open(ForLookups(*MapRun(path.get())));
  const auto found = run->Find(items.front().node);
  ASSERT_TRUE(absl::IsDataLoss(found.status())) << found.status();
  EXPECT_NE(Text(found.status()).find(path.get()), std::string::npos) << found.status();
}

TEST(Run, NewerVersion_IsRefusedByItsNumber) {
  std::string bytes = testing_runs::RunOf({}, {});
  bytes[offsetof(RunHeader, version)] = 77;
  const uint32_t crc = Crc32c(bytes.data(), offsetof(RunHeader, crc));
  std::memcpy(bytes.data() + offsetof(RunHeader, crc), &crc, sizeof(crc));
  const auto run = RunReader::Open(OwnRun(bytes, "new.run"));
  ASSERT_TRUE(absl::IsFailedPrecondition(run.status())) << run.status();
  EXPECT_NE(Text(run.status()).find("newer PulseDB (format 77; this one knows up to 1)"),
            std::string::npos);
}

// A bit of each third byte, of every byte in long runs; the seed chooses.
TEST(RunDamage, AnyByte_IsFoundAndNamed) {
  std::mt19937_64 random(TestSeed());
  for (const Side side : {Side::kOut, Side::kIn}) {
    std::vector<Item> items = RandomItems(&random, side, 60, 700);
    const std::string good = testing_runs::RunOf(items, {side, 500, 64});
    const size_t step = testing_util::LongTests() ? 1 : 3;
    for (size_t at = random() % step; at < good.size(); at += step) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << (random() % 8)));
      const auto run = RunReader::Open(OwnRun(bad, "bad.run"));
      absl::Status found = run.status();
      if (run.ok()) found = (*run)->Verify();
      ASSERT_FALSE(found.ok()) << "byte " << at << " of " << good.size();
      ASSERT_TRUE(absl::IsDataLoss(found)) << found;
      ASSERT_NE(Text(found).find("bad.run"), std::string::npos) << found;
      // Reading meets it too, or does not touch it: never something else.
      if (!run.ok()) continue;
      const auto read = testing_runs::ReadItems(**run);
      ASSERT_TRUE(!read.ok() && absl::IsDataLoss(read.status())) << at;
    }
  }
}

TEST(RunDamage, AnyLength_IsFoundWhenOpened) {
  std::mt19937_64 random(TestSeed());
  const std::string good =
      testing_runs::RunOf(RandomItems(&random, Side::kOut, 60, 500), {Side::kOut, 500, 64});
  for (size_t n = 0; n < good.size(); ++n) {
    ASSERT_TRUE(absl::IsDataLoss(RunReader::Open(OwnRun(good.substr(0, n), "cut")).status())) << n;
  }
  EXPECT_TRUE(absl::IsDataLoss(RunReader::Open(OwnRun(good + "x", "longer")).status()));
}

// Checksums say who wrote it, not that it is true.
TEST(RunDamage, MoreRecordsThanItsBytesCanHold_IsFoundWhenOpened) {
  std::vector<Item> items;
  for (EdgeId i = 0; i < 20'000; ++i) items.push_back({i, 1, i + 1, i, 0, {}});
  const std::string honest = testing_runs::RunOf(items, {});
  EXPECT_EQ(testing_runs::LyingRun(honest).Bytes(), honest);
  for (const uint64_t records : {uint64_t{1} << 60, (honest.size() + 2) * 64}) {
    testing_runs::LyingRun run(honest);
    run.meta[2] = records;
    const auto opened = RunReader::Open(OwnRun(run.Bytes(), "lying")).status();
    EXPECT_TRUE(absl::IsDataLoss(opened)) << opened;
  }
  // What honest runs have is below it: nodes whose relationships take no bits.
  for (const uint64_t nodes : {1, 64, 4000}) {
    std::vector<Item> dense;
    for (NodeId node = 0; node < nodes; ++node) {
      for (EdgeId i = 0; i < 256; ++i) dense.push_back({node, 1, 2, node * 256 + i, 0, {}});
    }
    ASSERT_NE(MustOpen(testing_runs::RunOf(dense, {})), nullptr);
  }
}

TEST(RunDamage, SegmentOfTooManyRows_IsFoundWhenOpened) {
  std::vector<Item> items;
  for (EdgeId i = 0; i < 20'000; ++i) items.push_back({i, 1, i + 1, i, 0, {}});
  items[0].properties[3] = Value::Int(1);
  testing_runs::LyingRun run(testing_runs::RunOf(items, {.rows_per_segment = 1 << 20}));
  ASSERT_EQ(run.entries.size(), 1u);
  // Side, nodes, records...; then keys, types, and the rows of each segment.
  ASSERT_EQ(run.meta.back(), 20'000u);
  for (const uint64_t rows : {kMostSegmentRows, kMostSegmentRows + 1}) {
    run.meta[2] = run.meta.back() = rows;
    run.entries[0].count = static_cast<uint32_t>(rows);
    const auto opened = RunReader::Open(OwnRun(run.Bytes(), "lying")).status();
    EXPECT_EQ(opened.ok(), rows == kMostSegmentRows) << opened;
  }
}

TEST(RunDamage, OneGroup_LeavesTheOthersReadable) {
  std::vector<Item> items;
  for (NodeId node = 0; node < 640; ++node) items.push_back({node, 1, node + 1, node, 0, {}});
  std::string bytes = testing_runs::RunOf(items, {});
  const auto good = MustOpen(bytes);
  ASSERT_NE(good, nullptr);
  bytes[good->groups()[3].offset + 40] ^= 1;
  const auto run = MustOpen(bytes);
  ASSERT_NE(run, nullptr);
  for (NodeId node = 0; node < 640; ++node) {
    const auto view = run->Find(node);
    if (node / 64 != 3) {
      ASSERT_TRUE(view.ok());
      EXPECT_EQ(view->count(), 1u);
      continue;
    }
    ASSERT_TRUE(absl::IsDataLoss(view.status()));
    EXPECT_NE(Text(view.status()).find("nodes 192 to 255"), std::string::npos) << view.status();
  }
  int damaged = 0;
  EXPECT_TRUE(absl::IsDataLoss(run->Verify([&](const absl::Status&) { ++damaged; })));
  EXPECT_EQ(damaged, 1);
}

}  // namespace
}  // namespace pulse::graph
