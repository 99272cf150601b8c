// The in-memory store behind the server of Redis's protocol, by its sockets, in each design.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cctype>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/own_threads.h"
#include "base/test_no_threads.h"
#include "base/testing.h"
#include "services/kv/test_server.h"
#include "services/redis/commands/command_suite.h"

namespace pulse::kv {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kDesigns[] = {"lat", "cpu", "dual", "sav", "adaptive", "dpu", "shrd"};

// Of the threads that serve connections or carry commands out.
std::set<std::string> LoopNames() {
  std::set<std::string> names;
  for (const pid_t thread : OwnThreads()) {
    const std::string name = NameOfThread(thread);
    if (name.starts_with("pulse-agent-") || name.starts_with("pulse-host-kv") ||
        (name.starts_with("pulse-host-") && std::isdigit(name.back()) && name.size() == 12)) {
      names.insert(name);
    }
  }
  return names;
}

// A counter for each client: its pipelines of commands are answered in order, while the design
// changes all the time.
TEST_F(KvServerTest, Designs_ChangedUnderLoad_LoseAndReorderNothing) {
  Open(2);
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      redis::BlockingClient client(port());
      const std::string key = "counter" + std::to_string(t);
      int64_t value = 0;
      for (int round = 0; round < 400; ++round) {
        std::string requests;
        std::vector<std::string> expected;
        for (int i = 0; i < 10; ++i) {
          requests += "incr " + key + "\r\n";
          expected.push_back(":" + std::to_string(++value) + "\r\n");
        }
        requests += "multi\r\nincr " + key + "\r\nexec\r\nget " + key + "\r\n";
        const std::string text = std::to_string(++value);
        expected.insert(expected.end(),
                        {"+OK\r\n", "+QUEUED\r\n", "*1\r\n:" + text + "\r\n",
                         "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n"});
        client.Send(requests);
        for (const std::string& reply : expected) ASSERT_EQ(client.Receive(), reply);
      }
    });
  }
  std::thread switcher([&] {
    redis::BlockingClient client(port());
    for (size_t i = 0; !done; ++i) {
      const std::string design = kDesigns[i % std::size(kDesigns)];
      ASSERT_EQ(client.Ask("config set design " + design), "+OK\r\n");
      ASSERT_THAT(client.Ask("config get design"), HasSubstr(design));
    }
  });
  for (auto& thread : threads) thread.join();
  done = true;
  switcher.join();
}

// Which ask for the partitions that the transaction has.
// A client behind an agent may still have the id of one that the former server had.
TEST_F(KvServerTest, ServerStartedAnew_IdsOfTheFormerOneNameNobody) {
  const auto id_of = [&] {
    const std::string reply = redis::BlockingClient(port()).Ask("CLIENT ID");
    EXPECT_EQ(reply.substr(0, 1), ":");
    return std::stoull(reply.substr(1));
  };
  Open();
  uint64_t former = 0;
  for (int i = 0; i < 20; ++i) {
    const uint64_t id = id_of();
    EXPECT_GT(id, former);
    former = id;
  }
  ASSERT_TRUE(server_->Stop().ok());
  server_.reset();
  Open();
  redis::BlockingClient client(port());
  for (uint64_t id = former; id > former - 20; --id) {
    EXPECT_EQ(client.Ask(absl::StrCat("CLIENT TRACKING ON REDIRECT ", id)),
              "-ERR The client ID you want redirect to does not exist\r\n");
  }
  EXPECT_GT(id_of(), former);
  EXPECT_LT(id_of(), uint64_t{1} << 53);  // of languages that have no larger integers
}

