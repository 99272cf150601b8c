// Clients that break the protocol: the server answers the others as if they were not there.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <random>
#include <stop_token>
#include <thread>

#include "absl/strings/str_cat.h"
#include "services/kv/client/test_shm.h"
#include "services/ops/remote/host_agent.h"

namespace pulse::kv {
namespace {

using testing_util::Eventually;

class HostileClientTest : public ShmTest {
 protected:
  // What is stored is whole, and where it belongs.
  void CheckStore() {
    server_.reset();
    std::vector<std::string> keys;
    for (int i = 0; i < 200; ++i) {
      // A key of each partition, so that all are seen.
      store_->WithPartition("seen" + std::to_string(i), true, [&](Partition& partition, uint64_t) {
        uint64_t cursor = 0;
        do {
          cursor = partition.Scan(cursor, [&](const Item& item) {
            EXPECT_EQ(partition.Peek(item.key(), HashKey(item.key())), &item);
            if (i < 8) keys.emplace_back(item.key());
          });
        } while (cursor != 0 && i < 8);
      });
    }
    for (const std::string& key : keys) {
      store_->WithPartition(key, true, [&](Partition& partition, uint64_t hash) {
        EXPECT_NE(partition.Peek(key, hash), nullptr) << "not in its partition: " << key;
      });
    }
  }
  // Takes the responses of one batch.
  static std::vector<WireStatus> Await(RawClient* client, uint32_t partition, size_t count) {
    QueuePair& queue = client->queue(partition);
    EXPECT_TRUE(Eventually([&] { return queue.PeekResponses() != nullptr; }));
    const ResponseReader reader(queue.PeekResponses(), client->facts().buffer_bytes);
    std::vector<WireStatus> all;
    for (size_t i = 0; i < std::min<size_t>(count, reader.count()); ++i) {
      ResponseDescriptor d;
      std::string_view value;
      EXPECT_TRUE(reader.Read(i, &d, &value));
      all.push_back(d.status);
    }
    queue.TakeResponses();
    return all;
  }
};

TEST_F(HostileClientTest, Hello_ThatMakesNoSense_IsRefusedWithAReason) {
  Open();
  auto ends = Doorbell::CreatePair();
  ASSERT_TRUE(ends.ok());
  const UniqueFd event(eventfd(0, EFD_CLOEXEC));
  const auto far = Region::CreateFile(kShmFarBytes);
  ASSERT_TRUE(far.ok());
  const UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), kShmFarBytes), 0);
  int pipe_ends[2];
  ASSERT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  const UniqueFd reads(pipe_ends[0]);
  const UniqueFd writes(pipe_ends[1]);
  const int bell = ends->ring.get();
  wire::Message other_version = RawClient::Hello();
  other_version.args[3] = kShmVersion + 1;
  wire::Message other_protocol = RawClient::Hello();
  other_protocol.version = wire::kProtocolVersion + 1;
  wire::Message other_service = RawClient::Hello();
  other_service.args[1] = 2;  // which this one had in an earlier release
  struct Case {
    wire::Message hello;
    std::vector<int> fds;
    std::string says;
  };
  for (const Case& c :
       {Case{other_version, {bell}, "same release"}, Case{other_protocol, {bell}, "same release"},
        Case{other_service, {bell}, "`pulse kv --shm`, not of service 2"},
        Case{other_service, {bell}, "install both from the same release"},
        Case{MakeMessage(wire::MessageType::kStatus), {}, "`pulse kv --shm`"},
        Case{RawClient::Hello(), {}, "2 descriptors"},
        Case{RawClient::Hello(), {bell}, "2 descriptors"},
        Case{RawClient::Hello(), {bell, bell, bell}, "2 descriptors"},
        Case{RawClient::Hello(), {event.get(), far->get()}, "doorbell is not"},
        Case{RawClient::Hello(), {bell, unsealed.get()}, "not a sealed memfd"},
        Case{RawClient::Hello(), {bell, writes.get()}, "not a sealed memfd"}}) {
    RawClient client(path());
    ASSERT_TRUE(client.Send(c.hello, c.fds).ok());
    const auto answer = client.Receive();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_NE(answer->message.status, 0);
    EXPECT_NE(TextOf(answer->message).find(c.says), std::string::npos) << TextOf(answer->message);
    EXPECT_TRUE(client.IsCutOff());
  }
  EXPECT_EQ(server_->clients(), 0u);
}

