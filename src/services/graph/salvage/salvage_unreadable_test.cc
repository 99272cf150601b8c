// Salvage where files cannot be read at all, and what it leaves where it fails.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/testing.h"
#include "services/graph/salvage/test_salvage.h"

namespace pulse::graph {
namespace {

namespace fs = std::filesystem;

constexpr int kUnreadable[] = {EIO, EACCES, EISDIR, ELOOP, ENODEV};
constexpr int kShortages[] = {EMFILE, ENFILE, ENOMEM};

// What a kill left, and a file of it that cannot be read from an offset on, nor locked.
class UnreadableFiles : public SimFiles {
 public:
  UnreadableFiles(const SimFiles& of, std::string path, absl::Status error, uint64_t from = 0)
      : path_(std::move(path)), error_(std::move(error)), from_(from) {
    names() = of.AfterKill()->names();
  }
  UnreadableFiles(const SimFiles& of, const std::string& path, int error, uint64_t from = 0)
      : UnreadableFiles(of, path, ErrnoError(error, "reading", path), from) {}

  absl::StatusOr<std::string> Read(const std::string& path) override {  // Map() calls it
    if (path == path_) return error_;
    return SimFiles::Read(path);
  }
  absl::StatusOr<std::string> ReadPart(const std::string& path, uint64_t offset,
                                       size_t size) override {
    if (path == path_ && offset >= from_) return error_;
    return SimFiles::ReadPart(path, offset, size);
  }
  absl::StatusOr<std::shared_ptr<void>> Lock(const std::string& path) override {
    if (path == path_) return error_;
    return SimFiles::Lock(path);
  }

 private:
  const std::string path_;
  const absl::Status error_;
  const uint64_t from_;
};

// The database on the system's file system, removed with the object.
class OnDisk {
 public:
  explicit OnDisk(const SimFiles& of) {
    fs::create_directories(db());
    const auto files = of.AfterKill();
    for (const auto& [name, node] : files->names()) {
      std::ofstream(root_.get() + "/" + name, std::ios::binary) << node->written;
    }
  }
  ~OnDisk() { fs::remove_all(root_.get()); }
  std::string db() const { return root_.get() + "/db"; }
  std::string out() const { return root_.get() + "/out"; }

 private:
  testing_util::ScratchPath root_{"salvage"};
};

std::set<std::string> NamesIn(const std::string& directory) {
  std::set<std::string> out;
  for (const auto& entry : fs::directory_iterator(directory)) out.insert(entry.path().filename());
  return out;
}

// While it lives, no file may grow beyond so many bytes.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit small = before_;
    small.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &small);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;
  ~SmallFiles() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  void (*const handler_)(int);
  rlimit before_{};
};

class SalvageUnreadableTest : public SalvageTest {
 protected:
  std::string Only(const std::string& suffix) {
    const auto names = FilesOf(history_.files(), suffix);
    EXPECT_FALSE(names.empty()) << suffix;
    return names.empty() ? "" : names.back();
  }
  static void ExpectNamed(const SalvageReport& report, const std::string& what) {
    EXPECT_NE(Named(report).find(what), std::string::npos) << what << ", of:\n" << Named(report);
  }
};

TEST_F(SalvageUnreadableTest, Checkpoint_IsNamedAndRelationshipsStay) {
  history_.Grow(40);
  ASSERT_TRUE(history_.store()->Checkpoint().ok());
  const std::string path = Only(".ckpt");
  for (const int error : kUnreadable) {
    SCOPED_TRACE(error);
    UnreadableFiles files(history_.files(), path, error);
    const SalvageResult result = SalvageOf(&files);
    EXPECT_EQ(result.report.files_lost, 1u);
    ExpectNamed(result.report, Concat("the checkpoint ", path, " cannot be read: reading ", path));
    ExpectNamed(result.report, "nodes, names and indexes");
    EXPECT_EQ(result.shown.edges.size(), history_.now().edges.size());
    history_.ExpectSubset(result.shown);
  }
}

