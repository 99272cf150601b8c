// Exports on an agent that is stuck, and on one whose device is slow.
#include <gmock/gmock.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "apps/nbd/store_export.h"
#include "services/files/test_agent.h"
#include "uring/io_backend.h"

namespace pulse::nbd {
namespace {

using files::TestAgent;
using testing::HasSubstr;
using testing_util::Eventually;

constexpr uint64_t kMegabyte = uint64_t{1} << 20;
// How long the agent may be silent: longer than a busy machine keeps one waiting.
constexpr auto kSilence = std::chrono::milliseconds(4000);

struct Control {
  std::atomic<bool> stuck{false};  // the agent's worker stays where it starts I/O
  std::atomic<bool> held{false};   // the device answers nothing
  std::atomic<bool> polled{false};
  std::atomic<bool> stays{false};
};

class Backend : public IoBackend {
 public:
  Backend(std::unique_ptr<IoBackend> base, Control* control)
      : base_(std::move(base)), control_(control) {}
  bool Enqueue(const IoRequest& r) override { return base_->Enqueue(r); }
  void Submit() override {
    control_->stays = true;
    Eventually([&] { return !control_->stuck; });
    control_->stays = false;
    base_->Submit();
  }
  size_t Harvest(IoResult* out, size_t max) override {
    return control_->held ? 0 : base_->Harvest(out, max);
  }
  int wait_fd() const override { return base_->wait_fd(); }
  bool needs_polling() const override { return control_->polled && base_->in_flight() > 0; }
  size_t in_flight() const override { return base_->in_flight(); }
  EngineKind kind() const override { return base_->kind(); }

 private:
  const std::unique_ptr<IoBackend> base_;
  Control* const control_;
};

class NbdSilenceTest : public testing::Test {
 protected:
  void SetUp() override {
    agent_.agent_options.backend_factory =
        [this](const IoBackendOptions& options) -> absl::StatusOr<std::unique_ptr<IoBackend>> {
      IoBackendOptions plain = options;
      plain.factory = nullptr;
      auto base = CreateThreadBackend(plain);
      if (!base.ok()) return base.status();
      return std::make_unique<Backend>(*std::move(base), &control_);
    };
    agent_.Start();
  }
  void TearDown() override { control_.stuck = control_.held = false; }

  static files::PollOptions Small() {
    files::PollOptions poll;
    poll.request_bytes = 64 << 10;
    poll.response_bytes = 64 << 10;
    poll.max_requests = 8;
    return poll;
  }
  std::unique_ptr<Agent> NewClient() {
    return std::make_unique<Agent>(agent_.socket(), Small(), kSilence);
  }
  static std::unique_ptr<StoreExport> Open(Agent* client) {
    auto e = StoreExport::Open(client, "d", "f");
    EXPECT_TRUE(e.ok()) << e.status();
    return e.ok() ? *std::move(e) : nullptr;
  }

