#include "services/graph/core/change_feed.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "services/graph/core/bulk_load.h"
#include "services/graph/core/store.h"
#include "services/graph/core/test_sim_store.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;
using testing_util::TestSeed;
using testing_util::Text;
using Kind = Change::Kind;

class ChangeFeedTest : public SimStoreTest {
 protected:
  ChangeFeedTest() {
    options_.log_segment_bytes = 400;
    Open();
  }
  // Its number is in it.
  void Commit() {
    const auto tx = *store_->Begin();
    const Token label = *tx->AddLabelName("A");
    const Token key = *tx->AddKeyName("n");
    const auto next = static_cast<int64_t>(store_->sequence() + 1);
    ASSERT_TRUE(tx->CreateNode({&label, 1}, {{key, Value::Int(next)}}).ok());
    ASSERT_TRUE(tx->Commit().ok());
  }
  absl::StatusOr<std::unique_ptr<ChangeFeed>> Feed(std::optional<uint64_t> after) {
    ChangeFeedOptions options;
    options.after = after;
    options.files = &files_;
    return ChangeFeed::Open("db", options);
  }
  // All that there is, each checked for its number.
  static std::vector<uint64_t> Drain(ChangeFeed* feed) {
    std::vector<uint64_t> out;
    CommitChanges commit;
    while (true) {
      const auto more = feed->Next(&commit);
      EXPECT_TRUE(more.ok()) << more.status();
      if (!more.ok() || !*more) return out;
      out.push_back(commit.sequence);
      EXPECT_EQ(commit.changes.size(), 1u);
      EXPECT_EQ(commit.changes[0].labels, std::vector<std::string>{"A"});
      EXPECT_EQ(commit.changes[0].properties[0].first, "n");
      EXPECT_EQ(commit.changes[0].properties[0].second.as_int(),
                static_cast<int64_t>(commit.sequence));
    }
  }
  static std::vector<uint64_t> Numbers(uint64_t first, uint64_t last) {
    std::vector<uint64_t> out;
    for (; first <= last; ++first) out.push_back(first);
    return out;
  }
};

TEST_F(ChangeFeedTest, EachOperation_HasItsNames) {
  auto tx = *store_->Begin();
  const Token person = *tx->AddLabelName("Person"), name = *tx->AddKeyName("name");
  const NodeId ann = *tx->CreateNode({&person, 1}, {{name, Value::String("Ann")}});
  const NodeId bob = *tx->CreateNode({}, {});
  const EdgeRef knows =
      *tx->CreateEdge(ann, bob, *tx->AddTypeName("KNOWS"), {{*tx->AddKeyName("w"), Value::Int(3)}});
  ASSERT_TRUE(tx->Commit().ok());
  tx = *store_->Begin();
  ASSERT_TRUE(tx->SetNodeProperty(ann, name, Value()).ok());
  ASSERT_TRUE(tx->AddLabel(bob, person).ok());
  ASSERT_TRUE(tx->RemoveLabel(ann, person).ok());
  ASSERT_TRUE(tx->SetEdgeProperty(knows, *tx->AddKeyName("w"), Value::Int(4)).ok());
  ASSERT_TRUE(tx->Commit().ok());
  ASSERT_TRUE(store_->CreateIndex({.name = "i", .label = "Person", .keys = {"name"}}).ok());
  tx = *store_->Begin();
  ASSERT_TRUE(tx->DeleteEdge(knows).ok());
  ASSERT_TRUE(tx->DeleteNode(bob).ok());
  ASSERT_TRUE(tx->Commit().ok());

  const auto feed = *Feed(0);
  CommitChanges commit;
  ASSERT_TRUE(*feed->Next(&commit));
  EXPECT_EQ(commit.sequence, 1u);
  ASSERT_EQ(commit.changes.size(), 3u);
  EXPECT_EQ(commit.changes[0].kind, Kind::kCreateNode);
  EXPECT_EQ(commit.changes[0].labels, std::vector<std::string>{"Person"});
  EXPECT_EQ(commit.changes[0].properties[0].first, "name");
  EXPECT_EQ(commit.changes[2].kind, Kind::kCreateRelationship);
  EXPECT_EQ(commit.changes[2].type, "KNOWS");
  EXPECT_EQ(commit.changes[2].edge.source, ann);
  EXPECT_EQ(commit.changes[2].edge.target, bob);
  ASSERT_TRUE(*feed->Next(&commit));
  std::map<Kind, Change> by_kind;
  for (const Change& change : commit.changes) by_kind[change.kind] = change;
  EXPECT_TRUE(by_kind.at(Kind::kSetNodeProperties).properties[0].second.is_null());
  EXPECT_EQ(by_kind.at(Kind::kAddLabel).node, bob);
  EXPECT_EQ(by_kind.at(Kind::kRemoveLabel).labels, std::vector<std::string>{"Person"});
  EXPECT_EQ(by_kind.at(Kind::kSetRelationshipProperties).properties[0].second.as_int(), 4);
  ASSERT_TRUE(*feed->Next(&commit));
  EXPECT_EQ(commit.changes[0].kind, Kind::kCreateIndex);
  EXPECT_EQ(commit.changes[0].index.name, "i");
  ASSERT_TRUE(*feed->Next(&commit));
  EXPECT_EQ(commit.changes[0].kind, Kind::kDeleteRelationship);
  EXPECT_EQ(commit.changes[1].kind, Kind::kDeleteNode);
  EXPECT_FALSE(*feed->Next(&commit));
  EXPECT_EQ(feed->position(), 4u);
}

