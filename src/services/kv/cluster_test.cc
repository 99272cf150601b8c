// Cluster mode of the in-memory store, by its sockets: a port, a partition and a range of slots for
// each node.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/kv/test_server.h"
#include "services/redis/commands/command_suite.h"

namespace pulse::kv {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kCrossSlot[] = "-CROSSSLOT Keys in request don't hash to the same slot\r\n";

class KvClusterTest : public KvServerTest {
 protected:
  void OpenCluster(int nodes) {
    cluster_ = std::make_unique<redis::Cluster>(true, nodes, "127.0.0.1");
    Open(nodes);
    for (const auto& node : cluster_->nodes()) clients_.emplace_back(node.port);
  }
  int NodeOf(std::string_view key) const { return cluster_->NodeOf(redis::SlotOf(key)); }
  // The `n`th key of a node.
  std::string KeyOf(int node, int n = 0) const {
    for (int i = 0;; ++i) {
      const std::string key = absl::StrCat("key", i);
      if (NodeOf(key) == node && n-- == 0) return key;
    }
  }
  std::string Ask(int node, const std::string& line) {
    return clients_[static_cast<size_t>(node)].Ask(line);
  }
  // The replies to commands, one after the other.
  std::string AskAll(int node, const std::vector<std::string>& lines) {
    std::string replies;
    for (const std::string& line : lines) replies += Ask(node, line);
    return replies;
  }
  std::string Moved(std::string_view key) const {
    return absl::StrCat("-MOVED ", redis::SlotOf(key), " ", cluster_->AddressOf(NodeOf(key)),
                        "\r\n");
  }