  Control control_;
  TestAgent agent_;
};

TEST_F(NbdSilenceTest, StuckAgent_RequestsInFlight_FailUntilItIsBack) {
  const auto client = NewClient();
  ASSERT_EQ(PrepareFile(client.get(), "d", "f", 4 * kMegabyte), absl::OkStatus());
  std::vector<std::unique_ptr<StoreExport>> exports;
  for (int i = 0; i < 3; ++i) exports.push_back(Open(client.get()));
  const std::string filling(4 * kMegabyte, 'f');
  ASSERT_EQ(exports[0]->Write(0, filling.data(), filling.size()), absl::OkStatus());

  control_.stuck = true;
  std::vector<std::thread> threads;
  std::vector<std::string> buffers(9, std::string(300'000, '?'));
  const auto expect_silence = [](const absl::Status& st) {
    EXPECT_EQ(ErrnoForClient(st), EIO);
    EXPECT_THAT(std::string(st.message()), HasSubstr("no sign of life"));
  };
  for (size_t i = 0; i < buffers.size(); ++i) {
    threads.emplace_back([&, i] {
      StoreExport& e = *exports[i % exports.size()];
      const uint64_t at = i * 400'000;
      const absl::Status st = i % 2 == 0 ? e.Read(at, buffers[i].data(), buffers[i].size())
                                         : e.Write(at, buffers[i].data(), buffers[i].size());
      expect_silence(st);
      // The caller's memory is its own again.
      buffers[i].assign(buffers[i].size(), '!');
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_TRUE(control_.stays);
  // Nothing is asked of it now, by nobody.
  char byte = 'n';
  for (const auto& e : exports) {
    expect_silence(e->Read(0, &byte, 1));
    expect_silence(e->Write(0, &byte, 1));
    expect_silence(e->Zero(0, 1));
    expect_silence(e->Flush());
  }
  expect_silence(StoreExport::Open(client.get(), "d", "f").status());
  expect_silence(PrepareFile(client.get(), "d", "g", kMegabyte));
  exports.pop_back();  // closes without the agent

  control_.stuck = false;
  EXPECT_TRUE(Eventually([&] { return exports[0]->Write(0, &byte, 1).ok(); }));
  // What was given up has been carried out, or not, but before this; and it reached no memory.
  ASSERT_EQ(exports[1]->Write(0, filling.data(), filling.size()), absl::OkStatus());
  ASSERT_EQ(exports[0]->Flush(), absl::OkStatus());
  std::string data(filling.size(), '?');
  ASSERT_EQ(exports[0]->Read(0, data.data(), data.size()), absl::OkStatus());
  EXPECT_TRUE(data == filling);
  for (const std::string& b : buffers) EXPECT_EQ(b, std::string(b.size(), '!'));
  EXPECT_NE(Open(client.get()), nullptr);
}

// The agent is back, but its device still has a write that was given up: the client's second
// attempt must not be overtaken by it.
TEST_F(NbdSilenceTest, GivenUpWrite_StillAtTheDevice_HoldsBackNewWrites) {
  const auto client = NewClient();
  ASSERT_EQ(PrepareFile(client.get(), "d", "f", kMegabyte), absl::OkStatus());
  auto first = Open(client.get());
  auto second = Open(client.get());
  const std::string old(8192, 'o');
  const std::string fresh(8192, 'n');
  ASSERT_EQ(first->Write(0, old.data(), old.size()), absl::OkStatus());
  control_.stuck = true;
  EXPECT_FALSE(first->Write(0, old.data(), old.size()).ok());
  control_.held = true;
  control_.stuck = false;
  EXPECT_TRUE(Eventually([&] { return !control_.stays; }));
  EXPECT_TRUE(
      testing_util::Stays([&] { return !second->Write(0, fresh.data(), fresh.size()).ok(); }));
  control_.held = false;
  EXPECT_TRUE(Eventually([&] { return second->Write(0, fresh.data(), fresh.size()).ok(); }));
  std::string data(fresh.size(), '?');
  ASSERT_EQ(first->Read(0, data.data(), data.size()), absl::OkStatus());
  EXPECT_EQ(data, fresh);
}

TEST_F(NbdSilenceTest, StuckAgent_ThatEnds_IsLostAndFlushedDataStays) {
  const auto client = NewClient();
  ASSERT_EQ(PrepareFile(client.get(), "d", "f", kMegabyte), absl::OkStatus());
  auto e = Open(client.get());
  ASSERT_EQ(e->Write(0, "kept", 4), absl::OkStatus());
  ASSERT_EQ(e->Flush(), absl::OkStatus());
  control_.stuck = true;
  EXPECT_FALSE(e->Write(4, "lost", 4).ok());
  control_.stuck = false;  // it cannot end before
  agent_.Stop();
  EXPECT_EQ(ErrnoForClient(e->Write(4, "lost", 4)), EIO);
  agent_.Start();
  EXPECT_TRUE(Eventually([&] { return StoreExport::Open(client.get(), "d", "f").ok(); }));
  auto again = Open(client.get());
  std::string data(4, '?');
  ASSERT_EQ(again->Read(0, data.data(), 4), absl::OkStatus());
  EXPECT_EQ(data, "kept");
  EXPECT_EQ(ErrnoForClient(e->Flush()), EIO);  // the old connection does not come back
}

// However long the device takes: longer than the agent may be silent, by more than a beat.
void WaitForSlowDevice(Agent* client, Control* control) {
  constexpr auto kLong = std::chrono::milliseconds(6500);
  ASSERT_EQ(PrepareFile(client, "d", "f", kMegabyte), absl::OkStatus());
  auto e = StoreExport::Open(client, "d", "f");
  ASSERT_TRUE(e.ok()) << e.status();
  control->held = true;
  std::atomic<bool> done{false};
  absl::Status st;
  std::thread writer([&] {
    st = (*e)->Write(0, "slow", 4);
    done = true;
  });
  std::this_thread::sleep_for(kLong);  // sleep: nothing tells that the agent was asked in vain
  EXPECT_FALSE(done);
  control->held = false;
  writer.join();
  EXPECT_EQ(st, absl::OkStatus());
}

TEST_F(NbdSilenceTest, SlowDevice_IsWaitedFor) { WaitForSlowDevice(NewClient().get(), &control_); }

TEST_F(NbdSilenceTest, SlowDevice_Polled_IsWaitedFor) {
  control_.polled = true;
  WaitForSlowDevice(NewClient().get(), &control_);
}

}  // namespace
}  // namespace pulse::nbd