TEST_F(SalvageUnreadableTest, CheckpointWithoutManifest_AnOlderOneCounts) {
  history_.Grow(40);
  ASSERT_TRUE(history_.store()->Checkpoint().ok());
  for (const int error : kUnreadable) {
    SCOPED_TRACE(error);
    UnreadableFiles files(history_.files(), "db/newest.ckpt", error);
    files.Put("db/newest.ckpt", "");
    files.names().erase("db/MANIFEST");
    const SalvageResult result = SalvageOf(&files);
    EXPECT_EQ(result.report.files_lost, 2u);
    ExpectNamed(result.report, "the checkpoint db/newest.ckpt cannot be read");
    for (const auto& [id, facts] : history_.now().nodes) {
      EXPECT_TRUE(result.shown.nodes.contains(id)) << id;
    }
  }
}

TEST_F(SalvageUnreadableTest, EachSegmentOfTheLog_LosesItsCommits) {
  constexpr size_t kCommits = 200;
  CommitNumbers(kCommits);
  const auto segments = FilesOf(history_.files(), ".wal");
  ASSERT_GE(segments.size(), 3u);
  for (const std::string& path : segments) {
    for (const int error : kUnreadable) {
      SCOPED_TRACE(Concat(path, ", ", error));
      UnreadableFiles files(history_.files(), path, error);
      const SalvageResult result = SalvageOf(&files);
      EXPECT_EQ(result.report.files_lost, 1u);
      ExpectNamed(result.report, Concat("the log's segment ", path, " cannot be read: reading "));
      EXPECT_LT(result.shown.nodes.size(), kCommits);
      EXPECT_EQ(result.shown.nodes.size() + result.report.commits_lost, kCommits)
          << Named(result.report);
    }
  }
}