  std::vector<redis::BlockingClient> clients_;  // of each node
};

TEST_F(KvClusterTest, Command_OnKeyOfAnotherNode_IsRedirected) {
  OpenCluster(3);
  for (int i = 0; i < 300; ++i) {
    const std::string key = absl::StrCat("k", i);
    for (int node = 0; node < 3; ++node) {
      const bool mine = NodeOf(key) == node;
      EXPECT_EQ(Ask(node, absl::StrCat("SET ", key, " v", i)), mine ? "+OK\r\n" : Moved(key));
    }
    EXPECT_EQ(Ask(NodeOf(key), "STRLEN " + key),
              absl::StrCat(":", absl::StrCat("v", i).size(), "\r\n"));
  }
  const std::string key = KeyOf(1);
  for (const std::string& line : {"GET " + key, "INCR " + key, "TTL " + key, "DEL " + key,
                                  "WATCH " + key, "OBJECT FREQ " + key, "MEMORY USAGE " + key,
                                  absl::StrCat("BITOP NOT {", key, "}1 ", key)}) {
    EXPECT_EQ(Ask(0, line), Moved(key)) << line;
    EXPECT_THAT(Ask(1, line), testing::Not(StartsWith("-MOVED "))) << line;
  }
  EXPECT_EQ(Ask(0, "PING"), "+PONG\r\n");
}

TEST_F(KvClusterTest, Pipeline_WithKeysOfAllNodes_IsAnsweredInOrder) {
  OpenCluster(2);
  std::string requests;
  std::vector<std::string> expected;
  for (int i = 0; i < 200; ++i) {
    const std::string key = absl::StrCat("k", i / 2);
    const bool mine = NodeOf(key) == 0;
    requests += i % 2 == 0 ? absl::StrCat("SET ", key, " ", i / 2, "\r\n")
                           : absl::StrCat("GET ", key, "\r\n");
    const std::string value = std::to_string(i / 2);
    expected.push_back(!mine        ? Moved(key)
                       : i % 2 == 0 ? "+OK\r\n"
                                    : absl::StrCat("$", value.size(), "\r\n", value, "\r\n"));
  }
  // GETs, and SETs, one after the other, which are carried out together.
  for (int i = 0; i < 200; ++i) {
    const std::string key = absl::StrCat("k", i % 100);
    const std::string value = std::to_string(i % 100);
    requests +=
        i < 100 ? absl::StrCat("GET ", key, "\r\n") : absl::StrCat("SET ", key, " ", value, "\r\n");
    expected.push_back(NodeOf(key) != 0 ? Moved(key)
                       : i < 100        ? absl::StrCat("$", value.size(), "\r\n", value, "\r\n")
                                        : "+OK\r\n");
  }
  clients_[0].Send(requests);
  for (const std::string& reply : expected) ASSERT_EQ(clients_[0].Receive(), reply);
}

TEST_F(KvClusterTest, Command_OnKeysOfSeveralSlots_IsRefused) {
  OpenCluster(2);
  const std::string a = KeyOf(0, 0);
  const std::string b = KeyOf(0, 1);  // of the same node
  EXPECT_EQ(Ask(0, absl::StrCat("MSET ", a, " 1 ", b, " 2")), kCrossSlot);
  EXPECT_EQ(Ask(0, absl::StrCat("MGET ", a, " ", KeyOf(1))), kCrossSlot);
  EXPECT_EQ(Ask(0, absl::StrCat("MGET ", a, " ", a)), "*2\r\n$-1\r\n$-1\r\n");
  EXPECT_EQ(Ask(0, absl::StrCat("MSET {", a, "}1 x {", a, "}2 y")), "+OK\r\n");
  EXPECT_EQ(Ask(0, absl::StrCat("DEL {", a, "}1 {", a, "}2")), ":2\r\n");
  EXPECT_EQ(Ask(1, absl::StrCat("RENAME {", a, "}1 {", a, "}2")), Moved(a));
}

TEST_F(KvClusterTest, Transaction_OfOneSlot_IsCarriedOutAndAnyOtherRefused) {
  OpenCluster(2);
  const std::string a = KeyOf(0, 0);
  const std::string b = KeyOf(0, 1);
  const auto exec = [&](const std::string& first, const std::string& second) {
    return AskAll(0, {"MULTI", "INCR " + first, "INCR " + second, "EXEC"});
  };
  EXPECT_EQ(exec(a, a), "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:2\r\n");
  EXPECT_EQ(exec(a, b), absl::StrCat("+OK\r\n+QUEUED\r\n+QUEUED\r\n", kCrossSlot));
  EXPECT_EQ(exec(a, KeyOf(1)),
            absl::StrCat("+OK\r\n+QUEUED\r\n", Moved(KeyOf(1)),
                         "-EXECABORT Transaction discarded because of previous errors.\r\n"));
  EXPECT_EQ(Ask(0, "EXEC"), "-ERR EXEC without MULTI\r\n");
  EXPECT_EQ(Ask(0, "GET " + a), "$1\r\n2\r\n");
  // FLUSHALL of the other node changes no key of this one, that of this node does.
  for (const int flushed : {1, 0}) {
    ASSERT_EQ(Ask(0, "WATCH " + a), "+OK\r\n");
    ASSERT_EQ(
        redis::BlockingClient(cluster_->nodes()[static_cast<size_t>(flushed)].port).Ask("FLUSHALL"),
        "+OK\r\n");
    EXPECT_EQ(AskAll(0, {"MULTI", "DBSIZE", "EXEC"}),
              absl::StrCat("+OK\r\n+QUEUED\r\n", flushed == 1 ? "*1\r\n:1\r\n" : "*-1\r\n"));
  }
}

TEST_F(KvClusterTest, CommandsOnAllKeys_AreOfTheNodesOwn) {
  OpenCluster(3);
  std::vector<int> counts(3);
  for (int i = 0; i < 1000; ++i) {
    const std::string key = absl::StrCat("k", i);
    ++counts[static_cast<size_t>(NodeOf(key))];
    ASSERT_EQ(Ask(NodeOf(key), "SET " + key + " 1"), "+OK\r\n");
  }
  for (int node = 0; node < 3; ++node) {
    const int count = counts[static_cast<size_t>(node)];
    EXPECT_EQ(Ask(node, "DBSIZE"), absl::StrCat(":", count, "\r\n"));
    EXPECT_THAT(Ask(node, "KEYS *"), StartsWith(absl::StrCat("*", count, "\r\n")));
    EXPECT_THAT(Ask(node, "INFO keyspace"), HasSubstr(absl::StrCat("keys=", count, ",")));
    for (int i = 0; i < 20; ++i) {
      const std::string key = redis::PlainReply(Ask(node, "RANDOMKEY"));
      EXPECT_EQ(NodeOf(key.substr(key.find(' ') + 1)), node) << key;
    }
    int met = 0;
    std::string cursor = "0";
    do {
      const std::string reply = redis::PlainReply(Ask(node, "SCAN " + cursor + " COUNT 20"));
      // *2 $n cursor *m $k key ...
      cursor = reply.substr(reply.find(' ', 3) + 1);
      cursor = cursor.substr(0, cursor.find(' '));
      met += static_cast<int>(std::count(reply.begin(), reply.end(), 'k'));
    } while (cursor != "0");
    EXPECT_EQ(met, count);
  }
  EXPECT_EQ(Ask(1, "FLUSHALL"), "+OK\r\n");
  EXPECT_EQ(Ask(0, "DBSIZE"), absl::StrCat(":", counts[0], "\r\n"));
  EXPECT_EQ(Ask(1, "DBSIZE"), ":0\r\n");
}

TEST_F(KvClusterTest, KeysInSlot_OfOwnAndOtherSlots_AreCountedAndListed) {
  OpenCluster(2);
  const std::string tag = KeyOf(1);
  const std::string slot = std::to_string(redis::SlotOf(tag));
  for (int i = 0; i < 5; ++i) Ask(1, absl::StrCat("SET {", tag, "}", i, " 1"));
  for (int i = 0; i < 50; ++i) Ask(1, absl::StrCat("SET ", KeyOf(1, i + 1), " 1"));
  EXPECT_EQ(Ask(1, "CLUSTER COUNTKEYSINSLOT " + slot), ":5\r\n");
  EXPECT_EQ(Ask(0, "CLUSTER COUNTKEYSINSLOT " + slot), ":0\r\n");
  EXPECT_THAT(Ask(1, "CLUSTER GETKEYSINSLOT " + slot + " 10"),
              AllOf(StartsWith("*5\r\n"), HasSubstr("{" + tag + "}4")));
  EXPECT_THAT(Ask(1, "CLUSTER GETKEYSINSLOT " + slot + " 2"), StartsWith("*2\r\n"));
  EXPECT_EQ(Ask(1, "CLUSTER GETKEYSINSLOT " + slot + " 0"), "*0\r\n");
  EXPECT_EQ(Ask(1, "CLUSTER GETKEYSINSLOT " + slot + " -1"),
            "-ERR Invalid slot or number of keys\r\n");
  EXPECT_EQ(Ask(1, "CLUSTER COUNTKEYSINSLOT 16384"), "-ERR Invalid slot\r\n");
  EXPECT_EQ(Ask(1, "CLUSTER COUNTKEYSINSLOT x"),
            "-ERR value is not an integer or out of range\r\n");
  EXPECT_EQ(AskAll(1, {"MULTI", "CLUSTER COUNTKEYSINSLOT " + slot, "EXEC"}),
            "+OK\r\n+QUEUED\r\n*1\r\n:5\r\n");
}

TEST_F(KvClusterTest, Topology_FromEachNode_IsTheSame) {
  OpenCluster(2);
  const auto& nodes = cluster_->nodes();
  const auto node = [&](size_t i) {
    return absl::StrCat("*4 $9 127.0.0.1 :", nodes[i].port, " $40 ", nodes[i].id, " *0");
  };
  const std::string slots = absl::StrCat("*2 *3 :0 :8191 ", node(0), " *3 :8192 :16383 ", node(1));
  EXPECT_EQ(redis::PlainReply(Ask(0, "CLUSTER SLOTS")), slots);
  EXPECT_EQ(redis::PlainReply(Ask(1, "CLUSTER SLOTS")), slots);
  for (size_t i = 0; i < 2; ++i) {
    const int n = static_cast<int>(i);
    EXPECT_EQ(redis::PlainReply(Ask(n, "CLUSTER MYID")), "$40 " + nodes[i].id);
    EXPECT_THAT(Ask(n, "CLUSTER NODES"),
                AllOf(HasSubstr(absl::StrCat(nodes[i].id, " 127.0.0.1:", nodes[i].port,
                                             "@0 myself,master - 0 0 ", i + 1, " connected ")),
                      HasSubstr(absl::StrCat(nodes[1 - i].id, " 127.0.0.1:", nodes[1 - i].port,
                                             "@0 master - 0 0 ", 2 - i, " connected "))));
    EXPECT_THAT(Ask(n, "INFO server"),
                AllOf(HasSubstr("redis_mode:cluster\r\n"),
                      HasSubstr(absl::StrCat("tcp_port:", nodes[i].port, "\r\n"))));
    EXPECT_THAT(Ask(n, "CONFIG GET port"), HasSubstr(std::to_string(nodes[i].port)));
  }
  EXPECT_NE(nodes[0].port, nodes[1].port);
  EXPECT_EQ(Ask(0, "CLUSTER KEYSLOT foo"), ":12182\r\n");
  EXPECT_THAT(Ask(0, "CLUSTER INFO"), HasSubstr("cluster_size:2\r\n"));
  EXPECT_EQ(Ask(0, "CLUSTER LINKS"), "*0\r\n");
  EXPECT_EQ(Ask(0, "CLUSTER REPLICAS " + nodes[1].id), "*0\r\n");
  EXPECT_EQ(Ask(0, "CLUSTER REPLICAS x"), "-ERR Unknown node x\r\n");
  EXPECT_THAT(Ask(0, "CLUSTER MEET 127.0.0.1 1"), HasSubstr("--threads"));
  EXPECT_THAT(Ask(0, "CLUSTER NOSUCH"), HasSubstr("unknown subcommand 'NOSUCH'"));
  EXPECT_EQ(Ask(0, "CLUSTER MYID x"),
            "-ERR wrong number of arguments for 'cluster|myid' command\r\n");
  for (const char* command : {"READONLY", "READWRITE", "ASKING", "SELECT 0"}) {
    EXPECT_EQ(Ask(0, command), "+OK\r\n") << command;
  }
  EXPECT_EQ(Ask(0, "SELECT 1"), "-ERR SELECT is not allowed in cluster mode\r\n");
  EXPECT_THAT(Ask(0, "HELLO 3"), HasSubstr("$4\r\nmode\r\n$7\r\ncluster\r\n"));
  EXPECT_THAT(Ask(0, "CLUSTER SHARDS"),
              StartsWith("*2\r\n%2\r\n$5\r\nslots\r\n*2\r\n:0\r\n:8191\r\n"
                         "$5\r\nnodes\r\n*1\r\n%7\r\n$2\r\nid\r\n"));
  EXPECT_THAT(Ask(0, "CLUSTER NODES"), StartsWith("="));
}

TEST_F(KvClusterTest, Designs_WithThreadsOfTheHost_KeepEachNodesKeys) {
  OpenCluster(2);
  for (const char* design : {"lat", "sav", "dual", "dpu", "shrd", "cpu"}) {
    ASSERT_EQ(Ask(1, absl::StrCat("CONFIG SET design ", design)), "+OK\r\n");
    for (int i = 0; i < 50; ++i) {
      const std::string key = KeyOf(i % 2, i);
      EXPECT_EQ(Ask(i % 2, absl::StrCat("SET ", key, " ", design)), "+OK\r\n");
      EXPECT_EQ(Ask(1 - i % 2, "GET " + key), Moved(key));
      EXPECT_THAT(Ask(i % 2, "GET " + key), HasSubstr(design));
    }
    EXPECT_EQ(Ask(0, "DBSIZE"), ":25\r\n");
  }
}

// One process of two: the second half of the slots is another one's.
class KvSpreadClusterTest : public KvClusterTest {
 protected:
  void OpenHalf() {
    cluster_ = std::make_unique<redis::Cluster>(true, 2, "127.0.0.1", redis::SlotRange{0, 8191});
    Open(2);
    for (const auto& node : cluster_->nodes()) clients_.emplace_back(node.port);
  }
  void TellOf(redis::Cluster::State state) {
    redis::Cluster::Members members;
    for (const auto& node : cluster_->nodes()) members.push_back({node, "127.0.0.1"});
    redis::Cluster::Member other;
    other.id = redis::NodeIdOf("far", 7000);
    other.host = "far";
    other.port = 7000;
    other.first_slot = 8192;
    other.last_slot = 16383;
    other.state = state;
    members.push_back(other);
    cluster_->SetMembers(members);
  }
  // "foo" is of slot 12182, and "b" of 3300, which is node 0's.
};

TEST_F(KvSpreadClusterTest, KeysOfAnotherProcess_AreRedirectedOrDownAndOwnOnesServed) {
  OpenHalf();
  EXPECT_EQ(Ask(0, "GET foo"), "-CLUSTERDOWN Hash slot not served\r\n");
  EXPECT_THAT(Ask(0, "CLUSTER INFO"),
              AllOf(HasSubstr("cluster_state:fail\r\n"), HasSubstr("cluster_slots_ok:8192\r\n")));
  TellOf(redis::Cluster::State::kServes);
  EXPECT_EQ(Ask(0, "GET foo"), "-MOVED 12182 far:7000\r\n");
  EXPECT_EQ(AskAll(1, {"MULTI", "SET foo 1", "EXEC"}),
            "+OK\r\n-MOVED 12182 far:7000\r\n"
            "-EXECABORT Transaction discarded because of previous errors.\r\n");
  EXPECT_EQ(Ask(0, "SET b 1"), "+OK\r\n");
  EXPECT_EQ(Ask(1, "SET b 1"), absl::StrCat("-MOVED 3300 ", cluster_->AddressOf(0), "\r\n"));
  EXPECT_THAT(Ask(0, "CLUSTER INFO"),
              AllOf(HasSubstr("cluster_state:ok\r\n"), HasSubstr("cluster_size:3\r\n")));
  EXPECT_THAT(
      redis::PlainReply(Ask(1, "CLUSTER SLOTS")),
      AllOf(StartsWith("*3 *3 :0 :4095 "), HasSubstr("*3 :8192 :16383 *4 $3 far :7000 $40 ")));
  EXPECT_EQ(Ask(0, "CLUSTER REPLICAS " + redis::NodeIdOf("far", 7000)), "*0\r\n");
  EXPECT_EQ(Ask(0, "CLUSTER COUNTKEYSINSLOT 12182"), ":0\r\n");

  TellOf(redis::Cluster::State::kFailed);
  EXPECT_EQ(Ask(0, "GET foo"), "-CLUSTERDOWN Hash slot not served\r\n");
  EXPECT_EQ(Ask(0, "GET b"), "$1\r\n1\r\n");
  EXPECT_THAT(Ask(0, "CLUSTER INFO"),
              AllOf(HasSubstr("cluster_state:fail\r\n"), HasSubstr("cluster_slots_fail:8192\r\n")));
  EXPECT_THAT(Ask(0, "CLUSTER NODES"),
              HasSubstr("far:7000@0 master,fail - 0 0 3 disconnected 8192-16383\n"));
  EXPECT_THAT(redis::PlainReply(Ask(0, "CLUSTER SLOTS")),
              AllOf(StartsWith("*3 "), HasSubstr(":8192 :16383 *4 $3 far ")));
  EXPECT_THAT(Ask(0, "CLUSTER SHARDS"), HasSubstr("$4\r\nfail\r\n"));
}

TEST_F(KvSpreadClusterTest, Pipeline_WhileSlotsComeAndGo_IsAnsweredInOrder) {
  OpenHalf();
  std::atomic<bool> done{false};
  std::thread changes([&] {
    while (!done) {
      TellOf(redis::Cluster::State::kServes);
      TellOf(redis::Cluster::State::kFailed);
    }
  });
  for (int round = 0; round < 200; ++round) {
    std::string requests;
    for (int i = 0; i < 20; ++i) {
      absl::StrAppend(&requests, "SET b ", i, "\r\nGET foo\r\nGET b\r\n");
    }
    clients_[0].Send(requests);
    for (int i = 0; i < 20; ++i) {
      ASSERT_EQ(clients_[0].Receive(), "+OK\r\n");
      ASSERT_THAT(clients_[0].Receive(),
                  testing::AnyOf(StartsWith("-MOVED 12182 far:7000"), StartsWith("-CLUSTERDOWN ")));
      const std::string value = std::to_string(i);
      ASSERT_EQ(clients_[0].Receive(), absl::StrCat("$", value.size(), "\r\n", value, "\r\n"));
    }
  }
  done = true;
  changes.join();
}

TEST_F(KvSpreadClusterTest, OwnSlots_ThatAnotherProcessHas_AreRedirected) {
  OpenHalf();
  EXPECT_EQ(Ask(0, "SET b 1"), "+OK\r\n");
  redis::BlockingClient within(cluster_->nodes()[0].port);
  EXPECT_EQ(within.Ask("MULTI"), "+OK\r\n");
  EXPECT_EQ(within.Ask("SET b 2"), "+QUEUED\r\n");
  auto members = *cluster_->members();
  redis::Cluster::Member older = members[0];
  older.id = redis::NodeIdOf("older", 1);
  older.host = "older";
  older.port = 1;
  members[0].state = redis::Cluster::State::kSuperseded;
  members.push_back(older);
  cluster_->SetMembers(members);
  EXPECT_EQ(Ask(0, "GET b"), "-MOVED 3300 older:1\r\n");
  EXPECT_EQ(within.Ask("EXEC"), "-MOVED 3300 older:1\r\n");
  EXPECT_EQ(within.Ask("EXEC"), "-ERR EXEC without MULTI\r\n");
  EXPECT_THAT(Ask(0, "CLUSTER NODES"), HasSubstr("myself,master - 0 0 1 connected\n"));
  EXPECT_THAT(redis::PlainReply(Ask(0, "CLUSTER SHARDS")), StartsWith("*3 *4 $5 slots *0 "));
}

TEST_F(KvClusterTest, ClusterCommands_NotInClusterMode_SaySo) {
  cluster_ = std::make_unique<redis::Cluster>(false, 2, "127.0.0.1");
  Open(2);
  redis::BlockingClient client(port());
  const std::string error = "-ERR This instance has cluster support disabled\r\n";
  for (const char* command : {"CLUSTER INFO", "CLUSTER SLOTS", "CLUSTER KEYSLOT a", "CLUSTER HELP",
                              "CLUSTER MEET a 1", "READONLY", "READWRITE", "ASKING"}) {
    EXPECT_EQ(client.Ask(command), error) << command;
  }
  EXPECT_THAT(client.Ask("CLUSTER NOSUCH"), HasSubstr("unknown subcommand"));
  EXPECT_EQ(client.Ask("MSET a 1 b 2 c 3"), "+OK\r\n");
  EXPECT_THAT(client.Ask("INFO"),
              AllOf(HasSubstr("cluster_enabled:0\r\n"), HasSubstr("redis_mode:standalone\r\n")));
}

TEST(KvClusterStoreTest, Open_WithAnotherNumberOfPartitions_IsRefused) {
  const redis::Cluster cluster(true, 3, "host");
  KvStoreOptions options;
  options.partitions = 2;
  options.cluster = &cluster;
  EXPECT_THAT(KvStore::Open(options).status().message(), HasSubstr("3 nodes"));
}

}  // namespace
}  // namespace pulse::kv
