#include "services/graph/backup/backup.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/testing.h"
#include "services/graph/core/store.h"

namespace pulse::graph {
namespace {

namespace fs = std::filesystem;
using cypher::NodeId;
using cypher::Token;
using cypher::Value;

// A chain: commit n makes node n and, but for the first, a relationship from node n - 1 with n as a
// property.
class Chain {
 public:
  explicit Chain(GraphStore* store) : store_(*store) {}

  void Grow() {
    auto transaction = store_.Begin().value();
    const Token key = *transaction->AddKeyName("n");
    const Value n = Value::Int(static_cast<int64_t>(count_));
    const NodeId node = *transaction->CreateNode({}, {{key, n}});
    if (count_ > 0) {
      ASSERT_TRUE(
          transaction->CreateEdge(last_, node, *transaction->AddTypeName("NEXT"), {{key, n}}).ok());
    }
    ASSERT_TRUE(transaction->Commit().ok());
    last_ = node;
    ++count_;
    committed_.store(count_);
  }
  uint64_t committed() const { return committed_.load(); }

 private:
  GraphStore& store_;
  uint64_t count_ = 0;
  NodeId last_ = 0;
  std::atomic<uint64_t> committed_{0};
};

// How long the chain in a database is; fails the test where it is none.
uint64_t ChainIn(const std::string& path) {
  StoreOptions options;
  options.read_only = true;
  const auto store = GraphStore::Open(path, options);
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return 0;
  const auto view = (*store)->Snapshot().value();
  const auto key = view->FindKey("n");
  uint64_t nodes = 0, edges = 0, sum = 0;
  NodeId node = 0;
  for (uint64_t at = 0; view->ScanNodes(cypher::kNoToken, &at, {&node, 1}).value() > 0;) ++nodes;
  cypher::EdgeRef edge;
  for (uint64_t at = 0; view->ScanEdges({}, &at, {&edge, 1}).value() > 0; ++edges) {
    cypher::Column column;
    EXPECT_TRUE(view->ReadEdgeProperty(*key, {&edge, 1}, &column).ok());
    sum += static_cast<uint64_t>(column.kind == cypher::Column::Kind::kInts
                                     ? column.ints.at(0)
                                     : column.values.at(0).as_int());
  }
  EXPECT_EQ(edges + (nodes > 0 ? 1 : 0), nodes);
  EXPECT_EQ(sum, nodes * (nodes - (nodes > 0 ? 1 : 0)) / 2);
  return nodes;
}

class BackupTest : public testing::Test {
 protected:
  BackupTest() { fs::create_directory(dir_.get()); }
  ~BackupTest() override {
    store_.reset();
    fs::remove_all(dir_.get());
  }
  std::string Path(const std::string& name) const { return dir_.get() + "/" + name; }
  void Open(bool background) {
    StoreOptions options;
    options.background = background;
    options.flush_chunks = 1;
    options.level_runs = 2;
    options.checkpoint_bytes = 1 << 14;
    options.log_segment_bytes = 1 << 14;
    options.sync = false;
    store_ = GraphStore::Open(Path("db"), options).value();
    chain_ = std::make_unique<Chain>(store_.get());
  }
  void Grow(int commits) {
    for (int i = 0; i < commits; ++i) chain_->Grow();
  }
  absl::StatusOr<BackupReport> BackUp(const BackupOptions& options = {}) {
    return BackUpGraph(Path("db"), Path("copy"), options);
  }

  testing_util::ScratchPath dir_{"backup"};
  std::unique_ptr<GraphStore> store_;
  std::unique_ptr<Chain> chain_;
};

TEST_F(BackupTest, BesideAWriter_HasAllThatWasCommittedBefore) {
  Open(true);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    std::mt19937_64 random(testing_util::TestSeed());
    while (!stop.load()) {
      Grow(1);
      if (random() % 50 == 0) {
        // Files come and go.
        EXPECT_TRUE((random() % 2 == 0 ? store_->Checkpoint() : store_->Compact()).ok());
      }
    }
  });
  for (int i = 0; i < 25; ++i) {
    const uint64_t before = chain_->committed();
    testing_util::Eventually([&] { return chain_->committed() > before + 20; });
    const uint64_t committed = chain_->committed();
    const auto report = BackUp({.link = i % 3 == 0});
    ASSERT_TRUE(report.ok()) << report.status();
    const uint64_t copied = ChainIn(Path("copy"));
    EXPECT_GE(copied, committed);
    EXPECT_LE(copied, chain_->committed() + 1);
  }
  stop = true;
  writer.join();
  EXPECT_FALSE(fs::exists(Path(".copy.partial")));
}

