// What queries take of the heap against what they are charged for it.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "services/graph/cypher/engine.h"
#include "services/graph/cypher/operators.h"
#include "services/graph/cypher/test_result_texts.h"
#include "services/graph/model/test_memory_graph.h"
#include "services/graph/model/text.h"
#include "services/graph/planner/make_plan.h"
#include "services/graph/spill/spill_merge.h"
#include "services/graph/syntax/error.h"

// A sanitizer has operators of its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

std::atomic<size_t> live{0}, peak{0};

void* Allocate(size_t size) {
  void* const p = std::malloc(size);
  if (p == nullptr) throw std::bad_alloc();
  const size_t now = live.fetch_add(malloc_usable_size(p)) + malloc_usable_size(p);
  size_t most = peak.load();
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
  return p;
}

void Free(void* p) {
  if (p != nullptr) live.fetch_sub(malloc_usable_size(p));
  std::free(p);
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* p) noexcept { Free(p); }
void operator delete[](void* p) noexcept { Free(p); }
void operator delete(void* p, size_t) noexcept { Free(p); }
void operator delete[](void* p, size_t) noexcept { Free(p); }

namespace pulse::cypher {
namespace {

// The most that `work` has of the heap beside what was there before.
template <typename Work>
size_t PeakOf(const Work& work) {
  const size_t before = live.load();
  peak = before;
  work();
  return peak.load() - before;
}

class SpillMemory : public testing::Test {
 protected:
  static constexpr size_t kLimit = size_t{16} << 20;

  absl::Status Run(const std::string& query, size_t limit) {
    const auto plan = MakePlan(query, graph_, nullptr);
    if (!plan.ok()) return plan.status();
    ExecuteOptions options;
    options.transaction = &graph_;
    options.parameters = &parameters_;
    options.limits.memory_bytes = limit;
    options.spill.directory = testing::TempDir();
    ResultTexts texts(&graph_);
    return Execute(**plan, options, &texts, nullptr);
  }

  MemoryGraph graph_;
  ValueMap parameters_;
};

// A small number takes one byte in a file, and sixteen in memory.
TEST_F(SpillMemory, MergeOfLongLists_IsWithinTheLimit) {
  SpillSpace space({.directory = testing::TempDir()});
  EvalContext context;
  const std::vector<std::string> names;
  context.limits.memory_bytes = kLimit;
  context.spill = &space;
  context.monotonic_nanos = context.wall_nanos = [] { return int64_t{0}; };
  context.Start(&names);
  std::unique_ptr<SpillFile> file = MakeSpillFile(context);
  ASSERT_NE(file, nullptr);
  std::vector<SpillRun> runs;
  constexpr int64_t kRuns = 12;
  constexpr size_t kNumbers = 350'000;
  for (int64_t r = 0; r < kRuns; ++r) {
    RowWriter writer(file.get(), SpillBuffer(context), &context);
    for (int64_t i = 0; i < 2; ++i) {
      const Value row[] = {Value::Int(i * kRuns + r),
                           Value::List(ValueList(kNumbers, Value::Int(r)))};
      ASSERT_TRUE(writer.Add(row));
    }
    ASSERT_TRUE(writer.Finish(&runs));
  }
  const auto order = [](const Value* a, const Value* b) {
    return a->as_int() < b->as_int() ? -1 : 1;
  };
  int64_t next = 0;
  const size_t most = PeakOf([&] {
    EXPECT_TRUE(MergeRuns(std::move(file), std::move(runs), order, context, [&](Value* row) {
      EXPECT_EQ(row[0].as_int(), next++);
      EXPECT_EQ(row[1].as_list().size(), kNumbers);
      return true;
    }));
  });
  EXPECT_EQ(next, 2 * kRuns);
  EXPECT_LT(most, kLimit);
  EXPECT_TRUE(context.Charge(0));
}

TEST_F(SpillMemory, SetThatIsCleared_GivesItsMemoryBack) {
  EvalContext context;
  TupleSet set(2);
  const size_t before = live.load();
  for (int64_t i = 0; i < 50'000; ++i) {
    std::vector<Value> tuple = {Value::Int(i), Value::Float(0.5)};
    ASSERT_TRUE(set.Insert(&tuple, context).second);
  }
  EXPECT_GT(live.load() - before, size_t{2} << 20);
  set.Clear(context);
  EXPECT_LT(live.load() - before, size_t{256} << 10);
}

// What a text takes is known before it is made.
TEST_F(SpillMemory, TextsBeyondTheLimit_AreNotMade) {
  constexpr size_t kText = size_t{12} << 20;
  parameters_ = {{"s", Value::String(std::string(kText, 'x'))}};
  for (const char* query :
       {"RETURN size($s + $s)", "RETURN size($s || $s)", "RETURN size(replace($s, 'x', 'yz'))",
        "RETURN size(reduce(s = $s, x IN range(1, 50) | s + s))"}) {
    const size_t most = PeakOf([&] {
      const absl::Status status = Run(query, kLimit);
      EXPECT_EQ(InfoOf(status).detail, "LimitExceeded") << query << status;
    });
    EXPECT_LT(most, size_t{1} << 20) << query;
  }
}

TEST_F(SpillMemory, TextsWithinTheLimit_AreMadeOnce) {
  constexpr size_t kText = size_t{6} << 20;
  parameters_ = {{"s", Value::String(std::string(kText, 'x'))}};
  for (const char* query :
       {"RETURN size($s + $s) = 12582912", "RETURN size(replace($s, 'x', 'yz')) = 12582912",
        "RETURN size(toUpper($s)) = 6291456", "RETURN size(reverse($s)) = 6291456",
        "RETURN size(substring($s, 1)) = 6291455", "RETURN size(trim($s)) = 6291456"}) {
    const size_t most = PeakOf([&] { EXPECT_TRUE(Run(query, kLimit).ok()) << query; });
    EXPECT_LT(most, 2 * kText + (size_t{1} << 20)) << query;
  }
}

}  // namespace
}  // namespace pulse::cypher

#endif
