// The client of datagrams, with a server in this process, or, where PULSE_TEST_UDP_PORT has the
// port of an endpoint, with that one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/testing.h"
#include "pulse/kv_udp_client.h"
#include "services/kv/udp/server.h"
#include "services/kv/udp/test_proxy.h"
#include "services/kv/udp/test_udp.h"

namespace pulse::kv {
namespace {

using ::testing::HasSubstr;
using testing_util::Eventually;

std::string AddressOf(uint16_t port) { return absl::StrCat("127.0.0.1:", port); }

class UdpClientTest : public testing::Test {
 protected:
  void Open(int partitions = 2, const KvUdpOptions& options = {}) {
    OpenServer(partitions);
    Connect(AddressOf(port_), options);
  }
  void OpenServer(int partitions = 2, int port = 0) {
    if (const char* text = getenv("PULSE_TEST_UDP_PORT"); text != nullptr && port == 0) {
      port_ = static_cast<uint16_t>(atoi(text));
      return;
    }
    KvStoreOptions store;
    store.memory_bytes = uint64_t{64} << 20;
    store.partitions = partitions;
    store_ = *KvStore::Open(store);
    // A port that was its own before may be another program's for a while.
    absl::StatusOr<std::unique_ptr<UdpServer>> server;
    EXPECT_TRUE(Eventually([&] {
      server = UdpServer::Open(store_.get(), {.port = port, .threads = 2, .clients = 4});
      return server.ok() || port == 0;
    }));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    port_ = server_->ports().back();
  }
  void Connect(const std::string& address, KvUdpOptions options = {}) {
    options.endpoints = {address};
    if (options.timeout_ms == KvUdpOptions().timeout_ms) options.timeout_ms = kUdpMostTimeoutMs;
    // Where a test wants little time, the server may need more of it on a busy machine.
    absl::StatusOr<std::unique_ptr<KvUdpClient>> client;
    EXPECT_TRUE(Eventually([&] { return (client = KvUdpClient::Open(options)).ok(); }));
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }
  std::string Get(std::string_view key) {
    std::string value;
    const absl::Status status = client_->Get(key, &value);
    return status.ok() ? value : absl::StrCat("(", absl::StatusCodeToString(status.code()), ")");
  }
  // Takes `count` completions, and what comes with them, by tag.
  std::unordered_map<uint64_t, std::string> Take(size_t count) {
    std::unordered_map<uint64_t, std::string> all;
    std::array<KvUdpCompletion, 7> some;
    while (all.size() < count) {
      const size_t n = client_->Wait(absl::MakeSpan(some), kUdpMostTimeoutMs);
      if (n == 0) break;
      for (size_t i = 0; i < n; ++i) {
        const bool fresh = all.emplace(some[i].tag, absl::StrCat(static_cast<int>(some[i].code),
                                                                 " ", std::string(some[i].value)))
                               .second;
        EXPECT_TRUE(fresh) << some[i].tag;
      }
    }
    EXPECT_GE(all.size(), count);
    return all;
  }