TEST_F(BackupTest, OpenedForWriting_GoesOnAsADatabase) {
  Open(false);
  Grow(100);
  ASSERT_TRUE(store_->Flush().ok());
  Grow(50);
  ASSERT_TRUE(BackUp().ok());
  {
    auto copy = GraphStore::Open(Path("copy")).value();
    auto transaction = copy->Begin().value();
    ASSERT_TRUE(transaction->CreateNode({}, {}).ok());
    ASSERT_TRUE(transaction->Commit().ok());
    transaction.reset();
    ASSERT_TRUE(copy->Close().ok());
  }
  const absl::Status again = BackUp().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(again)) << again;
  EXPECT_EQ(ChainIn(Path("db")), 150U);
  auto copy = GraphStore::Open(Path("copy")).value();
  EXPECT_EQ(copy->NodeCount(), 151U);
}

TEST_F(BackupTest, SecondBackup_CopiesOnlyWhatIsNew) {
  Open(false);
  Grow(500);
  ASSERT_TRUE(store_->Checkpoint().ok());
  const auto first = BackUp();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->bytes_kept, 0U);
  EXPECT_EQ(first->bytes_copied, first->bytes);
  Grow(10);
  const auto second = BackUp();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_GT(second->bytes_kept, 0U);
  EXPECT_LT(second->bytes_copied, first->bytes_copied);
  EXPECT_EQ(ChainIn(Path("copy")), 510U);
  EXPECT_FALSE(fs::exists(Path(".copy.partial")));
  // A database made anew has files of the same names.
  store_.reset();
  fs::remove_all(Path("db"));
  Open(false);
  Grow(700);
  ASSERT_TRUE(store_->Checkpoint().ok());
  const auto other = BackUp();
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->bytes_kept, 0U);
  EXPECT_EQ(ChainIn(Path("copy")), 700U);
}

TEST_F(BackupTest, LinkedBackup_TakesNoSpaceAndOutlivesTheDatabase) {
  Open(false);
  Grow(500);
  ASSERT_TRUE(store_->Checkpoint().ok());
  const auto report = BackUp({.link = true});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->bytes_linked, 0U);
  EXPECT_LT(report->bytes_copied, report->bytes);
  Grow(100);
  ASSERT_TRUE(store_->Compact().ok());
  store_.reset();
  fs::remove_all(Path("db"));
  EXPECT_EQ(ChainIn(Path("copy")), 500U);
}

// The moments: before each file, and in the check.
TEST_F(BackupTest, KilledAnywhere_LeavesTheEarlierBackupOrNone) {
  Open(false);
  Grow(200);
  ASSERT_TRUE(store_->Checkpoint().ok());
  Grow(200);
  uint64_t earlier = 0;  // in the backup that is there
  for (int round = 0; round < 2; ++round) {
    for (int moment = 0;; ++moment) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        int at = 0;
        BackupOptions options;
        const auto maybe = [&] {
          if (at++ == moment) raise(SIGKILL);
        };
        options.progress = [&](uint64_t, uint64_t) { maybe(); };
        options.check = [&](const std::string&) {
          maybe();
          return absl::OkStatus();
        };
        const auto report = BackUpGraph(Path("db"), Path("copy"), options);
        _exit(report.ok() ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      if (WIFEXITED(status)) {
        ASSERT_EQ(WEXITSTATUS(status), 0);
        ASSERT_GT(moment, 2);
        break;
      }
      ASSERT_EQ(WTERMSIG(status), SIGKILL);
      ASSERT_EQ(fs::exists(Path("copy")), earlier > 0);
      if (earlier > 0) {
        ASSERT_EQ(ChainIn(Path("copy")), earlier);
      }
    }
    earlier = chain_->committed();
    EXPECT_EQ(ChainIn(Path("copy")), earlier);
    EXPECT_FALSE(fs::exists(Path(".copy.partial")));
    Grow(100);
    ASSERT_TRUE(store_->Flush().ok());
  }
}

TEST_F(BackupTest, CheckThatFails_LeavesNone) {
  Open(false);
  Grow(10);
  BackupOptions options;
  options.check = [](const std::string& directory) {
    EXPECT_EQ(ChainIn(directory), 10U);
    return absl::DataLossError("damaged");
  };
  EXPECT_TRUE(absl::IsDataLoss(BackUp(options).status()));
  EXPECT_FALSE(fs::exists(Path("copy")));
  EXPECT_FALSE(fs::exists(Path(".copy.partial")));
}

// An earlier backup that has what was lost since stays.
TEST_F(BackupTest, LogThatLostItsEnd_IsRefusedAndTheEarlierBackupKept) {
  Open(false);
  Grow(10);
  store_.reset();
  Open(false);  // what was read is on the device then
  ASSERT_TRUE(BackUp().ok());
  store_.reset();
  uintmax_t cut = 0;
  for (const auto& entry : fs::directory_iterator(Path("db"))) {
    if (entry.path().extension() != ".wal") continue;
    cut = fs::file_size(entry.path()) / 2;
    fs::resize_file(entry.path(), cut);
  }
  ASSERT_GT(cut, 100u);
  const absl::Status refused = BackUp().status();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_NE(std::string(refused.message()).find("the log has lost its end"), std::string::npos);
  EXPECT_EQ(ChainIn(Path("copy")), 10u);
}

