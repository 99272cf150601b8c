#include "services/graph/salvage/salvage.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/testing.h"
#include "services/graph/core/wal_records.h"
#include "services/graph/salvage/test_salvage.h"

namespace pulse::graph {
namespace {

TEST_F(SalvageTest, NothingDamaged_IsTheSameGraph) {
  for (uint64_t i = 0; i < 10; ++i) {
    SCOPED_TRACE(Concat("seed ", seed_ + i));
    History history(seed_ + i);
    history.Grow(60);
    const auto files = history.files().AfterKill();
    const SalvageResult result = SalvageOf(files.get());
    EXPECT_EQ(result.shown, history.now());
    EXPECT_TRUE(result.report.damages.empty()) << Named(result.report);
  }
}

TEST_F(SalvageTest, EachRunLost_StructureComesFromTheOtherDirection) {
  history_.Grow(60);
  ASSERT_TRUE(history_.store()->Checkpoint().ok());
  const auto runs = FilesOf(history_.files(), ".run");
  ASSERT_GE(runs.size(), 2u);
  for (const std::string& run : runs) {
    const SalvageResult result = SalvageAfter([&](SimFiles& files) { files.names().erase(run); });
    EXPECT_EQ(result.report.files_lost, 1u);
    EXPECT_NE(Named(result.report).find(run), std::string::npos);
    EXPECT_EQ(result.shown.nodes, history_.now().nodes);
    ASSERT_EQ(result.shown.edges.size(), history_.now().edges.size());
    history_.ExpectSubset(result.shown);
  }
}

TEST_F(SalvageTest, EachByteOfARun_LosesNoRelationship) {
  history_.Grow(40);
  ASSERT_TRUE(history_.store()->Compact().ok());
  ASSERT_TRUE(history_.store()->Checkpoint().ok());
  uint64_t lost_values = 0, lost_records = 0, tried = 0;
  for (const std::string& run : FilesOf(history_.files(), ".run")) {
    const size_t size = history_.files().Content(run).size();
    for (size_t at = history_.random()() % 7; at < size; at += 7, ++tried) {
      const SalvageResult result = SalvageAfter([&](SimFiles& files) {
        files.Content(run)[at] ^= static_cast<char>(1 + history_.random()() % 255);
      });
      ASSERT_FALSE(result.report.damages.empty()) << run << " at " << at;
      ASSERT_EQ(result.shown.nodes, history_.now().nodes) << run << " at " << at;
      ASSERT_EQ(result.shown.edges.size(), history_.now().edges.size()) << run << " at " << at;
      history_.ExpectSubset(result.shown);
      lost_values += result.report.values_lost;
      lost_records += result.report.records_lost;
    }
  }
  EXPECT_GT(tried, 100u);
  EXPECT_GT(lost_values, 0u);
  EXPECT_GT(lost_records, 0u);
}

TEST_F(SalvageTest, ByteOfTheLog_LosesOneCommit) {
  history_.Grow(1);
  // Without the zeros that the next records find.
  const auto size_of = [&](const std::string& segment) {
    return history_.files().Content(segment).find_last_not_of('\0') + 1;
  };
  std::map<std::string, size_t> grown;  // what it has written of each segment
  for (const std::string& segment : FilesOf(history_.files(), ".wal")) {
    grown[segment] = size_of(segment);
  }
  CommitNumbers(60);
  const Shown all = Read(**history_.store()->Snapshot());
  for (const std::string& segment : FilesOf(history_.files(), ".wal")) {
    const bool last = segment == FilesOf(history_.files(), ".wal").back();
    for (size_t at = 0; at < size_of(segment); at += 3) {
      const SalvageResult result =
          SalvageAfter([&](SimFiles& files) { files.Content(segment)[at] ^= 1; });
      if (at < 32) {
        ASSERT_EQ(result.shown.nodes.size(), all.nodes.size()) << "the segment's head, " << at;
        continue;
      }
      // The first commits made more: its names and nodes are those of Grow().
      if (at < grown[segment]) continue;
      ASSERT_EQ(result.shown.nodes.size() + 1, all.nodes.size()) << segment << " at " << at;
      // At the very end it may be what a kill leaves.
      if (!last) {
        ASSERT_EQ(result.report.commits_lost, 1u) << Named(result.report);
      }
    }
  }
}

// The log that a close leaves has no record.
TEST_F(SalvageTest, ClosedDatabaseWithoutManifest_HasLostNoCommit) {
  SimFiles writing;
  {
    StoreOptions options;
    options.files = &writing;
    options.background = false;
    const auto store = *GraphStore::Open("db", options);
    const auto tx = *store->Begin();
    ASSERT_TRUE(tx->CreateNode({}, {}).ok());
    ASSERT_TRUE(tx->Commit().ok());
    ASSERT_TRUE(store->Close().ok());
  }
  const auto files = writing.AfterKill();
  files->names().erase("db/MANIFEST");
  const SalvageResult result = SalvageOf(files.get());
  EXPECT_EQ(result.report.commits_lost, 0u) << Named(result.report);
  EXPECT_EQ(result.shown.nodes.size(), 1u);
}

// The runs have the relationships of all commits, which does not make up for the log.
TEST_F(SalvageTest, LogThatLostItsEndBehindAFlush_IsNamed) {
  SimFiles writing;
  StoreOptions options;
  options.files = &writing;
  options.background = false;
  auto store = *GraphStore::Open("db", options);
  std::string* log = nullptr;
  for (auto& [name, node] : writing.names()) {
    if (name.ends_with(".wal")) log = &node->written;
  }
  ASSERT_NE(log, nullptr);
  size_t cut = 0;
  for (int i = 0; i < 3; ++i) {
    const auto tx = *store->Begin();
    const NodeId node = *tx->CreateNode({}, {});
    ASSERT_TRUE(tx->CreateEdge(node, node, *tx->AddTypeName("T"), {}).ok());
    cut = log->size();
    ASSERT_TRUE(tx->Commit().ok());
  }
  ASSERT_TRUE(store->Flush().ok());
  log->resize(cut);
  const auto files = writing.AfterKill();
  const auto reading = OpenToRead(files.get(), "db");
  ASSERT_TRUE(reading.ok()) << reading.status();
  EXPECT_NE((*reading)->stats().damage.find("the log has lost its end"), std::string::npos);
  EXPECT_EQ(SalvageOf(files.get()).report.commits_lost, 1u);
}

// No record is damaged; the next segment says up to where the one before had come.
TEST_F(SalvageTest, SegmentThatLacksItsLastCommit_IsNamedAndCounted) {
  CommitNumbers(100);
  const SalvageResult result = SalvageAfter([](SimFiles& files) {
    WalSegmentReader reader(&files, "db", 1);
    WalRecord record;
    uint64_t last = 0;
    for (uint64_t at = kWalSegmentHeader; *reader.ReadAt(at, &record); at = record.end) last = at;
    files.Content(FilesOf(files, ".wal").front()).resize(last);
  });
  EXPECT_EQ(result.report.commits_lost, 1u) << Named(result.report);
  EXPECT_NE(Named(result.report).find("lacks what was written before"), std::string::npos)
      << Named(result.report);
  EXPECT_EQ(result.shown.nodes.size(), 99u);
}

TEST_F(SalvageTest, AnythingDamaged_IsASoundSubset) {
  const int rounds = testing_util::LongTests() ? 2000 : testing_util::Rounds(150);
  int lost_something = 0;
  for (int i = 0; i < rounds; ++i) {
    SCOPED_TRACE(Concat("seed ", seed_ + static_cast<uint64_t>(i)));
    History history(seed_ + static_cast<uint64_t>(i));
    auto& random = history.random();
    history.Grow(20 + static_cast<int>(random() % 40));
    const auto files = history.files().AfterKill();
    std::vector<std::string> names = FilesOf(*files, "");
    std::erase(names, "db/LOCK");
    bool log_end = false;
    std::string did;
    const uint64_t damages = 1 + random() % 3;
    for (uint64_t k = 0; k < damages; ++k) {
      const std::string name = names[random() % names.size()];
      if (!files->names().contains(name)) continue;
      std::string& content = files->Content(name);
      log_end |= name.ends_with(".wal");
      switch (random() % 4) {
        case 0:
          did += " removed " + name;
          files->names().erase(name);
          break;
        case 1:
          content.resize(random() % (content.size() + 1));
          did += Concat(" cut ", name, " to ", content.size());
          break;
        default:
          if (content.empty()) break;
          const size_t at = random() % content.size();
          content[at] ^= static_cast<char>(1 + random() % 255);
          did += Concat(" changed ", name, " at ", at);
      }
    }
    SCOPED_TRACE(did);
    const bool nothing = FilesOf(*files, ".run").empty() && FilesOf(*files, ".ckpt").empty() &&
                         FilesOf(*files, ".wal").empty();
    if (nothing) {
      // Without a manifest, too, there is no database; with one all of it is lost.
      const auto report = TrySalvage(files.get());
      EXPECT_TRUE(absl::IsNotFound(report.status()) || (report.ok() && report->nodes == 0));
      continue;
    }
    const SalvageResult result = SalvageOf(files.get());
    history.ExpectSubset(result.shown);
    if (result.shown == history.now()) continue;
    ++lost_something;
    // A cut of the log's end is what a kill leaves.
    EXPECT_TRUE(!result.report.damages.empty() || log_end);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(lost_something, rounds / 4);
}

TEST_F(SalvageTest, ConstraintOfRelationships_IsKeptUnlessAnythingIsDamaged) {
  History history(1);
  ASSERT_TRUE(history.store()
                  ->CreateIndex({.name = "typed",
                                 .label = "NONE",
                                 .keys = {"w"},
                                 .constraint = true,
                                 .of_edges = true,
                                 .type = "INTEGER"})
                  .ok());
  history.Grow(20);
  ASSERT_TRUE(history.store()->Checkpoint().ok());
  const auto whole = history.files().AfterKill();
  EXPECT_TRUE(SalvageOf(whole.get()).report.damages.empty());
  EXPECT_EQ((*OpenToRead(whole.get(), "new"))->Indexes(), history.store()->Indexes());
  EXPECT_EQ(whole->Content("new/MANIFEST")[8], 3);

  const auto files = history.files().AfterKill();
  files->names().erase(FilesOf(*files, ".run").front());
  const SalvageResult result = SalvageOf(files.get());
  EXPECT_NE(Named(result.report).find("constraint typed is left out"), std::string::npos)
      << Named(result.report);
  EXPECT_TRUE((*OpenToRead(files.get(), "new"))->Indexes().empty());
}

TEST_F(SalvageTest, ConstraintWithNodesLost_IsLeftOutAndNamed) {
  History history(1);
  ASSERT_TRUE(
      history.store()
          ->CreateIndex(
              {.name = "people", .label = "A", .keys = {"w"}, .constraint = true, .unique = true})
          .ok());
  ASSERT_TRUE(history.store()->CreateIndex({.name = "plain", .label = "A", .keys = {"text"}}).ok());
  auto tx = *history.store()->Begin();
  const Token label = *tx->AddLabelName("A");
  ASSERT_TRUE(tx->CreateNode({&label, 1}, {{*tx->AddKeyName("w"), Value::Int(1)}}).ok());
  ASSERT_TRUE(tx->Commit().ok());
  ASSERT_TRUE(history.store()->Checkpoint().ok());
  const auto whole = history.files().AfterKill();
  EXPECT_TRUE(SalvageOf(whole.get()).report.damages.empty());
  EXPECT_EQ((*OpenToRead(whole.get(), "new"))->Indexes().size(), 2u);

  const auto files = history.files().AfterKill();
  std::string& checkpoint = files->Content(FilesOf(*files, ".ckpt").front());
  checkpoint.resize(checkpoint.size() - 1);
  const SalvageResult result = SalvageOf(files.get());
  EXPECT_NE(Named(result.report).find("constraint people is left out"), std::string::npos)
      << Named(result.report);
  const auto indexes = (*OpenToRead(files.get(), "new"))->Indexes();
  ASSERT_EQ(indexes.size(), 1u);
  EXPECT_EQ(indexes[0].name, "plain");
}

TEST_F(SalvageTest, NoDatabaseOrAnotherThere_IsRefused) {
  SimFiles files;
  EXPECT_EQ(TrySalvage(&files).status().code(), absl::StatusCode::kNotFound);
  history_.Grow(2);
  history_.files().Put("new/something", "of somebody");
  EXPECT_EQ(TrySalvage(&history_.files()).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SalvageTest, NoSpaceForTheNewOne_IsAnErrorAndTheOldOneStays) {
  History history(3);
  history.Grow(40);
  const auto files = history.files().AfterKill();
  std::map<std::string, std::string> before;
  for (const auto& [name, node] : files->names()) before[name] = node->written;
  uint64_t used = 0;
  for (const auto& [name, content] : before) used += content.size();
  files->SetCapacity(used + 500);
  EXPECT_EQ(TrySalvage(files.get()).status().code(), absl::StatusCode::kResourceExhausted);
  for (const auto& [name, content] : before) EXPECT_EQ(files->Content(name), content) << name;
  // With space it is tried again, in the same place.
  files->SetCapacity(uint64_t{1} << 40);
  const auto again = TrySalvage(files.get());
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST_F(SalvageTest, WriterWhoseLockIsGone_IsRefused) {
  const testing_util::ScratchPath from("salvage-from"), to("salvage-to");
  auto writer = GraphStore::Open(from.get()).value();
  std::filesystem::remove(from.get() + "/LOCK");
  const absl::Status refused = SalvageGraph(from.get(), to.get(), {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_FALSE(std::filesystem::exists(to.get()));
  writer.reset();
  std::filesystem::remove_all(from.get());
}

}  // namespace
}  // namespace pulse::graph