  uint16_t port_ = 0;
  std::unique_ptr<KvStore> store_;
  std::unique_ptr<UdpServer> server_;
  std::unique_ptr<KvUdpClient> client_;
};

TEST_F(UdpClientTest, OneRequest_IsAnswered) {
  Open();
  EXPECT_EQ(Get("a"), "(NOT_FOUND)");
  EXPECT_TRUE(client_->Set("a", "1").ok());
  EXPECT_EQ(Get("a"), "1");
  EXPECT_TRUE(client_->Set("", "", 60'000).ok());
  EXPECT_EQ(Get(""), "");
  EXPECT_TRUE(client_->Delete("a").ok());
  EXPECT_TRUE(absl::IsNotFound(client_->Delete("a")));
  EXPECT_TRUE(absl::IsInvalidArgument(client_->Set("a", "1", -1)));
  // On a slow machine a datagram is sent again, and its second answer is nobody's.
  EXPECT_LE(client_->stats().ignored, client_->stats().resent);
}

TEST_F(UdpClientTest, TimeToLive_Ends) {
  Open();
  ASSERT_TRUE(client_->Set("a", "1", 1).ok());
  EXPECT_TRUE(Eventually([&] { return Get("a") == "(NOT_FOUND)"; }));
}

TEST_F(UdpClientTest, Sizes_BeyondADatagram_AreRefusedByName) {
  Open();
  const std::string most(client_->set_bytes() - 1, 'v');
  ASSERT_TRUE(client_->Set("k", most).ok());
  const bool fits = most.size() <= client_->get_bytes();
  ASSERT_TRUE(fits);
  EXPECT_EQ(Get("k"), most);
  EXPECT_THAT(client_->Set("kk", most).message(), HasSubstr("another protocol"));
  EXPECT_THAT(client_->Set(std::string(70'000, 'k'), "").message(), HasSubstr("another protocol"));
  // Written by another client.
  KvUdpOptions larger;
  larger.datagram_bytes = kUdpMostDatagram;
  larger.endpoints = {AddressOf(port_)};
  auto other = KvUdpClient::Open(larger);
  ASSERT_TRUE(other.ok()) << other.status();
  const std::string value((*other)->set_bytes() - 1, 'w');
  ASSERT_TRUE((*other)->Set("k", value).ok());
  std::string read;
  EXPECT_THAT(client_->Get("k", &read).message(), HasSubstr(absl::StrCat(value.size(), " bytes")));
  ASSERT_TRUE((*other)->Get("k", &read).ok());
  EXPECT_EQ(read, value);
}

// Rounds of requests on different keys, all under way together, against a map.
TEST_F(UdpClientTest, Pipelines_OnAllPartitions_AnswerAsAMapDoes) {
  for (const uint32_t datagram : {512U, 1432U, 65504U}) {
    KvUdpOptions options;
    options.datagram_bytes = datagram;
    Open(3, options);
    std::mt19937_64 random(testing_util::TestSeed());
    std::unordered_map<std::string, std::string> model;
    for (int i = 0; i < 500; ++i)
      ASSERT_FALSE(absl::IsUnavailable(client_->Delete(std::to_string(i))));
    for (int round = 0; round < 30; ++round) {
      std::unordered_map<uint64_t, std::string> expected;
      std::unordered_map<uint64_t, std::string> got;
      const auto take = [&](size_t n) {
        for (auto& [tag, text] : Take(n)) got[tag] = text;
      };
      for (uint64_t i = 0; i < 500; ++i) {
        const std::string key = std::to_string(i);
        const std::string value(random() % 400, static_cast<char>('a' + i % 26));
        const uint64_t what = random() % 4;
        const auto submit = [&] {
          return what < 2    ? client_->SubmitGet(key, i)
                 : what == 2 ? client_->SubmitSet(key, value, 0, i)
                             : client_->SubmitDelete(key, i);
        };
        absl::Status status = submit();
        while (absl::IsResourceExhausted(status)) {
          take(1);
          status = submit();
        }
        ASSERT_TRUE(status.ok()) << status;
        const auto found = model.find(key);
        if (what < 2) {
          expected[i] = found == model.end() ? "1 " : "0 " + found->second;
        } else if (what == 2) {
          model[key] = value;
          expected[i] = "0 ";
        } else {
          expected[i] = model.erase(key) > 0 ? "0 " : "1 ";
        }
      }
      take(client_->outstanding());
      ASSERT_EQ(got, expected);
      ASSERT_EQ(client_->outstanding(), 0u);
    }
    client_.reset();
    server_.reset();
  }
}

TEST_F(UdpClientTest, Submit_BeyondTheWindow_IsBusyUntilCompletionsAreTaken) {
  KvUdpOptions options;
  options.window = 1;
  options.datagram_bytes = 512;
  Open(1, options);
  uint64_t submitted = 0;
  while (client_->SubmitGet("some key", submitted).ok()) ++submitted;
  EXPECT_GT(submitted, 20u);
  EXPECT_TRUE(absl::IsResourceExhausted(client_->SubmitGet("some key", 0)));
  EXPECT_TRUE(absl::IsFailedPrecondition(client_->Delete("a")));
  EXPECT_EQ(client_->outstanding(), submitted);
  Take(submitted);
  EXPECT_TRUE(client_->Set("a", "1").ok());
}

// Reads whose values do not fit together are asked again alone.
TEST_F(UdpClientTest, Gets_OfMoreThanOneAnswer_AllArrive) {
  KvUdpOptions options;
  options.datagram_bytes = kUdpMostDatagram;
  Open(1, options);
  const std::string value(30'000, 'v');
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(client_->Set(std::to_string(i), value).ok());
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(client_->SubmitGet(std::to_string(i), i).ok());
  for (const auto& [tag, text] : Take(20)) EXPECT_EQ(text, "0 " + value) << tag;
}

// Once it knows how long values are, it asks for no more together than are answered together.
TEST_F(UdpClientTest, Gets_OfMiddlingValues_TakeFewDatagrams) {
  KvUdpOptions options;
  options.datagram_bytes = kUdpMostDatagram;
  options.window = 32;
  Open(1, options);
  const std::string value(300, 'v');
  for (uint64_t i = 0; i < 2000; ++i) {
    ASSERT_TRUE(client_->SubmitSet(std::to_string(i), value, 0, i).ok());
  }
  Take(2000);
  for (int round = 0; round < 2; ++round) {
    const uint64_t before = client_->stats().datagrams;
    for (uint64_t i = 0; i < 2000; ++i) {
      ASSERT_TRUE(client_->SubmitGet(std::to_string(i), i).ok());
    }
    for (const auto& [tag, text] : Take(2000)) ASSERT_EQ(text, "0 " + value) << tag;
    // 212 fit.
    EXPECT_LT(client_->stats().datagrams - before, 40u) << "round " << round;
  }
}

// A delete that is carried out twice would find nothing the second time; a late copy of a write
// would bring an old value back.
TEST_F(UdpClientTest, BadNetwork_CarriesEachWriteOutOnce) {
  OpenServer();
  BadNetwork network;
  network.lost = 0.1;
  network.doubled = 0.3;
  network.late = 0.1;
  const BadProxy proxy(&network, port_);
  KvUdpOptions options;
  options.retry_ms = 1;
  Connect(proxy.address(), options);
  for (int i = 0; i < 1500; ++i) {
    const std::string key = "key" + std::to_string(i % 5);
    const std::string value = std::to_string(i);
    ASSERT_TRUE(client_->Set(key, value).ok());
    ASSERT_EQ(Get(key), value);
    if (i % 3 != 0) continue;
    ASSERT_TRUE(client_->Delete(key).ok()) << i;
    ASSERT_EQ(Get(key), "(NOT_FOUND)") << i;
  }
  EXPECT_GT(network.losses, 0u);
  EXPECT_GT(network.copies, 0u);
  EXPECT_GT(client_->stats().resent, 0u);
  if (server_ != nullptr) {
    EXPECT_GT(server_->numbers().Get(UdpStats::kRepeats), 0u);
    EXPECT_GT(server_->numbers().Get(UdpStats::kStale), 0u);
  }
}

// The same with many datagrams under way: each key is written once in a round.
TEST_F(UdpClientTest, BadNetwork_WithPipelines_LosesNothing) {
  OpenServer(3);
  BadNetwork network;
  network.lost = 0.05;
  network.doubled = 0.2;
  network.late = 0.2;
  const BadProxy proxy(&network, port_);
  KvUdpOptions options;
  options.retry_ms = 1;
  options.datagram_bytes = 512;
  options.window = 32;
  Connect(proxy.address(), options);
  for (int round = 0; round < 20; ++round) {
    for (const bool set : {true, false}) {
      std::unordered_map<uint64_t, std::string> got;
      const auto take = [&](size_t n) {
        for (auto& [tag, text] : Take(n)) got[tag] = text;
      };
      for (uint64_t i = 0; i < 1000; ++i) {
        const std::string key = std::to_string(i);
        const std::string value = absl::StrCat(round, "/", i);
        const auto submit = [&] {
          return set          ? client_->SubmitSet(key, value, 0, i)
                 : i % 2 == 0 ? client_->SubmitGet(key, i)
                              : client_->SubmitDelete(key, i);
        };
        absl::Status status = submit();
        while (absl::IsResourceExhausted(status)) {
          take(1);
          status = submit();
        }
        ASSERT_TRUE(status.ok()) << status;
      }
      take(client_->outstanding());
      ASSERT_EQ(got.size(), 1000u);
      for (const auto& [tag, text] : got) {
        ASSERT_EQ(text, !set && tag % 2 == 0 ? absl::StrCat("0 ", round, "/", tag) : "0 ");
      }
    }
  }
}

TEST_F(UdpClientTest, Server_ThatIsStartedAnew_LosesWhatWasUnderWay) {
  OpenServer(1);
  if (server_ == nullptr) GTEST_SKIP() << "the server is another process";
  Connect(AddressOf(port_));
  ASSERT_TRUE(client_->Set("a", "1").ok());
  server_.reset();
  ASSERT_TRUE(client_->SubmitGet("a", 1).ok());
  client_->Flush();
  OpenServer(1, port_);
  EXPECT_EQ(Take(1).at(1), "6 ");
  EXPECT_TRUE(absl::IsUnavailable(client_->Set("a", "1")));
  Connect(AddressOf(port_));
  EXPECT_TRUE(client_->Set("a", "1").ok());
}

TEST_F(UdpClientTest, Server_ThatIsGone_IsATimeout) {
  OpenServer(1);
  if (server_ == nullptr) GTEST_SKIP() << "the server is another process";
  KvUdpOptions options;
  options.timeout_ms = 200;
  Connect(AddressOf(port_), options);
  server_.reset();
  std::string value;
  EXPECT_TRUE(absl::IsDeadlineExceeded(client_->Get("a", &value)));
  EXPECT_EQ(client_->stats().timeouts, 1u);
  EXPECT_EQ(client_->outstanding(), 0u);
  options.endpoints = {AddressOf(port_)};
  const auto other = KvUdpClient::Open(options);
  EXPECT_TRUE(absl::IsUnavailable(other.status())) << other.status();
}

TEST_F(UdpClientTest, Server_WithAsManyClientsAsItTakes_SaysSo) {
  OpenServer(1);
  if (server_ == nullptr) GTEST_SKIP() << "the server is another process";
  std::vector<std::unique_ptr<KvUdpClient>> clients;
  KvUdpOptions options;
  options.endpoints = {AddressOf(port_)};
  options.timeout_ms = 5000;
  for (int i = 0; i < 4; ++i) {
    auto client = KvUdpClient::Open(options);
    ASSERT_TRUE(client.ok()) << client.status();
    clients.push_back(*std::move(client));
  }
  options.timeout_ms = 100;
  std::string said;  // that nobody has answered, where the answer came too late
  EXPECT_TRUE(Eventually([&] {
    const auto refused = KvUdpClient::Open(options);
    said = std::string(refused.status().message());
    return refused.ok() || said.find("--udp-clients") != std::string::npos;
  }));
  EXPECT_THAT(said, HasSubstr("--udp-clients"));
  EXPECT_TRUE(clients[0]->Set("a", "1").ok());
}

TEST_F(UdpClientTest, Options_ThatMakeNoSense_AreRefused) {
  const auto open = [](const KvUdpOptions& o) { return KvUdpClient::Open(o).status().code(); };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(open({}), kInvalid);
  EXPECT_EQ(open({.etcd = "http://127.0.0.1:1", .endpoints = {"127.0.0.1:1"}}), kInvalid);
  EXPECT_EQ(open({.endpoints = {"127.0.0.1:1"}, .datagram_bytes = 511}), kInvalid);
  EXPECT_EQ(open({.endpoints = {"127.0.0.1:1"}, .datagram_bytes = 65'505}), kInvalid);
  EXPECT_EQ(open({.endpoints = {"127.0.0.1:1"}, .datagram_requests = 0}), kInvalid);
  EXPECT_EQ(open({.endpoints = {"127.0.0.1:1"}, .datagram_requests = 1025}), kInvalid);
  EXPECT_EQ(open({.endpoints = {"127.0.0.1:1"}, .window = 0}), kInvalid);
  EXPECT_EQ(open({.endpoints = {"127.0.0.1:1"}, .window = 33}), kInvalid);
  EXPECT_EQ(open({.endpoints = {"127.0.0.1:1"}, .timeout_ms = 0}), kInvalid);
  EXPECT_EQ(open({.endpoints = {"127.0.0.1:1"}, .timeout_ms = 30'001}), kInvalid);
  EXPECT_EQ(open({.endpoints = {"127.0.0.1"}}), kInvalid);
  EXPECT_EQ(open({.endpoints = {"unix:/tmp/x"}}), kInvalid);
}

// A server whose sessions the test takes away, or whose answers it changes.
class OddServer {
 public:
  explicit OddServer(uint64_t boot) {
    KvStoreOptions options;
    options.memory_bytes = uint64_t{32} << 20;
    store_ = *KvStore::Open(options);
    socket_ = *BindUdp(*net::ParseAddress("127.0.0.1:0"));
    facts_.partitions = 1;
    facts_.window = kUdpWindow;
    facts_.most_requests = kUdpMostRequests;
    facts_.boot = boot;
    facts_.hash_seed = HashSeed();
    facts_.ports[0] = port();
    Forget();
    thread_ = std::thread([this] { Run(); });
  }
  ~OddServer() {
    stopping_ = true;
    thread_.join();
  }
  uint16_t port() const { return net::LocalAddress(socket_.get()).port(); }
  void set_forget() { forget_ = true; }
  bool forget() const { return forget_; }
  void set_harmful(bool harmful) { harmful_ = harmful; }

 private:
  void Forget() {
    batch_.reset();
    sessions_ = std::make_unique<UdpSessions>(4);
    batch_ = std::make_unique<UdpBatch>(store_.get(), &facts_, &cookies_, sessions_.get(), &stats_);
  }
  void Send(const UdpPeer& peer, std::string_view bytes) {
    sendto(socket_.get(), bytes.data(), bytes.size(), 0,
           reinterpret_cast<const sockaddr*>(&peer.address), peer.size);
  }
  void Harm(const UdpPeer& peer, std::string_view bytes) {
    for (int i = 0; i < 10; ++i) {
      std::string changed(bytes);
      for (uint64_t n = 1 + random_() % 4; n > 0; --n) {
        changed[random_() % changed.size()] = static_cast<char>(random_());
      }
      if (random_() % 3 == 0) changed.resize(random_() % changed.size());
      Send(peer, changed);
    }
  }
  void Run() {
    UdpReceiver receiver;
    while (!stopping_) {
      pollfd p = {socket_.get(), POLLIN, 0};
      if (poll(&p, 1, 1) != 1 || receiver.Receive(socket_.get()) <= 0) continue;
      if (forget_.exchange(false)) Forget();
      const UdpPeer* peer = nullptr;
      std::string_view datagram;
      while (receiver.Next(&peer, &datagram)) batch_->Add(*peer, datagram, NowNanos());
      batch_->Run();
      for (const auto& r : batch_->replies()) {
        if (harmful_) Harm(*r.peer, {r.bytes, r.size});
        Send(*r.peer, {r.bytes, r.size});
      }
      batch_->Clear();
    }
  }

  std::mt19937_64 random_{testing_util::TestSeed()};
  std::unique_ptr<KvStore> store_;
  UniqueFd socket_;
  UdpWelcome facts_{};
  UdpCookies cookies_;
  UdpStats stats_;
  std::unique_ptr<UdpSessions> sessions_;
  std::unique_ptr<UdpBatch> batch_;
  std::atomic<bool> forget_{false};
  std::atomic<bool> harmful_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

TEST_F(UdpClientTest, Server_ThatHasForgottenTheClient_IsGreetedAnew) {
  OddServer server(1);
  Connect(AddressOf(server.port()));
  ASSERT_TRUE(client_->Set("a", "1").ok());
  for (int i = 0; i < 20; ++i) {
    server.set_forget();
    for (uint64_t k = 0; k < 10; ++k) ASSERT_TRUE(client_->SubmitGet("a", k).ok());
    for (const auto& [tag, text] : Take(10)) EXPECT_EQ(text, "0 1") << tag;
    EXPECT_FALSE(server.forget());
  }
}

// As when an address translator has given the client another port: the server may have carried it
// out for the old one.
TEST_F(UdpClientTest, Write_WhoseSessionIsGone_IsNotSentInAnother) {
  OddServer server(1);
  Connect(AddressOf(server.port()));
  ASSERT_TRUE(client_->Set("a", "1").ok());
  server.set_forget();
  ASSERT_TRUE(client_->SubmitSet("a", "2", 0, 7).ok());
  EXPECT_EQ(Take(1)[7], absl::StrCat(static_cast<int>(KvUdpCode::kTimeout), " "));
  EXPECT_FALSE(server.forget());
  ASSERT_TRUE(client_->SubmitGet("a", 8).ok());
  EXPECT_EQ(Take(1)[8], "0 1");
  EXPECT_TRUE(client_->Set("a", "3").ok());
}

// What changed answers say may be wrong, as nothing signs them; the client stays in one piece, and
// each request has one completion.
TEST_F(UdpClientTest, Server_ThatMeansHarm_CannotBreakTheClient) {
  OddServer server(1);
  KvUdpOptions options;
  options.timeout_ms = 100;
  Connect(AddressOf(server.port()), options);
  server.set_harmful(true);
  for (int round = 0; round < 200; ++round) {
    const std::string value(static_cast<size_t>(round), 'v');
    if (absl::IsUnavailable(client_->SubmitSet("key", value, 0, 0))) {
      // A forged greeting of another server.
      server.set_harmful(false);
      Connect(AddressOf(server.port()), options);
      server.set_harmful(true);
      continue;
    }
    uint64_t submitted = 1;
    for (; submitted < 20; ++submitted) {
      if (!client_->SubmitGet("key", submitted).ok()) break;
    }
    Take(submitted);
    ASSERT_EQ(client_->outstanding(), 0u);
  }
  EXPECT_GT(client_->stats().ignored, 0u);
}

}  // namespace
}  // namespace pulse::kv
