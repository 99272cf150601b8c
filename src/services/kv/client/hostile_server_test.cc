// Servers that lie: the client says so, and neither crashes nor waits for longer than it was told.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <thread>

#include "agent/socket_server.h"
#include "services/echo/spec.h"
#include "services/kv/client/test_shm.h"

namespace pulse::kv {
namespace {

// A server whose part of the handshake the test chooses.
class FakeServer {
 public:
  using Serve = std::function<void(FakeServer*, int socket)>;
  explicit FakeServer(const std::string& path, Serve serve) : serve_(std::move(serve)) {
    auto listener = ListenUnix(path);
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    thread_ = std::thread([this] {
      const UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      ASSERT_TRUE(socket.valid());
      auto hello = ReceiveMessage(socket.get());
      ASSERT_TRUE(hello.ok() && !hello->fds.empty());
      notify_ = std::move(hello->fds[0]);
      serve_(this, socket.get());
    });
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;
  ~FakeServer() { thread_.join(); }

  static ShmFacts Facts() {
    return {.magic = kShmMagic,
            .hash_seed = 1,
            .version = kShmVersion,
            .partitions = 2,
            .threads = 1,
            .slots = 4,
            .batch = 64,
            .buffer_bytes = 16 << 10};
  }
  // An honest handshake, but for what `facts` say. Memory of `bytes`, which are announced.
  void Welcome(int socket, const ShmFacts& facts, uint64_t bytes) {
    auto region = Region::CreateShared(std::max<uint64_t>(bytes, wire::kPage));
    ASSERT_TRUE(region.ok());
    region_ = *std::move(region);
    std::memcpy(region_.data(), &facts, sizeof(facts));
    // The client may have gone, in this one and in the next.
    SendMessage(socket, MakeMessage(wire::MessageType::kHelloAck, {bytes, kShmVersion}),
                {region_.fd()})
        .IgnoreError();
    auto kick = Doorbell::CreatePair();
    ASSERT_TRUE(kick.ok());
    sleep_ = std::move(kick->sleep);
    SendMessage(socket, MakeMessage(wire::MessageType::kServiceAck, {0}), {kick->ring.get()})
        .IgnoreError();
  }
  char* memory() { return region_.data(); }
  // Behind Welcome.
  Doorbell TakeBell() {
    auto* header = reinterpret_cast<ShmHeader*>(memory());
    return {std::move(notify_), &header->client_waiting.value};
  }
  // An honest handshake; then each batch, of one request, gets the answer that `answer` says.
  void AnswerEach(int socket, const std::atomic<bool>& done,
                  const std::function<ResponseDescriptor(const RequestDescriptor&)>& answer) {
    const ShmFacts facts = Facts();
    Welcome(socket, facts, facts.bytes());
    Doorbell bell = TakeBell();
    std::deque<QueuePair> queues;
    for (uint32_t p = 0; p < facts.partitions; ++p) {
      queues.emplace_back(facts.queue(), memory() + ShmQueueOffset(facts, p));
    }
    while (!done) {
      for (QueuePair& queue : queues) {
        const char* requests = queue.PeekRequests();
        if (requests == nullptr) continue;
        RequestDescriptor asked;
        std::memcpy(&asked, requests + sizeof(BatchHeader), sizeof(asked));
        const BatchHeader header{1, {}};
        const ResponseDescriptor d = answer(asked);
        char* to = queue.ResponseBufferOfOldest();
        std::memcpy(to, &header, sizeof(header));
        std::memcpy(to + sizeof(header), &d, sizeof(d));
        queue.Answer();
        bell.Ring();
      }
    }
  }
  static ResponseDescriptor TooLarge(uint64_t size) {
    ResponseDescriptor d{};
    d.status = WireStatus::kTooLarge;
    d.flags = kInline;
    d.value_size = sizeof(size);
    d.value = size;
    return d;
  }
  static ResponseDescriptor Far(uint32_t size) {
    ResponseDescriptor d{};
    d.flags = kFar;
    d.value_size = size;
    return d;
  }
  // Until the client has left.
  static void AwaitEnd(int socket) { EXPECT_FALSE(ReceiveMessage(socket).ok()); }

 private:
  Serve serve_;
  UniqueFd listener_;
  Region region_;
  UniqueFd sleep_;
  UniqueFd notify_;
  std::thread thread_;
};

class HostileServerTest : public testing::Test {
 protected:
  testing_util::ScratchPath path_{"kv.shm"};
};

TEST_F(HostileServerTest, Open_AtAnAgentsSocket_NamesBoth) {
  AgentOptions options;
  options.socket_path = path_.get();
  options.handshake_ms = 60'000;
  const auto agent = SocketServer::Open(options, {{&echo::kSpec, &echo::CreateAgentService}});
  ASSERT_TRUE(agent.ok()) << agent.status();
  const TestClient client(path_.get());
  EXPECT_EQ(client.open_code(), PULSE_KV_VERSION);
  EXPECT_NE(client.why().find("`pulse kv --shm`"), std::string::npos) << client.why();
  EXPECT_NE(client.why().find("pulse agent"), std::string::npos) << client.why();
  EXPECT_NE(client.why().find("same release"), std::string::npos) << client.why();
}

TEST_F(HostileServerTest, Handshake_ThatMakesNoSense_IsAnErrorWithAReason) {
  const ShmFacts good = FakeServer::Facts();
  const uint64_t bytes = good.bytes();
  const auto region = Region::CreateShared(bytes);
  ASSERT_TRUE(region.ok());
  const UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), static_cast<off_t>(bytes)), 0);
  struct Case {
    int code;
    FakeServer::Serve serve;
  };
  const auto ack = [](uint64_t size, std::vector<int> fds) {
    return [size, fds](FakeServer*, int socket) {
      ASSERT_TRUE(
          SendMessage(socket, MakeMessage(wire::MessageType::kHelloAck, {size, kShmVersion}), fds)
              .ok());
      FakeServer::AwaitEnd(socket);
    };
  };
  const auto refusal = [](int status) {
    wire::Message m = MakeMessage(wire::MessageType::kHelloAck);
    m.status = status;
    return m;
  };
  wire::Message other = MakeMessage(wire::MessageType::kHelloAck, {bytes, kShmVersion + 1});
  const auto answer = [](wire::Message m, std::vector<int> fds) {
    return [m, fds](FakeServer*, int socket) {
      ASSERT_TRUE(SendMessage(socket, m, fds).ok());
      FakeServer::AwaitEnd(socket);
    };
  };
  const std::vector<Case> cases = {
      {PULSE_KV_NO_SERVER, [](FakeServer*, int) {}},  // it ends
      {PULSE_KV_TIMEOUT, [](FakeServer*, int socket) { FakeServer::AwaitEnd(socket); }},
      {PULSE_KV_VERSION, answer(refusal(EPROTONOSUPPORT), {})},
      {PULSE_KV_VERSION, answer(refusal(EPROTOTYPE), {})},
      {PULSE_KV_SYSTEM, answer(refusal(EPROTO), {})},  // such as a hello that came too late
      {PULSE_KV_VERSION, answer(other, {region->fd()})},
      {PULSE_KV_VERSION, answer(MakeMessage(wire::MessageType::kStatusAck, {bytes, 1}), {})},
      {PULSE_KV_VERSION, ack(bytes, {})},
      {PULSE_KV_VERSION, ack(bytes, {region->fd(), region->fd()})},
      {PULSE_KV_VERSION, ack(0, {region->fd()})},
      {PULSE_KV_VERSION, ack(~uint64_t{0}, {region->fd()})},
      {PULSE_KV_VERSION, ack(bytes + 8192, {region->fd()})},
      {PULSE_KV_VERSION, ack(bytes, {region->fd()})},  // zeros
      {PULSE_KV_VERSION, ack(bytes, {unsealed.get()})},
      {PULSE_KV_VERSION, [](FakeServer*, int socket) {
         const char text[] = "+OK\r\n";
         ASSERT_EQ(send(socket, text, sizeof(text), MSG_NOSIGNAL), ssize_t{sizeof(text)});
         FakeServer::AwaitEnd(socket);
       }}};
  for (size_t i = 0; i < cases.size(); ++i) {
    const FakeServer server(path_.get(), cases[i].serve);
    const TestClient client(path_.get(), cases[i].code == PULSE_KV_TIMEOUT ? 20 : 60'000);
    EXPECT_EQ(client.open_code(), cases[i].code) << i << ": " << client.why();
    EXPECT_NE(client.why(), "") << i;
  }
}

TEST_F(HostileServerTest, Facts_OutOfRange_AreRefused) {
  struct Case {
    uint32_t ShmFacts::*field;
    std::vector<uint32_t> values;
  };
  for (const Case& c : {Case{&ShmFacts::version, {0, kShmVersion - 1, kShmVersion + 1}},
                        Case{&ShmFacts::partitions, {0, 1, 3, 65, 1U << 31, ~0U}},
                        Case{&ShmFacts::threads, {0, 17, ~0U}},
                        Case{&ShmFacts::slots, {0, 3, 8, 128, 1U << 31, ~0U}},
                        // The last one leaves no room for what follows the descriptors.
                        Case{&ShmFacts::batch, {0, 1025, ~0U, 600}},
                        Case{&ShmFacts::buffer_bytes, {0, 4097, 8192, 1U << 31, ~0U}}}) {
    for (const uint32_t value : c.values) {
      ShmFacts facts = FakeServer::Facts();
      facts.*c.field = value;
      const FakeServer server(path_.get(), [&](FakeServer* s, int socket) {
        s->Welcome(socket, facts, FakeServer::Facts().bytes());
        FakeServer::AwaitEnd(socket);
      });
      const TestClient client(path_.get());
      EXPECT_EQ(client.open_code(), PULSE_KV_VERSION) << value << ": " << client.why();
    }
  }
}

// It answers with any bytes, and moves its counters as it likes.
TEST_F(HostileServerTest, Answers_ThatMakeNoSense_EndTheConnection) {
  const uint64_t seed = testing_util::TestSeed();
  std::mt19937_64 random(seed);
  int lost = 0;
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> done{false};
    const FakeServer server(path_.get(), [&, own = random()](FakeServer* s, int socket) {
      const ShmFacts facts = FakeServer::Facts();
      s->Welcome(socket, facts, facts.bytes());
      std::mt19937_64 draw(own);
      const size_t slot = facts.buffer_bytes;
      while (!done) {
        for (uint32_t partition = 0; partition < 2; ++partition) {
          char* begin = s->memory() + ShmQueueOffset(facts, partition);
          char* responses = begin + 4096 + facts.slots * slot;
          for (uint32_t i = 0; i < facts.slots; ++i) {
            const BatchHeader header{static_cast<uint16_t>(draw() % 4), {}};
            std::memcpy(responses + i * slot, &header, sizeof(header));
            for (int change = 0; change < 20; ++change) {
              const size_t at = 8 + draw() % 64;
              responses[i * slot + at] = static_cast<char>(draw() % 8 == 0 ? draw() : 0);
            }
          }
          auto* answered = reinterpret_cast<std::atomic<uint64_t>*>(begin + 64);
          answered->store(draw() % 20 == 0 ? draw() : answered->load() + draw() % 2,
                          std::memory_order_release);
        }
      }
    });
    {
      TestClient client(path_.get(), 20);
      std::string value(100'000, '\0');
      // On a busy machine it may not get through the handshake in time.
      const int calls = client.open_code() == PULSE_KV_OK ? 200 : 0;
      for (int i = 0; i < calls; ++i) {
        size_t size = 0;
        const int code =
            pulse_kv_get(client.get(), &i, sizeof(i), value.data(), value.size(), &size);
        EXPECT_TRUE(code >= PULSE_KV_OK && code <= PULSE_KV_BUSY) << code;
        if (code == PULSE_KV_OK) {
          EXPECT_LE(size, FakeServer::Facts().buffer_bytes);
        }
        if (code == PULSE_KV_LOST) {
          ++lost;
          break;
        }
      }
    }
    done = true;
  }
  EXPECT_GT(lost, 10);
}

// It says that a value is where nobody asked for it, or has more bytes than there is room for.
TEST_F(HostileServerTest, FarAnswer_NobodyAskedFor_EndsTheConnection) {
  for (const bool asked : {false, true}) {
    std::atomic<bool> done{false};
    const FakeServer server(path_.get(), [&](FakeServer* s, int socket) {
      int answers = 0;
      s->AnswerEach(socket, done, [&](const RequestDescriptor&) {
        return asked && answers++ == 0 ? FakeServer::TooLarge(100'000)
                                       : FakeServer::Far(asked ? 100'001 : 0);
      });
    });
    {
      const TestClient client(path_.get());
      ASSERT_EQ(client.open_code(), PULSE_KV_OK) << client.why();
      std::string value(200'000, '\0');
      size_t size = 0;
      EXPECT_EQ(pulse_kv_get(client.get(), "k", 1, value.data(), value.size(), &size),
                PULSE_KV_LOST);
      EXPECT_EQ(size, 0u);
    }
    done = true;
  }
}

// A value that grows is asked for by its size, whatever room the caller has; one of which the
// server says that it does not fit where it does is no value.
TEST_F(HostileServerTest, LargeValue_ThatGrows_IsAskedForWithLittleMoreThanItHas) {
  for (const bool grows : {true, false}) {
    std::atomic<bool> done{false};
    std::vector<uint32_t> wanted;
    std::optional<FakeServer> server;
    server.emplace(path_.get(), [&](FakeServer* s, int socket) {
      uint64_t answers = 0;
      s->AnswerEach(socket, done, [&](const RequestDescriptor& asked) {
        if (answers > 0) wanted.push_back(asked.value_size);
        const uint64_t before = answers++;
        return before < 3 ? FakeServer::TooLarge(100'000 + (grows ? 100'000 * before : 0))
                          : FakeServer::Far(300'000);
      });
    });
    {
      const TestClient client(path_.get());
      ASSERT_EQ(client.open_code(), PULSE_KV_OK) << client.why();
      std::string value(size_t{64} << 20, '-');
      size_t size = 0;
      EXPECT_EQ(pulse_kv_get(client.get(), "k", 1, value.data(), value.size(), &size),
                grows ? PULSE_KV_OK : PULSE_KV_LOST);
      EXPECT_EQ(size, grows ? 300'000u : 0u);
    }
    done = true;
    server.reset();
    EXPECT_EQ(wanted, grows ? (std::vector<uint32_t>{100'000, 225'000, 337'500})
                            : std::vector<uint32_t>{100'000});
  }
}

TEST_F(HostileServerTest, Silence_AfterTheHandshake_IsATimeout) {
  const FakeServer server(path_.get(), [](FakeServer* s, int socket) {
    s->Welcome(socket, FakeServer::Facts(), FakeServer::Facts().bytes());
    FakeServer::AwaitEnd(socket);
  });
  TestClient client(path_.get(), 60'000);
  ASSERT_EQ(client.open_code(), PULSE_KV_OK) << client.why();
  ASSERT_EQ(pulse_kv_submit_get(client.get(), "k", 1, 7), PULSE_KV_OK);
  pulse_kv_completion done;
  size_t count = 0;
  EXPECT_EQ(pulse_kv_wait(client.get(), &done, 1, &count, 5), PULSE_KV_TIMEOUT);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(pulse_kv_outstanding(client.get()), 1u);
}

}  // namespace
}  // namespace pulse::kv
