// What a connection owes its client of other clients' keys (CLIENT TRACKING REDIRECT), where the
// client does not take it, and where the connection turns out to be of another protocol; and what
// it is given at a time where room is short. By its flow alone: what is posted to its loop runs
// when the test says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "net/byte_budget.h"
#include "services/kv/memcached/flow.h"
#include "services/kv/test_executor.h"
#include "services/redis/host_flow.h"

namespace pulse::kv {
namespace {

constexpr char kInvalidateAll[] = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

class TestConnection final : public net::Connection {
 public:
  void Forward(net::Ticket, std::string_view, uint32_t) override { FAIL() << "there is no host"; }
  void Reply(net::Ticket, std::string_view bytes) override { sent += bytes; }
  void Reply(net::Ticket, net::Buffer bytes) override {
    sent += std::string_view(bytes.data(), bytes.size());
  }
  bool Push(std::string_view bytes) override {
    sent += bytes;
    if (counts_pushes) unsent_now += bytes.size();
    return true;
  }
  void Close(std::string_view) override { closed = true; }
  std::shared_ptr<net::Remote> remote() override { return loop_; }
  net::BufferPool* buffers() override { return nullptr; }
  size_t outstanding() const override { return 0; }
  size_t unsent() const override { return unsent_now; }
  std::shared_ptr<net::ByteBudget> budget() override { return room; }
  const std::string& peer() const override { return peer_; }

  void RunPosted() {
    for (const auto& work : std::exchange(loop_->posted, {})) work();
  }

  std::string sent;
  bool closed = false;
  size_t unsent_now = 0;
  bool counts_pushes = false;  // there
  static constexpr uint64_t kRoom = uint64_t{1} << 30, kSmall = 2048;
  const std::shared_ptr<net::ByteBudget> room = std::make_shared<net::ByteBudget>(kRoom, kSmall);

 private:
  struct Loop final : net::Remote {
    void Post(std::function<void()> work) override { posted.push_back(std::move(work)); }
    std::vector<std::function<void()>> posted;
  };
  const std::shared_ptr<Loop> loop_ = std::make_shared<Loop>();
  const std::string peer_ = "127.0.0.1:1";
};

class RedirectionTest : public testing::Test {
 protected:
  RedirectionTest()
      : memcached_(test_.store.get(), &counters_, memcached::ExecutorOptions()),
        application_({&test_.executor}, test_.store.get(), &test_.facts, nullptr, redis::Limits(),
                     false, nullptr, &other_) {
    other_.is_it = &memcached::LooksLikeMemcached;
    other_.make = [this](net::Connection* connection, WorkerPool* workers) {
      return std::make_unique<memcached::MemcachedFlow>(&memcached_, workers, nullptr, connection);
    };
    flow_ = application_.NewFlow(&connection_);
    id_ = test_.facts.clients.List().back().id;
  }
  // The reply.
  std::string Ask(const std::string& line) {
    connection_.sent.clear();
    const std::string bytes = line + "\r\n";
    const auto size = flow_->SplitRequest(bytes);
    EXPECT_TRUE(size.ok() && *size == bytes.size()) << size.status();
    flow_->OnRequest(++ticket_, bytes);
    flow_->OnRequestsEnd();
    return std::exchange(connection_.sent, "");
  }
  // A client that redirects to the connection; it is told itself where that has ended.
  std::shared_ptr<redis::Told> Tracker(uint64_t id) {
    redis::TrackingOptions options;
    options.redirect = id_;
    auto told = std::make_shared<redis::Told>(
        id, options, [this, target = id_](std::shared_ptr<redis::Told> changed) {
          if (!test_.facts.clients.Notify(target, changed)) gone_.push_back(changed->id());
        });
    EXPECT_TRUE(test_.facts.tracking.Start(told).ok());
    return told;
  }
  void Tell(const std::shared_ptr<redis::Told>& told, const std::string& key) {
    test_.facts.tracking.Tell(told, key);
  }

