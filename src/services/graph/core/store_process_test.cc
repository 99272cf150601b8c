// The store with the system's files, processes and threads: a second writer, kills, limits of
// memory.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_graph_model.h"
#include "services/graph/core/test_sim_files.h"

namespace pulse::graph {
namespace {

using testing_util::TestSeed;
using testing_util::Text;

class ScratchDir {
 public:
  explicit ScratchDir(const std::string& name) : path_(name) {}
  ~ScratchDir() { std::filesystem::remove_all(path_.get()); }
  const std::string& get() const { return path_.get(); }

 private:
  testing_util::ScratchPath path_;
};

TEST(StoreFiles, SecondWriter_IsRefusedByName) {
  const ScratchDir dir("graph-lock");
  const auto first = GraphStore::Open(dir.get());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = GraphStore::Open(dir.get());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(Text(second.status()).find(std::to_string(getpid())), std::string::npos);
  StoreOptions reading;
  reading.read_only = true;
  EXPECT_TRUE(GraphStore::Open(dir.get(), reading).ok());
}

TEST(StoreFiles, DirectoryThatIsNoDatabase_StaysAsItWas) {
  namespace fs = std::filesystem;
  const ScratchDir dir("graph-of-others");
  fs::create_directory(dir.get());
  StoreOptions existing;
  existing.create = false;
  EXPECT_TRUE(absl::IsNotFound(GraphStore::Open(dir.get(), existing).status()));
  EXPECT_TRUE(fs::is_empty(dir.get()));
  std::ofstream(dir.get() + "/notes.txt") << "of somebody";
  EXPECT_TRUE(absl::IsNotFound(GraphStore::Open(dir.get(), existing).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(GraphStore::Open(dir.get()).status()));
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.get()), fs::directory_iterator()), 1);
}

TEST(StoreFiles, NewDatabaseThatFails_LeavesNothing) {
  namespace fs = std::filesystem;
  const ScratchDir dir("graph-failed");
  const auto fail = [&] {
    // A manifest is longer.
    const auto handler = signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    rlimit small = before;
    small.rlim_cur = 16;
    setrlimit(RLIMIT_FSIZE, &small);
    const absl::Status status = GraphStore::Open(dir.get()).status();
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    return status;
  };
  EXPECT_FALSE(fail().ok());
  EXPECT_FALSE(fs::exists(dir.get()));
  fs::create_directory(dir.get());
  EXPECT_FALSE(fail().ok());
  EXPECT_TRUE(fs::exists(dir.get()) && fs::is_empty(dir.get()));
  EXPECT_TRUE(GraphStore::Open(dir.get()).ok());
}

