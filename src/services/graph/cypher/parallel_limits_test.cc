// What several threads of a query may take: memory and what is spilled beyond it, where the system
// gives none, and for whom PROFILE counts what a thread has waited for.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "base/unique_fd.h"
#include "services/graph/cypher/test_parallel.h"
#include "services/graph/cypher/test_random_graph.h"
#include "services/graph/model/test_memory_graph.h"

namespace pulse::cypher {
namespace {

class ParallelLimits : public RandomGraphTest {
 protected:
  void SetUp() override {
    RandomGraphTest::SetUp();
    MakeGraph(1500, 5000);
  }
};

// Of a morsel there is so much that threads wait for others.
TEST_F(ParallelLimits, ManyRowsOfOneMorsel_AreHandedOnInOrder) {
  const std::string query =
      "MATCH (a:A) UNWIND range(1, 2000) AS x WITH a, x WHERE x % 7 = a.n % 7 "
      "RETURN a.n, x, toString(x) + 'abcdefghijklmnopqrstuvwxyz'";
  ExecuteOptions options;
  options.limits.memory_bytes = 16 << 20;  // bounds what waits
  const std::string expected = TextOf(query, graph_, options);
  options.parallel = Threads(4, 20);
  EXPECT_EQ(TextOf(query, graph_, options), expected);
}

// A batch alone has more than may wait.
TEST_F(ParallelLimits, LargeValues_AreHandedOnInOrder) {
  for (const char* query : {
           "MATCH (a:A) RETURN a.n, range(1, 4000) AS l",
           "MATCH (a:A) WITH a, range(1, 4000) AS l MATCH (a)-[:R]->(b) "
           "RETURN a.n, size(l), b.n, [x IN l WHERE x < 3000]",
           "MATCH p = (a:A)-[*1..3]->(b:B) WHERE a.n < 300 RETURN length(p), a.n, nodes(p)",
       }) {
    ExecuteOptions options;
    options.limits.memory_bytes = 32 << 20;
    const std::string expected = TextOf(query, graph_, options);
    EXPECT_EQ(expected.find("limit"), std::string::npos) << query;
    for (const size_t morsel : {3, 50}) {
      options.parallel = Threads(4, morsel);
      EXPECT_EQ(TextOf(query, graph_, options), expected) << query;
    }
  }
}

TEST_F(ParallelLimits, LimitOfMemory_CountsAllThreads) {
  ExecuteOptions options;
  options.parallel = Threads(3, 16);
  options.limits.memory_bytes = 3'000'000;
  EXPECT_NE(TextOf("MATCH (a)-->(b) UNWIND range(1, 20) AS x "
                   "RETURN collect(toString(a.n + x) + 'a long text of some bytes')",
                   graph_, options)
                .find("bytes of memory"),
            std::string::npos);
  // A single value in another thread.
  EXPECT_NE(TextOf("MATCH (a) RETURN size(range(1, a.n * 200))", graph_, options)
                .find("limit is 3000000"),
            std::string::npos);
}

// Threads have batches of their own, for which the limit has to have room.
TEST_F(ParallelLimits, MemoryThatIsEnoughForOneThread_IsEnoughForMany) {
  const std::string query =
      "MATCH (a:A) UNWIND range(1, 200) AS x WITH a, x, a.n + x AS y WHERE y % 3 = 0 "
      "RETURN count(*), sum(x)";
  size_t enough = 10'000;
  const auto run = [&](int threads) {
    ExecuteOptions options;
    options.limits.memory_bytes = enough;
    if (threads > 1) options.parallel = Threads(threads, 8);
    return TextOf(query, graph_, options);
  };
  while (run(1).find("bytes of memory") != std::string::npos) enough += enough / 4;
  const std::string expected = run(1);
  enough += enough / 2;  // rows of a section are wider
  EXPECT_EQ(run(8), expected) << enough;
  enough *= 16;
  EXPECT_EQ(run(8), expected) << enough;
}

TEST_F(ParallelLimits, Spilled_RowsAreThoseOfOneThread) {
  const std::string rows = "MATCH (a:A) UNWIND range(1, 150) AS x ";
  const std::vector<std::string> queries = {
      rows + "RETURN a.n * 1000 + x AS k, toString(x) AS t ORDER BY k % 777, t",
      rows + "RETURN a.n AS n, x ORDER BY x % 13 DESC LIMIT 50000",
      rows + "RETURN DISTINCT a.n, x % 100",
      rows + "WITH a, x ORDER BY x % 5 LIMIT 60000 RETURN x % 5, sum(a.n * 0.1), count(*)",
      rows + "RETURN a.n % 100 * 200 + x AS k, sum(a.n * 0.1), collect(x), count(*)",
      rows + "WITH DISTINCT a, x % 90 AS x MATCH (a)-[:R]->(b) RETURN b.n, sum(x * 0.1)",
      // Within threads.
      "MATCH (a:A) WHERE a.n % 40 = 0 RETURN a.n, COUNT { UNWIND range(1, 40000) AS x "
      "WITH DISTINCT x % (30000 + a.n) AS y RETURN y } AS c",
      "MATCH (a:A) WHERE a.n % 40 = 0 RETURN a.n, COLLECT { UNWIND range(1, 40000) AS x "
      "WITH x ORDER BY toString(x * a.n) RETURN sum(x * 0.1) } AS c",
  };
  for (const std::string& query : queries) {
    const std::string expected = TextOf(query, graph_, {});
    for (const int threads : {1, 3}) {
      ExecuteOptions options;
      options.limits.memory_bytes = 4 << 20;
      options.spill.directory = testing::TempDir();
      options.parallel = Threads(threads, 16);
      const auto plan = MakePlan(query, graph_, nullptr);
      ASSERT_TRUE(plan.ok()) << plan.status();
      options.view = &graph_;
      AllRows sink(&graph_);
      ExecuteSummary summary;
      const absl::Status status = Execute(**plan, options, &sink, &summary);
      EXPECT_TRUE(status.ok()) << query << ": " << status;
      EXPECT_EQ(sink.text == expected, true) << query << " by " << threads;
      EXPECT_GT(summary.spilled_bytes, 0u) << query << " by " << threads;
    }
  }
}

// Merges of all of them at the same time have to fit.
TEST_F(ParallelLimits, SpilledByManyThreads_BuffersArePartsOfTheLimit) {
  const std::string query =
      "MATCH (a:A) WHERE a.n % 40 = 0 RETURN a.n, COLLECT { UNWIND range(1, 100000) AS x "
      "WITH x ORDER BY toString(x * a.n) RETURN sum(x * 0.1) } AS c";
  const std::string expected = TextOf(query, graph_, {});
  ExecuteOptions options;
  options.limits.memory_bytes = 16 << 20;
  options.spill.directory = testing::TempDir();
  options.parallel = Threads(8, 16);
  EXPECT_EQ(TextOf(query, graph_, options), expected);
}

TEST_F(ParallelLimits, SpillLimit_CountsTheFilesOfAllThreads) {
  ExecuteOptions options;
  options.limits.memory_bytes = 3 << 20;
  options.spill.directory = testing::TempDir();
  options.spill.limit_bytes = 20'000;
  options.parallel = Threads(3, 2);
  EXPECT_NE(TextOf("MATCH (a:A) WHERE a.n % 40 = 0 RETURN COLLECT { UNWIND range(1, 40000) AS x "
                   "WITH x ORDER BY toString(x * a.n) RETURN max(x) } AS c",
                   graph_, options)
                .find("spills more than its limit of 20000 bytes"),
            std::string::npos);
}

// Memory is not to be had where a thread reads.
class NoMemoryGraph : public MemoryGraph {
 public:
  enum class Where : uint8_t { kScan, kExpand, kExpandOfCaller };
  static constexpr int kThreads = 4;
  // `spare`: threads that may be started, kThreads - 1 at first.
  NoMemoryGraph(const MemoryGraph& graph, Where where, const std::atomic<int>* spare)
      : MemoryGraph(graph), where_(where), spare_(spare) {}