  TestExecutor test_;
  memcached::Counters counters_;
  memcached::Executor memcached_;
  redis::OtherProtocol other_;
  redis::HostApplication application_;
  TestConnection connection_;
  std::unique_ptr<net::Flow> flow_;
  uint64_t id_ = 0;
  net::Ticket ticket_ = 0;
  std::vector<uint64_t> gone_;  // the target, for these trackers
};

TEST_F(RedirectionTest, TargetTurnsOutToBeMemcacheds_WhatWasPostedToItDoesNothing) {
  const auto told = Tracker(1'000'001);
  Tell(told, "k");
  EXPECT_TRUE(test_.facts.clients.End(id_));
  EXPECT_EQ(Ask("version").substr(0, 8), "VERSION ");
  EXPECT_THAT(gone_, testing::ElementsAre(told->id()));
  connection_.RunPosted();
  EXPECT_EQ(connection_.sent, "");
  EXPECT_FALSE(connection_.closed);
  EXPECT_THAT(told->Take().keys, testing::ElementsAre("k"));
}

TEST_F(RedirectionTest, TargetTakesNothing_OwesLittleAndIsToldOfAllAtLast) {
  EXPECT_THAT(Ask("HELLO 3"), testing::StartsWith("%7"));
  connection_.unsent_now = size_t{10} << 20;
  const std::string key(100, 'k');
  std::vector<std::shared_ptr<redis::Told>> trackers;
  for (uint64_t id = 1'000'000; id < 1'000'050; ++id) {
    trackers.push_back(Tracker(id));
    for (int i = 0; i < 2000; ++i) {
      Tell(trackers.back(), key);
      connection_.RunPosted();
    }
    // Whether it goes or stays, the tracker keeps nothing for the target.
    ASSERT_THAT(trackers.back()->Take().keys, testing::IsEmpty());
    ASSERT_GT(flow_->held(), 2000u);
    ASSERT_LT(flow_->held(), size_t{2} << 20);
  }
  EXPECT_EQ(connection_.sent, "");
  EXPECT_TRUE(flow_->waits_for_room());
  connection_.unsent_now = 0;
  flow_->OnRoom();
  EXPECT_THAT(connection_.sent, testing::StartsWith(kInvalidateAll));
  EXPECT_LT(connection_.sent.size(), size_t{2} << 20);
  EXPECT_EQ(flow_->held(), 0u);
  EXPECT_FALSE(flow_->waits_for_room());
  connection_.sent.clear();
  Tell(trackers.back(), "again");
  connection_.RunPosted();
  EXPECT_EQ(connection_.sent, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$5\r\nagain\r\n");
}

TEST_F(RedirectionTest, TargetWaitsForThePauseToEnd_OwesLittleAndIsToldBehindItsReply) {
  EXPECT_THAT(Ask("HELLO 3"), testing::StartsWith("%7"));
  EXPECT_TRUE(test_.facts.pause.Begin(1'000'000, false).ok());
  EXPECT_EQ(Ask("SET k 1"), "");
  const std::string key(100, 'k');
  for (uint64_t id = 1'000'000; id < 1'000'020; ++id) {
    const auto told = Tracker(id);
    for (int i = 0; i < 2000; ++i) {
      Tell(told, key);
      connection_.RunPosted();
    }
  }
  EXPECT_LT(flow_->held(), size_t{2} << 20);
  test_.facts.pause.End();
  connection_.RunPosted();
  EXPECT_THAT(connection_.sent, testing::StartsWith(std::string("+OK\r\n") + kInvalidateAll));
}

// By CLIENT KILL, it is not listed any more, and lives for a moment.
TEST_F(RedirectionTest, TargetIsBeingEnded_TakesNothingThatTheTrackerIsToBeToldItself) {
  EXPECT_THAT(Ask("HELLO 3"), testing::StartsWith("%7"));
  const auto told = Tracker(1'000'001);
  Tell(told, "k");
  EXPECT_TRUE(test_.facts.clients.End(id_));
  told->Break();
  connection_.RunPosted();
  EXPECT_TRUE(connection_.closed);
  EXPECT_EQ(connection_.sent, "");
  EXPECT_THAT(told->Take().keys, testing::ElementsAre("k"));
}

TEST_F(RedirectionTest, TargetEndsWithoutHavingTaken_TrackersLearnThatItIsGone) {
  EXPECT_THAT(Ask("HELLO 3"), testing::StartsWith("%7"));
  connection_.unsent_now = size_t{10} << 20;
  const auto told = Tracker(1'000'001);
  const auto other = Tracker(1'000'002);
  for (int i = 0; i < 20'000; ++i) {
    Tell(i == 0 ? told : other, "a-key-that-is-rather-long-" + std::to_string(i));
    connection_.RunPosted();
  }
  EXPECT_THAT(gone_, testing::IsEmpty());
  flow_.reset();
  EXPECT_THAT(gone_, testing::ElementsAre(told->id(), other->id()));
}

// All that connections may hold is taken.
class ShortRoomTest : public RedirectionTest {
 protected:
  ShortRoomTest() { connection_.room->Take(TestConnection::kRoom); }
  // Requests that have arrived together, of a client that takes nothing of the replies until no
  // more are made.
  void ExpectFewAtATime(const std::string& line, const std::string& reply) {
    constexpr int kRequests = 300;
    const std::string bytes = line + "\r\n";
    std::string replies;
    for (int i = 0; i < kRequests; ++i) {
      ASSERT_TRUE(flow_->SplitRequest(bytes).ok());
      flow_->OnRequest(++ticket_, bytes);
      replies += reply;
    }
    flow_->OnRequestsEnd();
    std::string taken;
    while (taken.size() < replies.size()) {
      ASSERT_GT(connection_.sent.size(), 0u) << "after " << taken.size();
      ASSERT_LE(connection_.sent.size(), 2 * TestConnection::kSmall);
      connection_.unsent_now = connection_.sent.size();
      flow_->OnRoom();
      connection_.unsent_now = 1;
      flow_->OnRoom();
      ASSERT_LE(connection_.sent.size(), 2 * TestConnection::kSmall);
      taken += std::exchange(connection_.sent, "");
      connection_.unsent_now = 0;
      flow_->OnRoom();
    }
    EXPECT_EQ(taken, replies);
    EXPECT_EQ(flow_->held(), 0u);
  }
  // It is carried out once all before it has left.
  void ExpectToWait(const std::string& line, const std::string& reply) {
    connection_.unsent_now = 1;
    EXPECT_EQ(Ask(line), "");
    EXPECT_FALSE(flow_->lacks_room());
    flow_->OnRoom();
    EXPECT_EQ(connection_.sent, "");
    connection_.unsent_now = 0;
    flow_->OnRoom();
    EXPECT_EQ(connection_.sent, reply);
    // Where there is room, it does not wait.
    connection_.room->Give(TestConnection::kRoom);
    connection_.unsent_now = 1;
    EXPECT_EQ(Ask(line), reply);
  }
  const std::string value_ = std::string(1000, 'v');
};

TEST_F(ShortRoomTest, Pipeline_OfRedis_IsAnsweredAFewRepliesAtATime) {
  EXPECT_EQ(Ask("SET k " + value_), "+OK\r\n");
  const std::string reply = absl::StrCat("$1000\r\n", value_, "\r\n");
  for (const char* line : {"GET k", "GETRANGE k 0 -1"}) ExpectFewAtATime(line, reply);
}

TEST_F(ShortRoomTest, Pipeline_OfMemcached_IsAnsweredAFewRepliesAtATime) {
  EXPECT_EQ(Ask("set k 0 0 1000\r\n" + value_), "STORED\r\n");
  ExpectFewAtATime("get k", absl::StrCat("VALUE k 0 1000\r\n", value_, "\r\nEND\r\n"));
}

TEST_F(ShortRoomTest, NextRequest_WhileRepliesAreUnsent_WaitsUntilTheyHaveLeft) {
  EXPECT_EQ(Ask("SET k 1"), "+OK\r\n");
  ExpectToWait("GET k", "$1\r\n1\r\n");
}

TEST_F(ShortRoomTest, NextRequestOfMemcached_WhileRepliesAreUnsent_WaitsUntilTheyHaveLeft) {
  EXPECT_EQ(Ask("set k 0 0 1\r\n1"), "STORED\r\n");
  ExpectToWait("get k", "VALUE k 0 1\r\n1\r\nEND\r\n");
}

TEST_F(ShortRoomTest, ManyChanges_OfAClientThatTakesNothing_BecomeOneOfAll) {
  EXPECT_THAT(Ask("HELLO 3"), testing::StartsWith("%7"));
  connection_.unsent_now = TestConnection::kSmall + 1;
  const auto told = Tracker(1'000'001);
  for (int i = 0; i < 200; ++i) {
    Tell(told, "a-key-that-is-rather-long-" + std::to_string(i));
    connection_.RunPosted();
    ASSERT_LE(flow_->held(), TestConnection::kSmall);
  }
  EXPECT_EQ(connection_.sent, "");
  EXPECT_TRUE(flow_->waits_for_room());
  connection_.unsent_now = 0;
  flow_->OnRoom();
  EXPECT_THAT(connection_.sent, testing::StartsWith(kInvalidateAll));
  EXPECT_LT(connection_.sent.size(), TestConnection::kSmall);
  EXPECT_EQ(flow_->held(), 0u);
}

TEST_F(ShortRoomTest, ManyChangesAtOnce_AreSentAsOneOfAll) {
  EXPECT_THAT(Ask("HELLO 3"), testing::StartsWith("%7"));
  const auto told = Tracker(1'000'001);
  for (int i = 0; i < 200; ++i) Tell(told, "a-key-that-is-rather-long-" + std::to_string(i));
  connection_.RunPosted();
  EXPECT_EQ(connection_.sent, kInvalidateAll);
  connection_.sent.clear();
  Tell(told, "k");
  connection_.RunPosted();
  EXPECT_EQ(connection_.sent, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
}

// Replies that wait for what was pushed to leave have their turn, although more is pushed.
TEST_F(ShortRoomTest, Replies_OfAClientThatIsToldOfMuch_AreMade) {
  EXPECT_THAT(Ask("HELLO 3"), testing::StartsWith("%7"));
  const auto told = Tracker(1'000'001);
  connection_.unsent_now = TestConnection::kSmall + 1;
  connection_.counts_pushes = true;
  EXPECT_EQ(Ask("ECHO k"), "");
  Tell(told, "k");
  connection_.RunPosted();
  EXPECT_EQ(connection_.sent, "");
  connection_.unsent_now = 0;
  flow_->OnRoom();
  EXPECT_EQ(connection_.sent, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n$1\r\nk\r\n");
}

class PausedClientTest : public RedirectionTest {
 protected:
  // What it sends waits for the end of a pause.
  void SendWithinPause() {
    EXPECT_EQ(Ask("SET k 1"), "+OK\r\n");
    EXPECT_TRUE(test_.facts.pause.Begin(1'000'000, false).ok());
    EXPECT_EQ(Ask("INCR k"), "");
    EXPECT_EQ(Ask("INCR k"), "");  // collected behind it
  }
  void ExpectDropped() {
    EXPECT_TRUE(connection_.closed);
    EXPECT_EQ(flow_->held(), 0u);
    test_.facts.pause.End();
    connection_.RunPosted();
    EXPECT_EQ(connection_.sent, "");
    test_.batch.Add(1, "get k\r\n");
    EXPECT_EQ(test_.Run(), redis::Executor::Stop::kEnd);
    EXPECT_EQ(test_.batch.out, "$1\r\n1\r\n");
  }
};

TEST_F(PausedClientTest, ClientCloses_WhatItHadSentIsDropped) {
  SendWithinPause();
  flow_->OnClientEnd();
  ExpectDropped();
}

TEST_F(PausedClientTest, ClientIsKilled_WhatItHadSentIsDropped) {
  SendWithinPause();
  EXPECT_TRUE(test_.facts.clients.End(id_));
  connection_.RunPosted();
  ExpectDropped();
}

// Both are on their way to the loop.
TEST_F(PausedClientTest, PauseEndsAsTheClientCloses_WhatItHadSentIsDropped) {
  SendWithinPause();
  test_.facts.pause.End();
  flow_->OnClientEnd();
  ExpectDropped();
}

TEST_F(PausedClientTest, ClientHadClosedBefore_WhatItHadSentIsDropped) {
  EXPECT_EQ(Ask("SET k 1"), "+OK\r\n");
  flow_->OnClientEnd();
  EXPECT_FALSE(connection_.closed);
  EXPECT_TRUE(test_.facts.pause.Begin(1'000'000, false).ok());
  EXPECT_EQ(Ask("INCR k"), "");
  ExpectDropped();
}

}  // namespace
}  // namespace pulse::kv