// A database that could not be made loses its LOCK again, which others may just have opened.
TEST(StoreFiles, LockThatItsHolderRemoves_HasOneHolderAtATime) {
  const ScratchDir dir("graph-removed-lock");
  std::filesystem::create_directory(dir.get());
  const std::string path = dir.get() + "/LOCK";
  std::atomic<int> holders{0}, most{0}, held{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const auto lock = SystemFiles()->Lock(path);
        if (!lock.ok()) continue;
        ++held;
        if (++holders > 1) most = 2;
        std::this_thread::yield();
        --holders;  // from its removal on, another file may be locked
        SystemFiles()->Remove(path).IgnoreError();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(held, 0);
  EXPECT_EQ(most, 0) << "two at a time";
}

TEST(StoreFiles, RootWritesToAnotherUsersDatabase_FilesAreThatUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can write to another user's database";
  const ScratchDir dir("graph-owner");
  ASSERT_TRUE(GraphStore::Open(dir.get()).ok());
  constexpr uid_t kUser = 65534;
  const std::filesystem::path elsewhere = dir.get() + "-elsewhere";
  std::ofstream(elsewhere) << "x";
  std::filesystem::create_symlink(std::filesystem::absolute(elsewhere),
                                  dir.get() + "/MANIFEST.new");
  std::vector<std::string> all = {dir.get()};
  for (const auto& entry : std::filesystem::directory_iterator(dir.get()))
    all.push_back(entry.path());
  for (const std::string& path : all) {
    if (lchown(path.c_str(), kUser, kUser) != 0)
      GTEST_SKIP() << "this root may not give files away";
  }
  {
    auto store = GraphStore::Open(dir.get());
    ASSERT_TRUE(store.ok()) << store.status();
    auto tx = *(*store)->Begin();
    ASSERT_TRUE(tx->CreateNode({}, {}).ok());
    ASSERT_TRUE(tx->Commit().ok());
    ASSERT_TRUE((*store)->Close().ok());
  }
  struct stat st {};
  for (const auto& entry : std::filesystem::directory_iterator(dir.get())) {
    ASSERT_EQ(lstat(entry.path().c_str(), &st), 0);
    EXPECT_EQ(st.st_uid, kUser) << entry.path();
    all.push_back(entry.path());
  }
  EXPECT_GT(all.size(), 8u);
  // What a link in the directory led to is not given away.
  ASSERT_EQ(stat(elsewhere.c_str(), &st), 0);
  EXPECT_EQ(st.st_uid, 0u);
  std::filesystem::remove(elsewhere);
}

TEST(StoreFiles, RelativePath_ThenAnotherDirectory_StaysTheSameDatabase) {
  namespace fs = std::filesystem;
  const ScratchDir dir("graph-cwd");
  const fs::path home = fs::current_path(), top = fs::absolute(dir.get());
  // Of the same name in either.
  for (const auto& [where, nodes] : {std::pair{"one", 3}, std::pair{"two", 7}}) {
    fs::create_directories(top / where);
    auto store = GraphStore::Open(top / where / "g");
    ASSERT_TRUE(store.ok()) << store.status();
    auto tx = *(*store)->Begin();
    for (int i = 0; i < nodes; ++i) ASSERT_TRUE(tx->CreateNode({}, {}).ok());
    ASSERT_TRUE(tx->Commit().ok());
  }
  fs::current_path(top / "one");
  auto store = GraphStore::Open("g");
  fs::current_path(top / "two");
  EXPECT_TRUE(store.ok()) << store.status();
  if (store.ok()) {
    EXPECT_TRUE((*store)->Checkpoint().ok());
    auto tx = *(*store)->Begin();
    EXPECT_TRUE(tx->CreateNode({}, {}).ok());
    EXPECT_TRUE(tx->Commit().ok());
    EXPECT_TRUE((*store)->Close().ok());
    store->reset();
  }
  fs::current_path(home);
  for (const auto& [where, nodes] : {std::pair{"one", 4}, std::pair{"two", 7}}) {
    auto again = GraphStore::Open(top / where / "g");
    ASSERT_TRUE(again.ok()) << where << ": " << again.status();
    EXPECT_EQ((*again)->NodeCount(), static_cast<uint64_t>(nodes)) << where;
  }
}

TEST(StoreFiles, KilledAtAnyMoment_KeepsWhatWasAcknowledged) {
  std::mt19937_64 random(TestSeed());
  const ScratchDir dir("graph-kill");
  uint64_t expected = 0;  // at least so many edges
  for (int round = 0; round < 5; ++round) {
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    const pid_t child = fork();
    if (child == 0) {
      StoreOptions options;
      options.flush_chunks = 1;
      options.checkpoint_bytes = 20'000;
      options.page_reads = round % 2 == 1;
      auto store = GraphStore::Open(dir.get(), options);
      if (!store.ok()) _exit(1);
      while (true) {
        auto tx = *(*store)->Begin();
        const NodeId node = *tx->CreateNode({}, {});
        for (int i = 0; i < 40; ++i) {
          tx->CreateEdge(node, node, *tx->AddTypeName("T"), {{*tx->AddKeyName("w"), Value::Int(i)}})
              .IgnoreError();
        }
        const char ok = tx->Commit().ok() ? 'y' : 'n';
        if (write(fds[1], &ok, 1) != 1) _exit(1);
      }
    }
    close(fds[1]);
    const uint64_t commits = 1 + random() % 300;
    uint64_t seen = 0;
    char answer;
    while (seen < commits && read(fds[0], &answer, 1) == 1) {
      ASSERT_EQ(answer, 'y');
      ++seen;
    }
    kill(child, SIGKILL);
    while (read(fds[0], &answer, 1) == 1) ++seen;
    close(fds[0]);
    int status;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status));
    expected += 40 * seen;
    StoreOptions reading;
    reading.page_reads = round % 2 == 0;
    reading.read_only = true;
    const auto store = GraphStore::Open(dir.get(), reading);
    ASSERT_TRUE(store.ok()) << store.status();
    const auto view = *(*store)->Snapshot();
    uint64_t position = 0, edges = 0;
    int64_t sum = 0;
    std::vector<EdgeRef> batch(4096);
    while (const size_t count = view->ScanEdges({}, &position, batch).value_or(0)) {
      cypher::Column column;
      ASSERT_TRUE(view->ReadEdgeProperty(*view->FindKey("w"), {batch.data(), count}, &column).ok());
      for (const int64_t w : column.ints) sum += w;
      edges += count;
    }
    EXPECT_GE(edges, expected);
    EXPECT_EQ(edges % 40, 0u);  // no part of a commit
    EXPECT_EQ(sum, static_cast<int64_t>(edges / 40 * (39 * 40 / 2)));
    expected = edges;
  }
}

