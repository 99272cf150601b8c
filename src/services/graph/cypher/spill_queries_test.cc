// Queries that spill against the same ones that have all the memory they want: rows, in their
// order, and errors. And how queries end while they spill.
#include <gtest/gtest.h>

#include <cerrno>
#include <random>
#include <thread>

#include "base/testing.h"
#include "services/graph/cypher/engine.h"
#include "services/graph/model/test_memory_graph.h"
#include "services/graph/model/test_values.h"
#include "services/graph/model/text.h"
#include "services/graph/planner/make_plan.h"
#include "services/graph/spill/spill_rows.h"
#include "services/graph/syntax/error.h"

namespace pulse::cypher {
namespace {

using testing_util::Rounds;
using testing_util::TestSeed;

// Counts what is written, and fails, or calls, when so much has been.
class WatchedDisk : public SpillDisk {
 public:
  ssize_t Write(int fd, const char* bytes, size_t size, uint64_t offset) override {
    written_ += size;
    if (written_ > fail_after) return errno = ENOSPC, -1;
    if (written_ > call_after && call) std::exchange(call, nullptr)();
    return SpillDisk::Write(fd, bytes, size, offset);
  }
  ssize_t Read(int fd, char* bytes, size_t size, uint64_t offset) override {
    read_ += size;
    if (read_ > fail_reads_after) return errno = EIO, -1;
    return SpillDisk::Read(fd, bytes, size, offset);
  }
  size_t fail_after = ~size_t{0}, fail_reads_after = ~size_t{0}, call_after = 0;
  std::function<void()> call;

 private:
  size_t written_ = 0, read_ = 0;
};

// What a query's rows are, to the last bit: a text of each value takes several times as long, which
// of some million rows is most of a test's time.
class ResultBytes : public ResultSink {
 public:
  bool OnRows(const Value* rows, size_t stride, size_t count,
              std::span<const Slot> columns) override {
    for (size_t i = 0; i < count; ++i) {
      for (const Slot column : columns) {
        AppendRowValue(rows[i * stride + static_cast<size_t>(column)], &bytes);
      }
      ends.push_back(bytes.size());
    }
    return true;
  }
  bool operator==(const ResultBytes& other) const {
    return bytes == other.bytes && ends == other.ends;
  }
  // One row of one value.
  static ResultBytes Of(const Value& value) {
    ResultBytes one;
    const Slot column = 0;
    one.OnRows(&value, 1, 1, {&column, 1});
    return one;
  }
  void Add(const ResultBytes& other) {
    for (const size_t end : other.ends) ends.push_back(bytes.size() + end);
    bytes += other.bytes;
  }
  // The first row that another result does not have there.
  size_t FirstOther(const ResultBytes& other) const {
    size_t row = 0, begin = 0;
    for (; row < std::min(ends.size(), other.ends.size()) && ends[row] == other.ends[row]; ++row) {
      if (bytes.compare(begin, ends[row] - begin, other.bytes, begin, ends[row] - begin) != 0)
        break;
      begin = ends[row];
    }
    return row;
  }
  // For messages.
  std::string Text(size_t row, const GraphView& graph) const {
    if (row >= ends.size()) return "no row";
    const size_t begin = row == 0 ? 0 : ends[row - 1];
    std::string_view in = std::string_view(bytes).substr(begin, ends[row] - begin);
    std::string text;
    for (Value value; !in.empty() && ReadRowValue(&in, &value);) {
      text += ValueText(value, graph) + ", ";
    }
    return text;
  }

  std::string bytes;
  std::vector<size_t> ends;
};

class SpillQueries : public testing::Test {
 protected:
  static constexpr size_t kLittle = 512 << 10;