  absl::StatusOr<size_t> ScanNodes(Token label, uint64_t* position,
                                   std::span<NodeId> out) const override {
    if (where_ == Where::kScan && !IsCaller()) Meet();
    return MemoryGraph::ScanNodes(label, position, out);
  }
  absl::Status Expand(std::span<const NodeId> nodes, Direction direction,
                      std::span<const Token> types, size_t limit, ExpandPosition* position,
                      NeighbourBatch* out) const override {
    IsCaller() ? AwaitOther() : Meet();
    return MemoryGraph::Expand(nodes, direction, types, limit, position, out);
  }

 private:
  bool IsCaller() const { return std::this_thread::get_id() == caller_; }
  void Meet() const {
    {
      const std::lock_guard lock(mu_);
      met_ = true;
    }
    changed_.notify_all();
    if (where_ != Where::kExpandOfCaller) throw std::bad_alloc();
  }
  // The caller waits, once there are others, until one of them has come here.
  void AwaitOther() const {
    if (*spare_ == kThreads - 1) return;
    std::unique_lock lock(mu_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(60), [this] { return met_; }));
    if (where_ == Where::kExpandOfCaller) throw std::bad_alloc();
  }

  const Where where_;
  const std::atomic<int>* const spare_;
  const std::thread::id caller_ = std::this_thread::get_id();
  mutable std::mutex mu_;
  mutable std::condition_variable changed_;
  mutable bool met_ = false;
};

TEST_F(ParallelLimits, NoMemoryInAThread_IsThrownWhereTheQueryRuns) {
  using Where = NoMemoryGraph::Where;
  for (const Where where : {Where::kScan, Where::kExpand, Where::kExpandOfCaller}) {
    std::atomic<int> spare{NoMemoryGraph::kThreads - 1};
    const NoMemoryGraph graph(graph_, where, &spare);
    ExecuteOptions options;
    options.parallel = Threads(NoMemoryGraph::kThreads, 5);
    options.parallel.spare = &spare;
    EXPECT_THROW(TextOf("MATCH (a:A)-[:R]->(b) RETURN a.n, b.n", graph, options), std::bad_alloc)
        << static_cast<int>(where);
    EXPECT_EQ(spare, NoMemoryGraph::kThreads - 1) << "threads that have ended are given back";
  }
}

// Pages of a file that are not in memory, one of which each call of the graph looks at.
class ColdGraph : public MemoryGraph {
 public:
  explicit ColdGraph(const MemoryGraph& graph) : MemoryGraph(graph) {
    const testing_util::ScratchPath path("cold");
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const std::string page(kPage, 'x');
    for (size_t i = 0; i < kPages; ++i) {
      EXPECT_EQ(write(fd.get(), page.data(), kPage), static_cast<ssize_t>(kPage));
    }
    EXPECT_EQ(fsync(fd.get()), 0);
    EXPECT_EQ(posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED), 0);
    void* const at = mmap(nullptr, kPage * kPages, PROT_READ, MAP_SHARED, fd.get(), 0);
    EXPECT_NE(at, MAP_FAILED);
    EXPECT_EQ(madvise(at, kPage * kPages, MADV_RANDOM), 0);
    pages_ = static_cast<const char*>(at);
  }
  ~ColdGraph() override { munmap(const_cast<char*>(pages_), kPage * kPages); }