TEST_F(ChangeFeedTest, FollowerBesideWriter_SeesEachCommitOnceOverSegments) {
  const auto feed = *Feed(0);
  std::vector<uint64_t> seen;
  for (int i = 0; i < 50; ++i) {
    Commit();
    if (i % 7 == 0) {
      ASSERT_TRUE(store_->Flush().ok());
    }
    const auto now = Drain(feed.get());
    seen.insert(seen.end(), now.begin(), now.end());
    EXPECT_EQ(seen.size(), static_cast<size_t>(i + 1));
  }
  EXPECT_EQ(seen, Numbers(1, 50));
}

TEST_F(ChangeFeedTest, CheckpointsUnderAFollowerThatKeepsUp_LoseNothing) {
  const auto feed = *Feed(0);
  std::vector<uint64_t> seen;
  for (int i = 0; i < 30; ++i) {
    Commit();
    const auto now = Drain(feed.get());
    seen.insert(seen.end(), now.begin(), now.end());
    if (i % 4 == 0) {
      ASSERT_TRUE(store_->Checkpoint().ok());
    }
  }
  EXPECT_EQ(seen, Numbers(1, 30));
}

TEST_F(ChangeFeedTest, WriterThatCheckpointsAndClosesAtOnce_LosesAFollowerNothing) {
  Commit();
  const auto feed = *Feed(1);
  Commit();
  ASSERT_TRUE(store_->Checkpoint().ok());
  store_.reset();
  EXPECT_EQ(Drain(feed.get()), Numbers(2, 2));
  EXPECT_EQ(Drain(Feed(0)->get()), Numbers(1, 2));
}

