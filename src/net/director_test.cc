// Order, splitting, ends and what a host does to them.
#include "net/director.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <chrono>
#include <fstream>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "net/test_director.h"

namespace pulse::net::test {
namespace {

using ::testing::StartsWith;
using testing_util::Eventually;
using testing_util::TestSeed;

// A random mixture of requests, and the answers in order.
std::pair<std::string, std::vector<std::string>> Mixture(std::mt19937_64* random, int n) {
  std::string bytes;
  std::vector<std::string> answers;
  for (int i = 0; i < n; ++i) {
    const std::string tail = absl::StrCat(i, std::string((*random)() % 40, 'x'));
    const char kinds[] = "alb nho";
    const char kind = kinds[(*random)() % 7];
    if (kind == ' ') continue;
    const std::string line =
        kind == 'n' ? absl::StrCat("n:3", tail) : absl::StrCat(std::string(1, kind), tail);
    absl::StrAppend(&bytes, line, "\n");
    const std::string who = kind == 'l' ? "late" : kind == 'n' || kind == 'h' ? "host" : "agent";
    for (int k = 0; k < (kind == 'n' ? 3 : kind == 'o' ? 0 : 1); ++k) {
      answers.push_back(absl::StrCat(who, line));
    }
  }
  return {bytes, answers};
}

TEST_P(DirectorTest, Server_WithoutHost_AnswersItsOwnAndSaysLost) {
  Open();
  TestClient client(director_->port());
  EXPECT_EQ(client.Ask("a1"), "agenta1");
  EXPECT_EQ(client.Ask("b2"), "agentb2");
  EXPECT_EQ(client.Ask("l3"), "latel3");
  EXPECT_EQ(client.Ask("h4"), "-lost unsent");
  EXPECT_EQ(client.Ask("o5"), "-lost unsent");
}

TEST_P(DirectorTest, PortPerLoop_EachServes_AndOneTooManyIsRefused) {
  options_.threads = 3;
  options_.port_per_loop = true;
  std::vector<uint16_t> ports;
  options_.on_listening = [&](const std::vector<uint16_t>& chosen) { ports = chosen; };
  Open();
  ASSERT_EQ(ports.size(), 3u);
  EXPECT_EQ(ports[0], director_->port());
  EXPECT_EQ(std::set<uint16_t>(ports.begin(), ports.end()).size(), 3u);
  for (const uint16_t port : ports) EXPECT_EQ(TestClient(port).Ask("a1"), "agenta1");
  // A range whose end somebody else has, and one that has no end.
  options_.listen = {absl::StrCat("127.0.0.1:", ports[1] - 1)};
  EXPECT_FALSE(Director::Open(options_).ok());
  options_.listen = {"127.0.0.1:65534"};
  EXPECT_THAT(Director::Open(options_).status().message(),
              ::testing::HasSubstr("choose a lower port"));
}

TEST_P(DirectorTest, PortPerLoop_WithFirstPort_TakesThoseThatFollow) {
  options_.threads = 3;
  options_.port_per_loop = true;
  std::vector<uint16_t> ports;
  options_.on_listening = [&](const std::vector<uint16_t>& chosen) { ports = chosen; };
  // Somebody may have one of them.
  for (int port = 21'500; director_ == nullptr && port < 22'000; port += 3) {
    options_.listen = {absl::StrCat("127.0.0.1:", port)};
    options_.application = &app_;
    if (auto director = Director::Open(options_); director.ok()) director_ = *std::move(director);
  }
  ASSERT_NE(director_, nullptr);
  EXPECT_EQ(ports[1], ports[0] + 1);
  EXPECT_EQ(ports[2], ports[0] + 2);
  for (const uint16_t port : ports) EXPECT_EQ(TestClient(port).Ask("a1"), "agenta1");
}

TEST_P(DirectorTest, Replies_RandomPipelines_KeepTheOrder) {
  options_.threads = 2;
  OpenWithHost();
  std::mt19937_64 random(TestSeed());
  size_t requests = 0;
  for (int round = 0; round < 10; ++round) {
    TestClient client(director_->port());
    const auto [bytes, answers] = Mixture(&random, 500);
    requests += static_cast<size_t>(std::count(bytes.begin(), bytes.end(), '\n'));
    std::thread sender([&, b = bytes] { EXPECT_TRUE(client.Send(b)); });
    size_t right = 0;
    while (right < answers.size() && client.Line() == answers[right]) ++right;
    sender.join();
    ASSERT_EQ(right, answers.size());
  }
  EXPECT_TRUE(Eventually([&] { return director_->stats().requests == requests; }));
}

TEST_P(DirectorTest, Messages_CutAtAnyByte_AreAnsweredAsWhole) {
  OpenWithHost();
  const std::string bytes = "a1\nh22\nb333\nn:2x\nl5\n";
  TestClient client(director_->port());
  for (size_t cut = 1; cut < bytes.size(); ++cut) {
    ASSERT_TRUE(client.Send(bytes.substr(0, cut)));
    // sleep: so that the parts arrive apart, mostly; nothing tells that the first has been read
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    ASSERT_TRUE(client.Send(bytes.substr(cut)));
    for (const char* answer :
         {"agenta1", "hosth22", "agentb333", "hostn:2x", "hostn:2x", "latel5"}) {
      ASSERT_EQ(client.Line(), answer) << "cut at " << cut;
    }
  }
}

TEST_P(DirectorTest, Replies_AnyOrderAllowed_ComeAsTheyAreReady) {
  app_.order = Ordering::kAny;
  options_.limits.drain_ms = 50;  // one answer never comes
  OpenWithHost();
  host_->swallow = true;
  TestClient client(director_->port());
  ASSERT_TRUE(client.Send("h1\na2\n"));
  EXPECT_EQ(client.Line(), "agenta2");
  EXPECT_EQ(client.Ask("a3"), "agenta3");
}

TEST_P(DirectorTest, HalfClosedClient_RepliesOutstanding_GetsThem) {
  OpenWithHost();
  TestClient client(director_->port());
  ASSERT_TRUE(client.Send("l1\nh2\na3\no4\nincomplete"));
  client.EndSending();
  EXPECT_EQ(client.Line(), "latel1");
  EXPECT_EQ(client.Line(), "hosth2");
  EXPECT_EQ(client.Line(), "agenta3");
  EXPECT_EQ(client.Line(), "EOF");
  EXPECT_TRUE(Empty());
  EXPECT_EQ(app_.flows, 0);
  EXPECT_TRUE(Eventually([&] { return host_->lines == 2; }));
}

TEST_P(DirectorTest, Client_EndsInMidMessage_GetsEofOnly) {
  Open();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<TestClient>(director_->port()));
    ASSERT_TRUE(clients.back()->Send(std::string(100'000, 'a')));
  }
  for (const auto& client : clients) {
    client->EndSending();
    ASSERT_EQ(client->Line(), "EOF");
  }
}

TEST_P(DirectorTest, LastWords_RequestsAskedBefore_ComeAfterTheirReplies) {
  OpenWithHost();
  TestClient client(director_->port());
  ASSERT_TRUE(client.Send("l1\nh2\nquit\na3\n"));
  EXPECT_EQ(client.Line(), "latel1");
  EXPECT_EQ(client.Line(), "hosth2");
  EXPECT_EQ(client.Line(), "bye");
  EXPECT_EQ(client.Line(), "EOF");
  client.EndSending();
  EXPECT_TRUE(Empty());
}

TEST_P(DirectorTest, MalformedRequest_TwoClients_EndsItsOwnAlone) {
  OpenWithHost();
  TestClient other(director_->port());
  EXPECT_EQ(other.Ask("a1"), "agenta1");
  TestClient client(director_->port());
  ASSERT_TRUE(client.Send("l1\nbad\na2\n"));
  EXPECT_EQ(client.Line(), "latel1");
  EXPECT_EQ(client.Line(), "-error malformed");
  EXPECT_EQ(client.Line(), "EOF");
  EXPECT_EQ(other.Ask("h2"), "hosth2");
  EXPECT_EQ(director_->stats().cut, 1u);
}

TEST_P(DirectorTest, Host_DiesWithRequests_IsToldOfAndFoundAgain) {
  options_.limits.back_off_max_ms = 20;
  OpenWithHost();
  TestClient client(director_->port());
  EXPECT_EQ(client.Ask("h1"), "hosth1");
  host_->swallow = true;
  ASSERT_TRUE(client.Send("h2\na3\nh4\n"));
  EXPECT_TRUE(Eventually([&] { return host_->lines == 3; }));
  host_->Stop();
  EXPECT_EQ(client.Line(), "-lost sent");
  EXPECT_EQ(client.Line(), "agenta3");
  EXPECT_EQ(client.Line(), "-lost sent");
  EXPECT_TRUE(Eventually([&] { return app_.host_closed == 1; }));
  EXPECT_EQ(client.Ask("h5"), "-lost unsent");
  EXPECT_EQ(client.Ask("a6"), "agenta6");
  host_->swallow = false;
  host_->Start();
  std::string answer;
  EXPECT_TRUE(Eventually([&] { return (answer = client.Ask("h7")) != "-lost unsent"; }));
  EXPECT_EQ(answer, "hosth7");
  EXPECT_EQ(director_->stats().host_connections, 2u);
}

// What this process lacks says nothing of the host.
TEST_P(DirectorTest, HostConnection_NoDescriptorLeft_WaitsForOne) {
  app_.order = Ordering::kAny;
  options_.limits.connect_ms = 60'000;
  OpenWithHost();
  TestClient client(director_->port());
  EXPECT_EQ(client.Ask("a1"), "agenta1");
  {
    const testing_util::NoMoreFiles none;
    ASSERT_TRUE(client.Send("h2\na3\n"));
    EXPECT_EQ(client.Line(), "agenta3");  // by then it has tried to connect
  }
  EXPECT_EQ(client.Line(), "hosth2");
  EXPECT_EQ(director_->stats().host_failures, 0u);
}

TEST_P(DirectorTest, IdleHostConnection_Ends_IsReplacedUnnoticed) {
  OpenWithHost();
  TestClient client(director_->port());
  EXPECT_EQ(client.Ask("h1"), "hosth1");
  host_->Stop();
  EXPECT_TRUE(Eventually([&] { return app_.host_closed == 1; }));
  host_->Start();
  EXPECT_EQ(client.Ask("h2"), "hosth2");
}

// The host's end and the next request come in one turn.
TEST_P(DirectorTest, Request_AsTheHostEnds_GoesToTheNextConnection) {
  OpenWithHost();
  TestClient client(director_->port());
  ASSERT_NO_FATAL_FAILURE(InOneTurn(&client, "w\n", [&] {
    host_->Stop();
    host_->Start();
    ASSERT_TRUE(client.Send("p2\n"));
  }));
  EXPECT_EQ(client.Line(), "hostp2");
  EXPECT_EQ(app_.host_closed, 1);
}

TEST_P(DirectorTest, Request_AsTheHostEndsAndFlowCloses_IsNotSent) {
  app_.close_with_host = true;
  OpenWithHost();
  TestClient client(director_->port());
  ASSERT_NO_FATAL_FAILURE(InOneTurn(&client, "w\n", [&] {
    host_->Stop();
    host_->Start();
    ASSERT_TRUE(client.Send("p2\no3\n"));
  }));
  EXPECT_EQ(client.Line(), "-closed");
  EXPECT_EQ(client.Line(), "EOF");
  client.EndSending();
  EXPECT_TRUE(Empty());
  // The host has all that was sent before this.
  EXPECT_EQ(TestClient(director_->port()).Ask("h4"), "hosth4");
  EXPECT_EQ(host_->lines, 2u);
}

TEST_P(DirectorTest, Preface_HostConnection_GoesFirstAndOnce) {
  app_.preface = "hello\n";
  OpenWithHost();
  TestClient client(director_->port());
  ASSERT_TRUE(client.Send("h1\nh2\n"));
  EXPECT_EQ(client.Line(), "hosth1");
  EXPECT_EQ(client.Line(), "hosth2");
  EXPECT_EQ(host_->lines, 3u);
}

TEST_P(DirectorTest, Preface_HostRefusesIt_LosesTheHost) {
  app_.preface = "hx\n";
  OpenWithHost();
  TestClient client(director_->port());
  ASSERT_TRUE(client.Send("h1\na2\n"));
  EXPECT_EQ(client.Line(), "-lost unsent");
  EXPECT_EQ(client.Line(), "agenta2");
  EXPECT_EQ(director_->stats().host_failures, 1u);
}

TEST_P(DirectorTest, UnixSockets_ListenerAndHost_ServeAndRefuseASecond) {
  const testing_util::ScratchPath front("front");
  const testing_util::ScratchPath back("back");
  options_.listen = {absl::StrCat("unix:", back.get())};
  options_.threads = 2;
  Open();
  LineApplication front_app;
  DirectorOptions front_options = options_;
  front_options.listen = {absl::StrCat("unix:", front.get())};
  front_options.host = options_.listen[0];
  front_options.application = &front_app;
  auto proxy = Director::Open(front_options);
  ASSERT_TRUE(proxy.ok()) << proxy.status();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<TestClient>(absl::StrCat("unix:", front.get())));
    // The host behind has no host itself.
    EXPECT_EQ(clients.back()->Ask("h1"), "-lost unsent");
    EXPECT_EQ(clients.back()->Ask("a1"), "agenta1");
  }
  const auto again = Director::Open(front_options);
  ASSERT_FALSE(again.ok());
  EXPECT_THAT(std::string(again.status().message()), StartsWith("listening on unix:"));
  EXPECT_THAT(std::string(again.status().message()), ::testing::HasSubstr("stop the server"));
}

TEST_P(DirectorTest, Stop_SuccessorHasThePath_LeavesItsSocket) {
  const testing_util::ScratchPath path("front");
  options_.listen = {absl::StrCat("unix:", path.get())};
  Open();
  ASSERT_EQ(unlink(path.c_str()), 0);
  const auto former = std::move(director_);
  Open();
  former->Stop();
  EXPECT_EQ(TestClient(options_.listen[0]).Ask("a1"), "agenta1");
}

TEST_P(DirectorTest, LoopRead_FullShortOrPastTheEnd_GivesWhatIsThere) {
  const testing_util::ScratchPath file("data");
  std::ofstream(file.get()) << std::string(8192, 'a') << std::string(4096, 'b');
  const UniqueFd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));

  class ReadFlow : public Flow {
   public:
    ReadFlow(Connection* c, int device) : connection_(c), device_(device) {}
    absl::StatusOr<size_t> SplitRequest(std::string_view bytes) override {
      return bytes.size() < 5 ? 0 : 5;  // an offset in decimals
    }
    absl::StatusOr<size_t> SplitReply(std::string_view bytes) override { return bytes.size(); }
    void OnRequest(Ticket ticket, std::string_view bytes) override {
      auto buffer = std::make_shared<Buffer>(*connection_->buffers()->Take(4096, 16));
      connection_->loop()->Read(
          device_, std::stoul(std::string(bytes)), buffer->data(), 4096,
          [c = connection_, alive = std::weak_ptr<int>(alive_), ticket, buffer](int64_t n) {
            if (alive.expired()) return;
            if (n <= 0) {
              c->Reply(ticket, "no\n");
              return;
            }
            buffer->Trim(0, 1);
            *buffer->Grow(1) = '\n';
            *buffer->Prepend(1) = n == 4096 ? '=' : '!';
            c->Reply(ticket, std::move(*buffer));
          });
    }
    std::string OnHostLost(Ticket, bool) override { return ""; }
    std::string ErrorReply(const absl::Status&) override { return ""; }

   private:
    Connection* const connection_;
    const int device_;
    const std::shared_ptr<int> alive_ = std::make_shared<int>();
  };
  class ReadApplication : public Application {
   public:
    explicit ReadApplication(int device) : device_(device) {}
    std::unique_ptr<Flow> NewFlow(Connection* c) override {
      return std::make_unique<ReadFlow>(c, device_);
    }

   private:
    const int device_;
  };

  ReadApplication app(fd.get());
  Open();
  DirectorOptions options = options_;
  options.application = &app;
  auto director = Director::Open(options);
  ASSERT_TRUE(director.ok()) << director.status();
  TestClient client((*director)->port());
  ASSERT_TRUE(client.Send("0000004096081920819399999"));
  for (const char* answer : {"=a", "=a", "=b", "!b", "no"}) EXPECT_EQ(client.Line(), answer);
  // A client that leaves while its reads are under way.
  for (int i = 0; i < 50; ++i) {
    TestClient gone((*director)->port());
    gone.Send("000000000000000");
    gone.Reset();
  }
}