// In a process of its own, whose memory is nobody else's; what it returns is its exit code.
int RunAlone(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Values of so many bytes.
void CheckMemory(size_t value_bytes) {
  const ScratchDir path("graph-store-memory");
  constexpr uint64_t kLimit = uint64_t{64} << 20;
  constexpr int kCommits = 100;
  const int kEdges = static_cast<int>(2'000'000 / value_bytes);
  StoreOptions options;
  options.sync = false;
  options.memory_limit = kLimit;
  // 200 MB of log, and nothing flushed.
  const int written = RunAlone([&] {
    StoreOptions unlimited = options;
    unlimited.background = false;
    auto store = GraphStore::Open(path.get(), unlimited);
    if (!store.ok()) return 1;
    std::mt19937_64 random(1);
    std::string text(value_bytes, 'x');
    for (int commit = 0; commit < kCommits; ++commit) {
      auto tx = (*store)->Begin();
      const Token type = *(*tx)->AddTypeName("T"), key = *(*tx)->AddKeyName("text");
      const NodeId node = *(*tx)->CreateNode({}, {});
      for (int i = 0; i < kEdges; ++i) {
        for (size_t at = 0; at < text.size(); at += 8) {
          const uint64_t bits = random();
          for (size_t k = 0; k < 8; ++k)
            text[at + k] = static_cast<char>('A' + (bits >> (8 * k)) % 32);
        }
        if (!(*tx)->CreateEdge(node, node, type, {{key, Value::String(text)}}).ok()) return 2;
      }
      if (!(*tx)->Commit().ok()) return 3;
    }
    return (*store)->stats().log_bytes > 2 * kLimit ? 0 : 4;
  });
  ASSERT_EQ(written, 0);
  const int read = RunAlone([&] {
    const uint64_t before = testing_util::ProcessMemory("VmHWM");
    auto store = GraphStore::Open(path.get(), options);
    if (!store.ok()) return 1;
    if ((*store)->stats().flushes == 0) return 2;
    const uint64_t opening = testing_util::ProcessMemory("VmHWM") - before;
    uint64_t edges = 0;
    const auto view = (*store)->Snapshot();
    for (uint64_t position = 0, count = 1; count > 0; edges += count) {
      std::vector<EdgeRef> batch(1000);
      count = *(*view)->ScanEdges({}, &position, batch);
    }
    if (edges != static_cast<uint64_t>(kCommits) * static_cast<uint64_t>(kEdges)) return 3;
    // All runs into one, of three times the limit.
    if (!(*store)->Compact().ok()) return 4;
    const uint64_t most = testing_util::ProcessMemory("VmHWM") - before;
    printf("at most %llu KiB while opening, %llu KiB at all, the limit is %llu KiB\n",
           static_cast<unsigned long long>(opening >> 10),
           static_cast<unsigned long long>(most >> 10),
           static_cast<unsigned long long>(kLimit >> 10));
    fflush(stdout);
    if (opening > kLimit * 105 / 100) return 5;
    // A merge's buffers are of one size, whatever the limit.
    return most <= kLimit * 3 / 2 ? 0 : 6;
  });
  EXPECT_EQ(read, 0);
}

TEST(StoreFiles, LongLogAfterAKill_IsReadWithinTheMemoryLimit) {
  if (testing_util::kAddressSanitizer || testing_util::kThreadSanitizer) {
    GTEST_SKIP() << "sanitizers take memory of their own";
  }
  for (const size_t value_bytes : {2000, 16'000}) {
    SCOPED_TRACE(value_bytes);
    CheckMemory(value_bytes);
  }
}

// The chunks that are being filled are there after a flush, too: alone they must not begin the
// next.
TEST(StoreFiles, LimitOfLittleMemory_DoesNotFlushForEachCommit) {
  const ScratchDir path("graph-store-little");
  StoreOptions options;
  options.sync = false;
  options.background = false;
  constexpr int kCommits = 200;
  {
    const auto store = GraphStore::Open(path.get(), options);
    ASSERT_TRUE(store.ok()) << store.status();
    for (int i = 0; i < kCommits; ++i) {
      auto tx = *(*store)->Begin();
      const NodeId node = *tx->CreateNode({}, {});
      ASSERT_TRUE(tx->CreateEdge(node, node, *tx->AddTypeName("T"), {}).ok());
      ASSERT_TRUE(tx->Commit().ok());
    }
  }
  options.background = true;
  options.memory_limit = 1 << 20;
  const auto store = GraphStore::Open(path.get(), options);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->stats().flushes, 0u) << "while the log was read";
  for (int i = 0; i < kCommits; ++i) {
    auto tx = *(*store)->Begin();
    const NodeId node = *tx->CreateNode({}, {});
    ASSERT_TRUE(tx->CreateEdge(node, node, *tx->AddTypeName("T"), {}).ok());
    ASSERT_TRUE(tx->Commit().ok());
  }
  EXPECT_EQ((*store)->stats().flushes, 0u) << "while it was written";
}

// Writers move weight between two nodes' relationships, readers sum it up; flushes and compactions
// run all the time.
TEST(StoreThreads, ReadersAndWriters_SeeWholeCommits) {
  const ScratchDir dir("graph-threads");
  StoreOptions options;
  options.sync = false;
  options.flush_chunks = 1;
  options.checkpoint_bytes = 100'000;
  options.level_runs = 2;
  auto opened = GraphStore::Open(dir.get(), options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  GraphStore* const store = opened->get();
  Token type, key;
  NodeId hub;
  {
    auto tx = *store->Begin();
    type = *tx->AddTypeName("T");
    key = *tx->AddKeyName("w");
    hub = *tx->CreateNode({}, {});
    ASSERT_TRUE(tx->Commit().ok());
  }
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> commits{0}, reads{0};
  std::vector<std::thread> threads;
  for (int w = 0; w < 3; ++w) {
    threads.emplace_back([&, w] {
      std::mt19937_64 random(TestSeed() + static_cast<uint64_t>(w));
      while (!stop) {
        auto tx = *store->Begin();
        // Weights of a commit add up to nothing, and it has ten relationships; some change.
        if (random() % 4 != 0) {
          for (int i = 0; i < 10; ++i) {
            const int64_t weight = i < 5 ? i + 1 : -(i - 4);
            ASSERT_TRUE(tx->CreateEdge(hub, hub, type, {{key, Value::Int(weight)}}).ok());
          }
        } else {
          std::vector<EdgeRef> edges(20);
          uint64_t position = 0;
          edges.resize(*tx->ScanEdges({}, &position, edges));
          if (edges.size() < 2) continue;
          cypher::Column column;
          ASSERT_TRUE(tx->ReadEdgeProperty(key, edges, &column).ok());
          const size_t a = random() % edges.size(), b = (a + 1) % edges.size();
          ASSERT_TRUE(tx->SetEdgeProperty(edges[a], key, Value::Int(column.ints[a] + 7)).ok());
          ASSERT_TRUE(tx->SetEdgeProperty(edges[b], key, Value::Int(column.ints[b] - 7)).ok());
        }
        const absl::Status status = tx->Commit();
        ASSERT_TRUE(status.ok() || absl::IsAborted(status)) << status;
        if (status.ok()) ++commits;
      }
    });
  }
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&] {
      std::vector<EdgeRef> batch(512);
      while (!stop) {
        const auto view = *store->Snapshot();
        uint64_t position = 0, edges = 0;
        int64_t sum = 0;
        while (true) {
          const auto count = view->ScanEdges({}, &position, batch);
          ASSERT_TRUE(count.ok()) << count.status();
          if (*count == 0) break;
          cypher::Column column;
          ASSERT_TRUE(view->ReadEdgeProperty(key, {batch.data(), *count}, &column).ok());
          for (const int64_t w : column.ints) sum += w;
          edges += *count;
        }
        ASSERT_EQ(edges % 10, 0u);
        ASSERT_EQ(sum, 0);
        uint64_t out = 0, in = 0;
        ASSERT_TRUE(view->Degrees({&hub, 1}, Direction::kOut, {}, {&out, 1}).ok());
        ASSERT_TRUE(view->Degrees({&hub, 1}, Direction::kIn, {}, {&in, 1}).ok());
        ASSERT_EQ(out, edges);
        ASSERT_EQ(in, edges);
        ++reads;
      }
    });
  }
  EXPECT_TRUE(testing_util::Eventually(
      [&] { return (commits > 1500 && reads > 10 && store->stats().merges > 0) || HasFailure(); }));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(store->stats().maintenance.ok()) << store->stats().maintenance;
}

