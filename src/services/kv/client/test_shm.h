// What tests of shared-memory clients share: a store and a server in this process, a client by the
// C ABI, and one that speaks the protocol by hand. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/testing.h"
#include "channel/handshake.h"
#include "pulse/kv_client.h"
#include "services/kv/core/hash.h"
#include "services/kv/shm/server.h"

namespace pulse::kv {

// A client by the C ABI.
class TestClient {
 public:
  explicit TestClient(const std::string& path, uint32_t timeout_ms = 60'000) {
    code_ = pulse_kv_open(path.c_str(), timeout_ms, &client_, why_, sizeof(why_));
  }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;
  ~TestClient() { Close(); }
  void Close() {
    pulse_kv_close(client_);
    client_ = nullptr;
  }

  int open_code() const { return code_; }
  std::string why() const { return why_; }
  pulse_kv_client* get() const { return client_; }

  int Set(std::string_view key, std::string_view value, uint64_t ttl_ms = 0) {
    return pulse_kv_set(client_, key.data(), key.size(), value.data(), value.size(), ttl_ms);
  }
  // The value, or the code's text in brackets.
  std::string Get(std::string_view key) {
    size_t size = 0;
    // Not cleared: under a sanitizer that would take longer than all else.
    if (room_ == nullptr) room_.reset(new char[kRoom]);
    const int code = pulse_kv_get(client_, key.data(), key.size(), room_.get(), kRoom, &size);
    if (code != PULSE_KV_OK) return std::string("(") + pulse_kv_text(code) + ")";
    return {room_.get(), size};
  }
  int Delete(std::string_view key) { return pulse_kv_delete(client_, key.data(), key.size()); }

 private:
  static constexpr size_t kRoom = size_t{8} << 20;
  std::unique_ptr<char[]> room_;
  pulse_kv_client* client_ = nullptr;
  char why_[512] = "";
  int code_ = 0;
};

class ShmTest : public testing::Test {
 protected:
  void Open(int partitions = 1, ShmOptions options = {}) {
    KvStoreOptions store;
    store.memory_bytes = memory_bytes_;
    store.partitions = partitions;
    store.clock = [this] { return now_ms_.load(); };
    store.ticks = false;
    store.limits.max_value = max_value_;
    auto opened = KvStore::Open(store);
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
    options.path = path_.get();
    // A busy machine may keep a client from its hello.
    if (options.hello_ms == ShmOptions().hello_ms) options.hello_ms = 60'000;
    auto server = ShmServer::Open(store_.get(), options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  const std::string& path() const { return path_.get(); }

  uint64_t memory_bytes_ = uint64_t{64} << 20;
  uint64_t max_value_ = kShmFarBytes;
  std::atomic<int64_t> now_ms_{1'000'000};
  testing_util::ScratchPath path_{"kv.shm"};
  std::unique_ptr<KvStore> store_;
  std::unique_ptr<ShmServer> server_;
};

// Speaks the protocol by hand, and so may break it.
class RawClient {
 public:
  // Connects alone.
  explicit RawClient(const std::string& path) {
    auto socket = ConnectUnix(path);
    EXPECT_TRUE(socket.ok()) << socket.status();
    if (socket.ok()) socket_ = *std::move(socket);
    EXPECT_TRUE(SetSocketTimeout(socket_.get(), 60'000).ok());
  }
  absl::Status Send(const wire::Message& m, const std::vector<int>& fds) {
    return SendMessage(socket_.get(), m, fds);
  }
  static wire::Message Hello() {
    return MakeMessage(wire::MessageType::kHello, {1, kShmService, 0, kShmVersion});
  }
  absl::StatusOr<Received> Receive() { return ReceiveMessage(socket_.get()); }
  // The rest of the handshake.
  void Attach(size_t far_bytes = kShmFarBytes) {
    auto ends = Doorbell::CreatePair();
    ASSERT_TRUE(ends.ok());
    sleep_ = std::move(ends->sleep);
    auto far = Region::CreateFile(far_bytes);
    ASSERT_TRUE(far.ok()) << far.status();
    far_ = *std::move(far);
    ASSERT_TRUE(Send(Hello(), {ends->ring.get(), far_.get()}).ok());
    auto ack = Receive();
    ASSERT_TRUE(ack.ok()) << ack.status();
    ASSERT_EQ(ack->message.status, 0) << TextOf(ack->message);
    auto region = Region::Map(std::move(ack->fds.at(0)), ack->message.args[0]);
    ASSERT_TRUE(region.ok()) << region.status();
    region_ = *std::move(region);
    std::memcpy(&facts_, region_.data(), sizeof(facts_));
    for (uint32_t i = 0; i < facts_.threads; ++i) {
      auto kick = Receive();
      ASSERT_TRUE(kick.ok()) << kick.status();
      kicks_.emplace_back(std::move(kick->fds.at(0)), &header()->server_sleeping[i].value);
    }
    for (uint32_t p = 0; p < facts_.partitions; ++p) {
      queues_.push_back(
          std::make_unique<QueuePair>(facts_.queue(), region_.data() + ShmQueueOffset(facts_, p)));
    }
  }
  // The server has closed, or shut down, the connection.
  bool IsCutOff() {
    return testing_util::Eventually([&] {
      const auto got = ReceiveMessage(socket_.get(), /*wait=*/false);
      return !got.ok() && !IsNoMessage(got.status());
    });
  }

  ShmHeader* header() { return reinterpret_cast<ShmHeader*>(region_.data()); }
  const ShmFacts& facts() const { return facts_; }
  char* memory() { return region_.data(); }
  int far() const { return far_.get(); }
  size_t bytes() const { return region_.size(); }
  QueuePair& queue(uint32_t partition) { return *queues_[partition]; }
  void Ring(uint32_t partition) { kicks_[partition % facts_.threads].Ring(); }
  void Kick(uint32_t partition) { kicks_[partition % facts_.threads].Kick(); }

 private:
  UniqueFd socket_;
  UniqueFd sleep_;
  UniqueFd far_;
  Region region_;
  ShmFacts facts_{};
  std::vector<Doorbell> kicks_;
  std::vector<std::unique_ptr<QueuePair>> queues_;
};

}  // namespace pulse::kv
