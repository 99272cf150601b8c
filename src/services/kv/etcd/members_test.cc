#include "services/kv/etcd/members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "nlohmann/json.hpp"
#include "services/kv/etcd/test_http_server.h"

namespace pulse::kv {
namespace {

using redis::Cluster;
using redis::NodeIdOf;
using State = Cluster::State;
using testing_util::Eventually;

std::string Value(const std::string& host, int port, int first, int last) {
  return nlohmann::json({{"host", host},
                         {"port", port},
                         {"first_slot", first},
                         {"last_slot", last},
                         {"cluster", true}})
      .dump();
}

// This process has the first third of the slots, on one node, a:1.
class MembersTest : public testing::Test {
 protected:
  MembersTest() { cluster_.Listen({1}); }
  Cluster::Members Told(const std::vector<EtcdValue>& values) {
    cluster_.SetMembers(MembersOf(cluster_, NodesIn(values), *cluster_.members()));
    return *cluster_.members();
  }
  // "host:port first-last state" of each.
  static std::string TextOf(const Cluster::Members& members) {
    std::string text;
    for (const Cluster::Member& m : members) {
      constexpr const char* kStates[] = {"serves", "failed", "superseded"};
      absl::StrAppend(&text, m.host, ":", m.port, " ", m.first_slot, "-", m.last_slot, " ",
                      kStates[static_cast<int>(m.state)], "\n");
    }
    return text;
  }
  Cluster cluster_{true, 1, "a", redis::SlotRange{0, 5461}};
  const std::string own_ = Value("a", 1, 0, 5461);
};

TEST_F(MembersTest, Nodes_ThatComeGoAndReturn_ServeFailAndServe) {
  EXPECT_EQ(TextOf(Told({})), "a:1 0-5461 serves\n");
  const EtcdValue b{Value("b", 2, 5462, 10922), 8};
  const EtcdValue c{Value("c", 3, 10923, 16383), 9};
  EXPECT_EQ(TextOf(Told({c, {own_, 7}, b})),
            "a:1 0-5461 serves\nb:2 5462-10922 serves\nc:3 10923-16383 serves\n");
  EXPECT_EQ(cluster_.OwnerOf(6000), "b:2");
  const std::string without_b =
      "a:1 0-5461 serves\nb:2 5462-10922 failed\nc:3 10923-16383 serves\n";
  EXPECT_EQ(TextOf(Told({{own_, 7}, c})), without_b);
  EXPECT_EQ(TextOf(Told({{own_, 7}, c})), without_b);
  EXPECT_EQ(cluster_.OwnerOf(6000), "");
  // It comes back; then another process takes its place.
  EXPECT_EQ(TextOf(Told({{own_, 7}, c, {b.text, 20}})),
            "a:1 0-5461 serves\nb:2 5462-10922 serves\nc:3 10923-16383 serves\n");
  Told({{own_, 7}, c});
  EXPECT_EQ(TextOf(Told({{own_, 7}, c, {Value("d", 4, 5462, 10922), 30}})),
            "a:1 0-5461 serves\nd:4 5462-10922 serves\nc:3 10923-16383 serves\n");
}

TEST_F(MembersTest, NodesWithSlotsInCommon_TheOlderHasThemUntilItGoes) {
  const EtcdValue older{Value("x", 2, 0, 5461), 5};
  EXPECT_EQ(TextOf(Told({{own_, 7}, older})), "x:2 0-5461 serves\na:1 0-5461 superseded\n");
  EXPECT_FALSE(cluster_.Serves(0, 0));
  EXPECT_EQ(cluster_.OwnerOf(0), "x:2");
  // Not registered at all, it is the youngest.
  EXPECT_EQ(TextOf(Told({older})), "x:2 0-5461 serves\na:1 0-5461 superseded\n");
  EXPECT_EQ(TextOf(Told({{own_, 7}})), "a:1 0-5461 serves\n");
  EXPECT_TRUE(cluster_.Serves(0, 0));
  const EtcdValue younger{Value("x", 2, 5000, 6000), 9};
  EXPECT_EQ(TextOf(Told({{own_, 7}, younger})), "a:1 0-5461 serves\nx:2 5000-6000 superseded\n");
}

TEST_F(MembersTest, ValuesWithoutSense_AreNoMembers) {
  const auto with = [](const char* name, const nlohmann::json& value) {
    nlohmann::json object = nlohmann::json::parse(Value("b", 2, 6000, 7000));
    object[name] = value;
    return object.dump();
  };
  std::vector<EtcdValue> values;
  for (const std::string& text : {std::string(),
                                  std::string("[]"),
                                  std::string("{"),
                                  std::string("{}"),
                                  with("cluster", false),
                                  with("cluster", 1),
                                  with("host", ""),
                                  with("host", 5),
                                  with("host", "a b"),
                                  with("host", "a\nb"),
                                  with("host", std::string(300, 'a')),
                                  with("port", 0),
                                  with("port", 65536),
                                  with("port", -1),
                                  with("port", "1"),
                                  with("port", 1e300),
                                  with("first_slot", 16384),
                                  with("first_slot", 7001),
                                  with("last_slot", -1),
                                  with("last_slot", 16384),
                                  with("last_slot", nullptr)}) {
    values.push_back({text, 1});
  }
  values.push_back({Value("b", 2, 6000, 7000), 0});  // of no age
  EXPECT_TRUE(NodesIn(values).empty());
  // Nobody goes under another one's name.
  ASSERT_EQ(NodesIn({{with("id", "x"), 1}}).size(), 1u);
  EXPECT_EQ(NodesIn({{with("id", "x"), 1}})[0].node.id, NodeIdOf("b", 2));
}

TEST_F(MembersTest, RandomRegistrations_NeverGiveASlotToTwo) {
  std::mt19937_64 random(testing_util::TestSeed());
  const auto below = [&](int count) {
    return static_cast<int>(random() % static_cast<uint64_t>(count));
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<EtcdValue> values;
    for (int i = below(12); i > 0; --i) {
      const int first = below(redis::kSlots);
      const int last = first + below(redis::kSlots - first);
      values.push_back({Value("h", 1 + below(8), first, last), 1 + below(20)});
    }
    if (below(2) == 0) values.push_back({own_, 1 + below(20)});
    const Cluster::Members members = Told(values);
    std::vector<int> owners(redis::kSlots);
    for (const Cluster::Member& m : members) {
      if (m.state == State::kSuperseded) continue;
      for (int slot = m.first_slot; slot <= m.last_slot; ++slot) {
        ASSERT_LE(++owners[static_cast<size_t>(slot)], 1) << TextOf(members);
      }
    }
  }
}

TEST_F(MembersTest, BeforeEtcdIsHeardOf_NoSlotIsServed) {
  for (const bool away : {false, true}) {
    Cluster cluster(true, 1, "a", redis::SlotRange{0, 5461});
    cluster.WaitForMembers();
    cluster.Listen({1});
    EXPECT_FALSE(cluster.Serves(0, 0));
    EXPECT_EQ(cluster.OwnerOf(0), "");
    std::promise<void> go;
    TestHttpServer etcd(
        [&, gone = go.get_future().share()](const std::string&, const std::string&) -> std::string {
          gone.wait();
          if (away) return TestHttpServer::Reply(500, "no");
          auto kvs = nlohmann::json::array();
          kvs.push_back({{"value", absl::Base64Escape(Value("spare", 2, 0, 5461))},
                         {"create_revision", "7"}});
          return TestHttpServer::Reply(200, nlohmann::json({{"kvs", kvs}}).dump());
        });
    auto members = EtcdMembers::Open(etcd.url(), "/test", &cluster);
    ASSERT_TRUE(members.ok()) << members.status();
    EXPECT_FALSE(cluster.Serves(0, 0));
    go.set_value();
    EXPECT_TRUE(Eventually([&] { return !cluster.OwnerOf(0).empty(); }));
    EXPECT_EQ(cluster.OwnerOf(0), away ? "a:1" : "spare:2");
    EXPECT_EQ(cluster.Serves(0, 0), away);
  }
}

TEST_F(MembersTest, Etcd_ThatGoesAndComes_ChangesMembersOnlyByWhatItSays) {
  std::mutex mutex;
  bool away = false;
  std::string answers;  // while it is away; empty: an error
  std::vector<std::pair<std::string, int>> keys = {{own_, 1}, {Value("b", 2, 5462, 16383), 2}};
  int asked = 0;
  TestHttpServer etcd([&](const std::string& path, const std::string& body) -> std::string {
    const std::lock_guard<std::mutex> lock(mutex);
    ++asked;
    std::string key;
    absl::Base64Unescape(nlohmann::json::parse(body)["key"].get<std::string>(), &key);
    EXPECT_EQ(path + " " + key, "/v3/kv/range /test/");
    if (away && !answers.empty()) return TestHttpServer::Reply(200, answers);
    if (away) return TestHttpServer::Reply(500, "no");
    auto kvs = nlohmann::json::array();
    for (const auto& [value, revision] : keys) {
      kvs.push_back(
          {{"value", absl::Base64Escape(value)}, {"create_revision", std::to_string(revision)}});
    }
    return TestHttpServer::Reply(200, nlohmann::json({{"kvs", kvs}}).dump());
  });
  auto members = EtcdMembers::Open(etcd.url(), "/test", &cluster_);
  ASSERT_TRUE(members.ok()) << members.status();
  EXPECT_TRUE(Eventually([&] { return cluster_.OwnerOf(6000) == "b:2"; }));
  const auto set = [&](bool is_away) {
    const std::lock_guard<std::mutex> lock(mutex);
    away = is_away;
    return asked;
  };
  // Nor by what is no answer of etcd's.
  for (const char* answer : {"", "{}", R"({"error":"no leader","code":14})", R"({"kvs":null})"}) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      answers = answer;
    }
    const int before = set(true);
    EXPECT_TRUE(Eventually([&] {
      const std::lock_guard<std::mutex> lock(mutex);
      return asked >= before + 2;
    }));
    EXPECT_EQ(cluster_.OwnerOf(6000), "b:2") << answer;
  }
  {
    const std::lock_guard<std::mutex> lock(mutex);
    keys.pop_back();
  }
  set(false);
  EXPECT_TRUE(Eventually([&] { return cluster_.OwnerOf(6000).empty(); }));
  EXPECT_TRUE(cluster_.Serves(0, 0));
}

}  // namespace
}  // namespace pulse::kv
