// One process writes to a database: LOCK says so, and where somebody has removed that, COMMITTED.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "base/file_calls.h"
#include "base/file_lock.h"
#include "base/test_forked_process.h"
#include "base/testing.h"
#include "services/graph/core/committed.h"
#include "services/graph/core/store.h"

namespace pulse::graph {
namespace {

namespace fs = std::filesystem;
using testing_util::Text;

class WriterLockTest : public testing::Test {
 protected:
  ~WriterLockTest() override { fs::remove_all(path_.get()); }
  std::string PathOf(const std::string& name) const { return path_.get() + "/" + name; }
  absl::StatusOr<std::unique_ptr<GraphStore>> Open(bool read_only = false) const {
    StoreOptions options;
    options.background = false;
    options.read_only = read_only;
    return GraphStore::Open(path_.get(), options);
  }
  static void AddNode(GraphStore* store) {
    auto tx = *store->Begin();
    ASSERT_TRUE(tx->CreateNode({}, {}).ok());
    ASSERT_TRUE(tx->Commit().ok());
  }
  std::string Content(const std::string& name) const {
    std::ifstream file(PathOf(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void ExpectSecondWriterIsRefused() const {
    const auto second = Open();
    EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition) << second.status();
    const UniqueFd fd = OpenFile(PathOf(kCommittedFile), O_RDONLY);
    const std::string said = Text(second.status());
    EXPECT_TRUE(said.starts_with(NameLockHolder(fd.get()) + " has the database open for writing ("))
        << said;
    EXPECT_TRUE(said.ends_with("/COMMITTED); open it for reading only, or end that process"))
        << said;
  }

  testing_util::ScratchPath path_{"graph-writer-lock"};
};

TEST_F(WriterLockTest, LockMovedAway_SecondWriterIsRefusedAndChangesNothing) {
  auto first = Open();
  ASSERT_TRUE(first.ok()) << first.status();
  AddNode(first->get());
  fs::rename(PathOf("LOCK"), PathOf("LOCK.away"));
  // As of a flush that the first one is about to name in the manifest.
  std::ofstream(PathOf("00000099.run")) << "a run";
  ExpectSecondWriterIsRefused();
  // Another process; and a third writer, who finds the second's LOCK.
  const pid_t child = fork();
  if (child == 0) _exit(absl::IsFailedPrecondition(Open().status()) ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ExpectSecondWriterIsRefused();
  EXPECT_EQ(Content("00000099.run"), "a run");
  const auto reader = Open(/*read_only=*/true);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->NodeCount(), 1u);
  AddNode(first->get());
  first->reset();
  fs::remove(PathOf("LOCK"));
  const auto next = Open();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ((*next)->NodeCount(), 2u);
  EXPECT_EQ(Content("LOCK"), std::to_string(getpid()));
  EXPECT_FALSE(fs::exists(PathOf("00000099.run")));
}

TEST_F(WriterLockTest, ForkedProcessHasTheFilesOpen_NextWriterOpens) {
  auto first = Open();
  ASSERT_TRUE(first.ok()) << first.status();
  const testing_util::ForkedProcess other;
  first->reset();
  const auto next = Open();
  EXPECT_TRUE(next.ok()) << next.status();
}

TEST_F(WriterLockTest, OldDatabaseWithoutCommitted_IsLockedAsWell) {
  {
    const auto store = Open();
    ASSERT_TRUE(store.ok()) << store.status();
    AddNode(store->get());
  }
  fs::remove(PathOf(kCommittedFile));
  const auto store = Open();
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ((*store)->NodeCount(), 1u);
  fs::remove(PathOf("LOCK"));
  ExpectSecondWriterIsRefused();
}

TEST_F(WriterLockTest, CommittedWithoutManifest_IsADatabaseOnlyWhereItIsEmpty) {
  // An opening that came no further.
  fs::create_directory(path_.get());
  std::ofstream(PathOf("LOCK")) << "1";
  std::ofstream(PathOf(kCommittedFile)) << "";
  ASSERT_TRUE(Open().ok());
  fs::remove(PathOf("MANIFEST"));
  for (const auto& entry : fs::directory_iterator(path_.get())) {
    if (entry.path().extension() == ".wal") fs::remove(entry.path());
  }
  const auto store = Open();
  EXPECT_EQ(store.status().code(), absl::StatusCode::kInvalidArgument) << store.status();
  EXPECT_NE(
      Text(store.status()).find("(COMMITTED); if it lost its MANIFEST, `pulse graph salvage`"),
      std::string::npos)
      << store.status();
}

}  // namespace
}  // namespace pulse::graph