TEST_F(ChangeFeedTest, PositionThatTheLogLost_IsAnErrorThatNamesTheOldest) {
  for (int i = 0; i < 10; ++i) Commit();
  const auto behind = *Feed(3);
  ASSERT_TRUE(store_->Checkpoint().ok());
  Commit();
  // It keeps the newest segment before it until the next one.
  EXPECT_EQ(Drain(Feed(3)->get()), Numbers(4, 11));
  ASSERT_TRUE(store_->Checkpoint().ok());
  const auto fresh = Feed(9);
  EXPECT_EQ(fresh.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_NE(Text(fresh.status()).find("oldest position that it has is 10"), std::string::npos)
      << fresh.status();
  CommitChanges commit;
  absl::StatusOr<bool> more = true;
  while (more.ok() && *more) more = behind->Next(&commit);
  EXPECT_EQ(more.status().code(), absl::StatusCode::kOutOfRange) << more.status();
  EXPECT_EQ(Drain(Feed(10)->get()), Numbers(11, 11));
  EXPECT_EQ(Feed(12).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(ChangeFeedTest, KeptLog_ReachesBackBehindCheckpointsAndReopening) {
  options_.keep_log_bytes = 1500;
  Open();
  for (int round = 0; round < 6; ++round) {
    for (int i = 0; i < 8; ++i) Commit();
    ASSERT_TRUE(store_->Checkpoint().ok());
    if (round % 2 == 1) Open();
  }
  const auto feed = Feed(std::nullopt);  // the oldest one
  ASSERT_TRUE(feed.ok()) << feed.status();
  const uint64_t oldest = (*feed)->position();
  EXPECT_LT(oldest, 47u);
  EXPECT_GT(oldest, 0u);  // and no more is kept than was asked for
  EXPECT_EQ(Drain(feed->get()), Numbers(oldest + 1, 48));
  // What was kept is no part of the state: opening reads none of it.
  Open();
  EXPECT_EQ(store_->NodeCount(), 48u);
}

TEST_F(ChangeFeedTest, FromNow_BeginsWithTheNextCommit) {
  for (int i = 0; i < 5; ++i) Commit();
  ChangeFeedOptions options;
  options.from_now = true;
  options.files = &files_;
  const auto feed = *ChangeFeed::Open("db", options);
  EXPECT_EQ(feed->position(), 5u);
  EXPECT_TRUE(Drain(feed.get()).empty());
  Commit();
  EXPECT_EQ(Drain(feed.get()), Numbers(6, 6));
}

TEST_F(ChangeFeedTest, BulkLoad_IsOneChangeWithoutContents) {
  Commit();
  const auto feed = *Feed(0);
  CommitChanges commit;
  ASSERT_TRUE(*feed->Next(&commit));
  const auto load = *BulkLoad::Begin(store_.get());
  ASSERT_TRUE(load->Commit().ok());
  Commit();
  ASSERT_TRUE(*feed->Next(&commit));
  EXPECT_EQ(commit.sequence, 2u);
  ASSERT_EQ(commit.changes.size(), 1u);
  EXPECT_EQ(commit.changes[0].kind, Kind::kBulkLoad);
  EXPECT_EQ(Drain(feed.get()), Numbers(3, 3));
}

TEST_F(ChangeFeedTest, NamesThatABulkLoadBrought_AreThoseOfLaterCommits) {
  Commit();
  const auto feed = *Feed(0);
  CommitChanges commit;
  ASSERT_TRUE(*feed->Next(&commit));
  const auto load = *BulkLoad::Begin(store_.get());
  const Token label = *load->Label("Loaded");
  const Token key = *load->Key("loaded");
  ASSERT_TRUE(load->Commit().ok());
  const auto tx = *store_->Begin();
  ASSERT_TRUE(tx->CreateNode({&label, 1}, {{key, Value::Int(1)}}).ok());
  ASSERT_TRUE(tx->Commit().ok());
  ASSERT_TRUE(*feed->Next(&commit));
  ASSERT_TRUE(*feed->Next(&commit));
  ASSERT_EQ(commit.changes.size(), 1u);
  EXPECT_EQ(commit.changes[0].labels, std::vector<std::string>{"Loaded"});
  EXPECT_EQ(commit.changes[0].properties[0].first, "loaded");
}

// A write that fails leaves a part of it, or whole records that are cut off again; a sync that
// fails leaves what may be there at the next opening. The feed gives what the store has, and no
// more.
TEST_F(ChangeFeedTest, WritesThatFail_GivesWhatTheStoreHas) {
  std::mt19937_64 random(TestSeed());
  const auto feed = *Feed(0);
  std::vector<int64_t> given;
  const auto drain = [&] {
    CommitChanges commit;
    while (true) {
      const auto more = feed->Next(&commit);
      ASSERT_TRUE(more.ok()) << more.status();
      if (!*more) return;
      for (const Change& change : commit.changes) {
        given.push_back(change.properties[0].second.as_int());
      }
    }
  };
  int failed = 0;
  for (int i = 0; i < 300; ++i) {
    const auto tx = *store_->Begin();
    ASSERT_TRUE(tx->CreateNode({}, {{*tx->AddKeyName("n"), Value::Int(i)}}).ok());
    if (random() % 3 == 0) files_.FailAt(1 + random() % 3);
    const bool ok = tx->Commit().ok();
    files_.FailAt(0);
    drain();
    failed += ok ? 0 : 1;
    if (!ok && random() % 2 == 0) Open();
  }
  Open();
  drain();
  std::vector<int64_t> there;
  const auto view = *store_->Snapshot();
  std::vector<NodeId> ids(512);
  uint64_t position = 0;
  while (const size_t n = *view->ScanNodes(kNoToken, &position, ids)) {
    for (size_t i = 0; i < n; ++i) {
      Properties properties;
      ASSERT_TRUE(view->ReadNodeProperties(ids[i], &properties).ok());
      there.push_back(properties[0].second.as_int());
    }
  }
  std::sort(there.begin(), there.end());
  EXPECT_EQ(given, there);
  EXPECT_GT(given.size(), 50u);
  EXPECT_GT(failed, 5);
}

// Without the file that says what was committed, as in a copy, all but the last commit is known.
TEST_F(ChangeFeedTest, WithoutCommitted_GivesWhatLaterRecordsVouchFor) {
  for (int i = 0; i < 6; ++i) Commit();
  store_.reset();
  files_.names().erase("db/COMMITTED");
  EXPECT_EQ(Drain(Feed(0)->get()), Numbers(1, 5));
  Open();
  EXPECT_EQ(Drain(Feed(0)->get()), Numbers(1, 6));
}

// --- Processes ---

// A writer and a follower in processes of their own, each killed now and then; the follower goes on
// from the last number that it has written down.
TEST(ChangeFeedProcesses, BothKilledAtAnyMoment_EachCommitIsSeenOnce) {
  std::mt19937_64 random(TestSeed());
  testing_util::ScratchPath dir("graph-feed");
  std::filesystem::remove_all(dir.get());
  const auto start_writer = [&](int* out) {
    int fds[2];
    EXPECT_EQ(pipe(fds), 0);
    const pid_t child = fork();
    if (child == 0) {
      StoreOptions options;
      options.flush_chunks = 1;
      options.log_segment_bytes = 20'000;
      options.checkpoint_bytes = 60'000;
      options.keep_log_bytes = 100'000'000;
      auto store = GraphStore::Open(dir.get(), options);
      if (!store.ok()) _exit(1);
      while (true) {
        auto tx = *(*store)->Begin();
        const auto next = static_cast<int64_t>((*store)->sequence() + 1);
        const NodeId node = *tx->CreateNode({}, {{*tx->AddKeyName("n"), Value::Int(next)}});
        for (int i = 0; i < 5; ++i) {
          tx->CreateEdge(node, node, *tx->AddTypeName("T"), {}).IgnoreError();
        }
        const char ok = tx->Commit().ok() ? 'y' : 'n';
        if (write(fds[1], &ok, 1) != 1) _exit(1);
      }
    }
    close(fds[1]);
    *out = fds[0];
    return child;
  };
  // Writes what it has seen to a pipe.
  const auto start_follower = [&](uint64_t after, int* out) {
    int fds[2];
    EXPECT_EQ(pipe(fds), 0);
    const pid_t child = fork();
    if (child == 0) {
      ChangeFeedOptions options;
      options.after = after;
      auto feed = ChangeFeed::Open(dir.get(), options);
      if (!feed.ok()) _exit(1);
      CommitChanges commit;
      while (true) {
        const auto more = (*feed)->Next(&commit);
        if (!more.ok()) _exit(2);
        if (!*more) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));  // sleep: it polls
          continue;
        }
        const bool fits = commit.changes.size() == 6 && commit.changes[1].type == "T" &&
                          commit.changes[0].properties[0].second.as_int() ==
                              static_cast<int64_t>(commit.sequence);
        const uint64_t number = fits ? commit.sequence : 0;
        if (write(fds[1], &number, sizeof(number)) != sizeof(number)) _exit(3);
      }
    }
    close(fds[1]);
    *out = fds[0];
    return child;
  };
  const auto end = [](pid_t child) {
    kill(child, SIGKILL);
    int status;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "it had ended with " << WEXITSTATUS(status);
  };
  ASSERT_TRUE(GraphStore::Open(dir.get()).ok());  // the directory
  uint64_t seen = 0, acknowledged = 0;
  for (int round = 0; round < 6; ++round) {
    int writer_out, follower_out;
    const pid_t writer = start_writer(&writer_out);
    pid_t follower = start_follower(seen, &follower_out);
    const uint64_t goal = seen + 50 + random() % 300;
    uint64_t number;
    while (seen < goal && read(follower_out, &number, sizeof(number)) == sizeof(number)) {
      ASSERT_EQ(number, seen + 1);
      seen = number;
      if (random() % 100 == 0) {
        end(follower);
        // What it had said before it was killed counts.
        while (read(follower_out, &number, sizeof(number)) == sizeof(number)) {
          ASSERT_EQ(number, seen + 1);
          seen = number;
        }
        close(follower_out);
        follower = start_follower(seen, &follower_out);
      }
    }
    EXPECT_GE(seen, goal) << "the follower has ended";
    end(writer);
    char answer;
    while (read(writer_out, &answer, 1) == 1) ++acknowledged;
    close(writer_out);
    end(follower);
    while (read(follower_out, &number, sizeof(number)) == sizeof(number)) {
      ASSERT_EQ(number, seen + 1);
      seen = number;
    }
    close(follower_out);
  }
  // Once more as a whole, with what was acknowledged last.
  StoreOptions kept;
  kept.keep_log_bytes = 100'000'000;  // the follower may have been behind
  { ASSERT_TRUE(GraphStore::Open(dir.get(), kept).ok()); }
  ChangeFeedOptions options;
  options.after = seen;
  const auto feed = *ChangeFeed::Open(dir.get(), options);
  CommitChanges commit;
  while (*feed->Next(&commit)) ASSERT_EQ(commit.sequence, ++seen);
  EXPECT_GE(seen, acknowledged);
  EXPECT_GT(acknowledged, 100u);
  std::filesystem::remove_all(dir.get());
}

}  // namespace
}  // namespace pulse::graph