  struct Ran {
    ResultBytes rows;
    absl::Status status;
    uint64_t spilled = 0;
  };
  // Few rows of values of few kinds, so that many are equal; `n` is each row's own.
  static Value RandomRows(std::mt19937_64& random, size_t count) {
    ValueList rows;
    for (size_t i = 0; i < count; ++i) {
      Value numbers[] = {Value::Int(static_cast<int64_t>(random() % 50)),
                         Value::Float(static_cast<double>(random() % 100) / 2), Value(),
                         Value::Float(std::nan(""))};
      Value any = random() % 3 != 0 ? numbers[random() % 4] : RandomLiteral(random);
      if (random() % 8 == 0) any = Value::List({std::move(any), numbers[random() % 4]});
      rows.push_back(Value::Map(
          {{"n", Value::Int(static_cast<int64_t>(i))},
           {"a", numbers[random() % 3]},
           {"b", std::move(any)},
           {"f", Value::Float(std::ldexp(static_cast<double>(random() % 1000), -7))},
           {"k", Value::Int(static_cast<int64_t>(random() % (count / 2)))},
           {"s", Value::String(std::string(random() % 40, static_cast<char>('a' + random() % 3)) +
                               std::to_string(random() % 7))}}));
    }
    return Value::List(std::move(rows));
  }
  Ran Run(const std::string& query, size_t memory) {
    Ran ran;
    const auto plan = MakePlan(query, *graph_, nullptr);
    if (!plan.ok()) return ran.status = plan.status(), ran;
    options_.transaction = graph_.get();
    options_.parameters = &parameters_;
    options_.limits.memory_bytes = memory;
    options_.spill.directory = testing::TempDir();
    options_.spill.disk = disk_;
    ExecuteSummary summary;
    ran.status = Execute(**plan, options_, &ran.rows, &summary);
    ran.spilled = summary.spilled_bytes;
    return ran;
  }
  // With little memory, and with much: the same, and the former spills.
  void Compare(const std::string& query, size_t little = kLittle) {
    const Ran much = Run(query, size_t{4} << 30);
    ASSERT_TRUE(much.status.ok()) << query << ": " << much.status;
    EXPECT_EQ(much.spilled, 0u);
    const Ran ran = Run(query, little);
    ASSERT_TRUE(ran.status.ok()) << query << ": " << ran.status;
    EXPECT_GT(ran.spilled, 0u) << query;
    ExpectSame(ran.rows, much.rows, query);
  }
  void ExpectSame(const ResultBytes& rows, const ResultBytes& expected, const std::string& query) {
    const size_t row = rows.FirstOther(expected);
    EXPECT_TRUE(rows == expected) << query << ", row " << row << " of " << rows.ends.size() << ": "
                                  << rows.Text(row, *graph_) << "expected "
                                  << expected.Text(row, *graph_);
  }
  void SetRows(size_t count) {
    std::mt19937_64 random(TestSeed());
    parameters_ = {{"rows", RandomRows(random, count)}};
  }