TEST(StoreThreads, MemoryLimit_HoldsWhileWritersWait) {
  const ScratchDir dir("graph-memory");
  StoreOptions options;
  options.sync = false;
  options.memory_limit = 16 << 20;
  const auto store = GraphStore::Open(dir.get(), options);
  ASSERT_TRUE(store.ok());
  for (int i = 0; i < 60; ++i) {
    auto tx = *(*store)->Begin();
    const NodeId node = *tx->CreateNode({}, {});
    for (int e = 0; e < 5000; ++e) {
      ASSERT_TRUE(
          tx->CreateEdge(node, node, *tx->AddTypeName("T"), {{*tx->AddKeyName("w"), Value::Int(e)}})
              .ok());
    }
    ASSERT_TRUE(tx->Commit().ok());
    // One commit may go beyond it.
    const StoreStats stats = (*store)->stats();
    EXPECT_LE(stats.chunk_bytes + stats.edge_bytes, options.memory_limit + (4 << 20));
  }
  EXPECT_GT((*store)->stats().flushes, 0u);
}

// Properties in memory that a snapshot holds on to must not stop writers for ever.
TEST(StoreThreads, SnapshotHeldBeyondTheMemoryLimit_DoesNotStopWriters) {
  const ScratchDir dir("graph-held");
  StoreOptions options;
  options.sync = false;
  options.memory_limit = 4 << 20;
  const auto store = GraphStore::Open(dir.get(), options);
  ASSERT_TRUE(store.ok());
  NodeId node;
  {
    auto tx = *(*store)->Begin();
    node = *tx->CreateNode({}, {});
    ASSERT_TRUE(tx->Commit().ok());
  }
  const auto held = *(*store)->Snapshot();
  for (int i = 0; i < 40; ++i) {
    auto tx = *(*store)->Begin();
    ASSERT_TRUE(tx->CreateEdge(node, node, *tx->AddTypeName("T"),
                               {{*tx->AddKeyName("w"), Value::String(std::string(300'000, 'x'))}})
                    .ok());
    ASSERT_TRUE(tx->Commit().ok());
  }
  uint64_t degree = 0;
  ASSERT_TRUE(held->Degrees({&node, 1}, Direction::kOut, {}, {&degree, 1}).ok());
  EXPECT_EQ(degree, 0u);
  ASSERT_TRUE((*(*store)->Snapshot())->Degrees({&node, 1}, Direction::kOut, {}, {&degree, 1}).ok());
  EXPECT_EQ(degree, 40u);
}

}  // namespace
}  // namespace pulse::graph
