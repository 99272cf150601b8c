// x IN of a long list that is the same for all rows: the answer is that of the walk, and the list
// is looked through once.
#include "services/graph/functions/list_set.h"

#include <cmath>
#include <limits>

#include "services/graph/cypher/test_random_graph.h"
#include "services/graph/expressions/eval.h"

namespace pulse::cypher {
namespace {

constexpr int64_t kTwoTo53 = int64_t{1} << 53;

// Of few values of each type, so that many are equal, of one type or of two.
Value RandomValue(std::mt19937_64& random, int depth = 2) {
  const auto pick = [&random](uint64_t n) { return static_cast<int64_t>(random() % n); };
  switch (pick(depth > 0 ? 18 : 15)) {
    case 0:
      return Value::Bool(pick(2) == 0);
    case 1:
      return Value::Int(pick(6) - 3);
    case 2:
      return Value::Float(static_cast<double>(pick(12) - 6) / 2);
    case 3:
      return Value::Int(kTwoTo53 - 2 + pick(5));
    case 4:
      return Value::Float(static_cast<double>(kTwoTo53 - 2 + pick(5)));
    case 5:
      return Value::Int(pick(2) == 0 ? std::numeric_limits<int64_t>::max() - pick(2)
                                     : std::numeric_limits<int64_t>::min() + pick(2));
    case 6: {
      const double large[] = {0x1p63, -0x1p63, 1e300, INFINITY, -INFINITY, NAN, 0.0, -0.0};
      return Value::Float(large[pick(8)]);
    }
    case 7:
      return Value::String(std::string(static_cast<size_t>(pick(3)), 'a') + (pick(2) ? "1" : ""));
    case 8:
      return Value::Date(pick(4));
    case 9:
      return Value::LocalTime(pick(3) * 3600 * 1'000'000'000);
    case 10:
      return Value::Time(pick(3) * 3600 * 1'000'000'000, static_cast<int32_t>(pick(3)) * 3600);
    case 11:
      return Value::LocalDateTime(pick(3), static_cast<int32_t>(pick(2)));
    case 12: {
      DateTime moment;
      moment.seconds = pick(3);
      moment.offset = static_cast<int32_t>(pick(2)) * 3600;
      return Value::MakeDateTime(moment);
    }
    case 13: {
      Duration duration;
      duration.months = pick(2);
      duration.days = pick(2) * 30;
      duration.seconds = pick(2) * 86400;
      return Value::MakeDuration(duration);
    }
    case 14:
      return random() % 2 == 0 ? Value::Node(random() % 3)
                               : Value::Edge({.id = random() % 3, .source = 1, .target = 2});
    case 15:
      return Value::Map({{pick(2) == 0 ? "a" : "b", RandomValue(random, depth - 1)}});
    default: {
      ValueList list;
      for (int64_t i = pick(3); i > 0; --i) {
        list.push_back(pick(4) == 0 ? Value() : RandomValue(random, depth - 1));
      }
      return Value::List(std::move(list));
    }
  }
}

int Walk(const Value& value, const ValueList& list) {
  int found = 0;
  for (const Value& v : list) {
    const int equal = Equals(value, v);
    if (equal == 1) return 1;
    if (equal < 0) found = -1;
  }
  return found;
}

Value Integers(int64_t count) {
  ValueList list;
  for (int64_t i = 0; i < count; ++i) list.push_back(Value::Int(i));
  return Value::List(std::move(list));
}

TEST(ListSetTest, Find_RandomListsAndValues_IsTheWalk) {
  std::mt19937_64 random(testing_util::TestSeed());
  int answers[3] = {0, 0, 0}, walks = 0;
  for (int i = 0; i < 3000; ++i) {
    // In some lists nothing nests, in some there is no null; some are of few values.
    const int depth = static_cast<int>(random() % 2) * 2;
    const bool nulls = random() % 3 == 0;
    ValueList list;
    for (uint64_t k = ListSets::kLeast + random() % 40; k > 0; --k) {
      list.push_back(nulls && random() % 20 == 0 ? Value() : RandomValue(random, depth));
      if (random() % 4 == 0) list.push_back(list.back());
    }
    const Value constant = Value::List(list);
    EvalContext context;
    const ListSet* const set = FindSet(constant, ListSets::kRows, context);
    ASSERT_NE(set, nullptr);
    for (int k = 0; k < 40; ++k) {
      const Value value = k == 0 ? Value() : RandomValue(random);
      const int expected = Walk(value, list);
      ASSERT_EQ(FindInList(value, list, set, context), expected);
      const int found = set->Find(value);
      walks += found == ListSet::kWalk ? 1 : 0;
      if (found != ListSet::kWalk) {
        ASSERT_EQ(found, expected);
        ++answers[found + 1];
      }
    }
  }
  for (const int answer : answers) EXPECT_GT(answer, 1000);
  EXPECT_GT(walks, 1000);
}

TEST(ListSetTest, Find_ListsThatAreShortOrRarelyAskedFor_AreWalked) {
  EvalContext context;
  const Value shorter = Integers(ListSets::kLeast - 1), longer = Integers(ListSets::kLeast);
  EXPECT_EQ(FindSet(shorter, 1'000'000, context), nullptr);
  EXPECT_EQ(FindSet(longer, ListSets::kRows - 1, context), nullptr);
  const ListSet* const set = FindSet(longer, 1, context);
  EXPECT_NE(set, nullptr);
  EXPECT_EQ(FindSet(longer, 1, context), set);
  // Another list of the same values is another one.
  EXPECT_EQ(FindSet(Integers(ListSets::kLeast), 1, context), nullptr);
}

TEST(ListSetTest, Find_SeveralThreads_ShareTheSetAndItsMemory) {
  const Value before = Integers(1000), after = Integers(5000);
  EvalContext context, child;
  const ListSet* const first = FindSet(before, ListSets::kRows, context);
  const int64_t charged = context.charged();
  EXPECT_GE(charged, 1000 * 8);
  context.Fork(2, &child);
  EXPECT_EQ(FindSet(before, 1, child), first);
  const ListSet* const second = FindSet(after, ListSets::kRows, child);
  ASSERT_NE(second, nullptr);
  EXPECT_GE(context.charged(), charged + 5000 * 8);
  const int64_t both = context.charged();
  EXPECT_EQ(FindSet(after, ListSets::kRows, context), second);
  EXPECT_EQ(context.charged(), both);
}

TEST(ListSetTest, Find_WhereMemoryIsShort_ThereIsNone) {
  const Value list = Integers(10'000);
  for (const bool pooled : {false, true}) {
    MemoryPool pool(pooled ? 100'000 : 0);
    EvalContext context;
    context.pool = &pool;
    context.limits.memory_bytes = pooled ? 0 : 100'000;
    EXPECT_EQ(FindSet(list, ListSets::kRows, context), nullptr);
    EXPECT_FALSE(context.failed());
    EXPECT_EQ(context.charged(), 0);
    EXPECT_EQ(FindInList(Value::Int(9999), list.as_list(), nullptr, context), 1);
  }
}

TEST(ListSetTest, Find_ExecutionsThatEndMeanwhile_LeaveNothingCharged) {
  const Value list = Integers(100'000);
  const std::atomic<bool> cancelled = true;
  EvalContext context;
  context.cancelled = &cancelled;
  EXPECT_EQ(FindSet(list, ListSets::kRows, context), nullptr);
  EXPECT_TRUE(context.failed());
  EXPECT_EQ(context.charged(), 0);
}

// Times whose hashes are equal.
TEST(ListSetTest, Find_ValuesThatShareAHash_AreWalked) {
  ValueList list;
  for (int i = 0; i < 20'000; ++i) list.push_back(Value::LocalDateTime(1, i));
  EvalContext context;
  EXPECT_EQ(FindSet(Value::List(list), ListSets::kRows, context), nullptr);
  EXPECT_FALSE(context.failed());
  EXPECT_EQ(context.charged(), 0);
}

using InListTest = RandomGraphTest;

// By rows and by columns, in filters of scans, and by several threads.
TEST_F(InListTest, ConstantLists_OfRandomValues_AreThoseOfAny) {
  const Token label = *graph_.AddLabelName("W"), key = *graph_.AddKeyName("w");
  for (int i = 0; i < 300; ++i) {
    Value value = RandomValue(random_, 1);
    if (!IsPropertyValue(value)) value = Value();
    Properties properties;
    if (!value.is_null()) properties.push_back({key, value});
    ASSERT_TRUE(graph_.CreateNode({&label, 1}, properties).ok());
  }
  for (int round = 0; round < 20; ++round) {
    ValueList list;
    while (list.size() < 60) {
      list.push_back(round % 3 == 0 && random_() % 30 == 0 ? Value() : RandomValue(random_, 1));
    }
    std::string integers = "[";
    for (int i = 0; i < 40; ++i) {
      integers += Concat(i == 0 ? "" : ", ", random_() % 8);
    }
    integers += round % 2 == 0 ? ", null, 2.5]" : ", 2.5]";
    parameters_ = {{"list", Value::List(std::move(list))}};
    for (const std::string& all : {std::string("$list"), integers}) {
      const std::string in = "n.w IN " + all, any = "any(x IN " + all + " WHERE x = n.w)";
      EXPECT_EQ(Run("MATCH (n:W) RETURN [id(n), " + in + "]"),
                Run("MATCH (n:W) RETURN [id(n), " + any + "]"));
      EXPECT_EQ(Run("MATCH (n:W) WHERE " + in + " RETURN id(n)"),
                Run("MATCH (n:W) WHERE " + any + " RETURN id(n)"));
      EXPECT_EQ(Run("MATCH (n:W) WHERE NOT " + in + " RETURN id(n)"),
                Run("MATCH (n:W) WHERE NOT " + any + " RETURN id(n)"));
      EXPECT_EQ(Run("MATCH (n:W) RETURN [id(n), [y IN [n.w, 1, null] | y IN " + all + "]]"),
                Run("MATCH (n:W) RETURN [id(n), [y IN [n.w, 1, null] | any(x IN " + all +
                    " WHERE x = y)]]"));
    }
  }
}

TEST_F(InListTest, ParametersThatAreNoList_AreWhatTheyWere) {
  MakeGraph(100, 0);
  parameters_ = {{"nothing", Value()}, {"number", Value::Int(1)}};
  EXPECT_EQ(Run("MATCH (n) WHERE n.n IN $nothing RETURN n.n"), std::vector<std::string>{});
  EXPECT_EQ(Run("MATCH (n) WHERE (n.n IN $nothing) IS NULL RETURN n.n").size(), 100u);
  const auto plan = MakePlan("MATCH (n) WHERE n.n IN $number RETURN n.n", graph_, nullptr);
  ASSERT_TRUE(plan.ok()) << plan.status();
  for (const size_t columns_from : {size_t{1}, ~size_t{0}}) {
    EXPECT_FALSE(RowsOf(**plan, columns_from).ok());
  }
}

}  // namespace
}  // namespace pulse::cypher
