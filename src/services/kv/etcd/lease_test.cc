#include "services/kv/etcd/lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace pulse::kv {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An etcd that answers as it is told, and else as etcd does.
struct FakeEtcd {
  absl::StatusOr<std::string> Post(std::string_view path, const std::string& body) {
    paths.emplace_back(path.substr(path.rfind('/') + 1));
    bodies.push_back(body);
    if (!replies.empty()) {
      auto reply = replies.front();
      replies.pop_front();
      return reply;
    }
    if (path == "/v3/lease/grant") {
      return absl::StrCat(R"({"header":{},"ID":")", ++last_lease, R"(","TTL":"6"})");
    }
    if (path == "/v3/kv/txn") return R"({"header":{},"succeeded":true,"responses":[]})";
    if (path == "/v3/lease/keepalive") {
      return absl::StrCat(R"({"result":{"header":{},"ID":")", last_lease, R"(","TTL":"6"}})");
    }
    return R"({"header":{}})";
  }
  // What was asked since the last call.
  std::vector<std::string> TakePaths() { return std::exchange(paths, {}); }

  std::deque<absl::StatusOr<std::string>> replies;
  std::vector<std::string> paths;
  std::vector<std::string> bodies;
  int last_lease = 100;
};

class EtcdLeaseTest : public testing::Test {
 protected:
  FakeEtcd etcd_;
  EtcdLease lease_{
      "etcd",
      {{"/p/1", "one"}, {"/p/2", "two"}},
      5,
      [this](std::string_view path, const std::string& body) { return etcd_.Post(path, body); }};
};

TEST_F(EtcdLeaseTest, Steps_EtcdAnswers_RegisterAndKeepAlive) {
  EXPECT_EQ(lease_.Step(), 2000);  // a third of what etcd has granted
  EXPECT_TRUE(lease_.registered());
  EXPECT_THAT(etcd_.TakePaths(), ElementsAre("grant", "txn"));
  EXPECT_EQ(etcd_.bodies[0], R"({"TTL":5})");
  const auto puts = nlohmann::json::parse(etcd_.bodies[1])["success"];
  ASSERT_EQ(puts.size(), 2u);
  EXPECT_EQ(puts[1]["requestPut"]["key"], absl::Base64Escape("/p/2"));
  EXPECT_EQ(puts[1]["requestPut"]["value"], absl::Base64Escape("two"));
  EXPECT_EQ(puts[1]["requestPut"]["lease"], "101");
  EXPECT_EQ(lease_.Step(), 2000);
  EXPECT_THAT(etcd_.TakePaths(), ElementsAre("keepalive"));
  EXPECT_EQ(etcd_.bodies.back(), R"({"ID":"101"})");
  EXPECT_TRUE(lease_.Revoke().ok());
  EXPECT_THAT(etcd_.TakePaths(), ElementsAre("revoke"));
  EXPECT_EQ(etcd_.bodies.back(), R"({"ID":"101"})");
  EXPECT_TRUE(lease_.Revoke().ok());
  EXPECT_THAT(etcd_.TakePaths(), ElementsAre());
}

TEST_F(EtcdLeaseTest, Step_EtcdAway_BacksOffAndSaysSoOnce) {
  testing::internal::CaptureStderr();
  std::vector<int64_t> waits;
  for (int i = 0; i < 9; ++i) {
    etcd_.replies.push_back(absl::UnavailableError("nobody listens"));
    waits.push_back(lease_.Step());
  }
  EXPECT_THAT(waits, ElementsAre(100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000));
  EXPECT_FALSE(lease_.registered());
  EXPECT_EQ(lease_.Step(), 2000);
  EXPECT_EQ(lease_.Step(), 2000);
  etcd_.replies.push_back(absl::UnavailableError("gone again"));
  EXPECT_EQ(lease_.Step(), 100);
  std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, AllOf(HasSubstr("cannot keep 2 endpoints registered: nobody listens"),
                         HasSubstr(": 2 endpoints registered\n"), HasSubstr("gone again")));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 3) << log;
  EXPECT_TRUE(lease_.Revoke().ok());
}

TEST_F(EtcdLeaseTest, Step_LeaseIsAliveAfterALoss_IsKept) {
  lease_.Step();
  etcd_.replies.push_back(absl::UnavailableError("for a moment"));
  lease_.Step();
  EXPECT_FALSE(lease_.registered());
  etcd_.TakePaths();
  lease_.Step();
  EXPECT_TRUE(lease_.registered());
  EXPECT_THAT(etcd_.TakePaths(), ElementsAre("keepalive"));
}

