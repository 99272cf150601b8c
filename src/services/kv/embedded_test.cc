// The embedded store (pulse/kv.h): each call, through the store and through an owner; scans,
// limits, statistics.
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/testing.h"
#include "gmock/gmock.h"
#include "services/kv/test_embedded.h"

namespace pulse {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_util::Text;

// Each call, through the store and through an owner of its only partition.
class KvCallsTest : public testing::TestWithParam<bool> {
 protected:
  KvCallsTest() {
    if (!GetParam()) return;
    auto owned = fixture_.store->Own(0);
    EXPECT_TRUE(owned.ok()) << owned.status();
    owner_ = *std::move(owned);
  }
  KvCalls& calls() { return owner_ != nullptr ? static_cast<KvCalls&>(*owner_) : *fixture_.store; }
  Fixture fixture_;
  std::unique_ptr<Kv::Owner> owner_;
};

INSTANTIATE_TEST_SUITE_P(All, KvCallsTest, testing::Bool(),
                         [](const auto& is) { return is.param ? "Owner" : "Store"; });

TEST_P(KvCallsTest, SetAndGet_OfAnyBytes_KeepsThem) {
  const std::string zeros(3, '\0');
  EXPECT_TRUE(calls().Set("", "empty key").ok());
  EXPECT_TRUE(calls().Set("empty value", "").ok());
  EXPECT_TRUE(calls().Set(zeros, zeros).ok());
  EXPECT_TRUE(calls().Set("twice", "first").ok());
  EXPECT_TRUE(calls().Set("twice", "second, which is longer").ok());
  EXPECT_EQ(Value(calls(), ""), "empty key");
  EXPECT_EQ(Value(calls(), "empty value"), "");
  EXPECT_EQ(Value(calls(), zeros), zeros);
  EXPECT_EQ(Value(calls(), "twice"), "second, which is longer");
  std::string untouched = "as it was";
  EXPECT_TRUE(absl::IsNotFound(calls().Get("none", &untouched)));
  EXPECT_EQ(untouched, "as it was");
}

TEST_P(KvCallsTest, Set_WithConditions_StoresWhereTheyHold) {
  EXPECT_TRUE(absl::IsNotFound(calls().Set("k", "1", {.only_if_present = true})));
  EXPECT_EQ(Value(calls(), "k"), "(none)");
  EXPECT_TRUE(calls().Set("k", "2", {.only_if_absent = true}).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(calls().Set("k", "3", {.only_if_absent = true})));
  EXPECT_EQ(Value(calls(), "k"), "2");
  EXPECT_TRUE(calls().Set("k", "4", {.ttl_ms = 5, .only_if_present = true}).ok());
  EXPECT_EQ(Value(calls(), "k"), "4");
  fixture_.now_ms += 5;
  EXPECT_TRUE(absl::IsNotFound(calls().Set("k", "5", {.only_if_present = true})));
  EXPECT_TRUE(calls().Set("k", "6", {.only_if_absent = true}).ok());
}

TEST_P(KvCallsTest, Set_WithContradictions_RefusesThem) {
  for (const KvSetOptions& options :
       std::vector<KvSetOptions>{{.ttl_ms = -1},
                                 {.expires_ms = kStart + 1, .ttl_ms = 1},
                                 {.only_if_absent = true, .only_if_present = true}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(calls().Set("k", "v", options)));
    const std::vector<KvPair> pairs = {{"k", "v"}};
    EXPECT_TRUE(absl::IsInvalidArgument(calls().SetBatch(pairs, options)));
  }
  EXPECT_TRUE(absl::IsNotFound(calls().Exists("k")));
}

TEST_P(KvCallsTest, DeleteAndExists_OfPresentAndAbsent_SayWhich) {
  EXPECT_TRUE(calls().Set("k", "v").ok());
  EXPECT_TRUE(calls().Exists("k").ok());
  EXPECT_TRUE(calls().Delete("k").ok());
  EXPECT_TRUE(absl::IsNotFound(calls().Delete("k")));
  EXPECT_TRUE(absl::IsNotFound(calls().Exists("k")));
}

TEST_P(KvCallsTest, Items_WhoseTimeHasCome_AreGone) {
  EXPECT_TRUE(calls().Set("ttl", "v", {.ttl_ms = 100}).ok());
  EXPECT_TRUE(calls().Set("at", "v", {.expires_ms = kStart + 100}).ok());
  EXPECT_TRUE(calls().Set("stays", "v").ok());
  EXPECT_EQ(calls().GetExpiry("ttl").value(), kStart + 100);
  EXPECT_EQ(calls().GetExpiry("at").value(), kStart + 100);
  EXPECT_EQ(calls().GetExpiry("stays").value(), kKvNever);
  EXPECT_TRUE(absl::IsNotFound(calls().GetExpiry("none").status()));
  fixture_.now_ms += 99;
  EXPECT_THAT(Batch(calls(), {"ttl", "at", "stays"}), ElementsAre("v", "v", "v"));
  fixture_.now_ms += 1;
  EXPECT_THAT(Batch(calls(), {"ttl", "at", "stays"}), ElementsAre("(none)", "(none)", "v"));
  EXPECT_TRUE(absl::IsNotFound(calls().Delete("ttl")));
  EXPECT_EQ(fixture_.store->Stats().expired, 2u);
}

TEST_P(KvCallsTest, Expiry_InThePast_Deletes) {
  EXPECT_TRUE(calls().Set("k", "v").ok());
  EXPECT_TRUE(calls().Set("k", "w", {.expires_ms = kStart}).ok());
  EXPECT_TRUE(absl::IsNotFound(calls().Exists("k")));
  EXPECT_TRUE(calls().Set("k", "v").ok());
  EXPECT_TRUE(calls().SetExpiry("k", 0).ok());
  EXPECT_TRUE(absl::IsNotFound(calls().SetExpiry("k", 0)));
  EXPECT_EQ(fixture_.store->Stats().items, 0u);
}

TEST_P(KvCallsTest, TouchAndSetExpiry_OfPresentItems_MoveTheirEnd) {
  EXPECT_TRUE(calls().Set("k", "value", {.ttl_ms = 10}).ok());
  EXPECT_TRUE(calls().Touch("k", 1000).ok());
  EXPECT_EQ(calls().GetExpiry("k").value(), kStart + 1000);
  EXPECT_TRUE(calls().SetExpiry("k", kStart + 7'000'000).ok());
  EXPECT_EQ(calls().GetExpiry("k").value(), kStart + 7'000'000);
  EXPECT_TRUE(calls().SetExpiry("k", kKvNever).ok());
  EXPECT_EQ(calls().GetExpiry("k").value(), kKvNever);
  EXPECT_TRUE(calls().Touch("k", std::numeric_limits<int64_t>::max()).ok());
  EXPECT_EQ(calls().GetExpiry("k").value(), kKvNever);
  EXPECT_EQ(Value(calls(), "k"), "value");
  EXPECT_TRUE(calls().Touch("k", 0).ok());
  EXPECT_TRUE(absl::IsNotFound(calls().Exists("k")));
  EXPECT_TRUE(absl::IsNotFound(calls().Touch("none", 1)));
  EXPECT_TRUE(absl::IsNotFound(calls().SetExpiry("none", kKvNever)));
}

TEST_P(KvCallsTest, Increment_OfNumbers_CountsAndKeepsTheExpiry) {
  EXPECT_EQ(calls().Increment("n").value(), 1);
  EXPECT_EQ(calls().Increment("n", -42).value(), -41);
  EXPECT_EQ(Value(calls(), "n"), "-41");
  EXPECT_TRUE(calls().SetExpiry("n", kStart + 50).ok());
  EXPECT_EQ(calls().Increment("n", 1000).value(), 959);
  EXPECT_EQ(calls().GetExpiry("n").value(), kStart + 50);
  fixture_.now_ms += 50;
  EXPECT_EQ(calls().Increment("n", 3).value(), 3);
}

TEST_P(KvCallsTest, Increment_ThatCannotBe_ChangesNothing) {
  const std::string most = std::to_string(std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(calls().Set("most", most).ok());
  EXPECT_TRUE(absl::IsOutOfRange(calls().Increment("most").status()));
  EXPECT_EQ(Value(calls(), "most"), most);
  EXPECT_EQ(calls().Increment("most", std::numeric_limits<int64_t>::min()).value(), -1);
  EXPECT_TRUE(
      absl::IsOutOfRange(calls().Increment("most", std::numeric_limits<int64_t>::min()).status()));
  for (const std::string_view text : {"", "x", "1x", " 1", "1 ", "1.5", "9223372036854775808"}) {
    EXPECT_TRUE(calls().Set("text", text).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(calls().Increment("text").status())) << text;
    EXPECT_EQ(Value(calls(), "text"), text);
  }
}

TEST_P(KvCallsTest, Append_ToPresentAndAbsent_JoinsThemAndKeepsTheExpiry) {
  EXPECT_EQ(calls().Append("k", "ab").value(), 2u);
  EXPECT_TRUE(calls().Touch("k", 10).ok());
  EXPECT_EQ(calls().Append("k", std::string(1000, 'c')).value(), 1002u);
  EXPECT_EQ(Value(calls(), "k"), "ab" + std::string(1000, 'c'));
  EXPECT_EQ(calls().GetExpiry("k").value(), kStart + 10);
  EXPECT_EQ(calls().Append("k", "").value(), 1002u);
}

TEST_P(KvCallsTest, Batches_OfAnySize_DoWhatSingleCallsDo) {
  for (const size_t count : {0, 1, 7, 32, 64, 65, 1000}) {
    std::vector<std::string> texts(count);
    std::vector<KvPair> pairs(count);
    std::vector<std::string_view> keys(count);
    for (size_t i = 0; i < count; ++i) {
      texts[i] = "b" + std::to_string(i);
      pairs[i] = {texts[i], texts[i]};
      keys[i] = texts[i];
    }
    std::vector<StatusCode> codes(count);
    EXPECT_TRUE(calls().SetBatch(pairs, {}, absl::MakeSpan(codes)).ok());
    EXPECT_EQ(std::count(codes.begin(), codes.end(), StatusCode::kOk), count);
    EXPECT_EQ(Batch(calls(), keys), texts);
    EXPECT_EQ(fixture_.store->Stats().items, count);
    EXPECT_TRUE(calls().DeleteBatch(keys, absl::MakeSpan(codes)).ok());
    EXPECT_EQ(std::count(codes.begin(), codes.end(), StatusCode::kOk), count);
    EXPECT_TRUE(calls().DeleteBatch(keys, absl::MakeSpan(codes)).ok());
    EXPECT_EQ(std::count(codes.begin(), codes.end(), StatusCode::kNotFound), count);
    EXPECT_EQ(Batch(calls(), keys), std::vector<std::string>(count, "(none)"));
  }
}

TEST_P(KvCallsTest, Batches_WithRepeatedKeysAndConditions_GoInOrder) {
  const std::vector<KvPair> pairs = {{"a", "1"}, {"b", "2"}, {"a", "3"}};
  std::vector<StatusCode> codes(3);
  EXPECT_TRUE(calls().SetBatch(pairs, {.only_if_absent = true}, absl::MakeSpan(codes)).ok());
  EXPECT_THAT(codes, ElementsAre(StatusCode::kOk, StatusCode::kOk, StatusCode::kAlreadyExists));
  EXPECT_THAT(Batch(calls(), {"a", "b", "a", "c"}), ElementsAre("1", "2", "1", "(none)"));
  EXPECT_TRUE(calls().SetBatch(pairs, {.ttl_ms = 9}).ok());
  EXPECT_THAT(Batch(calls(), {"a", "b"}), ElementsAre("3", "2"));
  EXPECT_EQ(calls().GetExpiry("b").value(), kStart + 9);
  std::vector<StatusCode> few(2);
  EXPECT_TRUE(absl::IsInvalidArgument(calls().SetBatch(pairs, {}, absl::MakeSpan(few))));
}

TEST_P(KvCallsTest, Limits_OfKeysAndValues_AreNamed) {
  const std::string longest(65'535, 'k');
  EXPECT_TRUE(calls().Set(longest, "v").ok());
  EXPECT_EQ(Value(calls(), longest), "v");
  const absl::Status key = calls().Set(longest + "k", "v");
  EXPECT_TRUE(absl::IsInvalidArgument(key));
  EXPECT_THAT(Text(key), HasSubstr("65535"));
  EXPECT_EQ(Value(calls(), longest + "k"), "(none)");
  const std::string half(16 * kMiB, 'v');  // with a header, more than half of the partition
  const absl::Status value = calls().Set("large", half);
  EXPECT_TRUE(absl::IsInvalidArgument(value));
  EXPECT_THAT(Text(value), HasSubstr("16777216"));
  EXPECT_TRUE(calls().Set("large", half.substr(100)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(calls().Append("large", half).status()));
  EXPECT_EQ(Value(calls(), "large"), half.substr(100));
  const std::vector<KvPair> pairs = {{"a", "1"}, {"b", half}, {"c", "3"}};
  std::vector<StatusCode> codes(3);
  const absl::Status batch = calls().SetBatch(pairs, {}, absl::MakeSpan(codes));
  EXPECT_TRUE(absl::IsInvalidArgument(batch));
  EXPECT_THAT(Text(batch), HasSubstr("number 1 of a batch: key 'b'"));
  EXPECT_THAT(Batch(calls(), {"a", "b", "c"}), ElementsAre("1", "(none)", "3"));
}

TEST_P(KvCallsTest, Memory_WhenFull_RefusesAndKeepsWhatIsThere) {
  const std::string value(100'000, 'v');
  int stored = 0;
  absl::Status status;
  while ((status = calls().Set(std::to_string(stored), value)).ok()) ASSERT_LT(++stored, 400);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(Text(status), HasSubstr("delete items"));
  EXPECT_GT(stored, 200);
  EXPECT_GT(fixture_.store->Stats().refused, 0u);
  EXPECT_LE(fixture_.store->Stats().used_bytes, 32 * kMiB);
  for (int i = 0; i < stored; ++i) EXPECT_EQ(Value(calls(), std::to_string(i)), value);
  for (int i = 0; i < stored; i += 2) EXPECT_TRUE(calls().Delete(std::to_string(i)).ok());
  EXPECT_TRUE(calls().Set("again", value).ok());
}

TEST_P(KvCallsTest, Tick_OfExpiredItems_GivesTheirBytesBack) {
  const std::string value(1000, 'v');
  for (int i = 0; i < 2000; ++i) {
    EXPECT_TRUE(calls().Set(std::to_string(i), value, {.ttl_ms = 100}).ok());
  }
  fixture_.now_ms += 1000;
  calls().Tick();
  EXPECT_EQ(fixture_.store->Stats().items, 0u);
  EXPECT_EQ(fixture_.store->Stats().item_bytes, 0u);
  EXPECT_EQ(fixture_.store->Stats().expired, 2000u);
}

TEST_P(KvCallsTest, Callback_ThatCallsItsStore_IsRefused) {
  EXPECT_TRUE(calls().Set("k", "v").ok());
  int refused = 0;
  const std::vector<std::string_view> keys = {"k"};
  const auto nested = [&] {
    std::string value;
    refused += absl::IsFailedPrecondition(calls().Get("k", &value));
    refused += absl::IsFailedPrecondition(calls().SetBatch(std::vector<KvPair>{{"k", "w"}}));
    calls().Tick();
    uint64_t inner = 0;
    refused += absl::IsFailedPrecondition(calls().Scan(&inner, [](const KvItem&) {}));
  };
  EXPECT_TRUE(
      calls().GetBatch(keys, [&](size_t, std::optional<std::string_view>) { nested(); }).ok());
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(Value(calls(), "k"), "v");
}

// --- Scans.

TEST(KvTest, ForEach_WhileTheStoreGrows_MeetsAllThatStays) {
  Fixture fixture({.memory_bytes = 64 * kMiB, .partitions = 3});
  Kv& store = *fixture.store;
  for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(store.Set(std::to_string(i), "v").ok());
  std::set<std::string> met;
  uint64_t cursor = 0;
  int added = 20'000;
  do {
    size_t step = 0;
    ASSERT_TRUE(store
                    .Scan(&cursor,
                          [&](const KvItem& item) {
                            ++step;
                            EXPECT_EQ(item.value, "v");
                            EXPECT_EQ(item.expires_ms, kKvNever);
                            met.insert(std::string(item.key));
                          })
                    .ok());
    EXPECT_LT(step, 200u);
    for (int i = 0; i < 30; ++i) ASSERT_TRUE(store.Set(std::to_string(added++), "v").ok());
  } while (cursor != 0);
  for (int i = 0; i < 20'000; ++i) EXPECT_TRUE(met.contains(std::to_string(i))) << i;
  size_t all = 0;
  EXPECT_TRUE(store.ForEach([&](const KvItem&) { ++all; }).ok());
  EXPECT_EQ(all, static_cast<size_t>(added));
  cursor = uint64_t{3} << 48;
  EXPECT_TRUE(absl::IsInvalidArgument(store.Scan(&cursor, [](const KvItem&) {})));
}

// --- The store and its owners.

TEST(KvTest, Open_WithBadOptions_SaysWhich) {
  EXPECT_TRUE(absl::IsInvalidArgument(Kv::Open({.partitions = 0}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Kv::Open({.partitions = 65}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Kv::Open({.tick_interval_ms = -1}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Kv::Open({.policy = static_cast<KvPolicy>(4)}).status()));
  const auto small = Kv::Open({.memory_bytes = 64 * kMiB, .partitions = 5});
  EXPECT_TRUE(absl::IsInvalidArgument(small.status()));
  EXPECT_THAT(Text(small.status()), HasSubstr("16 MiB"));
  EXPECT_TRUE(Kv::Open({.memory_bytes = 1024 * kMiB, .partitions = 64}).ok());
  for (const uint64_t bytes : {UINT64_MAX, uint64_t{1} << 63, (uint64_t{2} << 40) + 1}) {
    const auto large = Kv::Open({.memory_bytes = bytes});
    EXPECT_TRUE(absl::IsInvalidArgument(large.status())) << bytes;
    EXPECT_THAT(Text(large.status()), HasSubstr("memory_bytes"));
    EXPECT_THAT(Text(large.status()), HasSubstr("2 TiB"));
  }
}

TEST(KvTest, Open_WithMoreExpectedItemsThanFit_HasRoomForItems) {
  for (const uint64_t items : {uint64_t{100'000'000}, UINT64_MAX}) {
    Fixture fixture({.memory_bytes = 64 * kMiB, .expected_items = items});
    EXPECT_TRUE(fixture.store->Set("a", "1").ok());
    EXPECT_EQ(Value(*fixture.store, "a"), "1");
  }
}

TEST(KvTest, TickInterval_TooLongForAClock_DoesNotTickAllTheTime) {
  std::atomic<int> calls = 0;
  const auto clock = [&] { return ++calls; };
  const auto store = Kv::Open({.clock = clock, .tick_interval_ms = INT64_MAX});
  ASSERT_TRUE(store.ok()) << store.status();
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(absl::IsNotFound((*store)->Exists("a")));
  EXPECT_EQ(calls.load(), 100'000);
}

TEST(KvTest, Policies_WhenFull_EvictAndNeverRefuse) {
  for (const KvPolicy policy : {KvPolicy::kLfu, KvPolicy::kLru, KvPolicy::kRandom}) {
    Fixture fixture({.memory_bytes = 32 * kMiB, .policy = policy});
    const std::string value(1000, 'v');
    for (int i = 0; i < 60'000; ++i) {
      ASSERT_TRUE(fixture.store->Set(std::to_string(i), value).ok());
    }
    const KvStats stats = fixture.store->Stats();
    EXPECT_EQ(stats.items + stats.evicted, 60'000u);
    EXPECT_GT(stats.items, 10'000u);
    EXPECT_LE(stats.used_bytes, stats.memory_bytes);
    EXPECT_EQ(stats.refused, 0u);
  }
}

TEST(KvTest, Stats_AfterCalls_CountThem) {
  Fixture fixture({.memory_bytes = 64 * kMiB, .partitions = 2, .expected_items = 1000});
  Kv& store = *fixture.store;
  EXPECT_TRUE(store.Set("a", "12345678").ok());
  EXPECT_TRUE(store.Set("b", "12345678").ok());
  EXPECT_THAT(Batch(store, {"a", "b", "c"}), ElementsAre("12345678", "12345678", "(none)"));
  EXPECT_EQ(Value(store, "d"), "(none)");
  EXPECT_TRUE(store.Exists("a").ok());
  const KvStats stats = store.Stats();
  EXPECT_EQ(stats.items, 2u);
  EXPECT_EQ(stats.item_bytes, 48u);
  EXPECT_EQ(stats.hits, 2u);
  EXPECT_EQ(stats.misses, 2u);
  EXPECT_EQ(stats.memory_bytes, 64 * kMiB);
  EXPECT_GE(stats.used_bytes, stats.item_bytes);
}

TEST(KvTest, Own_OfAPartition_ShutsOthersOutUntilItEnds) {
  Fixture fixture({.memory_bytes = 64 * kMiB, .partitions = 2});
  Kv& store = *fixture.store;
  const std::string mine = KeyIn(store, 1);
  const std::string other = KeyIn(store, 0);
  EXPECT_TRUE(store.Set(mine, "1").ok());
  EXPECT_TRUE(store.Set(other, "0").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(store.Own(2).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(store.Own(-1).status()));
  auto owner = *store.Own(1);
  EXPECT_EQ(owner->partition(), 1);
  EXPECT_TRUE(absl::IsUnavailable(store.Own(1).status()));
  // The store, for keys of the owner.
  EXPECT_TRUE(absl::IsUnavailable(store.Set(mine, "2")));
  EXPECT_THAT(Text(store.Delete(mine)), HasSubstr("partition 1 has an owner"));
  EXPECT_THAT(Batch(store, {mine, other}, StatusCode::kUnavailable),
              ElementsAre("(left out)", "0"));
  std::vector<StatusCode> codes(2);
  EXPECT_TRUE(absl::IsUnavailable(
      store.SetBatch(std::vector<KvPair>{{other, "3"}, {mine, "3"}}, {}, absl::MakeSpan(codes))));
  EXPECT_THAT(codes, ElementsAre(StatusCode::kOk, StatusCode::kUnavailable));
  size_t met = 0;
  EXPECT_TRUE(absl::IsUnavailable(store.ForEach([&](const KvItem&) { ++met; })));
  EXPECT_EQ(met, 1u);
  store.Tick();
  // The owner, for keys of others.
  EXPECT_TRUE(absl::IsInvalidArgument(owner->Set(other, "4")));
  EXPECT_THAT(Text(owner->Exists(other)), HasSubstr("is of partition 0"));
  EXPECT_THAT(Batch(*owner, {mine, other, mine}, StatusCode::kInvalidArgument),
              ElementsAre("1", "(left out)", "1"));
  EXPECT_TRUE(absl::IsInvalidArgument(
      owner->DeleteBatch(std::vector<std::string_view>{other, mine}, absl::MakeSpan(codes))));
  EXPECT_THAT(codes, ElementsAre(StatusCode::kInvalidArgument, StatusCode::kOk));
  EXPECT_TRUE(owner->Set(mine, "5").ok());
  // A callback of the owner may look elsewhere.
  EXPECT_TRUE(owner
                  ->GetBatch(std::vector<std::string_view>{mine},
                             [&](size_t, std::optional<std::string_view> value) {
                               EXPECT_EQ(value, "5");
                               EXPECT_EQ(Value(store, other), "3");
                             })
                  .ok());
  uint64_t cursor = 0;
  met = 0;
  do {
    ASSERT_TRUE(owner->Scan(&cursor, [&](const KvItem& item) { met += item.key == mine; }).ok());
  } while (cursor != 0);
  EXPECT_EQ(met, 1u);
  EXPECT_EQ(store.Stats().items, 2u);
  owner.reset();
  EXPECT_EQ(Value(store, mine), "5");
  EXPECT_TRUE(store.Own(1).ok());
}

TEST(KvTest, TickThread_WithExpiredItems_GivesThemBack) {
  Fixture fixture({.memory_bytes = 64 * kMiB, .partitions = 2, .tick_interval_ms = 1});
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(fixture.store->Set(std::to_string(i), "v", {.ttl_ms = 10}).ok());
  }
  fixture.now_ms += 10'000;
  EXPECT_TRUE(testing_util::Eventually([&] { return fixture.store->Stats().items == 0; }));
  EXPECT_EQ(fixture.store->Stats().expired, 100u);
}

TEST(KvTest, DefaultClock_OfAStore_IsTheSystems) {
  const auto store = Kv::Open({.memory_bytes = 16 * kMiB});
  ASSERT_TRUE(store.ok());
  EXPECT_TRUE((*store)->Set("k", "v", {.ttl_ms = 3'600'000}).ok());
  EXPECT_GT((*store)->GetExpiry("k").value(), kStart);
  EXPECT_EQ(Value(**store, "k"), "v");
}

}  // namespace
}  // namespace pulse