TEST_P(DirectorTest, Stop_RequestsTaken_AnswersThemFirst) {
  OpenWithHost();
  TestClient idle(director_->port());
  EXPECT_EQ(idle.Ask("a1"), "agenta1");
  TestClient client(director_->port());
  host_->frozen = true;
  EXPECT_EQ(client.Ask("a1"), "agenta1");
  ASSERT_TRUE(client.Send("h1\nl2\n"));
  EXPECT_TRUE(Eventually([&] { return director_->stats().requests == 4; }));
  std::thread stopper([&] { director_->Stop(); });
  EXPECT_EQ(idle.Line(), "EOF");
  host_->frozen = false;
  EXPECT_EQ(client.Line(), "hosth1");
  EXPECT_EQ(client.Line(), "latel2");
  EXPECT_EQ(client.Line(), "EOF");
  client.EndSending();
  stopper.join();
  EXPECT_EQ(app_.flows, 0);
  EXPECT_FALSE(TestClient(director_->port()).ok());
}

// Who closes a connection will not answer what is open on it: nothing is waited for.
TEST_P(DirectorTest, Stop_ConnectionThatItsFlowCloses_IsNotWaitedFor) {
  options_.limits.drain_ms = 600'000;
  Open();
  TestClient idle(director_->port());
  EXPECT_EQ(idle.Ask("a1"), "agenta1");
  TestClient client(director_->port());
  EXPECT_EQ(client.Ask("k1"), "kept");
  std::thread stopper([&] { director_->Stop(); });
  EXPECT_EQ(idle.Line(), "EOF");  // it has begun to stop
  app_.close_kept();
  EXPECT_EQ(client.Line(), "closed");
  EXPECT_EQ(client.Line(), "EOF");
  client.EndSending();
  stopper.join();
}

TEST(DirectorOptionsTest, Open_BadOptionOrTakenPort_IsRefused) {
  LineApplication app;
  DirectorOptions options;
  options.application = &app;
  options.listen = {"nonsense"};
  EXPECT_FALSE(Director::Open(options).ok());
  options.listen = {"127.0.0.1:0"};
  options.match = {"tcp"};
  EXPECT_FALSE(Director::Open(options).ok());
  options.match.clear();
  options.threads = 0;
  EXPECT_FALSE(Director::Open(options).ok());
  options.threads = 1;
  auto director = Director::Open(options);
  ASSERT_TRUE(director.ok()) << director.status();
  options.listen = {absl::StrCat("127.0.0.1:", (*director)->port())};
  const auto second = Director::Open(options);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), ::testing::HasSubstr("choose another port"));
}

}  // namespace
PULSE_SLEEPING_AND_SPINNING(DirectorTest);
}  // namespace pulse::net::test