TEST_F(EtcdLeaseTest, Step_LeaseHasEnded_RegistersAnew) {
  lease_.Step();
  etcd_.TakePaths();
  etcd_.replies.push_back(R"({"result":{"header":{},"ID":"101"}})");  // no TTL
  EXPECT_EQ(lease_.Step(), 2000);
  EXPECT_TRUE(lease_.registered());
  EXPECT_THAT(etcd_.TakePaths(), ElementsAre("keepalive", "grant", "txn"));
  EXPECT_THAT(etcd_.bodies.back(), HasSubstr(R"("lease":"102")"));
  // Or etcd says so with an error.
  etcd_.replies.push_back(absl::FailedPreconditionError("status 404: lease not found"));
  EXPECT_EQ(lease_.Step(), 100);
  etcd_.TakePaths();
  EXPECT_EQ(lease_.Step(), 2000);
  EXPECT_THAT(etcd_.TakePaths(), ElementsAre("grant", "txn"));
}

TEST_F(EtcdLeaseTest, Step_KeysWereDeleted_PutsThemAgain) {
  lease_.Step();
  testing::internal::CaptureStderr();
  const auto look = [&] {
    etcd_.TakePaths();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(lease_.Step(), 2000);
    EXPECT_THAT(etcd_.TakePaths(), ElementsAre("keepalive", "keepalive", "keepalive", "txn"));
  };
  look();
  const auto request = nlohmann::json::parse(etcd_.bodies.back());
  ASSERT_EQ(request["compare"].size(), 2u);
  EXPECT_EQ(request["compare"][1], nlohmann::json({{"key", absl::Base64Escape("/p/2")},
                                                   {"target", "CREATE"},
                                                   {"result", "GREATER"},
                                                   {"createRevision", "0"}}));
  EXPECT_EQ(request["success"].size(), 0u);
  EXPECT_EQ(request["failure"], nlohmann::json::parse(etcd_.bodies[1])["success"]);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  // As etcd says that they were not all there.
  testing::internal::CaptureStderr();
  const char* const alive = R"({"result":{"header":{},"ID":"101","TTL":"6"}})";
  etcd_.replies = {alive, alive, alive,
                   R"({"header":{},"responses":[{"response_put":{}},{"response_put":{}}]})"};
  look();
  EXPECT_TRUE(lease_.registered());
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("endpoints had been deleted, and are registered again"));
  // What is no such reply has to be another server's.
  etcd_.replies = {alive, alive, alive, R"({"header":{},"responses":2})"};
  lease_.Step();
  lease_.Step();
  EXPECT_EQ(lease_.Step(), EtcdLease::kFirstBackOffMs);
  EXPECT_FALSE(lease_.registered());
}

TEST_F(EtcdLeaseTest, Step_RepliesOfSomethingElse_AreErrors) {
  const char* const garbage[] = {"",
                                 "<html>",
                                 "[]",
                                 "{}",
                                 "null",
                                 R"({"ID":7,"TTL":5})",
                                 R"({"ID":"x","TTL":"5"})",
                                 R"({"ID":"7","TTL":"-1"})",
                                 R"({"ID":"99999999999999999999","TTL":"5"})",
                                 R"({"ID":"7"})",
                                 R"({"result":7,"succeeded":"true"})",
                                 R"({"result":{"ID":{}},"succeeded":false})",
                                 "{\"ID\":\"\xff\"}"};
  for (int failing = 0; failing < 3; ++failing) {
    for (const char* bytes : garbage) {
      FakeEtcd etcd;
      EtcdLease lease("etcd", {{"k", "v"}}, 5, [&](std::string_view path, const std::string& body) {
        // At granting, putting, keeping alive.
        if (static_cast<int>(etcd.paths.size()) == failing) etcd.replies.push_back(bytes);
        return etcd.Post(path, body);
      });
      if (failing == 2) lease.Step();
      EXPECT_EQ(lease.Step(), EtcdLease::kFirstBackOffMs) << failing << " " << bytes;
      EXPECT_FALSE(lease.registered());
      EXPECT_EQ(lease.Step(), 2000);
      EXPECT_TRUE(lease.registered());
    }
  }
}

TEST_F(EtcdLeaseTest, Revoke_AfterCancelledPut_TakesTheLeaseAway) {
  etcd_.replies = {R"({"ID":"7","TTL":"5"})", absl::CancelledError("stopping")};
  EXPECT_EQ(lease_.Step(), 0);
  EXPECT_TRUE(lease_.Revoke().ok());
  EXPECT_EQ(etcd_.bodies.back(), R"({"ID":"7"})");
}

}  // namespace
}  // namespace pulse::kv