TEST_F(HostileClientTest, Hello_OfAnotherServicesHost_LearnsWhatListensThere) {
  Open();
  const auto connected = ops::remote::RemoteAgent::Connect(path());
  ASSERT_FALSE(connected.ok());
  const std::string why(connected.status().message());
  EXPECT_NE(why.find("this socket is of `pulse kv --shm`"), std::string::npos) << why;
}

TEST_F(HostileClientTest, SilentPeers_KeepNobodyWaiting_AndAreLetGo) {
  Open(1, {.hello_ms = 50});
  std::vector<std::unique_ptr<RawClient>> silent;
  for (int i = 0; i < 70; ++i) silent.push_back(std::make_unique<RawClient>(path()));
  // On a busy machine an honest one may come too late as well, and comes again.
  EXPECT_TRUE(Eventually([&] {
    TestClient honest(path());
    return honest.open_code() == PULSE_KV_OK && honest.Set("k", "v") == PULSE_KV_OK;
  }));
  for (const auto& client : silent) EXPECT_TRUE(client->IsCutOff());
}

TEST_F(HostileClientTest, Message_AfterTheHandshake_EndsTheClient) {
  Open();
  RawClient client(path());
  client.Attach();
  ASSERT_TRUE(client.Send(RawClient::Hello(), {}).ok());
  EXPECT_TRUE(client.IsCutOff());
  EXPECT_TRUE(Eventually([&] { return server_->clients() == 0; }));
}

TEST_F(HostileClientTest, Counter_OutOfRange_EndsTheClient) {
  Open(2);
  TestClient honest(path());
  for (const uint64_t submitted : {uint64_t{5}, uint64_t{1} << 40, ~uint64_t{0}}) {
    RawClient client(path());
    client.Attach();
    // The first line of a queue pair counts the batches that were submitted.
    auto* counter = reinterpret_cast<std::atomic<uint64_t>*>(client.memory() +
                                                             ShmQueueOffset(client.facts(), 1));
    counter->store(submitted);
    client.Kick(1);
    EXPECT_TRUE(client.IsCutOff()) << submitted;
    EXPECT_EQ(honest.Set("k", std::to_string(submitted)), PULSE_KV_OK);
  }
  EXPECT_TRUE(Eventually([&] { return server_->clients() == 1; }));
}

TEST_F(HostileClientTest, Key_InTheQueueOfAnotherPartition_IsRefused) {
  Open(2);
  RawClient client(path());
  client.Attach();
  const std::string key = "a key";
  const uint32_t right = PartitionOf(HashKey(key), 2);
  for (const uint32_t partition : {1 - right, right}) {
    RequestWriter writer = client.queue(partition).BeginRequests();
    ASSERT_TRUE(writer.Add(WireOp::kSet, key, 0, "v", 0));
    writer.Finish();
    client.queue(partition).Submit();
    client.Ring(partition);
    EXPECT_EQ(Await(&client, partition, 1),
              std::vector{partition == right ? WireStatus::kOk : WireStatus::kMalformed});
  }
  CheckStore();
}

// Overlapping keys and values would make one batch as much work as many.
TEST_F(HostileClientTest, Payload_LargerThanTheBuffer_IsRefused) {
  Open();
  RawClient client(path());
  client.Attach();
  char* buffer = client.memory() + ShmQueueOffset(client.facts(), 0) + 4096;
  const BatchHeader header{200, {}};
  std::memcpy(buffer, &header, sizeof(header));
  for (size_t i = 0; i < 200; ++i) {
    const RequestDescriptor d{.hash = 0,
                              .key = RequestWriter::PayloadBegin(client.facts().batch),
                              .value = 0,
                              .value_size = 30'000,
                              .key_size = 100,
                              .op = WireOp::kSet,
                              .flags = 0};
    std::memcpy(buffer + sizeof(header) + i * sizeof(d), &d, sizeof(d));
  }
  client.queue(0).Submit();
  client.Ring(0);
  const auto answers = Await(&client, 0, 200);
  ASSERT_EQ(answers.size(), 200u);
  EXPECT_EQ(answers[0], WireStatus::kOk);
  EXPECT_EQ(answers[199], WireStatus::kMalformed);
}