TEST_F(KvServerTest, Exec_WithInfoAndConfig_IsAnswered) {
  Open(2);
  redis::BlockingClient client(port());
  client.Send(
      "multi\r\nset a 1\r\ninfo\r\nconfig set maxmemory-policy allkeys-lru\r\nget a\r\nexec\r\n");
  for (const char* reply :
       {"+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "+QUEUED\r\n"}) {
    ASSERT_EQ(client.Receive(), reply);
  }
  const std::string replies = client.Receive();
  EXPECT_THAT(replies, HasSubstr("keyspace_hits"));
  EXPECT_THAT(replies, HasSubstr("+OK\r\n$1\r\n1\r\n"));
  EXPECT_THAT(client.Ask("config get maxmemory-policy"), HasSubstr("allkeys-lru"));
}

// What changes no bit is no change, and the last millisecond that there is one is an expiry.
TEST_F(KvServerTest, Watch_OfAKeyThatIsWrittenAsItIs_LetsExecRun) {
  Open();
  redis::BlockingClient client(port()), writer(port());
  for (const char* same : {"SETBIT a 0 0", "BITFIELD a SET u8 0 49",
                           "BITFIELD a OVERFLOW FAIL INCRBY u8 0 999", "SETBIT a 7 1"}) {
    client.Ask("SET a 1");
    client.Ask("WATCH a");
    writer.Ask(same);
    client.Ask("MULTI");
    client.Ask("PING");
    EXPECT_EQ(client.Ask("EXEC"), "*1\r\n+PONG\r\n") << same;
  }
  client.Ask("WATCH a");
  writer.Ask("SETBIT a 7 0");
  client.Ask("MULTI");
  EXPECT_EQ(client.Ask("EXEC"), "*-1\r\n");
  EXPECT_EQ(client.Ask("PEXPIREAT a 9223372036854775807"), ":1\r\n");
  EXPECT_EQ(client.Ask("PERSIST a"), ":1\r\n");
}

TEST_F(KvServerTest, Errorstats_CountEachKindUntilTheyAreReset) {
  Open(2);
  redis::BlockingClient client(port());
  EXPECT_THAT(client.Ask("INFO errorstats"), ::testing::EndsWith("# Errorstats\r\n\r\n"));
  client.Ask("NONE");
  client.Ask("GET");
  client.Ask("SET k text");
  client.Ask("INCR k");
  client.Ask("AUTH a b");
  client.Send("MULTI\r\nINCR k\r\nEXEC\r\nMULTI\r\nNONE\r\nEXEC\r\n");
  for (int i = 0; i < 6; ++i) client.Receive();
  EXPECT_THAT(client.Ask("INFO"), HasSubstr("# Errorstats\r\n"
                                            "errorstat_ERR:count=5\r\n"
                                            "errorstat_EXECABORT:count=1\r\n"
                                            "errorstat_WRONGPASS:count=1\r\n"));
  EXPECT_THAT(client.Ask("INFO stats"), HasSubstr("total_error_replies:7\r\n"));
  EXPECT_EQ(client.Ask("CONFIG RESETSTAT"), "+OK\r\n");
  EXPECT_THAT(client.Ask("INFO errorstats"), ::testing::EndsWith("# Errorstats\r\n\r\n"));
}

// What INFO tells is what was counted since the reset that it has seen, and never less than none.
TEST_F(KvServerTest, Info_WhileCountersAreReset_TellsNoNonsense) {
  memory_bytes_ = 2 * kLeastMemory;
  options_.limits.max_bulk = uint64_t{8} << 20;
  Open(2);
  std::atomic<bool> done{false};
  std::thread refused([&] {
    redis::BlockingClient client(port());
    std::string set;
    for (int i = 0; i < 64; ++i) {
      redis::AppendRequest({"SET", std::to_string(i), std::string(400'000, 'v')}, &set);
    }
    while (!done) {
      client.Send(set);
      for (int i = 0; i < 64; ++i) client.Receive();
    }
  });
  std::thread resets([&] {
    redis::BlockingClient client(port());
    while (!done) client.Ask("CONFIG RESETSTAT");
  });
  redis::BlockingClient client(port());
  for (int i = 0; i < 3000; ++i) {
    const std::string info = client.Ask("INFO stats");
    const size_t at = info.find("refused_keys:") + 13;
    const std::string count = info.substr(at, info.find('\r', at) - at);
    EXPECT_LT(count.size(), 10u) << count;
    if (HasFailure()) break;
  }
  done = true;
  refused.join();
  resets.join();
}

// Each EXEC has a partition, and INFO looks at all of them.
TEST_F(KvServerTest, ExecsWithInfo_OnDifferentPartitions_DoNotWaitForEachOther) {
  Open(4);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      redis::BlockingClient client(server_->port());
      const std::string set = "set key" + std::to_string(t) + " 1\r\n";
      for (int i = 0; i < 200; ++i) {
        client.Send("multi\r\n" + set + "info\r\nconfig get design\r\n" + set + "exec\r\n");
        for (const char* reply :
             {"+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "+QUEUED\r\n", "+QUEUED\r\n"}) {
          ASSERT_EQ(client.Receive(), reply);
        }
        ASSERT_THAT(client.Receive(), HasSubstr("design_now"));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(KvServerTest, Lat_WithClientsThatLeave_ServesTheOthers) {
  Open(1);
  ASSERT_TRUE(designs_->Set("lat").ok());
  redis::BlockingClient stays(port());
  for (int i = 0; i < 100; ++i) {
    redis::BlockingClient leaves(port());
    leaves.Send("set a 1\r\nget a\r\nkeys *\r\n");
    leaves.Close();
    ASSERT_EQ(stays.Ask("set b " + std::to_string(i)), "+OK\r\n");
  }
  EXPECT_EQ(stays.Ask("get b"), "$2\r\n99\r\n");
}

TEST_F(KvServerTest, Design_ThatCannotRun_IsRefusedAndTheOldOneStays) {
  Open(1, false);
  redis::BlockingClient client(port());
  EXPECT_THAT(client.Ask("config set design lat"), HasSubstr("--agent-cpus"));
  EXPECT_THAT(client.Ask("config set design adaptive"), HasSubstr("--agent-cpus"));
  EXPECT_THAT(client.Ask("config set design fast"), HasSubstr("is none"));
  EXPECT_THAT(client.Ask("config get design"), HasSubstr("cpu"));
  EXPECT_THAT(client.Ask("info kv"), HasSubstr("design:cpu\r\ndesign_now:cpu"));
}

TEST_F(KvServerTest, Design_WhoseThreadsCannotStart_IsRefusedUntilTheyCan) {
  Open(2);
  redis::BlockingClient client(port());
  {
    const testing_util::NoThreads no_threads;
    EXPECT_THAT(client.Ask("config set design lat"), HasSubstr("no thread can be started"));
    EXPECT_THAT(client.Ask("config get design"), HasSubstr("cpu"));
  }
  EXPECT_EQ(client.Ask("config set design lat"), "+OK\r\n");
  EXPECT_EQ(client.Ask("set a 1"), "+OK\r\n");
}

TEST_F(KvServerTest, InfoKv_InEachDesign_SaysWhereTheItemsLie) {
  Open(4);
  redis::BlockingClient client(port());
  for (const std::string design : kDesigns) {
    ASSERT_EQ(client.Ask("config set design " + design), "+OK\r\n");
    const std::string where = design == "dpu" ? "agent" : design == "shrd" ? "both" : "host";
    EXPECT_THAT(client.Ask("info kv"),
                HasSubstr("items_in:" + where + "\r\nitems_lost_with:" + where + "\r\n"))
        << design;
  }
}

TEST_F(KvServerTest, DesignThatMovesItems_AgentsMemoryTooSmall_IsRefusedAndNothingMoves) {
  agent_memory_bytes_ = uint64_t{32} << 20;
  Open(2);
  redis::BlockingClient client(port());
  ASSERT_EQ(client.Ask("set a 1"), "+OK\r\n");
  EXPECT_THAT(client.Ask("config set design dpu"),
              AllOf(HasSubstr("64 MiB"), HasSubstr("32 MiB; start with more --agent-memory"),
                    HasSubstr("cpu stays in force")));
  EXPECT_THAT(client.Ask("info kv"), AllOf(HasSubstr("design_now:cpu"), HasSubstr("items_in:host"),
                                           HasSubstr("agent_items_bytes:0\r\n")));
  EXPECT_EQ(client.Ask("config set design shrd"), "+OK\r\n") << "half of them has room";
  EXPECT_EQ(client.Ask("get a"), "$1\r\n1\r\n");
}

TEST_F(KvServerTest, DesignThatMovesItems_WithinMulti_IsRefused) {
  Open(2);
  redis::BlockingClient client(port());
  client.Send("multi\r\nconfig set design dpu\r\nconfig set design lat\r\nexec\r\n");
  for (const char* reply : {"+OK\r\n", "+QUEUED\r\n", "+QUEUED\r\n"}) {
    ASSERT_EQ(client.Receive(), reply);
  }
  EXPECT_THAT(client.Receive(), AllOf(HasSubstr("cannot within MULTI"), HasSubstr("+OK\r\n")));
  EXPECT_THAT(client.Ask("config get design"), HasSubstr("lat"));
}

// As a BlueField-3's, whose host receives no packets of its own.
TEST_F(KvServerTest, CardWithoutDual_RefusesBothAndAdaptiveSkipsThem) {
  no_dual_ = "the card says so";
  Open(2);
  redis::BlockingClient client(port());
  EXPECT_THAT(client.Ask("config set design dual"), HasSubstr("the card says so. cpu stays"));
  EXPECT_THAT(client.Ask("config set design shrd"), HasSubstr("the card says so. cpu stays"));
  EXPECT_EQ(client.Ask("config set design dpu"), "+OK\r\n");
  ASSERT_EQ(client.Ask("config set design adaptive"), "+OK\r\n");
  // Of its first trial; dual would be the fourth.
  const uint64_t begin = designs_->status().changes;
  std::string sets;
  for (int i = 0; i < 100; ++i) sets += "set a 1\r\n";
  while (designs_->status().changes < begin + 3) {
    client.Send(sets);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(client.Receive(), "+OK\r\n");
    ASSERT_NE(designs_->status().now, "dual");
  }
}

TEST_F(KvServerTest, Numbers_AfterRequests_HaveTheBytesOfTheSockets) {
  Open(1);
  redis::BlockingClient client(port());
  const std::string value(1000, 'v');
  ASSERT_EQ(client.Ask("set a " + value), "+OK\r\n");
  ASSERT_EQ(client.Ask("get a").size(), value.size() + 9);
  EXPECT_TRUE(testing_util::Eventually([&] {
    const redis::ServerNumbers numbers = server_->numbers();
    return numbers.received_bytes == 8 + 1000 + 7 && numbers.sent_bytes == 5 + 1009;
  }));
}

TEST_F(KvServerTest, DesignWithLoopsOnBothSides_WithOneLoop_IsRefused) {
  Open(1);
  redis::BlockingClient client(port());
  EXPECT_THAT(client.Ask("config set design dual"), HasSubstr("--threads 2"));
  EXPECT_THAT(client.Ask("config set design shrd"), HasSubstr("--threads 2"));
  EXPECT_THAT(client.Ask("config get design"), HasSubstr("cpu"));
}

// Which names its threads tell, as `top -H` shows them.
TEST_F(KvServerTest, Dual_QuarterOfTheLoopsIsOnTheHost_TheRestOnTheAgent) {
  Open(4);
  ASSERT_TRUE(designs_->Set("dual").ok());
  std::vector<std::unique_ptr<redis::BlockingClient>> clients;
  const std::set<std::string> expected = {"pulse-agent-1", "pulse-agent-2", "pulse-agent-3",
                                          "pulse-host-0", "pulse-host-kv00"};
  std::set<std::string> names;
  // The kernel chooses a connection's loop.
  for (int i = 0; i < 500 && names != expected; ++i) {
    clients.push_back(std::make_unique<redis::BlockingClient>(port()));
    ASSERT_EQ(clients.back()->Ask("set a 1"), "+OK\r\n");
    names = LoopNames();
  }
  EXPECT_EQ(names, expected);
}

// From the counters alone: it tries all that it may choose, and the rate of requests with it.
TEST_F(KvServerTest, Adaptive_UnderLoad_TriesDesigns) {
  Open(2);
  redis::BlockingClient client(port());
  ASSERT_EQ(client.Ask("config set design adaptive"), "+OK\r\n");
  std::set<std::string> seen;
  std::string pings;
  for (int i = 0; i < 100; ++i) pings += "set a 1\r\n";
  while (seen.size() < 4) {
    client.Send(pings);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(client.Receive(), "+OK\r\n");
    seen.insert(designs_->status().now);
  }
  EXPECT_THAT(seen, ElementsAre("cpu", "dual", "lat", "sav"));
  EXPECT_THAT(client.Ask("config get design"), HasSubstr("adaptive"));
  EXPECT_GT(designs_->status().host_cpu_nanos, 0);
  // Another design ends it.
  ASSERT_EQ(client.Ask("config set design lat"), "+OK\r\n");
  EXPECT_EQ(designs_->status().now, "lat");
}

// A subcommand that is not there, or not so, or a command that is refused, breaks a transaction
// when it is queued.
TEST_F(KvServerTest, Multi_WithCommandsThatAreRefused_IsRefused) {
  Open();
  redis::BlockingClient client(port());
  for (const auto& [request, refusal] :
       {std::pair("CONFIG GET", "-ERR wrong number of arguments for 'config|get' command\r\n"),
        std::pair("OBJECT FOO k", "-ERR unknown subcommand 'FOO'. Try OBJECT HELP.\r\n"),
        std::pair("DEBUG SLEEP 0",
                  "-ERR DEBUG command not allowed. If the enable-debug-command option is set to "
                  "\"local\", you can run it from a local connection, otherwise you need to set "
                  "this option in the configuration file, and then restart the server.\r\n"),
        std::pair("OBJECT ENCODING",
                  "-ERR wrong number of arguments for 'object|encoding' command\r\n"),
        std::pair("client info x",
                  "-ERR wrong number of arguments for 'client|info' command\r\n")}) {
    EXPECT_EQ(client.Ask(request), refusal);
    EXPECT_EQ(client.Ask("MULTI"), "+OK\r\n");
    EXPECT_EQ(client.Ask(request), refusal);
    EXPECT_THAT(client.Ask("EXEC"), ::testing::StartsWith("-EXECABORT"));
  }
}

// As in Redis: it is not carried out later, and the connection gives its place back at once.
TEST_F(KvServerTest, ClientThatClosesWithinAPause_IsGoneBeforeThePauseEnds) {
  Open();
  redis::BlockingClient admin(port());
  ASSERT_EQ(admin.Ask("CLIENT PAUSE 1000000 WRITE"), "+OK\r\n");
  for (int i = 0; i < 3; ++i) {
    redis::BlockingClient client(port());
    ASSERT_EQ(client.Ask("GET k"), "$-1\r\n") << i;
    client.Send("INCR k\r\n");
    client.Close();
    ASSERT_TRUE(testing_util::Eventually([&] {
      return admin.Ask("INFO clients").find("connected_clients:1\r") != std::string::npos;
    }));
  }
  EXPECT_EQ(admin.Ask("CLIENT UNPAUSE"), "+OK\r\n");
  EXPECT_EQ(admin.Ask("GET k"), "$-1\r\n");
}

TEST_F(KvServerTest, ConfigSet_OneOfSeveralIsWrong_NoneIsSet) {
  Open(2);
  redis::BlockingClient client(port());
  EXPECT_THAT(client.Ask("CONFIG SET slowlog-max-len 7 maxmemory-policy allkeys-lru design foo"),
              HasSubstr("design 'foo' is none"));
  EXPECT_THAT(client.Ask("CONFIG SET design sav maxmemory 1"), HasSubstr("fixed at start"));
  EXPECT_THAT(client.Ask("CONFIG SET slowlog-max-len 7 latency-tracking maybe"),
              HasSubstr("must be 'yes' or 'no'"));
  EXPECT_THAT(client.Ask("CONFIG SET design sav nosuch 1"), HasSubstr("Unknown option"));
  EXPECT_THAT(redis::PlainReply(client.Ask("CONFIG GET slowlog-max-len maxmemory-policy design")),
              testing::AllOf(HasSubstr("design $3 cpu"), HasSubstr("noeviction"),
                             HasSubstr("slowlog-max-len $3 128")));
  EXPECT_EQ(client.Ask("CONFIG SET slowlog-max-len 7 maxmemory-policy allkeys-lru design sav"),
            "+OK\r\n");
  EXPECT_THAT(redis::PlainReply(client.Ask("CONFIG GET slowlog-max-len maxmemory-policy design")),
              testing::AllOf(HasSubstr("design $3 sav"), HasSubstr("allkeys-lru"),
                             HasSubstr("slowlog-max-len $1 7")));
}

TEST_F(KvServerTest, MemcachedsCommands_AreInTheStatistics) {
  Open(1);
  redis::BlockingClient client(port()), other(port());
  other.Send("set k 0 0 1\r\nv\r\nget k none\r\n");
  EXPECT_EQ(other.ReadUntil("END\r\n"), "STORED\r\nVALUE k 0 1\r\nv\r\nEND\r\n");
  const std::string info = client.Ask("INFO stats");
  EXPECT_THAT(info, HasSubstr("total_commands_processed:2\r\n"));
  EXPECT_THAT(info, HasSubstr("keyspace_hits:1\r\n"));
  EXPECT_THAT(info, HasSubstr("keyspace_misses:1\r\n"));
  EXPECT_EQ(server_->numbers().hits, 1u);
  EXPECT_EQ(client.Ask("CONFIG RESETSTAT"), "+OK\r\n");
  EXPECT_EQ(client.Ask("GETBIT none 1"), ":0\r\n");
  const std::string after = client.Ask("INFO stats");
  EXPECT_THAT(after, HasSubstr("keyspace_hits:0\r\n"));
  EXPECT_THAT(after, HasSubstr("keyspace_misses:1\r\n"));
}

TEST_F(KvServerTest, ClientBeyondTheLimit_IsToldInRedissWordsAndCounted) {
  options_.max_clients = 1;
  Open(1);
  redis::BlockingClient client(port());
  EXPECT_EQ(client.Ask("PING"), "+PONG\r\n");
  redis::BlockingClient second(port());
  EXPECT_EQ(second.ReadAll(), "-ERR max number of clients reached\r\n");
  EXPECT_THAT(client.Ask("INFO stats"), HasSubstr("rejected_connections:1\r\n"));
}

TEST_F(KvServerTest, IdleClients_AreCutOffButThoseThatListen) {
  options_.idle_seconds = 1;
  Open(1);
  redis::BlockingClient listens(port()), idle(port());
  EXPECT_THAT(listens.Ask("SUBSCRIBE __redis__:invalidate"), HasSubstr("subscribe"));
  EXPECT_EQ(idle.ReadAll(), "");
  EXPECT_THAT(listens.Ask("PING"), HasSubstr("pong"));
}

}  // namespace
}  // namespace pulse::kv
