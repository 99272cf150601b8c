// The checker, on histories that are linearizable and on histories that are not.
#include "checker.h"

#include <gtest/gtest.h>

#include <random>

#include "base/testing.h"

namespace pulse::linear {
namespace {

constexpr int64_t kMs = 1'000'000;

Operation Get(int64_t begin, int64_t end, std::optional<std::string> result) {
  return {Kind::kGet, "", 0, begin, end, std::move(result)};
}
Operation Set(int64_t begin, int64_t end, std::string value, int64_t expires_ms = 0) {
  return {Kind::kSet, std::move(value), expires_ms, begin, end, std::nullopt};
}
Operation Incr(int64_t begin, int64_t end, std::optional<std::string> result) {
  return {Kind::kIncr, "", 0, begin, end, std::move(result)};
}

// Each operation is a client's of its own.
bool Linearizable(std::vector<Operation> operations) {
  for (size_t i = 0; i < operations.size(); ++i) operations[i].client = static_cast<uint32_t>(i);
  const Verdict verdict = CheckKey("k", operations);
  EXPECT_NE(verdict.outcome, Verdict::Outcome::kTooLong);
  EXPECT_EQ(verdict.ok(), verdict.report.empty());
  return verdict.ok();
}

TEST(CheckerTest, History_EmptyOrOneReadOfNothing_IsAccepted) {
  EXPECT_TRUE(Linearizable({}));
  EXPECT_TRUE(Linearizable({Get(1, 2, std::nullopt)}));
  EXPECT_FALSE(Linearizable({Get(1, 2, "x")}));
}

TEST(CheckerTest, StaleRead_AfterAWrite_IsSeen) {
  EXPECT_TRUE(Linearizable({Set(1, 2, "a"), Get(3, 4, "a")}));
  EXPECT_FALSE(Linearizable({Set(1, 2, "a"), Get(3, 4, std::nullopt)}));
  EXPECT_FALSE(Linearizable({Set(1, 2, "a"), Set(3, 4, "b"), Get(5, 6, "a")}));
}

TEST(CheckerTest, Read_DuringAWrite_MayReturnEither) {
  EXPECT_TRUE(Linearizable({Set(1, 2, "a"), Set(3, 9, "b"), Get(4, 5, "a")}));
  EXPECT_TRUE(Linearizable({Set(1, 2, "a"), Set(3, 9, "b"), Get(4, 5, "b")}));
}

TEST(CheckerTest, Reads_NewThenOldDuringAWrite_AreSeen) {
  EXPECT_TRUE(Linearizable({Set(1, 2, "a"), Set(3, 20, "b"), Get(4, 5, "a"), Get(6, 7, "b")}));
  EXPECT_FALSE(Linearizable({Set(1, 2, "a"), Set(3, 20, "b"), Get(4, 5, "b"), Get(6, 7, "a")}));
}

TEST(CheckerTest, Readers_DisagreeOnTwoWriters_AreSeen) {
  const std::vector<Operation> writes = {Set(1, 10, "a"), Set(1, 10, "b")};
  auto with = [&](std::vector<Operation> reads) {
    reads.insert(reads.end(), writes.begin(), writes.end());
    return reads;
  };
  EXPECT_TRUE(Linearizable(with({Get(11, 12, "a"), Get(13, 14, "a")})));
  EXPECT_TRUE(Linearizable(with({Get(11, 12, "b"), Get(13, 14, "b")})));
  EXPECT_FALSE(Linearizable(with({Get(11, 12, "a"), Get(13, 14, "b")})));
}

TEST(CheckerTest, Write_UnknownOutcome_MayBeLateOrNever) {
  EXPECT_TRUE(Linearizable({Set(1, kNever, "a"), Get(2, 3, std::nullopt), Get(4, 5, "a")}));
  EXPECT_TRUE(Linearizable({Set(1, kNever, "a"), Get(2, 3, std::nullopt)}));
  // But not undone, nor done twice, nor before it began.
  EXPECT_FALSE(Linearizable({Set(1, kNever, "a"), Get(2, 3, "a"), Get(4, 5, std::nullopt)}));
  EXPECT_FALSE(Linearizable({Incr(1, kNever, std::nullopt), Get(2, 3, "2")}));
  EXPECT_FALSE(Linearizable({Set(6, kNever, "a"), Get(2, 3, "a")}));
}

TEST(CheckerTest, Write_UnknownOutcome_TakesEffectByItsLatestTimeOrNever) {
  const auto lost = [](int64_t latest) {
    Operation write = Set(3, kNever, "b");
    write.latest = latest;
    return write;
  };
  const std::vector<Operation> late = {Set(1, 2, "a"), Get(12, 13, "a"), Get(20, 21, "b")};
  const auto with = [&](int64_t latest, std::vector<Operation> reads) {
    reads.push_back(lost(latest));
    return Linearizable(std::move(reads));
  };
  EXPECT_TRUE(with(kNever, late));
  EXPECT_TRUE(with(12, late)) << "after the read that began then";
  EXPECT_FALSE(with(10, late));
  EXPECT_TRUE(with(10, {Set(1, 2, "a"), Get(12, 13, "b"), Get(20, 21, "b")}));
  EXPECT_TRUE(with(10, {Set(1, 2, "a"), Get(12, 13, "a"), Get(20, 21, "a")}));
  EXPECT_TRUE(with(10, {Set(1, 2, "a"), Get(4, 30, "a"), Get(20, 21, "b")}));
  EXPECT_FALSE(with(10, {Set(1, 2, "a"), Get(11, 30, "a"), Get(12, 13, "b"), Get(31, 32, "a")}));
}

TEST(CheckerTest, Increment_Lost_IsSeen) {
  EXPECT_TRUE(Linearizable({Incr(1, 5, "1"), Incr(2, 4, "2")}));
  EXPECT_FALSE(Linearizable({Incr(1, 5, "1"), Incr(2, 4, "1")}));
  EXPECT_FALSE(Linearizable({Incr(1, 2, "2"), Incr(3, 4, "1")}));
}

TEST(CheckerTest, Results_OfIncrementAppendAndDelete_AreChecked) {
  const Operation append = {Kind::kAppend, "xy", 0, 3, 4, "3"};
  EXPECT_TRUE(Linearizable({Set(1, 2, "a"), append, Get(5, 6, "axy"), Incr(7, 8, std::nullopt)}));
  EXPECT_FALSE(Linearizable({Set(1, 2, "a"), append, Get(5, 6, "axy"), Incr(7, 8, "1")}));
  EXPECT_FALSE(Linearizable({append}));
  const Operation del = {Kind::kDel, "", 0, 3, 4, "1"};
  EXPECT_TRUE(Linearizable({Set(1, 2, "a"), del, Get(5, 6, std::nullopt)}));
  EXPECT_FALSE(Linearizable({del}));
}

TEST(CheckerTest, ExpiryTime_GivenLater_IsFollowed) {
  const auto expire = [](int64_t at_ms, int64_t until_ms, const char* result) {
    return Operation{Kind::kExpire, "", until_ms, at_ms * kMs, (at_ms + 1) * kMs, result};
  };
  // Of a key that is not there, and of one that is.
  EXPECT_TRUE(Linearizable({expire(0, 10, "0"), Get(5 * kMs, 6 * kMs, std::nullopt)}));
  EXPECT_FALSE(Linearizable({expire(0, 10, "1")}));
  EXPECT_TRUE(Linearizable({Set(0, 1, "a"), expire(2, 10, "1"), Get(5 * kMs, 6 * kMs, "a"),
                            Get(11 * kMs, 12 * kMs, std::nullopt)}));
  EXPECT_FALSE(Linearizable({Set(0, 1, "a"), expire(2, 10, "1"), Get(11 * kMs, 12 * kMs, "a")}));
  EXPECT_FALSE(
      Linearizable({Set(0, 1, "a"), expire(2, 10, "1"), Get(5 * kMs, 6 * kMs, std::nullopt)}));
}

TEST(CheckerTest, ExpiryTime_GivenWithTheWrite_IsFollowed) {
  const Operation set = Set(1 * kMs, 2 * kMs, "a", 10);
  EXPECT_TRUE(
      Linearizable({set, Get(3 * kMs, 4 * kMs, "a"), Get(10 * kMs, 11 * kMs, std::nullopt)}));
  // Too early, too late, and back again.
  EXPECT_FALSE(Linearizable({set, Get(3 * kMs, 4 * kMs, std::nullopt)}));
  EXPECT_FALSE(Linearizable({set, Get(10 * kMs, 11 * kMs, "a")}));
  EXPECT_TRUE(
      Linearizable({set, Get(8 * kMs, 12 * kMs, "a"), Get(9 * kMs, 13 * kMs, std::nullopt)}));
  EXPECT_FALSE(
      Linearizable({set, Get(8 * kMs, 9 * kMs, std::nullopt), Get(10 * kMs, 12 * kMs, "a")}));
  // A second write takes the expiry away; an increment keeps it.
  EXPECT_TRUE(Linearizable({set, Set(5 * kMs, 6 * kMs, "b"), Get(20 * kMs, 21 * kMs, "b")}));
  EXPECT_TRUE(Linearizable({Set(1 * kMs, 2 * kMs, "1", 10), Incr(3 * kMs, 4 * kMs, "2"),
                            Incr(20 * kMs, 21 * kMs, "1")}));
  EXPECT_FALSE(Linearizable({Set(1 * kMs, 2 * kMs, "1", 10), Incr(3 * kMs, 4 * kMs, "2"),
                             Incr(20 * kMs, 21 * kMs, "3")}));
}

TEST(CheckerTest, Pipeline_OfOneClient_KeepsItsOrder) {
  std::vector<Operation> pipeline = {Set(1, 10, "a"), Get(2, 10, std::nullopt)};
  EXPECT_TRUE(Linearizable(pipeline));
  EXPECT_FALSE(CheckKey("k", pipeline).ok());
  pipeline[1].result = "a";
  EXPECT_TRUE(CheckKey("k", pipeline).ok());
  // But what was lost may be late.
  pipeline = {Set(1, kNever, "a"), Get(2, 10, std::nullopt), Get(11, 12, "a")};
  EXPECT_TRUE(CheckKey("k", pipeline).ok());
}

TEST(CheckerTest, Search_TooManySteps_EndsAsTooLong) {
  std::vector<Operation> operations;
  for (int i = 0; i < 30; ++i) {
    operations.push_back(Set(1, 100, std::to_string(i)));
    operations.back().client = static_cast<uint32_t>(i);
  }
  operations.push_back(Get(101, 102, "none of them"));
  const Verdict verdict = CheckKey("k", operations, 1000);
  EXPECT_EQ(verdict.outcome, Verdict::Outcome::kTooLong);
}

// Histories made by a register that works: operations take effect at a time within their own.
std::vector<Operation> MakeHistory(std::mt19937_64& random, size_t count, size_t clients) {
  struct Planned {
    int64_t effect;
    Operation op;
  };
  std::vector<Planned> planned;
  std::vector<int64_t> free(clients, 1);
  for (size_t i = 0; i < count; ++i) {
    const size_t client = random() % clients;
    Operation op;
    op.client = static_cast<uint32_t>(client);
    op.begin = free[client] + static_cast<int64_t>(random() % 20);
    op.end = op.begin + 1 + static_cast<int64_t>(random() % 100);
    free[client] = op.end + 1;
    const auto at =
        op.begin + static_cast<int64_t>(random() % static_cast<uint64_t>(op.end - op.begin + 1));
    op.kind = static_cast<Kind>(random() % 4);  // no appends: values would grow
    if (op.kind == Kind::kSet) op.argument = std::to_string(random() % 50);
    planned.push_back({at, op});
  }
  std::stable_sort(planned.begin(), planned.end(),
                   [](const Planned& a, const Planned& b) { return a.effect < b.effect; });
  std::optional<std::string> value;
  std::vector<Operation> operations;
  for (Planned& p : planned) {
    if (p.op.kind == Kind::kGet) p.op.result = value;
    if (p.op.kind == Kind::kSet) value = p.op.argument;
    if (p.op.kind == Kind::kDel) {
      p.op.result = value ? "1" : "0";
      value.reset();
    }
    if (p.op.kind == Kind::kIncr) {
      value = std::to_string(std::stoll(value.value_or("0")) + 1);
      p.op.result = value;
    }
    if (random() % 40 == 0) p.op.end = kNever;
    operations.push_back(p.op);
  }
  return operations;
}

TEST(CheckerTest, RandomHistories_OfAWorkingRegister_AreAccepted) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int round = 0; round < 30; ++round) {
    const auto operations = MakeHistory(random, 400, 1 + random() % 8);
    const Verdict verdict = CheckKey("k", operations);
    ASSERT_TRUE(verdict.ok()) << verdict.report;
  }
}

