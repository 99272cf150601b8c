#include "services/graph/core/mapped_runs.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_files.h"

namespace pulse::graph {
namespace {

// Does something before each run is mapped, as a writer would between two.
class WatchedFiles : public SimFiles {
 public:
  absl::StatusOr<RunBytes> Map(const std::string& path) override {
    const auto before = std::exchange(before_map, nullptr);
    if (before) before(path);
    if (path == unreadable) return error;
    return SimFiles::Map(path);
  }
  std::string unreadable;
  absl::Status error;
  std::function<void(const std::string& path)> before_map;
};

class MapRunsTest : public ::testing::Test {
 protected:
  MapRunsTest() {
    StoreOptions options;
    options.files = &files_;
    options.background = false;
    auto store = GraphStore::Open("db", options);
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  // One more run of each direction.
  void Add() {
    auto tx = *store_->Begin();
    const auto node = *tx->CreateNode({}, {});
    ASSERT_TRUE(tx->CreateEdge(node, node, *tx->AddTypeName("T"), {}).ok());
    ASSERT_TRUE(tx->Commit().ok());
    ASSERT_TRUE(store_->Flush().ok());
  }

  WatchedFiles files_;
  std::unique_ptr<GraphStore> store_;
};

TEST_F(MapRunsTest, CompactionBetweenManifestAndRuns_MapsTheNewOnes) {
  for (int i = 0; i < 3; ++i) Add();
  std::string removed;
  files_.before_map = [&](const std::string& path) {
    ASSERT_TRUE(store_->Compact().ok());
    removed = path;
  };
  const auto mapped = MapRuns(&files_, "db");
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  ASSERT_FALSE(files_.names().contains(removed)) << "the compaction has removed nothing";
  ASSERT_EQ(mapped->runs.size(), 2u);
  ASSERT_EQ(mapped->manifest.runs.size(), 2u);
  for (const auto& run : mapped->runs) {
    ASSERT_TRUE(run.ok()) << run.status();
    EXPECT_TRUE(RunReader::Open(*run).ok());
  }
}

TEST_F(MapRunsTest, RunThatTheManifestNames_IsMissing) {
  for (int i = 0; i < 2; ++i) Add();
  // What was committed meanwhile replaces the manifest, too, and does not excuse it.
  std::string removed;
  files_.before_map = [&](const std::string& path) {
    Add();
    removed = path;
    ASSERT_TRUE(files_.Remove(path).ok());
  };
  const auto mapped = MapRuns(&files_, "db");
  ASSERT_TRUE(mapped.ok()) << mapped.status();
  ASSERT_EQ(mapped->runs.size(), 4u);
  EXPECT_EQ("db/" + mapped->manifest.runs[0].file, removed);
  EXPECT_TRUE(absl::IsNotFound(mapped->runs[0].status())) << mapped->runs[0].status();
  for (size_t i = 1; i < 4; ++i) EXPECT_TRUE(mapped->runs[i].ok()) << mapped->runs[i].status();
}

TEST_F(MapRunsTest, RunThatCannotBeRead_HasItsErrorAndTheOthersAreMapped) {
  for (int i = 0; i < 2; ++i) Add();
  const auto whole = MapRuns(&files_, "db");
  ASSERT_TRUE(whole.ok()) << whole.status();
  ASSERT_EQ(whole->runs.size(), 4u);
  files_.unreadable = "db/" + whole->manifest.runs[1].file;
  for (const auto code : {absl::StatusCode::kInternal, absl::StatusCode::kPermissionDenied}) {
    files_.error = absl::Status(code, "made to fail");
    const auto mapped = MapRuns(&files_, "db");
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    ASSERT_EQ(mapped->runs.size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(mapped->runs[i].status(), i == 1 ? files_.error : absl::OkStatus()) << i;
    }
  }
  // What this process is short of is no matter of the run.
  files_.error = absl::ResourceExhaustedError("made to fail");
  EXPECT_EQ(MapRuns(&files_, "db").status(), files_.error);
}

TEST_F(MapRunsTest, NoManifest_IsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(MapRuns(&files_, "elsewhere").status()));
}

TEST_F(MapRunsTest, WriterThatAlwaysReplacesThem_IsAbortedAndNotDamaged) {
  Add();
  std::function<void(const std::string&)> again = [&](const std::string&) {
    Add();
    ASSERT_TRUE(store_->Compact().ok());
    files_.before_map = again;
  };
  files_.before_map = again;
  const auto mapped = MapRuns(&files_, "db");
  files_.before_map = nullptr;
  EXPECT_TRUE(absl::IsAborted(mapped.status())) << mapped.status();
}

}  // namespace
}  // namespace pulse::graph