// As by a program that knows an older format alone.
TEST_F(BackupTest, OpeningForWritingThatFailed_BackupIsStillOne) {
  Open(false);
  Grow(10);
  ASSERT_TRUE(BackUp().ok());
  std::fstream manifest(Path("copy/MANIFEST"), std::ios::in | std::ios::out | std::ios::binary);
  const auto put_format = [&manifest](int change) {
    manifest.seekg(8);
    const int format = manifest.get();
    manifest.seekp(8).put(static_cast<char>(format + change)).flush();
  };
  struct stat before {};
  ASSERT_EQ(stat(Path("copy/MANIFEST").c_str(), &before), 0);
  put_format(100);
  EXPECT_FALSE(GraphStore::Open(Path("copy")).ok());
  put_format(-100);
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, Path("copy/MANIFEST").c_str(), times, 0), 0);
  EXPECT_TRUE(fs::exists(Path("copy/COMMITTED")));
  Grow(1);
  const auto again = BackUp();
  EXPECT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ChainIn(Path("copy")), 11u);
}

TEST_F(BackupTest, ForeignDestination_IsRefusedAndKept) {
  Open(false);
  Grow(10);
  EXPECT_TRUE(absl::IsInvalidArgument(BackUpGraph(Path("db"), Path("db"), {}).status()));
  EXPECT_TRUE(absl::IsNotFound(BackUpGraph(Path("none"), Path("copy"), {}).status()));
  fs::create_directory(Path("none"));
  EXPECT_TRUE(absl::IsNotFound(BackUpGraph(Path("none"), Path("copy"), {}).status()));
  EXPECT_FALSE(fs::exists(Path("copy")));
  fs::create_directory(Path("copy"));
  std::ofstream(Path("copy/letter")) << "dear";
  EXPECT_TRUE(absl::IsAlreadyExists(BackUp().status()));
  EXPECT_TRUE(fs::exists(Path("copy/letter")));
  fs::remove(Path("copy/letter"));
  EXPECT_TRUE(BackUp().ok());  // an empty directory
  {
    // Another database.
    const auto other = GraphStore::Open(Path("other")).value();
    EXPECT_TRUE(absl::IsAlreadyExists(BackUpGraph(Path("db"), Path("other"), {}).status()));
  }
  // Open for writing, though nothing was written.
  const auto open = GraphStore::Open(Path("copy"));
  ASSERT_TRUE(open.ok()) << open.status();
  EXPECT_TRUE(absl::IsFailedPrecondition(BackUp().status()));
}

TEST_F(BackupTest, DestinationThatIsALink_StaysOne) {
  Open(false);
  Grow(10);
  fs::create_directory(Path("disk"));
  ASSERT_TRUE(BackUpGraph(Path("db"), Path("disk/copy"), {}).ok());
  fs::create_directory_symlink("disk/copy", Path("copy"));
  for (int i = 0; i < 2; ++i) {
    Grow(5);
    const auto report = BackUp();
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(fs::is_symlink(Path("copy")));
    EXPECT_FALSE(fs::is_symlink(fs::symlink_status(Path(".copy.partial"))));
    EXPECT_FALSE(fs::exists(Path("disk/.copy.partial")));
    EXPECT_EQ(ChainIn(Path("disk/copy")), chain_->committed());
  }
  // One that leads nowhere, and one that leads to the database.
  fs::create_directory_symlink("nowhere", Path("loose"));
  EXPECT_TRUE(absl::IsAlreadyExists(BackUpGraph(Path("db"), Path("loose"), {}).status()));
  fs::create_directory_symlink("db", Path("self"));
  EXPECT_TRUE(absl::IsInvalidArgument(BackUpGraph(Path("db"), Path("self"), {}).status()));
  EXPECT_TRUE(fs::is_symlink(Path("self")));
}

TEST_F(BackupTest, DestinationWithinTheDatabase_IsRefused) {
  Open(false);
  Grow(10);
  fs::create_directory_symlink("db", Path("self"));
  for (const char* where : {"db/copy", "db/../db/copy", "self/copy"}) {
    const absl::Status status = BackUpGraph(Path("db"), Path(where), {}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << where << ": " << status;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(BackUpGraph(Path("self"), Path("db/copy"), {}).status()));
  EXPECT_FALSE(fs::exists(Path("db/copy")));
  EXPECT_FALSE(fs::exists(Path("db/.copy.partial")));
  EXPECT_TRUE(BackUpGraph(Path("db"), Path("db2"), {}).ok());
}

TEST_F(BackupTest, DatabaseWithAMissingFile_IsNamed) {
  Open(false);
  Grow(200);
  ASSERT_TRUE(store_->Checkpoint().ok());
  store_.reset();
  for (const auto& entry : fs::directory_iterator(Path("db"))) {
    if (entry.path().extension() != ".run") continue;
    fs::remove(entry.path());
    const absl::Status status = BackUp().status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(status.message().find(entry.path().filename().string()), std::string::npos);
    break;
  }
  EXPECT_FALSE(fs::exists(Path("copy")));
}

}  // namespace
}  // namespace pulse::graph