// Against trying every order.
bool ByBruteForce(const std::vector<Operation>& operations) {
  std::vector<size_t> order(operations.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  do {
    std::optional<std::string> value;
    bool fits = true;
    int64_t latest_begin = 0;
    for (const size_t i : order) {
      const Operation& op = operations[i];
      // Ended before one that is earlier in the order began.
      if (op.end < latest_begin) fits = false;
      latest_begin = std::max(latest_begin, op.begin);
      if (op.kind == Kind::kGet) fits = fits && op.result == value;
      if (op.kind == Kind::kSet) value = op.argument;
      if (!fits) break;
    }
    if (fits) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

TEST(CheckerTest, Verdict_RandomHistories_AgreesWithTryingEveryOrder) {
  std::mt19937_64 random(testing_util::TestSeed());
  int good = 0;
  constexpr int kRounds = 3000;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Operation> operations;
    for (int i = 0; i < 6; ++i) {
      const auto begin = static_cast<int64_t>(random() % 30);
      const auto end = begin + 1 + static_cast<int64_t>(random() % 15);
      std::string value = std::to_string(random() % 3);
      if (random() % 2 == 0) {
        operations.push_back(Set(begin, end, value));
      } else {
        operations.push_back(
            Get(begin, end, value == "2" ? std::nullopt : std::optional<std::string>(value)));
      }
    }
    const bool expected = ByBruteForce(operations);
    good += expected;
    ASSERT_EQ(Linearizable(operations), expected);
  }
  // Both kinds were among them.
  EXPECT_GT(good, kRounds / 100);
  EXPECT_LT(good, kRounds - kRounds / 100);
}

Transaction Both(int64_t begin, int64_t end, Operation first, Operation second, uint32_t client) {
  return {{{0, std::move(first)}, {1, std::move(second)}}, begin, end, client};
}

TEST(CheckTransactionsTest, ReadOfBothKeys_BetweenTheWritesOfOneTransaction_IsSeen) {
  const Transaction write = Both(1, 9, Set(0, 0, "a"), Set(0, 0, "b"), 0);
  const auto read = [](std::optional<std::string> first, std::optional<std::string> second) {
    return Both(2, 8, Get(0, 0, std::move(first)), Get(0, 0, std::move(second)), 1);
  };
  EXPECT_TRUE(CheckTransactions("g", 2, {write, read("a", "b")}).ok());
  EXPECT_TRUE(CheckTransactions("g", 2, {write, read(std::nullopt, std::nullopt)}).ok());
  const Verdict torn = CheckTransactions("g", 2, {write, read("a", std::nullopt)});
  EXPECT_EQ(torn.outcome, Verdict::Outcome::kViolation);
  EXPECT_NE(torn.report.find("[1] GET -> (none)"), std::string::npos) << torn.report;
  EXPECT_FALSE(CheckTransactions("g", 2, {write, read(std::nullopt, "b")}).ok());
}

// Each key by itself is linearizable here.
TEST(CheckTransactionsTest, ReadersThatDisagreeOnTheOrderOfTwoKeys_AreSeen) {
  const auto one = [](size_t key, Operation operation, uint32_t client) {
    return Transaction{{{key, std::move(operation)}}, 1, 20, client};
  };
  std::vector<Transaction> history = {one(0, Set(0, 0, "a"), 0), one(1, Set(0, 0, "b"), 1),
                                      Both(2, 8, Get(0, 0, "a"), Get(0, 0, std::nullopt), 2)};
  EXPECT_TRUE(CheckTransactions("g", 2, history).ok());
  history.push_back(Both(2, 8, Get(0, 0, std::nullopt), Get(0, 0, "b"), 3));
  EXPECT_FALSE(CheckTransactions("g", 2, history).ok());
}

TEST(CheckTransactionsTest, LaterCommandOfATransaction_SeesWhatAnEarlierHasWritten) {
  const auto twice = [](std::optional<std::string> seen) {
    return std::vector<Transaction>{
        {{{0, Set(0, 0, "7")}, {0, Incr(0, 0, "8")}, {0, Get(0, 0, std::move(seen))}}, 1, 2, 0}};
  };
  EXPECT_TRUE(CheckTransactions("g", 1, twice("8")).ok());
  EXPECT_FALSE(CheckTransactions("g", 1, twice("7")).ok());
}

TEST(CheckTransactionsTest, TransactionWithoutAnAnswer_TakesEffectWhollyOrNotAtAll) {
  const Transaction lost = Both(1, kNever, Set(0, 0, "a"), Set(0, 0, "b"), 0);
  const auto read = [](std::optional<std::string> first, std::optional<std::string> second) {
    return Both(5, 6, Get(0, 0, std::move(first)), Get(0, 0, std::move(second)), 1);
  };
  EXPECT_TRUE(CheckTransactions("g", 2, {lost, read("a", "b")}).ok());
  EXPECT_TRUE(CheckTransactions("g", 2, {lost, read(std::nullopt, std::nullopt)}).ok());
  EXPECT_FALSE(CheckTransactions("g", 2, {lost, read("a", std::nullopt)}).ok());
}

}  // namespace
}  // namespace pulse::linear