TEST_F(SalvageUnreadableTest, RestOfASegment_LosesItsCommits) {
  constexpr size_t kCommits = 60;
  SimFiles writing;
  StoreOptions options;
  options.files = &writing;
  options.background = false;
  options.log_segment_bytes = uint64_t{3} << 20;
  const auto store = *GraphStore::Open("db", options);
  for (size_t i = 0; i < kCommits; ++i) {
    const auto tx = *store->Begin();
    const Value text = Value::String(std::string(100'000, 'x'));
    ASSERT_TRUE(tx->CreateNode({}, {{*tx->AddKeyName("text"), text}}).ok());
    ASSERT_TRUE(tx->Commit().ok());
  }
  const auto segments = FilesOf(writing, ".wal");
  ASSERT_EQ(segments.size(), 2u);
  for (const std::string& path : segments) {
    SCOPED_TRACE(path);
    UnreadableFiles files(writing, path, EIO, uint64_t{1} << 20);
    const SalvageResult result = SalvageOf(&files);
    ExpectNamed(result.report, Concat("the log is damaged: ", path, ", bytes "));
    ExpectNamed(result.report, " to its end cannot be read: reading ");
    EXPECT_EQ(result.report.files_lost, 0u);
    EXPECT_GT(result.shown.nodes.size(), 30u);
    EXPECT_LT(result.shown.nodes.size(), 50u);
    EXPECT_EQ(result.shown.nodes.size() + result.report.commits_lost, kCommits);
  }
}

TEST_F(SalvageUnreadableTest, Run_IsNamedAndTheOtherDirectionHasIt) {
  history_.Grow(40);
  ASSERT_TRUE(history_.store()->Compact().ok());
  ASSERT_TRUE(history_.store()->Checkpoint().ok());
  for (const int error : kUnreadable) {
    SCOPED_TRACE(error);
    const std::string path = Only(".run");
    UnreadableFiles files(history_.files(), path, error);
    const SalvageResult result = SalvageOf(&files);
    EXPECT_EQ(result.report.files_lost, 1u);
    ExpectNamed(result.report, Concat("the run ", path, " cannot be read: reading ", path));
    EXPECT_EQ(result.shown.edges.size(), history_.now().edges.size());
  }
}

TEST_F(SalvageUnreadableTest, WantOfMemoryOrDescriptors_EndsItAndLeavesNothing) {
  history_.Grow(40);
  ASSERT_TRUE(history_.store()->Checkpoint().ok());
  CommitNumbers(3);
  for (const std::string& path :
       {Only(".ckpt"), Only(".wal"), Only(".run"), std::string("db/COMMITTED"),
        std::string("db/MANIFEST"), std::string("db/LOCK")}) {
    for (const int error : kShortages) {
      UnreadableFiles files(history_.files(), path, error);
      const auto report = TrySalvage(&files);
      EXPECT_EQ(report.status().code(), absl::StatusCode::kResourceExhausted) << path;
      for (const auto& [name, node] : files.names()) EXPECT_TRUE(name.starts_with("db/")) << name;
    }
  }
}

TEST_F(SalvageUnreadableTest, LockThatCannotBeTaken_IsNamedAndLosesNothing) {
  history_.Grow(20);
  for (const int error : kUnreadable) {
    UnreadableFiles files(history_.files(), "db/LOCK", error);
    const SalvageResult result = SalvageOf(&files);
    EXPECT_EQ(result.shown, history_.now());
    EXPECT_EQ(result.report.files_lost, 0u);
    ExpectNamed(result.report, "db/LOCK cannot be locked: ");
  }
  // A medium that is mounted for reading has nobody who writes.
  UnreadableFiles mounted(history_.files(), "db/LOCK", EROFS);
  EXPECT_EQ(Named(SalvageOf(&mounted).report), "");
  UnreadableFiles locked(history_.files(), "db/LOCK", absl::FailedPreconditionError("a process"));
  EXPECT_TRUE(absl::IsFailedPrecondition(TrySalvage(&locked).status()));
}

TEST_F(SalvageUnreadableTest, SomethingElseInPlaceOfAFile_IsNamed) {
  history_.Grow(40);
  ASSERT_TRUE(history_.store()->Checkpoint().ok());
  CommitNumbers(3);
  const std::pair<const char*, std::function<void(const fs::path&)>> replacements[] = {
      {"a directory", [](const fs::path& path) { fs::create_directory(path); }},
      {"a link to itself", [](const fs::path& path) { fs::create_symlink(path.filename(), path); }},
  };
  for (const auto& [what, replace] : replacements) {
    for (const std::string& name :
         {Only(".ckpt"), Only(".wal"), Only(".run"), std::string("db/COMMITTED"),
          std::string("db/MANIFEST"), std::string("db/LOCK")}) {
      SCOPED_TRACE(Concat(what, " for ", name));
      const OnDisk disk(history_.files());
      const std::string path = disk.db() + name.substr(2);
      fs::remove(path);
      replace(path);
      const std::set<std::string> before = NamesIn(disk.db());
      const auto report = SalvageGraph(disk.db(), disk.out());
      ASSERT_TRUE(report.ok()) << report.status();
      ExpectNamed(*report, path);
      EXPECT_EQ(NamesIn(disk.db()), before);
      StoreOptions reading;
      reading.read_only = true;
      EXPECT_TRUE(GraphStore::Open(disk.out(), reading).ok());
    }
  }
}

TEST_F(SalvageUnreadableTest, Failure_LeavesNothing) {
  history_.Grow(20);
  const OnDisk disk(history_.files());
  const std::set<std::string> before = NamesIn(disk.db());
  const auto try_it = [&] {
    const SmallFiles small(64);
    return SalvageGraph(disk.db(), disk.out()).status();
  };
  EXPECT_FALSE(try_it().ok());
  EXPECT_FALSE(fs::exists(disk.out()));
  EXPECT_EQ(NamesIn(disk.db()), before);
  // What was there before stays, as empty as it was.
  fs::create_directory(disk.out());
  EXPECT_FALSE(try_it().ok());
  EXPECT_TRUE(fs::exists(disk.out()) && fs::is_empty(disk.out()));
  const auto report = SalvageGraph(disk.db(), disk.out());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->nodes, history_.now().nodes.size());
  EXPECT_EQ(NamesIn(disk.db()), before);
}

TEST_F(SalvageUnreadableTest, NoDatabase_StaysAsItWas) {
  const OnDisk disk{SimFiles()};
  EXPECT_TRUE(absl::IsNotFound(SalvageGraph(disk.db(), disk.out()).status()));
  EXPECT_TRUE(fs::is_empty(disk.db()));
  std::ofstream(disk.db() + "/notes.txt") << "of somebody";
  EXPECT_TRUE(absl::IsNotFound(SalvageGraph(disk.db(), disk.out()).status()));
  EXPECT_EQ(NamesIn(disk.db()), std::set<std::string>{"notes.txt"});
  EXPECT_FALSE(fs::exists(disk.out()));
}

}  // namespace
}  // namespace pulse::graph
