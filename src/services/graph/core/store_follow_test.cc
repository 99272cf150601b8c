// Stores that are open for reading and follow one that writes.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "services/graph/core/bulk_load.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;
using cypher::EdgeRef;
using cypher::GraphView;
using cypher::NodeId;
using cypher::Properties;
using cypher::Token;
using cypher::Value;
using testing_util::TestSeed;

// Nodes, relationships and their properties.
std::set<std::string> Shown(const GraphView& view) {
  std::set<std::string> out;
  Properties properties;
  const auto text = [&] {
    std::string all;
    for (const auto& [key, value] : properties)
      all += Concat(" ", view.KeyName(key), "=", cypher::ValueText(value, view));
    return all;
  };
  std::vector<NodeId> ids(512);
  uint64_t position = 0;
  while (const size_t n = *view.ScanNodes(cypher::kNoToken, &position, ids)) {
    for (size_t i = 0; i < n; ++i) {
      EXPECT_TRUE(view.ReadNodeProperties(ids[i], &properties).ok());
      out.insert(Concat("node ", ids[i], text()));
    }
  }
  std::vector<EdgeRef> edges(512);
  position = 0;
  while (const size_t n = *view.ScanEdges({}, &position, edges)) {
    for (size_t i = 0; i < n; ++i) {
      EXPECT_TRUE(view.ReadEdgeProperties(edges[i], &properties).ok());
      out.insert(Concat(edges[i].source, " -", view.TypeName(edges[i].type), "-> ", edges[i].target,
                        text()));
    }
  }
  return out;
}

// Calls back before a part of the log is read, as often as asked.
class LogReadFiles : public SimFiles {
 public:
  absl::StatusOr<std::string> ReadPart(const std::string& path, uint64_t offset,
                                       size_t size) override {
    if (path.ends_with(".wal") && times > 0) {
      --times;
      before_read();
    }
    return SimFiles::ReadPart(path, offset, size);
  }
  int times = 0;
  std::function<void()> before_read;
};

class FollowTest : public ::testing::Test {
 protected:
  FollowTest() {
    writing_.files = &files_;
    writing_.background = false;
    writing_.log_segment_bytes = 3000;
    writer_ = *GraphStore::Open("db", writing_);
    reading_.files = &files_;
    reading_.read_only = true;
    reading_.follow = true;
    reader_ = *GraphStore::Open("db", reading_);
  }
  NodeId Commit(int64_t value) {
    const auto tx = *writer_->Begin();
    const Token key = *tx->AddKeyName("n");
    const NodeId node = *tx->CreateNode({}, {{key, Value::Int(value)}});
    EXPECT_TRUE(tx->CreateEdge(node, node, *tx->AddTypeName("T"), {{key, Value::Int(value)}}).ok());
    EXPECT_TRUE(tx->Commit().ok());
    return node;
  }
  void ExpectSame() {
    const auto written = *writer_->Snapshot();
    const auto read = reader_->Snapshot();
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(reader_->sequence(), writer_->sequence());
    ASSERT_EQ(Shown(**read), Shown(*written));
  }

  LogReadFiles files_;
  StoreOptions writing_, reading_;
  std::unique_ptr<GraphStore> writer_, reader_;
};

TEST_F(FollowTest, EachCommit_IsSeenByTheNextSnapshotAndNotByOlderOnes) {
  Commit(1);
  const auto old = *reader_->Snapshot();
  const auto before = Shown(*old);
  Commit(2);
  ExpectSame();
  EXPECT_EQ(Shown(*old), before);
  EXPECT_EQ(reader_->stats().reopened, 0u);
  EXPECT_FALSE(reader_->Begin().ok());
}

TEST_F(FollowTest, RandomHistoryWithMaintenance_ShowsWhatTheWriterShows) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(Concat("seed ", seed));
  std::mt19937_64 random(seed);
  std::vector<std::pair<std::shared_ptr<const GraphView>, std::set<std::string>>> kept;
  std::vector<NodeId> nodes;
  for (int i = 0; i < 300; ++i) {
    if (nodes.empty() || random() % 3 == 0) {
      nodes.push_back(Commit(i));
    } else {
      const auto tx = *writer_->Begin();
      const NodeId a = nodes[random() % nodes.size()], b = nodes[random() % nodes.size()];
      ASSERT_TRUE(tx->SetNodeProperty(a, *tx->AddKeyName("m"), Value::Int(i)).ok());
      ASSERT_TRUE(tx->CreateEdge(a, b, *tx->AddTypeName(Concat("T", random() % 5)), {}).ok());
      ASSERT_TRUE(tx->Commit().ok());
    }
    const uint64_t dice = random() % 40;
    if (dice == 0) {
      ASSERT_TRUE(writer_->Flush().ok());
    } else if (dice == 1) {
      ASSERT_TRUE(writer_->Compact().ok());
    } else if (dice == 2) {
      ASSERT_TRUE(writer_->Checkpoint().ok());
    } else if (dice == 3) {
      const auto load = *BulkLoad::Begin(writer_.get());
      ASSERT_TRUE(load->Commit().ok());
    } else if (dice == 4) {
      writer_.reset();
      writer_ = *GraphStore::Open("db", writing_);
    } else if (dice == 5) {
      const auto view = *reader_->Snapshot();
      kept.emplace_back(view, Shown(*view));
    }
    if (random() % 4 == 0) {
      ExpectSame();
      if (HasFatalFailure()) return;
    }
  }
  ExpectSame();
  EXPECT_GT(reader_->stats().reopened, 0u);  // after bulk loads, and checkpoints that it missed
  // Snapshots outlive the stores that were replaced.
  EXPECT_GT(kept.size(), 0u);
  for (const auto& [view, shown] : kept) EXPECT_EQ(Shown(*view), shown);
  kept.clear();
}