// One value of a batch may be far, of what a GET or a SET has, and no larger than the memory.
TEST_F(HostileClientTest, FarRequests_ThatMakeNoSense_AreRefused) {
  Open();
  RawClient client(path());
  client.Attach();
  ASSERT_FALSE(testing::Test::HasFatalFailure());
  const std::string value(100'000, 'f');
  ASSERT_EQ(pwrite(client.far(), value.data(), value.size(), 0),
            static_cast<ssize_t>(value.size()));
  RequestWriter writer = client.queue(0).BeginRequests();
  const auto add = [&](WireOp op, size_t size, uint8_t flags) {
    ASSERT_TRUE(writer.AddFar(op, "key", 0, size, 0, flags));
  };
  add(WireOp::kDelete, 0, 0);
  add(WireOp::kSet, 10, kInline);
  add(WireOp::kSet, kShmFarBytes + 1, 0);
  add(WireOp::kGet, ~uint32_t{0}, 0);
  add(static_cast<WireOp>(77), 10, 0);
  add(WireOp::kSet, value.size(), 0);
  add(WireOp::kSet, value.size(), 0);
  add(WireOp::kGet, value.size(), 0);
  ASSERT_TRUE(writer.Add(WireOp::kGet, "key", 0, "", 0));
  writer.Finish();
  client.queue(0).Submit();
  client.Ring(0);
  const WireStatus no = WireStatus::kMalformed;
  EXPECT_EQ(Await(&client, 0, 9),
            (std::vector{no, no, no, no, no, WireStatus::kOk, no, no, WireStatus::kTooLarge}));
  TestClient honest(path());
  EXPECT_EQ(honest.Get("key"), value);
  CheckStore();
}

// What the client does to its memory meanwhile changes its own value alone.
TEST_F(HostileClientTest, FarMemory_WithHoles_ReadsAsZeros) {
  Open();
  RawClient client(path());
  client.Attach();
  ASSERT_FALSE(testing::Test::HasFatalFailure());
  RequestWriter writer = client.queue(0).BeginRequests();
  ASSERT_TRUE(writer.AddFar(WireOp::kSet, "key", 0, 3'000'000, 0, 0));
  writer.Finish();
  client.queue(0).Submit();
  client.Ring(0);
  EXPECT_EQ(Await(&client, 0, 1), std::vector{WireStatus::kOk});
  TestClient honest(path());
  EXPECT_EQ(honest.Get("key"), std::string(3'000'000, '\0'));
}

// A request may not go beyond it, whatever the largest one could be.
TEST_F(HostileClientTest, FarMemory_ThatIsSmall_TakesNoMoreThanItHas) {
  Open();
  for (const size_t bytes : {size_t{0}, size_t{200'704}}) {
    RawClient client(path());
    client.Attach(bytes);
    ASSERT_FALSE(testing::Test::HasFatalFailure());
    RequestWriter writer = client.queue(0).BeginRequests();
    ASSERT_TRUE(writer.AddFar(WireOp::kSet, "key", 0, bytes + 1, 0, 0));
    ASSERT_TRUE(writer.AddFar(WireOp::kSet, "key", 0, bytes, 0, 0));
    writer.Finish();
    client.queue(0).Submit();
    client.Ring(0);
    EXPECT_EQ(Await(&client, 0, 2), (std::vector{WireStatus::kMalformed, WireStatus::kOk}));
    TestClient honest(path());
    EXPECT_EQ(honest.Get("key"), std::string(bytes, '\0'));
  }
}

TEST_F(HostileClientTest, Parts_ThatAreNotTaken_KeepNobodyElseWaiting) {
  Open();
  TestClient honest(path());
  ASSERT_EQ(honest.Set("large", std::string(60'000, 'v')), PULSE_KV_OK);
  RawClient client(path());
  client.Attach();
  RequestWriter writer = client.queue(0).BeginRequests();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(writer.Add(WireOp::kGet, "large", 0, "", 0));
  writer.Finish();
  client.queue(0).Submit();
  client.Ring(0);
  EXPECT_TRUE(Eventually([&] { return client.queue(0).PeekResponses() != nullptr; }));
  for (int i = 0; i < 100; ++i) ASSERT_EQ(honest.Set("k", std::to_string(i)), PULSE_KV_OK);
  EXPECT_EQ(honest.Get("k"), "99");
}

// Any bytes anywhere in the memory, while the server is at it. Garbage may make requests that store
// much, as any client may: others keep what they have, and may be told that the store is full.
TEST_F(HostileClientTest, Garbage_InSharedMemory_HarmsNobodyElse) {
  Open(2, {.threads = 2, .spin_nanos = 1000});
  TestClient honest(path());
  std::map<std::string, std::string> stored = {{"honest", "before all garbage"}};
  ASSERT_EQ(honest.Set("honest", stored["honest"]), PULSE_KV_OK) << honest.why();
  std::jthread hostile([&](const std::stop_token& stop) {
    const uint64_t seed = testing_util::TestSeed();
    std::mt19937_64 random(seed);
    while (!stop.stop_requested()) {
      RawClient client(path());
      client.Attach(size_t{1} << 20);
      ASSERT_FALSE(testing::Test::HasFatalFailure());
      for (int round = 0; round < 100 && !stop.stop_requested(); ++round) {
        const uint32_t partition = random() % 2;
        QueuePair& queue = client.queue(partition);
        char* begin = client.memory() + ShmQueueOffset(client.facts(), partition);
        while (queue.PeekResponses() != nullptr) queue.TakeResponses();
        if (queue.HasRoom()) {
          RequestWriter writer = queue.BeginRequests();
          for (int i = 0; i < 100; ++i) {
            writer.Add(WireOp::kSet, "hostile key " + std::to_string(i), 0, "some value", 0);
          }
          writer.Finish();
          queue.Submit();
        }
        client.Ring(partition);
        // Requests, and seldom the counters.
        for (uint64_t i = random() % 200; i > 0; --i)
          begin[4096 + random() % 8192] = static_cast<char>(random());
        if (random() % 20 == 0) begin[random() % 4096] = static_cast<char>(random());
        if (random() % 20 == 0) client.memory()[random() % 4096] = static_cast<char>(random());
      }
    }
  });
  for (int i = 0; i < testing_util::Rounds(3000); ++i) {
    const std::string key = "honest" + std::to_string(i % 100);
    const int code = honest.Set(key, std::to_string(i));
    if (code == PULSE_KV_OK) stored[key] = std::to_string(i);
    ASSERT_TRUE(code == PULSE_KV_OK || code == PULSE_KV_NO_MEMORY) << pulse_kv_text(code);
    const auto at = stored.find(key);
    ASSERT_EQ(honest.Get(key), at != stored.end()
                                   ? at->second
                                   : absl::StrCat("(", pulse_kv_text(PULSE_KV_NOT_FOUND), ")"));
  }
  EXPECT_EQ(honest.Get("honest"), stored["honest"]);
  hostile.request_stop();
  hostile.join();
  honest.Close();
  CheckStore();
}

TEST_F(HostileClientTest, Server_WithoutRequests_SleepsUntilItIsRung) {
  Open(2, {.threads = 2});
  RawClient client(path());
  client.Attach();
  for (int round = 0; round < 3; ++round) {
    for (const uint32_t partition : {0u, 1u}) {
      ASSERT_TRUE(Eventually(
          [&] { return client.header()->server_sleeping[partition].value.load() != 0; }));
      RequestWriter writer = client.queue(partition).BeginRequests();
      ASSERT_TRUE(writer.Add(WireOp::kGet, "k", 0, "", 0));
      writer.Finish();
      client.queue(partition).Submit();
      client.Ring(partition);
      EXPECT_EQ(Await(&client, partition, 1).size(), 1u);
    }
  }
}

}  // namespace
}  // namespace pulse::kv
