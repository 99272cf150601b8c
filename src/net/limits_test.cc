// Back-pressure, limits, time-outs, resets, and what an idle connection costs.
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "net/byte_budget.h"
#include "net/test_director.h"

namespace pulse::net::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing_util::Eventually;
using testing_util::TestSeed;

class LimitsTest : public DirectorTest {
 protected:
  // A limit of 64 KiB, one message, what came in one piece, and the capacities' rounding.
  static constexpr uint64_t kBound = size_t{512} << 10;
  // Bytes held stop growing: the value that they stay at.
  uint64_t SettledBytes() {
    return testing_util::SettledValue([&] { return director_->stats().held_bytes; });
  }
};

void SmallBuffers(int fd) {
  const int bytes = 4096;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

TEST_P(LimitsTest, Client_DoesNotRead_IsNotReadFrom) {
  options_.limits.connection_bytes = 64 << 10;
  options_.limits.slow_ms = 0;
  app_.reply_suffix = std::string(10'000, 'r');
  Open();
  TestClient client(director_->port());
  constexpr int kRequests = 5'000;  // 50 MB of replies: more than all sockets' buffers
  std::string requests;
  for (int i = 0; i < kRequests; ++i) absl::StrAppend(&requests, "a", i, "\n");
  std::thread sender([&] { EXPECT_TRUE(client.Send(requests)); });
  EXPECT_TRUE(Eventually([&] { return director_->stats().pauses > 0; }));
  EXPECT_LT(SettledBytes(), kBound);
  EXPECT_LT(director_->stats().requests, uint64_t{kRequests});
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_EQ(client.Line(), absl::StrCat("agenta", i, app_.reply_suffix));
  }
  sender.join();
}

TEST_P(LimitsTest, Host_DoesNotRead_StopsItsClient) {
  options_.limits.connection_bytes = 64 << 10;
  OpenWithHost();
  host_->frozen = true;
  TestClient client(director_->port());
  constexpr int kRequests = 4'000;
  const std::string tail(5'000, 'x');
  std::thread sender([&] {
    for (int i = 0; i < kRequests; ++i) client.Send(absl::StrCat("h", i, tail, "\n"));
  });
  EXPECT_TRUE(Eventually([&] { return director_->stats().pauses > 0; }));
  EXPECT_LT(SettledBytes(), kBound);
  EXPECT_LT(director_->stats().requests, uint64_t{kRequests});
  host_->frozen = false;
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_EQ(client.Line(), absl::StrCat("hosth", i, tail));
  }
  sender.join();
}

TEST_P(LimitsTest, Client_DoesNotRead_StopsItsHost) {
  options_.limits.connection_bytes = 64 << 10;
  OpenWithHost();
  TestClient client(director_->port());
  // Few requests' bytes, nine times as many replies'.
  const std::string tail(40'000, 'x');
  constexpr int kRequests = 200;
  std::thread sender([&] {
    for (int i = 0; i < kRequests; ++i) client.Send(absl::StrCat("n:9", i, tail, "\n"));
  });
  EXPECT_TRUE(Eventually([&] { return director_->stats().pauses > 0; }));
  EXPECT_LT(SettledBytes(), kBound + (512u << 10));
  for (int i = 0; i < kRequests * 9; ++i) {
    ASSERT_EQ(client.Line(), absl::StrCat("hostn:9", i / 9, tail));
  }
  sender.join();
}

TEST_P(LimitsTest, Connections_AboveTheLimit_AreToldSo) {
  options_.limits.connections = 2;
  Open();
  TestClient one(director_->port());
  EXPECT_EQ(one.Ask("a1"), "agenta1");
  auto two = std::make_unique<TestClient>(director_->port());
  EXPECT_EQ(two->Ask("a2"), "agenta2");
  {
    TestClient three(director_->port());
    three.Send("a3\n");
    EXPECT_THAT(three.Line(), HasSubstr("-error max number of clients reached"));
    EXPECT_EQ(three.Line(), "EOF");
  }
  EXPECT_EQ(director_->stats().refused, 1u);
  two.reset();
  EXPECT_TRUE(Eventually([&] { return director_->stats().connections == 1; }));
  EXPECT_EQ(TestClient(director_->port()).Ask("a4"), "agenta4");
}

TEST_P(LimitsTest, Request_TooLong_IsRefusedAndTheRefusalArrives) {
  options_.limits.max_message = 1000;
  Open();
  TestClient client(director_->port());
  EXPECT_EQ(client.Ask(std::string(999, 'a')), absl::StrCat("agent", std::string(999, 'a')));
  // More than was read, so that a plain close would reset.
  client.Send(std::string(300'000, 'a'));
  EXPECT_THAT(client.Line(), HasSubstr("-error a request is longer than the limit of 1000 bytes"));
  EXPECT_EQ(client.Line(), "EOF");
}

TEST_P(LimitsTest, HostMessage_AboveMaxMessage_IsLost) {
  options_.limits.max_message = 1000;
  OpenWithHost();
  TestClient client(director_->port());
  EXPECT_EQ(client.Ask(absl::StrCat("h", std::string(990, 'x'))),
            absl::StrCat("hosth", std::string(990, 'x')));
  EXPECT_EQ(client.Ask(absl::StrCat("h", std::string(997, 'x'))), "-lost sent");
}

TEST_P(LimitsTest, HostMessage_LimitOfItsOwn_MayBeLongerThanARequest) {
  options_.limits.max_message = 1000;
  options_.limits.max_host_message = 2000;
  OpenWithHost();
  TestClient client(director_->port());
  const std::string line = absl::StrCat("h", std::string(997, 'x'));
  EXPECT_EQ(client.Ask(line), absl::StrCat("host", line));
}

// Nobody else waits for that, nor does the next request.
TEST_P(LimitsTest, HostMessage_TooLong_ConcernsItsClientAlone) {
  options_.limits.max_host_message = 1000;
  options_.limits.back_off_ms = options_.limits.back_off_max_ms = 3'600'000;
  OpenWithHost();
  TestClient other(director_->port());
  EXPECT_EQ(other.Ask("h1"), "hosth1");
  TestClient client(director_->port());
  EXPECT_EQ(client.Ask(absl::StrCat("h", std::string(2'000, 'x'))), "-lost sent");
  EXPECT_EQ(client.Ask("h2"), "hosth2");
  EXPECT_EQ(other.Ask("h3"), "hosth3");
  EXPECT_EQ(TestClient(director_->port()).Ask("h4"), "hosth4");
  EXPECT_EQ(director_->stats().host_failures, 0u);
}

// Of what is unfinished, each may have 16 KiB beyond the limit, and one all of its message.
TEST_P(LimitsTest, AllConnections_AboveTheirShare_WaitAndGetDoneOneByOne) {
  options_.limits.all_bytes = 1 << 20;
  options_.limits.max_message = 1 << 20;
  options_.threads = 2;
  Open();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<TestClient>(director_->port()));
    clients.back()->Send(std::string(200'000, 'a'));
  }
  EXPECT_LE(SettledBytes(), options_.limits.all_bytes + options_.limits.max_message +
                                clients.size() * (size_t{32} << 10));
  EXPECT_GT(director_->stats().pauses, 0u);
  // They wait for those that have not been finished.
  for (const auto& client : clients) client->Send("\n");
  for (const auto& client : clients) {
    EXPECT_EQ(client->Line(), absl::StrCat("agent", std::string(200'000, 'a')));
  }
  EXPECT_EQ(director_->stats().cut, 0u);
  // But for what they keep for their next requests.
  EXPECT_TRUE(Eventually([&] { return director_->stats().held_bytes < clients.size() << 10; }));
}

// Those who send nothing more do not hold the others up for ever.
TEST_P(LimitsTest, Clients_LeaveMessagesUnfinished_OthersGetDone) {
  options_.limits.all_bytes = 256 << 10;
  options_.limits.max_message = 1 << 20;
  options_.limits.slow_ms = 200;
  Open();
  std::vector<std::unique_ptr<TestClient>> hostile;
  for (int i = 0; i < 8; ++i) {
    hostile.push_back(std::make_unique<TestClient>(director_->port()));
    hostile.back()->Send(std::string(100'000, 'a'));
  }
  ASSERT_TRUE(Eventually([&] { return director_->stats().pauses > 0; }));
  TestClient client(director_->port());
  const std::string line(500'000, 'a');
  EXPECT_EQ(client.Ask(line), absl::StrCat("agent", line));
}

// Who takes nothing of its replies, or does not go on with its message, is not waited for as long
// as one that is slow.
TEST_P(LimitsTest, Clients_DoNothingWithWhatOthersNeed_AreCutOffSoon) {
  options_.limits.all_bytes = 100 << 10;
  options_.limits.max_message = 1 << 20;
  options_.limits.slow_ms = 600'000;
  options_.limits.patience_ms = 200;
  Open();
  for (const bool reads : {false, true}) {
    SCOPED_TRACE(reads ? "it does not finish a message" : "it does not read");
    ASSERT_TRUE(Empty());
    TestClient idle(director_->port());
    if (reads) {
      idle.Send(std::string(200'000, 'a'));
    } else {
      idle.Send("r:40000000\n");  // more than the kernel takes for it
    }
    ASSERT_TRUE(Eventually([&] { return director_->stats().held_bytes > 80'000; }));
    TestClient next(director_->port());
    next.Send("r:90000\n");
    EXPECT_EQ(next.Line().size(), 90'000u);
  }
}

// Whoever is first in line: it is not for want of room that they do not go on.
TEST_P(LimitsTest, Clients_WaitAndSendNothingMore_AreCutOff) {
  options_.limits.all_bytes = 256 << 10;
  options_.limits.max_message = 1 << 20;
  options_.limits.slow_ms = 200;
  Open();
  TestClient first(director_->port());
  const std::string line(900'000, 'a');
  first.Send(line);
  ASSERT_TRUE(Eventually([&] { return director_->stats().held_bytes > line.size(); }));
  TestClient silent(director_->port());
  silent.Send(std::string(400, 'a'));
  EXPECT_THAT(silent.Line(), AnyOf("EOF", "RESET", "-error a request was left unfinished"));
  first.Send("\n");
  EXPECT_EQ(first.Line(), absl::StrCat("agent", line));
}

// Together they hold less than they may, but too much for the next reply.
TEST_P(LimitsTest, Client_HoldsItsReplyTooLongForOthers_IsCutOff) {
  options_.limits.all_bytes = 100 << 10;
  options_.limits.slow_ms = 200;
  Open();
  for (const bool ends : {false, true}) {
    SCOPED_TRACE(ends ? "it has ended its side" : "it has not");
    ASSERT_TRUE(Empty());
    TestClient slow(director_->port());
    slow.Send("k\nr:80000\n");  // behind an answer that is not finished
    if (ends) slow.EndSending();
    ASSERT_TRUE(Eventually([&] { return director_->stats().held_bytes > 80'000; }));
    TestClient next(director_->port());
    next.Send("r:90000\n");
    EXPECT_EQ(slow.Line(), "kept");
    EXPECT_THAT(slow.Line(), AnyOf("EOF", "RESET"));
    EXPECT_EQ(next.Line().size(), 90'000u);
  }
}

// Who found room has no turn, and no place in line any more.
TEST_P(LimitsTest, Client_HasFoundRoomAndKeepsIt_IsNotWaitedFor) {
  options_.limits.all_bytes = 300 << 10;
  Open();
  TestClient first(director_->port());
  first.Send("k\nr:100000\n");
  ASSERT_TRUE(Eventually([&] { return director_->stats().held_bytes > 100'000; }));
  TestClient second(director_->port());
  second.Send("k\nr:100000\n");
  ASSERT_TRUE(Eventually([&] { return director_->stats().held_bytes > 200'000; }));
  TestClient third(director_->port());
  third.Send("r:290000\n");
  ASSERT_TRUE(Eventually([&] { return director_->stats().requests == 5; }));
  first.Reset();
  EXPECT_EQ(third.Line().size(), 290'000u);
}

TEST_P(LimitsTest, Client_WhoLacksNoRoom_IsNotInLine) {
  options_.budget = std::make_shared<ByteBudget>(300 << 10);
  app_.asks_at_once = true;
  Open();
  TestClient client(director_->port());
  client.Send("k\n" + std::string(17'000, 'a'));
  ASSERT_TRUE(Eventually([&] { return director_->stats().held_bytes > 17'000; }));
  client.Send("\n");
  ASSERT_TRUE(Eventually([&] { return director_->stats().requests == 2; }));
  SettledBytes();
  EXPECT_EQ(options_.budget->waiting(), 0u);
}

TEST_P(LimitsTest, SmallRequests_OfAClientInLine_KeepItsPlace) {
  options_.budget = std::make_shared<ByteBudget>(100 << 10);
  options_.limits.slow_ms = 0;  // nobody else goes
  Open();
  const auto wait_for = [&](size_t in_line) {
    return Eventually([&] { return options_.budget->waiting() == in_line; });
  };
  TestClient first(director_->port());
  first.Send("k\nr:80000\n");
  ASSERT_TRUE(wait_for(1));
  TestClient second(director_->port());
  second.Send("r:90000\n");
  ASSERT_TRUE(wait_for(2));
  TestClient third(director_->port());
  third.Send("k\nr:90000\n");
  ASSERT_TRUE(wait_for(3));
  second.Send("la\n");
  ASSERT_TRUE(Eventually([&] { return director_->stats().requests == 6; }));
  first.Reset();
  EXPECT_EQ(second.Line().size(), 90'000u);
  EXPECT_EQ(second.Line(), "latela");
}

TEST_P(LimitsTest, Flow_ThatTakesNoRequests_IsGivenNoneBeforeItsAnswer) {
  Open();
  TestClient client(director_->port());
  for (int round = 0; round < 50; ++round) {
    ASSERT_TRUE(client.Send("s1\na2\ns3\ns4\na5\n"));
    for (const char* line : {"s1", "agenta2", "s3", "s4", "agenta5"}) {
      ASSERT_EQ(client.Line(), line);
    }
    // Also where nothing has come behind it.
    ASSERT_EQ(client.Ask("s6"), "s6");
    ASSERT_EQ(client.Ask("a7"), "agenta7");
  }
  EXPECT_EQ(app_.given_too_early, 0);
}

// Small requests need none of the room that large ones wait for.
TEST_P(LimitsTest, SmallRequests_WhileLargeOnesWait_AreAnswered) {
  options_.limits.all_bytes = 256 << 10;
  options_.limits.max_message = 1 << 20;
  Open();
  std::vector<std::unique_ptr<TestClient>> large;
  for (int i = 0; i < 8; ++i) {
    large.push_back(std::make_unique<TestClient>(director_->port()));
    large.back()->Send(std::string(100'000, 'a'));
  }
  ASSERT_TRUE(Eventually([&] { return director_->stats().pauses > 0; }));
  TestClient client(director_->port());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(client.Ask("a"), "agenta");
}

TEST_P(LimitsTest, Clients_IdleSlowOrUnfinished_AreCutOff) {
  options_.limits.idle_ms = 50;
  options_.limits.slow_ms = 100;
  app_.reply_suffix = std::string(100'000, 'r');
  Open();
  TestClient idle(director_->port());
  TestClient unfinished(director_->port());
  ASSERT_TRUE(unfinished.Send("unfinished"));
  TestClient slow(director_->port());
  SmallBuffers(slow.fd());
  for (int i = 0; i < 200; ++i) slow.Send("a\n");
  EXPECT_EQ(idle.Line(), "EOF");
  // RESET: on a busy machine it was idle before it had said anything.
  EXPECT_THAT(unfinished.Line(), AnyOf("EOF", "RESET", "-error a request was left unfinished"));
  EXPECT_TRUE(Empty());
}

// However little it takes at a time: the kernel makes room for more only in large portions.
TEST_P(LimitsTest, Client_ReadsSlowly_IsNotCutOff) {
  if (spins()) GTEST_SKIP() << "as with a loop that sleeps";
  constexpr auto kSlow = std::chrono::milliseconds(1'500);
  options_.limits.slow_ms = kSlow.count();
  app_.reply_suffix = std::string(16 << 20, 'r');  // more than the sockets' buffers
  Open();
  using Clock = std::chrono::steady_clock;
  // Again, if this machine has kept the client from reading for so long that it had to be cut off.
  for (int tries = 0; tries < 5; ++tries) {
    TestClient client(director_->port());
    SmallBuffers(client.fd());
    ASSERT_TRUE(client.Send("a1\n"));
    Clock::time_point last = Clock::now();
    Clock::duration longest{};
    const auto cut = [&] {
      longest = std::max(longest, Clock::now() - std::exchange(last, Clock::now()));
      const DirectorStats stats = director_->stats();
      return stats.accepted > static_cast<uint64_t>(tries) && stats.connections == 0;
    };
    ASSERT_TRUE(Eventually([&] { return director_->stats().held_bytes > 0 || cut(); }));
    // A few of these open the window; all of them together do not make the kernel say that there is
    // room.
    std::vector<char> some(8 << 10);
    for (const auto end = last + 2 * kSlow; last < end && !cut();) {
      // It would go on reading what the kernel still has.
      if (recv(client.fd(), some.data(), some.size(), 0) <= 0) {
        ASSERT_TRUE(Eventually(cut));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // sleep: it reads slowly
    }
    if (!cut()) return;
    ASSERT_GT(longest, kSlow / 3) << "cut off, though it read all the time";
  }
  GTEST_SKIP() << "this machine is too busy";
}

// Says nothing, ever, and keeps some memory.
class EndlessHandshake : public Transport {
 public:
  absl::Status FromWire(std::string_view, std::string*, std::string*) override {
    return absl::OkStatus();
  }
  absl::Status ToWire(std::string_view, std::string*) override { return absl::OkStatus(); }
  bool ended() const override { return false; }
  bool handshaking() const override { return true; }
  size_t held() const override { return 12'345; }
  void Finish(std::string*) override {}
};

TEST_P(LimitsTest, Handshake_NeverEnds_ClientIsCutOff) {
  options_.limits.slow_ms = 200;
  options_.transport = [] { return std::make_unique<EndlessHandshake>(); };
  Open();
  TestClient silent(director_->port());
  TestClient talks(director_->port());
  ASSERT_TRUE(talks.Send("hello?"));
  EXPECT_THAT(silent.Line(), AnyOf("EOF", "RESET"));
  EXPECT_TRUE(Empty());
  EXPECT_EQ(director_->stats().held_bytes, 0u);
}

TEST_P(LimitsTest, HeldBytes_TransportKeepsMemory_CountIt) {
  options_.limits.slow_ms = 0;
  options_.transport = [] { return std::make_unique<EndlessHandshake>(); };
  Open();
  auto client = std::make_unique<TestClient>(director_->port());
  ASSERT_TRUE(client->Send("hello?"));
  EXPECT_TRUE(Eventually([&] { return director_->stats().held_bytes >= 12'345; }));
  client.reset();
  EXPECT_TRUE(Empty());
  EXPECT_EQ(director_->stats().held_bytes, 0u);
}

TEST_P(LimitsTest, Client_WaitsForItsAnswer_IsNotIdle) {
  options_.limits.idle_ms = 20;
  OpenWithHost();
  host_->frozen = true;
  // One that was cut off before its request was taken was idle, and comes again.
  std::unique_ptr<TestClient> client;
  ASSERT_TRUE(Eventually([&] {
    if (director_->stats().requests == 1) return true;
    if (client != nullptr) {
      pollfd cut{client->fd(), POLLIN, 0};
      if (poll(&cut, 1, 0) == 0) return false;
    }
    client = std::make_unique<TestClient>(director_->port());
    client->Send("h1\n");
    return false;
  }));
  // As long as it takes until one that came later and says nothing is cut off.
  EXPECT_EQ(TestClient(director_->port()).Line(), "EOF");
  host_->frozen = false;
  EXPECT_EQ(client->Line(), "hosth1");
  EXPECT_EQ(client->Line(), "EOF");
}

TEST_P(LimitsTest, Connections_ResetAtAnyTime_LeaveNothingBehind) {
  options_.threads = 2;
  options_.limits.back_off_max_ms = 20;
  OpenWithHost();
  std::mt19937_64 random(TestSeed());
  constexpr int kRounds = testing_util::kThreadSanitizer ? 2 : 5;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < 200; ++i) {
      clients.push_back(std::make_unique<TestClient>(director_->port()));
      std::string bytes;
      for (uint64_t k = random() % 8; k > 0; --k) {
        absl::StrAppend(&bytes, std::string(1, "ahlbnoq"[random() % 7]), ":2xxxxxx\n");
      }
      clients.back()->Send(bytes.substr(0, random() % (bytes.size() + 1)));
      if (random() % 3 == 0) clients[random() % clients.size()]->Reset();
    }
    for (const auto& client : clients) {
      if (random() % 2 == 0) client->Reset();
    }
  }
  EXPECT_TRUE(Empty());
  EXPECT_EQ(app_.flows, 0);
  EXPECT_EQ(director_->stats().held_bytes, 0u);
  EXPECT_EQ(TestClient(director_->port()).Ask("h1"), "hosth1");
}

TEST_P(LimitsTest, IdleConnection_AfterReplies_HoldsNoBytes) {
  options_.limits.idle_ms = 0;
  options_.limits.slow_ms = 1'000;  // sweeps more often
  OpenWithHost();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 100; ++i) {
    clients.push_back(std::make_unique<TestClient>(director_->port()));
    ASSERT_TRUE(clients.back()->Send("a1\nh2\nl3\n"));
    EXPECT_EQ(clients.back()->Line(), "agenta1");
    EXPECT_EQ(clients.back()->Line(), "hosth2");
    EXPECT_EQ(clients.back()->Line(), "latel3");
  }
  EXPECT_TRUE(Eventually([&] { return director_->stats().held_bytes == 0; }));
  EXPECT_EQ(director_->stats().connections, 100u);
}

}  // namespace
PULSE_SLEEPING_AND_SPINNING(LimitsTest);
}  // namespace pulse::net::test