TEST_F(FollowTest, MoreThanTheMemoryLimit_IsTakenFromTheWritersRuns) {
  reading_.memory_limit = 1;  // 9 MiB
  reader_ = *GraphStore::Open("db", reading_);
  ExpectSame();
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 4; ++i) {
      const auto tx = *writer_->Begin();
      const Token key = *tx->AddKeyName("text");
      const NodeId node = *tx->CreateNode({}, {});
      ASSERT_TRUE(tx->CreateEdge(node, node, *tx->AddTypeName("T"),
                                 {{key, Value::String(std::string(1 << 20, 'x'))}})
                      .ok());
      ASSERT_TRUE(tx->Commit().ok());
      // It follows each commit; texts of so many megabytes are compared once for several.
      ASSERT_TRUE(reader_->Snapshot().ok());
      EXPECT_EQ(reader_->sequence(), writer_->sequence());
    }
    ExpectSame();
    ASSERT_TRUE(writer_->Flush().ok());
  }
  ExpectSame();
  EXPECT_GT(reader_->stats().reopened, 0u);
  EXPECT_LT(reader_->stats().edge_bytes, uint64_t{10} << 20);
}

TEST_F(FollowTest, IndexMadeMeanwhile_ServesTheReader) {
  Commit(1);
  ExpectSame();
  ASSERT_TRUE(writer_->CreateIndex({.name = "i", .label = "A", .keys = {"n"}}).ok());
  const auto tx = *writer_->Begin();
  const Token label = *tx->AddLabelName("A");
  const NodeId node = *tx->CreateNode({&label, 1}, {{*tx->AddKeyName("n"), Value::Int(5)}});
  ASSERT_TRUE(tx->Commit().ok());
  const auto view = *reader_->Snapshot();
  EXPECT_EQ(reader_->Indexes().size(), 1u);
  std::vector<NodeId> found;
  ASSERT_TRUE(
      view->SeekOne(*view->FindLabel("A"), *view->FindKey("n"), Value::Int(5), &found).ok());
  EXPECT_EQ(found, std::vector<NodeId>{node});
}

TEST_F(FollowTest, CheckpointsWhileTheLogIsRead_AreNoDamage) {
  int value = 0;
  files_.before_read = [&] {
    for (int i = 0; i < 2; ++i) {
      Commit(++value);
      ASSERT_TRUE(writer_->Checkpoint().ok());
    }
  };
  for (const int times : {1, 2, 3, 4, 5, 6, 7, 8, 16, 30}) {
    SCOPED_TRACE(Concat(times, " times"));
    Commit(++value);
    const size_t before = Shown(**writer_->Snapshot()).size();
    files_.times = times;
    const auto view = reader_->Snapshot();
    files_.times = 0;
    ASSERT_TRUE(view.ok()) << view.status();
    ASSERT_GE(Shown(**view).size(), before);
    ASSERT_EQ(Shown(**view).size() % 2, 0u);
    ExpectSame();
  }
}

TEST_F(FollowTest, LogThatIsGoneAlthoughTheManifestStays_IsAnError) {
  Commit(1);
  ASSERT_TRUE(writer_->Checkpoint().ok());
  Commit(2);
  reader_ = *GraphStore::Open("db", reading_);
  const std::vector<std::string> names = *files_.List("db");
  for (const std::string& name : names) {
    if (!name.ends_with(".wal")) continue;
    ASSERT_TRUE(files_.Remove(Concat("db/", name)).ok());
  }
  EXPECT_FALSE(reader_->Snapshot().ok());
}

// Readers in threads of their own, beside a writer with maintenance in the background: each
// snapshot is a whole commit, and none is older than one before it.
TEST_F(FollowTest, ManyReadersBesideAWriter_SeeWholeCommitsInOrder) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&] {
      size_t last = 0;
      while (!stop) {
        const auto view = reader_->Snapshot();
        ASSERT_TRUE(view.ok()) << view.status();
        const size_t shown = Shown(**view).size();
        ASSERT_EQ(shown % 2, 0u);  // a node and a relationship each
        ASSERT_GE(shown, last);
        last = shown;
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    Commit(i);
    if (i % 20 == 0) {
      ASSERT_TRUE(writer_->Checkpoint().ok());
    } else if (i % 30 == 0) {
      ASSERT_TRUE(writer_->Compact().ok());
    }
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  ExpectSame();
}

}  // namespace
}  // namespace pulse::graph