  std::unique_ptr<MemoryGraph> graph_ = std::make_unique<MemoryGraph>();
  ExecuteOptions options_;
  ValueMap parameters_;
  SpillDisk* disk_ = nullptr;
};

constexpr char kRows[] = "UNWIND $rows AS r WITH r.n AS n, r.a AS a, r.b AS b, r.s AS s, r.k AS k ";

TEST_F(SpillQueries, OrderBy_SameRowsInTheSameOrder) {
  SetRows(20'000);
  for (const char* order :
       {"a", "b DESC", "s", "a, s DESC", "a DESC, b, s", "s DESC, a DESC", "b, a, s, n DESC"}) {
    Compare(Concat(kRows, "RETURN n, a, b, s ORDER BY ", order));
  }
  // More than can be merged at once.
  SetRows(60'000);
  Compare(Concat(kRows, "RETURN n, a, b, s ORDER BY s, a"));
}

TEST_F(SpillQueries, OrderByWithLimit_KeepsTheTop) {
  SetRows(20'000);
  for (const char* top :
       {"LIMIT 9000", "SKIP 100 LIMIT 6000", "SKIP 15000", "SKIP 19990 LIMIT 5"}) {
    Compare(Concat(kRows, "RETURN n, b, s ORDER BY a DESC, s ", top));
  }
  Compare(Concat(kRows, "WITH n, s ORDER BY s, a LIMIT 9000 RETURN count(*), min(s), max(n)"));
  Compare(Concat(kRows, "WITH n, s ORDER BY s, a LIMIT 9000 WITH n ORDER BY n DESC RETURN n"));
  // Who sorts or counts behind a LIMIT that is reached in what was spilled gives its rows.
  const Ran few = Run(Concat(kRows, "WITH n, s, count(*) AS c LIMIT 5 RETURN sum(c)"), kLittle);
  EXPECT_GT(few.spilled, 0u);
  EXPECT_TRUE(few.rows == ResultBytes::Of(Value::Int(5)));
  // What fits is not spilled.
  EXPECT_EQ(Run(Concat(kRows, "RETURN n, b, s ORDER BY a DESC, s LIMIT 100"), 2 << 20).spilled, 0u);
}

TEST_F(SpillQueries, OrderByOfEntities_TheyAreTheSameEntities) {
  ASSERT_TRUE(Run("UNWIND range(1, 3000) AS i CREATE (:N {i: i, g: i % 7})-[:R {w: i % 11}]->(:M "
                  "{i: -i})",
                  size_t{1} << 30)
                  .status.ok());
  Compare(
      "MATCH p = (n:N)-[r]->(m) WITH n, r, m, p ORDER BY r.w, n.g DESC RETURN n, r, m, p, "
      "n.i + m.i, type(r), [n, {at: m}]");
  Compare(
      "MATCH (n)-[r]->(m) WITH [n, {r: r}] AS l, r.w AS w, n.g AS g ORDER BY g DESC, w RETURN "
      "l[0].i, l[1].r, w");
}

TEST_F(SpillQueries, OrderByWithinASubquery_BeginsAnewForEachRow) {
  SetRows(6000);
  Compare(
      "UNWIND range(1, 3) AS x CALL (x) { UNWIND $rows AS r WITH r.n AS n, r.s AS s, r.a * x "
      "AS v ORDER BY v DESC, s RETURN n, s, v } RETURN x, n, s, v");
}

TEST_F(SpillQueries, Distinct_SameRowsInTheSameOrder) {
  SetRows(30'000);
  for (const char* what : {"DISTINCT k", "DISTINCT b", "DISTINCT b, k", "DISTINCT s, a",
                           "DISTINCT [b, {k: k}] AS l", "DISTINCT n"}) {
    Compare(Concat(kRows, "RETURN ", what));
  }
  Compare(Concat(kRows, "WITH DISTINCT s, a, k % 100 AS k WHERE k < 50 RETURN s, a, k ORDER BY k"));
  // The first rows need no others.
  Compare(Concat(kRows, "WITH DISTINCT b, k RETURN b, k LIMIT 14000"));
  EXPECT_EQ(Run(Concat(kRows, "RETURN DISTINCT n LIMIT 100"), kLittle).spilled, 0u);
  // Parts that are divided again.
  SetRows(120'000);
  Compare(Concat(kRows, "RETURN DISTINCT n, s"));
}

// Whether a row is one of the first comes out at the end, how many there are does not.
TEST_F(SpillQueries, DistinctWithLimit_ReadsNoMoreThanItWants) {
  SetRows(60'000);
  const uint64_t all = Run("UNWIND $rows AS r RETURN DISTINCT r.n AS n", kLittle).spilled;
  for (const char* query :
       {"UNWIND $rows AS r RETURN DISTINCT r.n AS n LIMIT 6000",
        "UNWIND $rows AS r WITH DISTINCT r.n AS n SKIP 2000 LIMIT 4000 RETURN n",
        "UNWIND [1, 2] AS x CALL (x) { UNWIND $rows AS r RETURN DISTINCT r.n + x AS n LIMIT 4000 "
        "} RETURN n"}) {
    Compare(query);
    EXPECT_LT(Run(query, kLittle).spilled, all / 4) << query;
  }
  // Of equal rows many have to be read; an ORDER BY wants all.
  Compare("UNWIND $rows AS r WITH DISTINCT r.k AS k LIMIT 12000 RETURN k");
  Compare("UNWIND $rows AS r WITH DISTINCT r.n AS n ORDER BY n DESC LIMIT 6000 RETURN n");
  // More than what has room.
  Compare("UNWIND $rows AS r WITH DISTINCT r.n AS n LIMIT 59999 RETURN n");
}

TEST_F(SpillQueries, Union_SameRowsInTheSameOrder) {
  SetRows(20'000);
  const std::string rows = kRows;
  Compare(rows + "RETURN b, k UNION " + rows + "RETURN n % 300 AS k, b UNION " + rows +
          "RETURN b, n AS k");
  Compare(rows + "RETURN n UNION " + rows + "RETURN n");
  Compare(
      "UNWIND [1, 2] AS x CALL (x) { UNWIND $rows AS r RETURN r.n + x AS n UNION "
      "UNWIND $rows AS r RETURN r.k * x AS n } RETURN x, n");
}

// Rows of the first part would have been given before the second one writes.
TEST_F(SpillQueries, UnionThatWrites_EndsByMemory) {
  SetRows(20'000);
  const Ran ran = Run(Concat(kRows, "RETURN n UNION CREATE (a:A) RETURN 0 AS n"), kLittle);
  EXPECT_EQ(ran.status.code(), absl::StatusCode::kResourceExhausted) << ran.status;
  EXPECT_EQ(ran.spilled, 0u);
}

TEST_F(SpillQueries, DistinctOfEntities_TheyAreTheSameEntities) {
  ASSERT_TRUE(Run("UNWIND range(1, 4000) AS i CREATE (:N {i: i})-[:R {w: i % 11}]->(:M {i: -i})",
                  size_t{1} << 30)
                  .status.ok());
  Compare("MATCH (n:N)-[r]->(m) UNWIND [1, 2] AS x WITH DISTINCT n, r, m RETURN n.i, r.w, m");
  Compare("MATCH p = (n:N)-->() UNWIND [1, 2] AS x WITH DISTINCT p, n RETURN p, n.i");
}

TEST_F(SpillQueries, Groups_SameRowsInTheSameOrder) {
  SetRows(30'000);
  const std::string rows = Concat("UNWIND $rows AS r WITH r.n AS n, r.a AS a, r.b AS b, r.s AS s, ",
                                  "r.k AS k, r.f AS f ");
  for (const char* groups :
       {"k, count(*)", "k, count(b), sum(f), avg(f), stDev(f), stDevP(n)",
        "k, avg(CASE WHEN n % 3 = 0 THEN f ELSE 1.5e308 END)", "n, min(b), max(b)", "k, collect(b)",
        "k, collect(DISTINCT b), count(DISTINCT a), sum(DISTINCT f)", "b, count(*), max(s)",
        "s, a, collect(n)[0..5], avg(f)",
        "k, percentileCont(f, 0.3), percentileDisc(f, 0.9), count(*)",
        "[b, k] AS l, min(s), collect(f)", "k % 40 AS g, collect(s), max(n)",
        "k % 300 AS g, collect(DISTINCT n), sum(f)",
        "k % 300 AS g, percentileCont(n, 0.5), min(s), stDev(f)"}) {
    Compare(Concat(rows, "RETURN ", groups));
  }
  Compare(Concat(rows, "WITH k, sum(f) AS f, min(s) AS s RETURN k, f, s ORDER BY f DESC, k"));
  Compare(Concat(rows, "WITH k, count(*) AS c RETURN k, c LIMIT 9000"));
  SetRows(120'000);
  Compare("UNWIND $rows AS r RETURN r.n AS n, count(*), collect(r.b)");
}

// Of one group, and of few, there are more values than fit.
TEST_F(SpillQueries, ValuesOfOneGroup_SameResults) {
  const std::string rows = Concat(kRows, ", r.f AS f RETURN ");
  // Of equal numbers, too, the same one.
  const std::string numbers =
      "percentileDisc(CASE WHEN n % 3 = 0 THEN 0.0 / 0.0 WHEN n % 7 = 0 THEN -0.0 ELSE a END, ";
  const std::string large[] = {"count(DISTINCT n)",          "sum(DISTINCT n)",
                               "avg(DISTINCT n / 7.0)",      "stDev(DISTINCT n)",
                               "percentileCont(n, 0.77)",    "percentileDisc(n, 0.25)",
                               "count(DISTINCT [b, k, n])",  "percentileCont(DISTINCT n, 1)",
                               "min(DISTINCT toString(n))",  "max(DISTINCT [n, b])",
                               "percentileDisc(n / 2, 0.5)", "percentileDisc(DISTINCT -n, 0.1)"};
  const std::string others[] = {
      numbers + "0.001)", numbers + "0.1)", numbers + "0.9)", "percentileCont(DISTINCT f, 0.9)",
      "sum(DISTINCT f)", "collect(DISTINCT k % 2000)", "percentileDisc(DISTINCT a, 0.5)",
      "count(DISTINCT b)", "min(s)", "avg(f)", "collect(CASE WHEN n % 30 = 0 THEN s END)",
      // Of no numbers.
      "percentileCont(CASE WHEN n < 0 THEN n END, 0.5)", "count(*)"};
  const std::string keys[] = {"", "n % 2, ", "k % 5 = 0, ", "a, "};
  SetRows(30'000);
  for (const std::string& key : keys) {
    Compare(Concat(rows, key, "count(DISTINCT n), ", numbers, "0.5), collect(DISTINCT k % 2000)"));
  }
  std::mt19937_64 random(TestSeed());
  const auto any = [&](const auto& texts) { return texts[random() % std::size(texts)]; };
  for (int i = 0; i < Rounds(30); ++i) {
    Compare(Concat(rows, any(keys), any(large), " AS x, ", any(others), " AS y, ", any(others)));
  }
  // Parts that are divided again.
  SetRows(120'000);
  Compare(rows + "count(DISTINCT n), sum(DISTINCT f), percentileCont(n, 0.5)");
  Compare(rows + "n % 2, count(DISTINCT n), max(DISTINCT n), percentileDisc(n, 0.9)");
}

TEST_F(SpillQueries, GroupsByEntities_KeysOfTheirPropertiesStay) {
  ASSERT_TRUE(
      Run("UNWIND range(1, 4000) AS i CREATE (:N {i: i, t: toString(i)})-[:R]->(:M {i: -i})",
          size_t{1} << 30)
          .status.ok());
  Compare(
      "MATCH (n:N)-[r]->(m) UNWIND [1, 2, 3] AS x RETURN n, n.i, n.t, count(*), collect(m), "
      "sum(x)");
}

TEST_F(SpillQueries, GroupsWithinASubquery_BeginAnewForEachRow) {
  SetRows(9000);
  Compare(
      "UNWIND range(1, 3) AS x CALL (x) { UNWIND $rows AS r RETURN r.n * x AS v, count(*) AS c "
      "} RETURN x, v, c");
  Compare(
      "UNWIND range(1, 3) AS x CALL (x) { UNWIND $rows AS r RETURN count(DISTINCT r.n * x) AS c, "
      "percentileDisc(r.n * x, 0.5) AS p } RETURN x, c, p");
  Compare(
      "UNWIND range(1, 3) AS x CALL (x) { UNWIND $rows AS r RETURN DISTINCT r.n * x AS v } "
      "RETURN x, v");
}

TEST_F(SpillQueries, FaultsOfGroupsAndDistinctAndUnion_EndTheQuery) {
  SetRows(30'000);
  const size_t files = testing_util::OpenDescriptors();
  for (const char* query :
       {"UNWIND $rows AS r RETURN DISTINCT r.n, r.s", "UNWIND $rows AS r RETURN r.n, collect(r.s)",
        "UNWIND $rows AS r RETURN r.k % 50, collect(r.s)",
        "UNWIND $rows AS r RETURN count(DISTINCT r.n), percentileDisc(r.n, 1)",
        "UNWIND $rows AS r RETURN r.n % 2, sum(DISTINCT r.n)",
        "UNWIND $rows AS r RETURN r.n AS n UNION UNWIND $rows AS r RETURN -r.n AS n"}) {
    const Ran all = Run(query, kLittle);
    ASSERT_TRUE(all.status.ok()) << query << all.status;
    for (int i = 0; i < 8; ++i) {
      WatchedDisk disk;
      disk_ = &disk;
      (i % 2 == 1 ? disk.fail_reads_after : disk.fail_after) =
          all.spilled / 9 * static_cast<size_t>(i);
      EXPECT_FALSE(Run(query, kLittle).status.ok()) << query;
      disk.fail_after = disk.fail_reads_after = ~size_t{0};
      std::atomic<bool> cancelled{false};
      options_.cancelled = &cancelled;
      disk.call_after = all.spilled / 27 * static_cast<size_t>(i);
      disk.call = [&] { cancelled = true; };
      const absl::Status status = Run(query, kLittle).status;
      EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << query << status;
      EXPECT_EQ(testing_util::OpenDescriptors(), files) << query;
      options_.cancelled = nullptr;
      disk_ = nullptr;
    }
  }
}

TEST_F(SpillQueries, GroupThatIsTooLargeAlone_EndsByMemory) {
  SetRows(30'000);
  for (const char* query :
       {"UNWIND $rows AS r RETURN collect(r.s)", "UNWIND $rows AS r RETURN r.n % 2, collect(r.s)",
        "UNWIND $rows AS r RETURN collect(DISTINCT [r.n])"}) {
    const Ran ran = Run(query, kLittle);
    EXPECT_EQ(ran.status.code(), absl::StatusCode::kResourceExhausted) << query << ran.status;
    EXPECT_EQ(InfoOf(ran.status).detail, "LimitExceeded") << query << ran.status;
  }
}

// The rows of a query that writes, and then what the graph has.
TEST_F(SpillQueries, RowsThatWaitForWrites_SameGraphAndRows) {
  SetRows(6000);
  const std::string rows = "UNWIND $rows AS r WITH r.n AS n, r.s AS s, r.k AS k ";
  for (const std::string& query :
       {rows + "MATCH (a:A {i: k % 20}) CREATE (a)-[e:E {n: n}]->(b:B {s: s}) RETURN a, e, b, n, s",
        rows + "MATCH (a:A {i: k % 20}) SET a.n = n, a.s = a.s + size(s) RETURN a.i, a.n, a.s, k",
        rows + "MERGE (b:B {k: k % 50}) ON CREATE SET b.n = n ON MATCH SET b.m = n, b.s = s RETURN "
               "b, n",
        rows + "WHERE n < 300 MATCH (a:A) MERGE (a)-[e:E {n: n % 3}]->(b:B) RETURN a.i, e, b, s",
        rows + "WHERE n < 300 MERGE (a:A) ON MATCH SET a.s = n RETURN a, s, k",
        rows +
            "MATCH (a:A {i: k % 20}) FOREACH (x IN [1, 2] | CREATE (:F {x: x, n: n})) RETURN n, s",
        rows + "MATCH (a:A {i: k % 20}) OPTIONAL MATCH (a)-[e:D]->() DELETE e RETURN a.i, n, s",
        rows + "CREATE (b:B {s: s}) WITH b, n, k MATCH (a:A {i: k % 20}) WHERE a.i = k % 20 "
               "RETURN b, a.i, n"}) {
    ResultBytes results[2];
    for (const bool little : {false, true}) {
      graph_ = std::make_unique<MemoryGraph>();
      ASSERT_TRUE(
          Run("UNWIND range(0, 19) AS i CREATE (:A {i: i, s: 0})-[:D]->(:C)", size_t{1} << 30)
              .status.ok());
      Ran ran = Run(query, little ? kLittle : size_t{4} << 30);
      ASSERT_TRUE(ran.status.ok()) << query << ran.status;
      EXPECT_EQ(ran.spilled > 0, little) << query;
      results[little ? 1 : 0] = std::move(ran.rows);
      for (const char* read : {"MATCH (n) RETURN n", "MATCH ()-[e]->() RETURN e, e.n"}) {
        const Ran all = Run(read, size_t{4} << 30);
        ASSERT_TRUE(all.status.ok());
        results[little ? 1 : 0].Add(all.rows);
      }
    }
    ExpectSame(results[1], results[0], query);
  }
}

TEST_F(SpillQueries, ListThatAllRowsShare_CountsAndIsWrittenOnce) {
  ASSERT_TRUE(Run("UNWIND range(1, 6000) AS i CREATE (:N {i: i})", size_t{1} << 30).status.ok());
  // The list is there once more where rows are read, so that it takes more than kLittle.
  constexpr size_t kSome = kLittle * 3 / 2;
  for (const size_t memory : {kSome, size_t{64} << 20}) {
    const Ran ran =
        Run("MATCH (n:N) WITH n ORDER BY n.i WITH collect(n) AS ns UNWIND ns AS n SET n.x = n.i + "
            "size(ns) RETURN sum(n.x)",
            memory);
    ASSERT_TRUE(ran.status.ok()) << ran.status;
    EXPECT_TRUE(ran.rows == ResultBytes::Of(Value::Int(54003000)));
    EXPECT_EQ(ran.spilled > 0, memory == kSome);
    EXPECT_LT(ran.spilled, size_t{4} << 20);
  }
}

TEST_F(SpillQueries, LargeRows_AreSpilledOneByOne) {
  Compare(
      "UNWIND range(1, 40) AS i WITH i, reduce(s = toString(i % 9), x IN range(1, 20) | s + s) "
      "AS s ORDER BY s, i DESC RETURN i, size(s), left(s, 3)",
      size_t{16} << 20);
}

TEST_F(SpillQueries, NoDirectoryOrNoBytes_EndsByMemory) {
  SetRows(20'000);
  for (const char* what :
       {"n, s ORDER BY s", "count(DISTINCT n)", "percentileCont(n, 0.5), percentileDisc(n, 0.5)"}) {
    const std::string query = Concat(kRows, "RETURN ", what);
    options_.spill.limit_bytes = 0;
    const Ran none = Run(query, kLittle);
    EXPECT_EQ(InfoOf(none.status).detail, "LimitExceeded") << query << none.status;
    options_.spill.limit_bytes = 100'000;
    const Ran few = Run(query, kLittle);
    EXPECT_EQ(few.status.code(), absl::StatusCode::kResourceExhausted) << query << few.status;
    EXPECT_NE(testing_util::Text(few.status).find("--spill-limit"), std::string::npos) << query;
  }
}

TEST_F(SpillQueries, FaultsOfTheDisk_EndTheQueryAtEachPlace) {
  SetRows(20'000);
  const std::string query = Concat(kRows, "RETURN n, s ORDER BY s, a");
  const Ran all = Run(query, kLittle);
  ASSERT_TRUE(all.status.ok()) << all.status;
  const size_t files = testing_util::OpenDescriptors();
  for (int i = 0; i < 10; ++i) {
    WatchedDisk disk;
    disk_ = &disk;
    const bool reads = i % 2 == 1;
    (reads ? disk.fail_reads_after : disk.fail_after) = all.spilled / 11 * static_cast<size_t>(i);
    const Ran ran = Run(query, kLittle);
    EXPECT_FALSE(ran.status.ok()) << i;
    if (!reads) {
      EXPECT_EQ(ran.status.code(), absl::StatusCode::kResourceExhausted) << ran.status;
    }
    EXPECT_EQ(testing_util::OpenDescriptors(), files);
  }
}

TEST_F(SpillQueries, CancelledOrLate_WhileSpilling_Ends) {
  SetRows(40'000);
  const std::string query = Concat(kRows, "RETURN n, s, b ORDER BY s, a");
  for (const size_t at : {size_t{1}, size_t{1'000'000}}) {
    WatchedDisk disk;
    disk_ = &disk;
    std::atomic<bool> cancelled{false};
    options_.cancelled = &cancelled;
    disk.call_after = at;
    disk.call = [&] { cancelled = true; };
    EXPECT_EQ(Run(query, kLittle).status.code(), absl::StatusCode::kCancelled);
    options_.cancelled = nullptr;
  }
  WatchedDisk disk;
  disk_ = &disk;
  int64_t now = 0;
  options_.monotonic_nanos = [&now] { return now; };
  options_.limits.nanos = 1000;
  disk.call_after = 1'000'000;
  disk.call = [&] { now = 2000; };
  EXPECT_EQ(Run(query, kLittle).status.code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(SpillQueries, ManyAtOnce_EachHasItsOwnFiles) {
  SetRows(10'000);
  const auto plan = MakePlan(Concat(kRows, "RETURN n, s ORDER BY s DESC, a"), *graph_, nullptr);
  ASSERT_TRUE(plan.ok());
  const Ran alone = Run(Concat(kRows, "RETURN n, s ORDER BY s DESC, a"), kLittle);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 3; ++i) {
        ExecuteOptions options;
        options.view = graph_.get();
        options.parameters = &parameters_;
        options.limits.memory_bytes = kLittle;
        options.spill.directory = testing::TempDir();
        ResultBytes rows;
        EXPECT_TRUE(Execute(**plan, options, &rows, nullptr).ok());
        EXPECT_TRUE(rows == alone.rows);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SpillQueries, Profile_SaysWhichStepSpilled) {
  SetRows(20'000);
  Profile profile;
  options_.profile = &profile;
  options_.view = graph_.get();
  options_.parameters = &parameters_;
  options_.limits.memory_bytes = kLittle;
  options_.spill.directory = testing::TempDir();
  ResultBytes rows;
  ExecuteSummary summary;
  for (const char* step : {"Sort", "Aggregate"}) {
    const bool sort = std::string_view(step) == "Sort";
    const auto sorted =
        MakePlan(Concat(kRows, "RETURN ", sort ? "n, s ORDER BY s, a" : "count(DISTINCT n)"),
                 *graph_, nullptr);
    ASSERT_TRUE(sorted.ok());
    profile = {};
    ASSERT_TRUE(Execute(**sorted, options_, &rows, &summary).ok());
    EXPECT_GT(summary.spilled_bytes, 0u);
    for (const PlanLine& line : PlanLines(**sorted, &profile)) {
      EXPECT_EQ(line.reads.spilled_bytes, line.name == step ? summary.spilled_bytes : 0)
          << line.name;
    }
    EXPECT_NE(PlanText(**sorted, &profile).find(Concat("SpilledBytes=", summary.spilled_bytes)),
              std::string::npos);
  }
  // No step of a part: UNION has one of its own, shown where the last part begins.
  const auto plan =
      MakePlan(Concat(kRows, "RETURN n UNION RETURN 0 AS n UNION RETURN 1 AS n"), *graph_, nullptr);
  ASSERT_TRUE(plan.ok());
  profile = {};
  ASSERT_TRUE(Execute(**plan, options_, &rows, &summary).ok());
  EXPECT_GT(summary.spilled_bytes, 0u);
  EXPECT_EQ(profile.Total().spilled_bytes, summary.spilled_bytes);
  std::vector<std::pair<uint64_t, int64_t>> unions;  // bytes and rows
  for (const PlanLine& line : PlanLines(**plan, &profile)) {
    if (line.name == "Union") {
      unions.emplace_back(line.reads.spilled_bytes, line.rows);
    } else {
      EXPECT_EQ(line.reads.spilled_bytes, 0u) << line.name;
    }
  }
  ASSERT_EQ(unions.size(), 2u);
  EXPECT_EQ(unions[0].first, 0u);
  EXPECT_EQ(unions[1].first, summary.spilled_bytes);
  EXPECT_EQ(unions[1].second, static_cast<int64_t>(summary.rows));
}

}  // namespace
}  // namespace pulse::cypher
