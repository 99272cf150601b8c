// The store's promises one by one: isolation, conflicts, constraints, files, limits, and threads.
#include "services/graph/core/store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "base/testing.h"
#include "services/graph/core/test_graph_model.h"
#include "services/graph/core/test_sim_files.h"

namespace pulse::graph {
namespace {

using testing_util::TestSeed;
using testing_util::Text;
using Tx = std::unique_ptr<cypher::DatabaseTransaction>;

class ScratchDir {
 public:
  explicit ScratchDir(const std::string& name) : path_(name) {}
  ~ScratchDir() { std::filesystem::remove_all(path_.get()); }
  const std::string& get() const { return path_.get(); }

 private:
  testing_util::ScratchPath path_;
};

class StoreTest : public ::testing::Test {
 protected:
  StoreTest() {
    options_.files = &files_;
    options_.background = false;
    Open();
  }
  void Open() {
    store_.reset();
    auto store = GraphStore::Open("db", options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  Tx Begin() { return *store_->Begin(); }
  std::shared_ptr<const GraphView> Now() { return *store_->Snapshot(); }
  NodeId MakeNode(const std::string& label = "A", const Properties& properties = {}) {
    Tx tx = Begin();
    const Token token = *tx->AddLabelName(label);
    const NodeId node = *tx->CreateNode({&token, 1}, properties);
    EXPECT_TRUE(tx->Commit().ok());
    return node;
  }
  static EdgeRef Link(cypher::DatabaseTransaction* tx, NodeId from, NodeId to) {
    return *tx->CreateEdge(from, to, *tx->AddTypeName("T"), {});
  }
  static Token Key(GraphTransaction* tx, const char* name) { return *tx->AddKeyName(name); }
  static Value Read(const GraphView& view, NodeId node, const char* key) {
    Properties properties;
    EXPECT_TRUE(view.ReadNodeProperties(node, &properties).ok());
    for (const auto& [token, value] : properties) {
      if (view.KeyName(token) == key) return value;
    }
    return {};
  }
  static uint64_t Degree(const GraphView& view, NodeId node) {
    uint64_t degree = 0;
    EXPECT_TRUE(view.Degrees({&node, 1}, Direction::kBoth, {}, {&degree, 1}).ok());
    return degree;
  }

  SimFiles files_;
  StoreOptions options_;
  std::unique_ptr<GraphStore> store_;
};

constexpr auto kAborted = absl::StatusCode::kAborted;

TEST_F(StoreTest, SamePropertyTwice_SecondIsAbortedAndNamed) {
  const NodeId node = MakeNode();
  Tx a = Begin(), b = Begin();
  ASSERT_TRUE(a->SetNodeProperty(node, Key(a.get(), "w"), Value::Int(1)).ok());
  ASSERT_TRUE(b->SetNodeProperty(node, Key(b.get(), "w"), Value::Int(2)).ok());
  ASSERT_TRUE(a->Commit().ok());
  const absl::Status status = b->Commit();
  EXPECT_EQ(status.code(), kAborted);
  EXPECT_NE(Text(status).find(Concat("(w) of node ", node)), std::string::npos) << status;
  EXPECT_EQ(Read(*Now(), node, "w").as_int(), 1);
}

TEST_F(StoreTest, DifferentPropertiesOfANode_BothCommit) {
  const NodeId node = MakeNode();
  Tx a = Begin(), b = Begin();
  ASSERT_TRUE(a->SetNodeProperty(node, Key(a.get(), "v"), Value::Int(1)).ok());
  ASSERT_TRUE(b->SetNodeProperty(node, Key(b.get(), "w"), Value::Int(2)).ok());
  EXPECT_TRUE(a->Commit().ok());
  EXPECT_TRUE(b->Commit().ok());
  EXPECT_EQ(Read(*Now(), node, "v").as_int(), 1);
  EXPECT_EQ(Read(*Now(), node, "w").as_int(), 2);
}

TEST_F(StoreTest, InsertsAtOneHub_NeverConflict) {
  const NodeId hub = MakeNode();
  std::vector<Tx> open;
  for (int i = 0; i < 20; ++i) {
    open.push_back(Begin());
    Link(open.back().get(), hub, hub);
  }
  for (Tx& tx : open) EXPECT_TRUE(tx->Commit().ok());
  EXPECT_EQ(Degree(*Now(), hub), 20u);
}

TEST_F(StoreTest, SameEdge_SecondIsAborted) {
  const NodeId node = MakeNode();
  Tx make = Begin();
  const EdgeRef edge = Link(make.get(), node, node);
  ASSERT_TRUE(make->Commit().ok());
  // In memory, and out of a run.
  for (int round = 0; round < 2; ++round) {
    Tx a = Begin(), b = Begin(), c = Begin();
    ASSERT_TRUE(a->SetEdgeProperty(edge, Key(a.get(), "v"), Value::Int(round)).ok());
    ASSERT_TRUE(b->SetEdgeProperty(edge, Key(b.get(), "w"), Value::Int(1)).ok());
    ASSERT_TRUE(c->DeleteEdge(edge).ok());
    EXPECT_TRUE(a->Commit().ok());
    EXPECT_EQ(b->Commit().code(), kAborted);
    EXPECT_EQ(c->Commit().code(), kAborted);
    ASSERT_TRUE(store_->Flush().ok());
  }
}

TEST_F(StoreTest, InsertAgainstDeletionOfAnEndpoint_WhicheverIsSecondIsAborted) {
  for (const bool flush : {false, true}) {
    for (const bool delete_first : {false, true}) {
      const NodeId a = MakeNode(), b = MakeNode();
      Tx insert = Begin(), remove = Begin();
      Link(insert.get(), a, b);
      ASSERT_TRUE(remove->DeleteNode(b).ok());
      ASSERT_TRUE((delete_first ? remove : insert)->Commit().ok());
      if (flush) {
        ASSERT_TRUE(store_->Flush().ok());
      }
      EXPECT_EQ((delete_first ? insert : remove)->Commit().code(), kAborted)
          << flush << delete_first;
    }
  }
}

TEST_F(StoreTest, DeletionOfANodeThatChanged_IsAborted) {
  const NodeId node = MakeNode();
  Tx set = Begin(), remove = Begin();
  ASSERT_TRUE(set->SetNodeProperty(node, Key(set.get(), "w"), Value::Int(1)).ok());
  ASSERT_TRUE(remove->DeleteNode(node).ok());
  ASSERT_TRUE(set->Commit().ok());
  EXPECT_EQ(remove->Commit().code(), kAborted);
  Tx again = Begin(), late = Begin();
  ASSERT_TRUE(again->DeleteNode(node).ok());
  ASSERT_TRUE(late->AddLabel(node, *late->AddLabelName("L")).ok());
  ASSERT_TRUE(again->Commit().ok());
  EXPECT_EQ(late->Commit().code(), kAborted);
}

TEST_F(StoreTest, RolledBack_LeavesNothing) {
  const NodeId node = MakeNode();
  const std::string before = DumpStore(*Now());
  {
    Tx tx = Begin();
    ASSERT_TRUE(tx->SetNodeProperty(node, Key(tx.get(), "unheard"), Value::Int(1)).ok());
    Link(tx.get(), node, node);
  }
  EXPECT_EQ(DumpStore(*Now()), before);
  EXPECT_TRUE(store_->Names().keys.empty());
}

TEST_F(StoreTest, SnapshotOfAnEarlierCommit_IsKeptAsFarAsAsked) {
  options_.retain_commits = 3;
  Open();
  const NodeId node = MakeNode();
  const uint64_t first = store_->sequence();
  for (int i = 1; i <= 5; ++i) {
    Tx tx = Begin();
    ASSERT_TRUE(tx->SetNodeProperty(node, Key(tx.get(), "w"), Value::Int(i)).ok());
    Link(tx.get(), node, node);
    ASSERT_TRUE(tx->Commit().ok());
    if (i % 2 == 0) {
      ASSERT_TRUE(store_->Compact().ok());
    }
  }
  for (uint64_t back = 0; back <= 3; ++back) {
    const auto view = store_->Snapshot(store_->sequence() - back);
    ASSERT_TRUE(view.ok()) << view.status();
    EXPECT_EQ(Read(**view, node, "w").as_int(), static_cast<int64_t>(5 - back));
    EXPECT_EQ(Degree(**view, node), 5 - back);
  }
  const auto old = store_->Snapshot(first);
  EXPECT_EQ(old.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(Text(old.status()).find("no longer kept"), std::string::npos);
  EXPECT_EQ(store_->Snapshot(1000).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(StoreTest, Index_FindsWhatASnapshotSees) {
  Tx tx = Begin();
  const Token label = *tx->AddLabelName("P");
  const Token key = Key(tx.get(), "k");
  std::vector<NodeId> nodes;
  for (int i = 0; i < 100; ++i) {
    nodes.push_back(*tx->CreateNode({&label, 1}, {{key, Value::Int(i % 10)}}));
  }
  ASSERT_TRUE(tx->Commit().ok());
  ASSERT_TRUE(store_->CreateIndex({"i", "P", {"k"}}).ok());
  const auto seek = [&](const GraphView& view, const Value& value) {
    std::vector<NodeId> found;
    EXPECT_TRUE(view.HasIndex(label, key));
    EXPECT_TRUE(view.Seek(label, key, value, &found).ok());
    return found.size();
  };
  auto before = Now();
  EXPECT_EQ(seek(*before, Value::Int(3)), 10u);
  EXPECT_EQ(seek(*before, Value::Float(3.0)), 10u);
  EXPECT_EQ(seek(*before, Value::Int(77)), 0u);
  EXPECT_EQ(seek(*before, Value()), 0u);
  tx = Begin();
  ASSERT_TRUE(tx->SetNodeProperty(nodes[3], key, Value::Int(77)).ok());
  ASSERT_TRUE(tx->RemoveLabel(nodes[13], label).ok());
  ASSERT_TRUE(tx->DeleteNode(nodes[23]).ok());
  *tx->CreateNode({&label, 1}, {{key, Value::Int(3)}});
  EXPECT_EQ(seek(*tx, Value::Int(3)), 8u);
  EXPECT_EQ(seek(*tx, Value::Int(77)), 1u);
  ASSERT_TRUE(tx->Commit().ok());
  EXPECT_EQ(seek(*Now(), Value::Int(3)), 8u);
  EXPECT_EQ(seek(*before, Value::Int(3)), 10u);
  before.reset();
  for (int round = 0; round < 2; ++round) {
    if (round == 1) {
      ASSERT_TRUE(store_->Close().ok());
    }
    Open();
    ASSERT_EQ(store_->Indexes().size(), 1u);
    EXPECT_EQ(seek(*Now(), Value::Int(3)), 8u);
    EXPECT_EQ(seek(*Now(), Value::Int(77)), 1u);
  }
  ASSERT_TRUE(store_->DropIndex("i").ok());
  EXPECT_EQ(store_->DropIndex("i").code(), absl::StatusCode::kNotFound);
  Open();
  EXPECT_FALSE(Now()->HasIndex(label, key));
}

TEST_F(StoreTest, UniqueConstraint_RefusesEveryWayToBreakIt) {
  ASSERT_TRUE(store_->CreateIndex({"u", "P", {"k", "m"}, true, true, false}).ok());
  EXPECT_EQ(store_->CreateIndex({"u", "Q", {"k"}}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->CreateIndex({"v", "P", {"k", "m"}}).code(), absl::StatusCode::kAlreadyExists);
  const auto make = [&](Tx& tx, const char* label, int k, int m) {
    const Token token = *tx->AddLabelName(label);
    return *tx->CreateNode(
        {&token, 1}, {{Key(tx.get(), "k"), Value::Int(k)}, {Key(tx.get(), "m"), Value::Int(m)}});
  };
  Tx tx = Begin();
  const NodeId first = make(tx, "P", 1, 1);
  make(tx, "P", 1, 2);
  const NodeId other = make(tx, "Q", 1, 1);
  ASSERT_TRUE(tx->Commit().ok());
  const auto refused = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_NE(Text(status).find("constraint u on :P(k, m)"), std::string::npos) << status;
  };
  tx = Begin();
  make(tx, "P", 1, 1);
  refused(tx->Commit());
  tx = Begin();
  make(tx, "P", 5, 5);
  make(tx, "P", 5, 5);
  refused(tx->Commit());
  tx = Begin();
  ASSERT_TRUE(tx->AddLabel(other, *tx->AddLabelName("P")).ok());
  refused(tx->Commit());
  // One goes, another one comes.
  tx = Begin();
  ASSERT_TRUE(tx->DeleteNode(first).ok());
  make(tx, "P", 1, 1);
  EXPECT_TRUE(tx->Commit().ok());
  // Each alone is right.
  Tx a = Begin(), b = Begin();
  make(a, "P", 9, 9);
  make(b, "P", 9, 9);
  EXPECT_TRUE(a->Commit().ok());
  EXPECT_FALSE(b->Commit().ok());
  // Over what there is.
  EXPECT_EQ(store_->CreateIndex({"w", "P", {"k"}, true, true, false}).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store_->Indexes().size(), 1u);
}

TEST_F(StoreTest, RequiredConstraint_RefusesNodesWithoutTheKey) {
  ASSERT_TRUE(store_->CreateIndex({"r", "P", {"k"}, true, false, true}).ok());
  Tx tx = Begin();
  const Token label = *tx->AddLabelName("P");
  *tx->CreateNode({&label, 1}, {});
  EXPECT_EQ(tx->Commit().code(), absl::StatusCode::kFailedPrecondition);
  tx = Begin();
  const NodeId node = *tx->CreateNode({&label, 1}, {{Key(tx.get(), "k"), Value::Int(1)}});
  ASSERT_TRUE(tx->Commit().ok());
  tx = Begin();
  ASSERT_TRUE(tx->SetNodeProperty(node, Key(tx.get(), "k"), Value()).ok());
  EXPECT_EQ(tx->Commit().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(StoreTest, FullDisk_FailsTheCommitAndGoesOnReading) {
  const NodeId node = MakeNode("A", {});
  const std::string before = DumpStore(*Now());
  files_.SetCapacity(4096);
  Tx big = Begin();
  ASSERT_TRUE(
      big->SetNodeProperty(node, Key(big.get(), "w"), Value::String(std::string(9000, 'x'))).ok());
  const absl::Status status = big->Commit();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(DumpStore(*Now()), before);
  Tx small = Begin();
  ASSERT_TRUE(small->SetNodeProperty(node, Key(small.get(), "w"), Value::Int(1)).ok());
  EXPECT_TRUE(small->Commit().ok());
  EXPECT_EQ(Read(*Now(), node, "w").as_int(), 1);
}

TEST_F(StoreTest, DamagedFiles_AreNamed) {
  const NodeId node = MakeNode();
  Tx tx = Begin();
  Link(tx.get(), node, node);
  ASSERT_TRUE(tx->Commit().ok());
  tx.reset();
  ASSERT_TRUE(store_->Close().ok());
  store_.reset();
  for (const auto& [name, content] : files_.names()) {
    if (name == "db/LOCK" || name.ends_with(".wal")) continue;
    for (size_t at = 0; at < content->written.size(); at += 7) {
      const auto copy = files_.AfterKill();
      copy->Content(name)[at] ^= 0x20;
      StoreOptions options = options_;
      options.files = copy.get();
      const auto store = GraphStore::Open("db", options);
      if (store.ok()) {
        // A run's groups and columns are checked when they are read.
        EXPECT_TRUE(name.ends_with(".run")) << name << " at " << at;
        continue;
      }
      EXPECT_NE(Text(store.status()).find(name.substr(3)), std::string::npos) << store.status();
    }
  }
}

TEST_F(StoreTest, Directory_OfOtherFiles_IsRefused) {
  SimFiles files;
  files.Put("db/letter.txt", "hello");
  StoreOptions options = options_;
  options.files = &files;
  EXPECT_EQ(GraphStore::Open("db", options).status().code(), absl::StatusCode::kFailedPrecondition);
  options.files = &files_;
  options.read_only = true;
  EXPECT_EQ(GraphStore::Open("other", options).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(StoreTest, ReadOnly_ShowsTheStateAndRefusesWriting) {
  MakeNode();
  const std::string dump = DumpStore(*Now());
  StoreOptions options = options_;
  options.read_only = true;
  const auto reader = GraphStore::Open("db", options);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(DumpStore(**(*reader)->Snapshot()), dump);
  EXPECT_EQ((*reader)->Begin().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((*reader)->CreateIndex({"i", "A", {"k"}}).code(),
            absl::StatusCode::kFailedPrecondition);
}

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

// Writers move weight between two nodes' relationships, readers sum it up; flushes and compactions
// run all the time.
// "VmHWM" and the like, in bytes.
uint64_t ProcessMemory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1)) << 10;
  }
  return 0;
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

TEST(StoreFiles, LongLogAfterAKill_IsReadWithinTheMemoryLimit) {
  if (testing_util::kAddressSanitizer || testing_util::kThreadSanitizer) {
    GTEST_SKIP() << "sanitizers take memory of their own";
  }
  const ScratchDir path("graph-store-memory");
  constexpr uint64_t kLimit = uint64_t{64} << 20;
  constexpr int kCommits = 100, kEdges = 1000;
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
    std::string text(2000, 'x');
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
    const uint64_t before = ProcessMemory("VmHWM");
    auto store = GraphStore::Open(path.get(), options);
    if (!store.ok()) return 1;
    if ((*store)->stats().flushes == 0) return 2;
    const uint64_t opening = ProcessMemory("VmHWM") - before;
    uint64_t edges = 0;
    const auto view = (*store)->Snapshot();
    for (uint64_t position = 0, count = 1; count > 0; edges += count) {
      std::vector<EdgeRef> batch(1000);
      count = *(*view)->ScanEdges({}, &position, batch);
    }
    if (edges != uint64_t{kCommits} * kEdges) return 3;
    // All runs into one, of three times the limit.
    if (!(*store)->Compact().ok()) return 4;
    const uint64_t most = ProcessMemory("VmHWM") - before;
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