  absl::StatusOr<size_t> ScanNodes(Token label, uint64_t* position,
                                   std::span<NodeId> out) const override {
    Look(&of_scan);
    return MemoryGraph::ScanNodes(label, position, out);
  }
  absl::Status ReadNodeProperty(Token key, std::span<const NodeId> nodes,
                                Column* out) const override {
    Look(KeyName(key) == "n" ? &of_scan : &of_aggregate);
    return MemoryGraph::ReadNodeProperty(key, nodes, out);
  }

  // None where the file system is memory.
  mutable std::atomic<uint64_t> of_scan{0}, of_aggregate{0};

 private:
  static constexpr size_t kPage = 4096, kPages = 2048;
  static uint64_t Faults() {
    rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? static_cast<uint64_t>(usage.ru_majflt) : 0;
  }
  void Look(std::atomic<uint64_t>* faults) const {
    const uint64_t before = Faults();
    const volatile char* const page = pages_ + kPage * (next_++ % kPages);
    EXPECT_EQ(*page, 'x');
    *faults += Faults() - before;
  }

  const char* pages_ = nullptr;
  mutable std::atomic<size_t> next_{0};
};

TEST_F(ParallelLimits, PageFaults_OfAnyThread_AreThoseOfTheStepThatReads) {
  ASSERT_TRUE(graph_.AddKeyName("m").ok());
  const ColdGraph graph(graph_);
  // Planning reads, too.
  const auto plan = MakePlan("MATCH (a:A) WHERE a.n >= 0 RETURN sum(a.m + 1)", graph_, nullptr);
  ASSERT_TRUE(plan.ok());
  Profile profile;
  ExecuteOptions options;
  options.view = &graph;
  options.profile = &profile;
  options.parallel = Threads(3, 4);
  AllRows sink(&graph);
  ASSERT_TRUE(Execute(**plan, options, &sink, nullptr).ok());
  uint64_t lines = 0;
  for (const PlanLine& line : PlanLines(**plan, &profile)) {
    if (line.name != "Scan" && line.name != "Aggregate") continue;
    EXPECT_GE(line.reads.page_faults, line.name == "Scan" ? graph.of_scan : graph.of_aggregate);
    ++lines;
  }
  EXPECT_EQ(lines, 2u);
  RecordProperty("faults", static_cast<int>(graph.of_scan + graph.of_aggregate));
}

}  // namespace
}  // namespace pulse::cypher
