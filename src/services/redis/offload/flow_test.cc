// The flow against a simulated primary (test_simulation.h).
#include "services/redis/offload/flow.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/testing.h"
#include "services/redis/commands/value.h"
#include "services/redis/offload/test_simulation.h"

namespace pulse::redis {
namespace {

using sim::Client;
using sim::Simulation;
using testing_util::Eventually;

std::string Socket() { return absl::StrCat("/tmp/pulse-flow-test-", getpid(), ".sock"); }

TEST(OffloadFlowTest, Histories_RandomLossesAndCatchUps_Linearizable) {
  std::mt19937_64 seeds(testing_util::TestSeed());
  uint64_t offloaded = 0, known = 0, forwarded = 0, order = 0, fences = 0, operations = 0;
  for (int round = 0; round < (testing_util::kThreadSanitizer ? 5 : 20); ++round) {
    Simulation simulation(seeds(), false, Socket(), round % 2 == 0);
    const auto verdict = simulation.Run(20'000);
    ASSERT_TRUE(verdict.ok()) << verdict.report;
    offloaded += simulation.app->counters().offloaded;
    known += simulation.app->counters().known;
    forwarded += simulation.app->counters().forwarded;
    order += simulation.app->counters().order;
    fences += simulation.app->counters().lost;
    for (const auto& [key, ops] : simulation.history) operations += ops.size();
  }
  printf("%llu operations, %llu offloaded, %llu known, %llu forwarded, %llu for order, %llu lost\n",
         static_cast<unsigned long long>(operations), static_cast<unsigned long long>(offloaded),
         static_cast<unsigned long long>(known), static_cast<unsigned long long>(forwarded),
         static_cast<unsigned long long>(order), static_cast<unsigned long long>(fences));
  // How many depends on how soon the fence_client, which has a thread of its own, gets an answer.
  EXPECT_GT(offloaded, 100u);
  EXPECT_GT(known, 100u);
  EXPECT_GT(forwarded, 0u);
}

// What was written is answered here as soon as the host has answered, without a catch-up, where the
// key was asked for before, and nobody else wrote it.
TEST(OffloadFlowTest, WrittenValue_OfKeyReadBefore_AnsweredFromCache) {
  Simulation simulation(1, false, Socket());
  Client& client = *simulation.clients[0];
  simulation.CatchUp();
  net::Ticket ticket = 0;
  const auto send = [&](const std::vector<std::string_view>& words) {
    ticket = client.Ask({words});
  };
  const auto finish = [&] {
    EXPECT_TRUE(Eventually([&] {
      client.HostStep(simulation.random);
      client.RunPost();
      return client.answered() == ticket;
    }));
  };
  const auto reply = [&] {
    const std::string text = client.reply(ticket);
    const size_t line = text.find('\n') + 1;
    return text.substr(line, text.size() - line - 2);
  };
  const auto& counters = simulation.app->counters();
  send({"SET", "a", "1"});  // nobody has asked for it
  finish();
  send({"GET", "a"});
  finish();
  EXPECT_EQ(counters.dirty, 1u);
  send({"SET", "a", "2"});
  finish();
  send({"GET", "a"});
  finish();
  EXPECT_EQ(reply(), "2");
  EXPECT_EQ(counters.known, 1u);
  EXPECT_EQ(counters.dirty, 1u);
  // What the host makes of these is not known here.
  for (const std::vector<std::string_view>& words :
       {std::vector<std::string_view>{"INCR", "a"}, {"DEL", "a"}}) {
    send(words);
    finish();
    send({"GET", "a"});
    finish();
  }
  EXPECT_EQ(counters.known, 1u);
  EXPECT_EQ(counters.dirty, 3u);
  // What was read is known, too, also that there is none.
  simulation.CatchUp();
  send({"GET", "a"});
  finish();
  send({"EXISTS", "a"});
  finish();
  EXPECT_EQ(client.reply(ticket), ":0\r\n");
  EXPECT_EQ(counters.known, 2u);
  EXPECT_EQ(counters.dirty, 3u);
}

// What ends what is known, and what does not.
TEST(OffloadFlowTest, CachedValue_KeyMayHaveChanged_NotUsed) {
  Simulation simulation(1, false, Socket());
  Client& client = *simulation.clients[0];
  const auto send = [&](const std::vector<std::string_view>& words) {
    const net::Ticket ticket = client.Ask({words});
    client.RunPost();
    return ticket;
  };
  const auto& counters = simulation.app->counters();
  // Whether a read of "a" is answered at once, from what is known.
  const auto is_known_to = [&](Client& who) {
    const uint64_t before = counters.known;
    who.Ask({{"GET", "a"}});
    who.RunPost();
    if (counters.known > before) return true;
    if (!who.at_host().empty()) who.Drop("$-1\r\n");
    return false;
  };
  const auto is_known = [&] { return is_known_to(client); };
  const auto learn_by = [&](Client& who) {
    ASSERT_TRUE(Eventually([&] {
      simulation.CatchUp();
      return is_known_to(who);
    }));
  };
  const auto learn = [&] { learn_by(client); };
  const auto host_says = [&](const std::vector<std::string_view>& words, const std::string& reply) {
    send(words);
    ASSERT_EQ(client.at_host().size(), 1u);
    client.Drop(reply);
  };
  EncodeValue("1", kNever, &simulation.log["a"]);
  learn();
  // Unknown there, too, and malformed: nothing has happened.
  host_says({"NONSENSE", "a"}, "-ERR unknown command 'NONSENSE'\r\n");
  EXPECT_TRUE(is_known());
  host_says({"SET", "a"}, "-ERR wrong number of arguments for 'set' command\r\n");
  EXPECT_TRUE(is_known());
  // Nor while they are under way: anyone may send them.
  Client& other = *simulation.clients[1];
  client.Ask({{"NONSENSE", "a"}, {"SET", "a"}, {"FLUSHALLS"}, {"PULSE.HELLO", "a", "b"}});
  EXPECT_EQ(client.at_host().size(), 4u);
  EXPECT_EQ(simulation.app->numbers().writes_in_flight, 0u);
  EXPECT_TRUE(is_known_to(other));
  for (int i = 0; i < 4; ++i) client.Drop("-ERR unknown command, or wrong number of arguments\r\n");
  EXPECT_TRUE(is_known());
  // What may write any key, for anybody.
  send({"FLUSHALL"});
  other.Ask({{"GET", "a"}});
  ASSERT_EQ(other.at_host().size(), 1u);
  other.Drop("$1\r\n1\r\n");
  client.Drop("-NOAUTH Authentication required.\r\n");
  EXPECT_TRUE(is_known());
  // Nor what was not allowed, or not sent at all.
  host_says({"FLUSHALL"}, "-NOAUTH Authentication required.\r\n");
  EXPECT_TRUE(is_known());
  send({"FLUSHALL"});
  client.LoseAll(/*sent=*/false);
  EXPECT_TRUE(is_known());
  host_says({"FLUSHALL"}, "+OK\r\n");
  EXPECT_FALSE(is_known());
  learn();
  // Without a view, what is known stays known, until there may be other files.
  simulation.view->validity = 0;
  EXPECT_TRUE(is_known());
  simulation.view->generation = 2;
  EXPECT_FALSE(is_known());
  simulation.view->validity = 2;
  learn();
  send({"FLUSHALL"});
  client.LoseAll(/*sent=*/true);
  EXPECT_FALSE(is_known());
  learn();
  // A transaction that may write any key; and one that is not carried out.
  host_says({"MULTI"}, "+OK\r\n");
  host_says({"FLUSHALL"}, "+QUEUED\r\n");
  learn_by(other);
  host_says({"EXEC"}, "*1\r\n+OK\r\n");
  EXPECT_FALSE(is_known());
  learn();
  host_says({"MULTI"}, "+OK\r\n");
  host_says({"NONSENSE", "a"}, "-ERR unknown command 'NONSENSE'\r\n");
  host_says({"EXEC"}, "-EXECABORT Transaction discarded because of previous errors.\r\n");
  EXPECT_TRUE(is_known());
  // In a transaction nothing is.
  host_says({"MULTI"}, "+OK\r\n");
  host_says({"SET", "a", "2"}, "+QUEUED\r\n");
  host_says({"EXEC"}, "*1\r\n+OK\r\n");
  EXPECT_FALSE(is_known());
  learn();
  // A SET that the host refuses leaves what was there before.
  host_says({"SET", "a", "3"}, "-ERR no\r\n");
  EXPECT_FALSE(is_known());
  learn();
  // Its outcome is not known: until the host says that it is over.
  send({"SET", "a", "4"});
  client.LoseAll(/*sent=*/true);
  EXPECT_FALSE(is_known());
  learn();
  // Some of several keys.
  EncodeValue("5", kNever, &simulation.log["b"]);
  simulation.CatchUp();
  const uint64_t offloaded = counters.offloaded;
  const net::Ticket ticket = send({"MGET", "a", "b", "a"});
  ASSERT_TRUE(Eventually([&] {
    client.RunPost();
    return counters.offloaded == offloaded + 1;
  }));
  EXPECT_EQ(client.reply(ticket), "*3\r\n$1\r\n1\r\n$1\r\n5\r\n$1\r\n1\r\n");
}

// What is known of a key ends with the key.
TEST(OffloadFlowTest, CachedValue_Expired_NotReturned) {
  // Again, and longer, where the key was gone before it was read.
  bool late = true;
  for (int64_t lasts_ms = 1500; late; lasts_ms *= 2) {
    Simulation simulation(1, false, Socket());
    Client& client = *simulation.clients[0];
    const int64_t expires = WallMillis() + lasts_ms;
    EncodeValue("1", expires, &simulation.log["a"]);
    simulation.CatchUp();
    const auto get = [&] {
      const net::Ticket ticket = client.Ask({{"GET", "a"}});
      EXPECT_TRUE(Eventually([&] {
        client.RunPost();
        return client.answered() == ticket;
      }));
      return client.reply(ticket);
    };
    const std::string first = get();
    late = first == "$-1\r\n" && WallMillis() >= expires && lasts_ms < 40'000;
    if (late) continue;
    EXPECT_EQ(first, "$1\r\n1\r\n");
    EXPECT_TRUE(Eventually([&] { return get() == "$-1\r\n"; }));
    EXPECT_GT(simulation.app->counters().known, 0u);
    EXPECT_EQ(simulation.app->counters().forwarded, 0u);
  }
}

// The test above can fail.
TEST(OffloadFlowTest, DirtyTable_Forgets_ViolationFound) {
  std::mt19937_64 seeds(testing_util::TestSeed());
  int found = 0;
  for (int round = 0; round < 50 && found == 0; ++round) {
    Simulation simulation(seeds(), true, Socket());
    found += simulation.Run(40'000).outcome == linear::Verdict::Outcome::kViolation;
  }
  EXPECT_GT(found, 0);
}

// Reads between two writes are answered here once the first is, and the second waits for that; few
// go with it to the host, which would be waited for else.
TEST(OffloadFlowTest, Write_BehindWaitingReads_WaitsForThem) {
  Simulation simulation(1, false, Socket());
  Client& client = *simulation.clients[0];
  // All of it clean, and in memory or not.
  simulation.CatchUp();
  const auto send = [&](const std::vector<std::vector<std::string_view>>& requests) {
    client.Ask(requests);
  };
  using Tickets = std::vector<net::Ticket>;
  send({{"SET", "a", "1"}, {"GET", "b"}, {"GET", "c"}, {"GET", "d"}, {"SET", "e", "1"}});
  EXPECT_EQ(client.at_host(), (Tickets{1}));
  for (int i = 0; i < 3; ++i) client.HostStep(simulation.random);
  ASSERT_EQ(client.answered(), 1u);
  // What shares the words of the table with "a" is clean then.
  simulation.CatchUp();
  ASSERT_TRUE(Eventually([&] {
    client.RunPost();
    client.flow->OnRoom();
    return client.at_host() == Tickets{5};
  }));
  EXPECT_EQ(client.answered(), 4u);
  EXPECT_EQ(simulation.app->counters().offloaded, 3u);
  EXPECT_EQ(simulation.app->counters().order, 0u);
  // Few go along; and something that concerns the connection takes all along.
  send({{"GET", "b"},
        {"SET", "f", "1"},
        {"GET", "b"},
        {"GET", "c"},
        {"GET", "d"},
        {"SET", "g", "1"}});
  EXPECT_EQ(client.at_host(), (Tickets{5, 6, 7}));
  EXPECT_EQ(simulation.app->counters().order, 1u);
  send({{"MULTI"}});
  EXPECT_EQ(client.at_host(), (Tickets{5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(simulation.app->counters().order, 4u);
}

// As little as what many keys and long requests have taken.
TEST(OffloadFlowTest, LargeValue_Answered_MemoryReleased) {
  Simulation simulation(1, false, Socket());
  Client& client = *simulation.clients[0];
  const std::string value(size_t{1} << 20, 'v');
  EncodeValue(value, kNever, &simulation.log["large"]);
  simulation.CatchUp();
  const auto kept = [&] { return static_cast<OffloadFlow*>(client.flow.get())->MemoryKept(); };
  const auto ask = [&](const std::vector<std::string_view>& words) {
    const net::Ticket ticket = client.Ask({words});
    EXPECT_TRUE(Eventually([&] {
      client.RunPost();
      return client.answered() == ticket;
    }));
    EXPECT_LE(kept(), size_t{48} << 10);
    return client.reply(ticket);
  };
  // In memory, and not.
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(ask({"GET", "large"}).size(), value.size() + std::string("$1048576\r\n\r\n").size());
  }
  // More than are read at a time.
  const std::vector<std::string_view> get = {"GET", "large"};
  const net::Ticket last = client.Ask(std::vector<std::vector<std::string_view>>(16, get));
  EXPECT_TRUE(Eventually([&] {
    client.RunPost();
    client.flow->OnRoom();
    return client.answered() == last;
  }));
  EXPECT_EQ(client.reply(last).size(), client.reply(1).size());
  std::vector<std::string_view> many(500, "none");
  many[0] = "EXISTS";
  for (int i = 0; i < 16; ++i) EXPECT_EQ(ask(many), ":0\r\n");
  EXPECT_EQ(simulation.app->counters().forwarded, 0u);
  many.assign(10'000, "none");
  many[0] = "DEL";
  client.Ask({many});
  client.Drop(":0\r\n");
  EXPECT_LE(kept(), size_t{48} << 10);
}

TEST(OffloadFlowTest, Multi_RefusedByHost_NoTransaction) {
  Simulation simulation(1, false, Socket());
  Client& client = *simulation.clients[0];
  simulation.CatchUp();
  // Another one was sent meanwhile, and is accepted.
  client.Ask({{"MULTI"}, {"MULTI"}});
  client.Drop("-NOAUTH Authentication required.\r\n");
  client.Drop("+OK\r\n");
  client.Ask({{"GET", "a"}});
  ASSERT_EQ(client.at_host().size(), 1u);
  client.Drop("+QUEUED\r\n");
  client.Ask({{"EXEC"}});
  client.Drop("*1\r\n$-1\r\n");
  client.Ask({{"MULTI"}});
  client.Drop("-NOAUTH Authentication required.\r\n");
  const net::Ticket ticket = client.Ask({{"GET", "a"}});
  ASSERT_TRUE(client.at_host().empty());
  EXPECT_TRUE(Eventually([&] {
    client.RunPost();
    return client.answered() == ticket;
  }));
  EXPECT_EQ(client.reply(ticket), "$-1\r\n");
  EXPECT_EQ(simulation.app->counters().offloaded, 1u);
}

TEST(OffloadFlowTest, Transaction_VeryManyKeys_MarksEverything) {
  Simulation simulation(1, false, Socket(), true, size_t{1} << 18);
  Client& client = *simulation.clients[0];
  const auto in_flight = [&] { return simulation.app->numbers().writes_in_flight; };
  simulation.CatchUp();
  const auto say = [&](const std::vector<std::string_view>& words, const std::string& reply) {
    client.Ask({words});
    ASSERT_EQ(client.at_host().size(), 1u);
    client.Drop(reply);
  };
  std::vector<std::string> keys;
  for (int i = 0; i < 200'000; ++i) keys.push_back(absl::StrCat("key", i));
  std::vector<std::string_view> words = {"MSET"};
  for (const std::string& key : keys) {
    words.push_back(key);
    words.push_back("value");
  }
  say({"MULTI"}, "+OK\r\n");
  say(words, "+QUEUED\r\n");
  say({"SET", "one", "more"}, "+QUEUED\r\n");
  EXPECT_EQ(in_flight(), 0u);
  client.Ask({{"EXEC"}});
  EXPECT_EQ(in_flight(), 1u);
  simulation.CatchUp();
  Client& other = *simulation.clients[1];
  other.Ask({{"GET", "another"}});
  EXPECT_EQ(other.at_host().size(), 1u);
  client.Drop("*2\r\n+OK\r\n+OK\r\n");
  EXPECT_EQ(in_flight(), 0u);
  // The next one is not as large. More than are kept unsorted, of which most are the same.
  say({"MULTI"}, "+OK\r\n");
  for (size_t i = 0; i < 3'000; ++i) say({"SET", keys[i % 3], ""}, "+QUEUED\r\n");
  client.Ask({{"EXEC"}});
  EXPECT_GE(in_flight(), 1u);
  EXPECT_LE(in_flight(), 3u);
  client.Drop("*0\r\n");
  EXPECT_EQ(in_flight(), 0u);
}

// The next connection to the host begins with a reply of its own.
TEST(OffloadFlowTest, Reply_CutOffByLostHost_Discarded) {
  Simulation simulation(1, false, Socket());
  Client& client = *simulation.clients[0];
  client.Ask({{"KEYS", "*"}});
  auto size = client.flow->SplitReply("*3\r\n$5\r\nfirst\r\n$6\r\nsec");
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(*size, 0u);
  client.LoseAll(/*sent=*/true);
  client.flow->HostPreface();
  size = client.flow->SplitReply("+preface\r\n");
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(*size, 10u);
}

// A new connection to the host is told who the client is, in the order in which it became that.
TEST(OffloadFlowTest, NewHostConnection_SetupCommands_RepeatedInOrder) {
  Simulation simulation(1, false, Socket());
  Client& client = *simulation.clients[0];
  net::Ticket ticket = 0;
  const auto say = [&](const std::vector<std::string_view>& words, const std::string& reply) {
    std::string bytes, out;
    AppendRequest(words, &bytes);
    client.flow->OnRequest(++ticket, bytes);
    client.flow->OnHostReply(ticket, reply, true, &out);
    EXPECT_EQ(out, reply);
    return bytes;
  };
  const auto expect = [&](const std::vector<std::string>& requests) {
    const std::string bytes = client.flow->HostPreface().bytes;
    size_t at = bytes.find("PULSE.HELLO");
    for (const std::string& request : requests) {
      at = bytes.find(request, at + 1);
      EXPECT_NE(at, std::string::npos) << request << " not in its place in " << bytes;
    }
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), '*'),
              static_cast<ptrdiff_t>(requests.size()) + 1)
        << bytes;
  };
  const std::string a = say({"HELLO", "3", "AUTH", "a", "pa"}, "%0\r\n");
  expect({a});
  const std::string b = say({"AUTH", "b", "pb"}, "+OK\r\n");
  expect({a, b});
  say({"AUTH", "c", "wrong"}, "-WRONGPASS\r\n");
  const std::string name = say({"CLIENT", "SETNAME", "n"}, "+OK\r\n");
  expect({a, b, name});
  const std::string two = say({"HELLO", "2"}, "*0\r\n");
  expect({b, name, two});
  // A host that wants a password takes nothing before it.
  const std::string again = say({"AUTH", "b", "pb"}, "+OK\r\n");
  expect({again, name, two});
  say({"RESET"}, "+RESET\r\n");
  expect({});
}

// The host ended its connection before it answered the first; the second came too late to be sent.
TEST(OffloadFlowTest, Commands_LostInAnotherOrder_LeaveNothingBehind) {
  Simulation simulation(1, false, Socket());
  Client& client = *simulation.clients[0];
  net::Ticket ticket = 0;
  const auto ask = [&](const std::vector<std::string_view>& words) {
    std::string bytes;
    AppendRequest(words, &bytes);
    client.flow->OnRequest(++ticket, bytes);
  };
  std::string out;
  ask({"CLIENT", "SETNAME", "n"});
  client.flow->OnHostReply(1, "+OK\r\n", true, &out);
  EXPECT_EQ(client.flow->HostPreface().replies, 2u);
  ask({"SET", "k", "v"});
  ask({"SET", "k", "w"});
  EXPECT_NE(client.flow->OnHostLost(3, /*sent=*/false).find("not carried out"), std::string::npos);
  EXPECT_NE(client.flow->OnHostLost(2, /*sent=*/true).find("not known"), std::string::npos);
  // The answer to what comes next is taken for that.
  ask({"RESET"});
  client.flow->OnHostReply(4, "+RESET\r\n", true, &out);
  EXPECT_EQ(client.flow->HostPreface().replies, 1u);
}

}  // namespace
}  // namespace pulse::redis
