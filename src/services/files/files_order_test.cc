// What waits for what: slow requests and those behind them, changes of size and writes, sessions
// among each other and their end. The back-end does what the test says, so nothing depends on time.
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "base/wake_event.h"
#include "services/files/test_agent.h"

namespace pulse::files {
namespace {

using testing_util::Eventually;

constexpr int64_t kLong = 30'000'000;           // turns a hang into a failure
constexpr uint64_t kZeros = uint64_t{1} << 20;  // the agent fills gaps in pieces of at most so much

// Carries requests out at once, but for those that the test holds back.
struct Gate {
  std::mutex mu;
  std::function<bool(const IoRequest&)> holds = [](const IoRequest&) { return false; };
  std::function<bool(const IoRequest&)> fails = [](const IoRequest&) { return false; };
  size_t held = 0;
  void Set(std::function<bool(const IoRequest&)> what) {
    std::lock_guard lock(mu);
    holds = std::move(what);
  }
  void Open() {
    Set([](const IoRequest&) { return false; });
  }
  bool Holds(size_t n) {
    std::lock_guard lock(mu);
    return held == n;
  }
};

class GateBackend : public IoBackend {
 public:
  explicit GateBackend(Gate* gate) : gate_(gate), wake_(WakeEvent::Create().value()) {}
  bool Enqueue(const IoRequest& r) override {
    pending_.push_back(r);
    return true;
  }
  void Submit() override {}
  size_t Harvest(IoResult* out, size_t max) override {
    std::lock_guard lock(gate_->mu);
    size_t n = 0;
    for (auto r = pending_.begin(); r != pending_.end() && n < max;) {
      if (r->op != IoOp::kClose && gate_->holds(*r)) {
        ++r;
        continue;
      }
      out[n++] = {r->tag, gate_->fails(*r) ? -ENOSPC : ExecuteBlocking(*r)};
      r = pending_.erase(r);
    }
    gate_->held = pending_.size();
    return n;
  }
  int wait_fd() const override { return wake_.fd(); }
  bool needs_polling() const override { return !pending_.empty(); }
  size_t in_flight() const override { return pending_.size(); }
  EngineKind kind() const override { return EngineKind::kThreads; }

 private:
  Gate* const gate_;
  WakeEvent wake_;
  std::deque<IoRequest> pending_;
};

// The thread that carries out changes stands still while this lives.
class StoppedChanges {
 public:
  explicit StoppedChanges(FileStore* files) {
    files->Change(this, [this] {
      std::unique_lock lock(mu_);
      stands_ = true;
      cv_.notify_all();
      cv_.wait(lock, [this] { return go_; });
      gone_ = true;
      cv_.notify_all();
    });
    std::unique_lock lock(mu_);
    cv_.wait(lock, [this] { return stands_; });
  }
  ~StoppedChanges() {
    std::unique_lock lock(mu_);
    go_ = true;
    cv_.notify_all();
    cv_.wait(lock, [this] { return gone_; });
  }

 private:
  std::mutex mu_;
  std::condition_variable cv_;
  bool stands_ = false;
  bool go_ = false;
  bool gone_ = false;
};

class OrderTest : public testing::TestWithParam<Transfer> {
 protected:
  void SetUp() override {
    agent_.agent_options.backend_factory = [this](const IoBackendOptions&) {
      return absl::StatusOr<std::unique_ptr<IoBackend>>(std::make_unique<GateBackend>(&gate_));
    };
    agent_.Start();
    library_ = agent_.Connect(GetParam());
    ASSERT_NE(library_, nullptr);
    client_ = std::make_unique<Client>(library_.get());
    ASSERT_EQ(client_->CreateDirectory("d"), absl::OkStatus());
    file_ = client_->Create("d", "f").file;
  }
  void TearDown() override { gate_.Open(); }
  Completion Next() {
    Completion c;
    const auto n = library_->PollWait(client_->poll(), &c, 1, kLong);
    EXPECT_TRUE(n.ok() && *n == 1) << n.status();
    return c;
  }

  // By the agent. Answered at once, and requests are taken in order.
  void AllAreTaken() {
    ASSERT_EQ(library_->GetAttributes(file_, 999), absl::OkStatus());
    ASSERT_EQ(Next().cookie, 999u);
  }

  Gate gate_;
  TestAgent agent_;
  std::unique_ptr<Library> library_;
  std::unique_ptr<Client> client_;
  File file_ = File::kNone;
};

TEST_P(OrderTest, Reads_OneIsSlow_OthersAreAnswered) {
  ASSERT_EQ(client_->Write(file_, 0, std::string(65536, 'x')).status, absl::OkStatus());
  gate_.Set([](const IoRequest& r) { return r.op == IoOp::kRead && r.length == 8192; });
  std::string slow(8192, '?'), quick(4096, '?');
  ASSERT_EQ(library_->ReadFile(file_, 0, slow.data(), slow.size(), 1), absl::OkStatus());
  ASSERT_TRUE(Eventually([&] { return gate_.Holds(1); }));
  for (uint64_t i = 0; i < 500; ++i) {
    const absl::Status st =
        i % 2 == 0 ? library_->ReadFile(file_, i % 16 * 4096, quick.data(), quick.size(), 100 + i)
                   : library_->ReadInPlace(file_, i % 16 * 4096, 4096, 100 + i);
    ASSERT_EQ(st, absl::OkStatus());
    Completion c = Next();
    ASSERT_EQ(c.cookie, 100 + i);
    ASSERT_EQ(c.bytes, 4096u);
    if (c.data != nullptr) {
      ASSERT_EQ(std::string(c.data, c.bytes), std::string(4096, 'x'));
    }
    library_->Release(client_->poll(), &c);
  }
  EXPECT_EQ(slow, std::string(8192, '?'));
  gate_.Open();
  EXPECT_EQ(Next().cookie, 1u);
  EXPECT_EQ(slow, std::string(8192, 'x'));
}

// A response that is held for long takes nothing from the others but room.
TEST_P(OrderTest, HeldResponse_WithRoomLeft_DelaysNoOtherRead) {
  ASSERT_EQ(client_->Write(file_, 0, std::string(4096, 'x')).status, absl::OkStatus());
  Completion held = client_->Wait(library_->ReadInPlace(file_, 0, 4096, 1));
  ASSERT_EQ(held.bytes, 4096u);
  for (int i = 0; i < 500; ++i) ASSERT_EQ(client_->Read(file_, 0, 4096).size(), 4096u);
  EXPECT_EQ(std::string(held.data, held.bytes), std::string(4096, 'x'));
  library_->Release(client_->poll(), &held);
}

TEST_P(OrderTest, SetSize_BeforeOrBehindWrites_KeepsTheirOrder) {
  const std::string data(300'000, 'x');
  for (const bool cut_before : {false, true}) {
    {
      const StoppedChanges stopped(agent_.files());
      // Needs segments, which it gets from the thread that stands.
      if (cut_before) {
        ASSERT_EQ(library_->SetSize(file_, 10, 0), absl::OkStatus());
      }
      ASSERT_EQ(library_->WriteFile(file_, 0, data.data(), data.size(), 1), absl::OkStatus());
      ASSERT_EQ(library_->WriteFile(file_, 8192, data.data(), data.size(), 1), absl::OkStatus());
      ASSERT_EQ(library_->SetSize(file_, 100, 2), absl::OkStatus());
      AllAreTaken();
    }
    for (int i = 0; i < (cut_before ? 4 : 3); ++i) ASSERT_EQ(Next().status, absl::OkStatus());
    EXPECT_EQ(client_->Stat(file_).size, 100u);
    EXPECT_EQ(client_->Read(file_, 0, 1000), std::string(100, 'x'));
    // And the other way round.
    {
      const StoppedChanges stopped(agent_.files());
      ASSERT_EQ(library_->SetSize(file_, 0, 2), absl::OkStatus());
      ASSERT_EQ(library_->WriteFile(file_, 50, data.data(), data.size(), 1), absl::OkStatus());
    }
    for (int i = 0; i < 2; ++i) ASSERT_EQ(Next().status, absl::OkStatus());
    EXPECT_EQ(client_->Read(file_, 0, 60), std::string(50, '\0') + std::string(10, 'x'));
    ASSERT_EQ(client_->SetSize(file_, 0), absl::OkStatus());
  }
}

// What sets segments aside looks at them when it is done: not while they are being cut.
TEST_P(OrderTest, Reserve_BeforeOrBehindSetSize_KeepsTheirOrder) {
  ASSERT_EQ(client_->Write(file_, 0, std::string(4096, 'x')).status, absl::OkStatus());
  gate_.Set([](const IoRequest& r) { return r.op == IoOp::kWrite; });
  const std::string block(4096, 'y');
  ASSERT_EQ(library_->WriteFile(file_, 0, block.data(), block.size(), 1), absl::OkStatus());
  ASSERT_TRUE(Eventually([&] { return gate_.Holds(1); }));
  ASSERT_EQ(library_->SetSize(file_, 100, 2), absl::OkStatus());
  ASSERT_EQ(library_->Reserve(file_, 10 * kSegment, 3), absl::OkStatus());
  // Changes of a session are carried out in their order.
  ASSERT_EQ(library_->CreateDirectory(client_->poll(), "last", 4), absl::OkStatus());
  EXPECT_EQ(Next().cookie, 4u);
  gate_.Open();
  for (const uint64_t cookie : {1, 2, 3}) {
    const Completion c = Next();
    EXPECT_EQ(c.cookie, cookie);
    EXPECT_EQ(c.status, absl::OkStatus());
  }
  EXPECT_EQ(client_->Stat(file_).allocated, 10 * kSegment);
  EXPECT_EQ(client_->Read(file_, 0, 1000), std::string(100, 'y'));
  // And the other way round.
  {
    const StoppedChanges stopped(agent_.files());
    ASSERT_EQ(library_->Reserve(file_, 20 * kSegment, 5), absl::OkStatus());
    ASSERT_EQ(library_->SetSize(file_, 50, 6), absl::OkStatus());
    AllAreTaken();
  }
  for (const uint64_t cookie : {5, 6}) EXPECT_EQ(Next().cookie, cookie);
  EXPECT_EQ(client_->Stat(file_).allocated, kSegment);
}

TEST_P(OrderTest, Write_WithoutRoom_FailsAndLaterSetSizeHolds) {
  const uint64_t all = agent_.files()->store().usage().segments * kSegment;
  {
    const StoppedChanges stopped(agent_.files());
    ASSERT_EQ(library_->WriteFile(file_, all, "x", 1, 1), absl::OkStatus());
    ASSERT_EQ(library_->SetSize(file_, 100, 2), absl::OkStatus());
    AllAreTaken();
  }
  for (int i = 0; i < 2; ++i) {
    const Completion c = Next();
    EXPECT_EQ(c.status.code(),
              c.cookie == 1 ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kOk);
  }
  EXPECT_EQ(client_->Stat(file_).size, 100u);
}

// One piece of the gap is let through at a time.
TEST_P(OrderTest, SessionEnd_GapBeingFilled_DoesNotWaitForIt) {
  auto other = agent_.Connect(GetParam());
  auto second = std::make_unique<Client>(other.get());
  const File theirs = second->Open("d", "f").file;
  constexpr uint64_t kGap = 20 * kZeros;
  ASSERT_EQ(client_->Wait(library_->Reserve(file_, kGap + (1 << 20), 0)).status, absl::OkStatus());
  size_t writes = 0, allowed = 3;
  gate_.Set([&](const IoRequest& r) {
    if (r.op != IoOp::kWrite) return false;
    if (writes >= allowed) return true;
    ++writes;
    return false;
  });
  const std::string gone(4096, 'g'), block(4096, 'b');
  ASSERT_EQ(other->WriteFile(theirs, kGap, gone.data(), gone.size(), 1), absl::OkStatus());
  ASSERT_TRUE(Eventually([&] { return gate_.Holds(1); }));
  // Lies behind what the other was to fill.
  ASSERT_EQ(library_->WriteFile(file_, kGap + 4096, block.data(), block.size(), 7),
            absl::OkStatus());
  ASSERT_TRUE(Eventually([&] { return gate_.Holds(2); }));
  second.reset();
  other.reset();  // the agent has been told
  {
    std::lock_guard lock(gate_.mu);
    allowed += 2;  // both that are held, and then no more
  }
  EXPECT_TRUE(Eventually([&] { return agent_.server()->session_count() == 1; }));
  gate_.Open();
  const Completion c = Next();
  EXPECT_EQ(c.cookie, 7u);
  EXPECT_EQ(c.status, absl::OkStatus());
  EXPECT_EQ(client_->Stat(file_).size, kGap + 8192);
  EXPECT_TRUE(client_->Read(file_, kGap - 4096, 100'000) == std::string(8192, '\0') + block);
  EXPECT_TRUE(client_->Read(file_, 5 * kZeros, 4096) == std::string(4096, '\0'));
}

// One that fails behind it does not make the others wait until a long gap is filled.
TEST_P(OrderTest, Write_FailsBehindALongGap_IsReportedBeforeItIsFilled) {
  constexpr uint64_t kGap = 20 * kZeros;
  ASSERT_EQ(client_->Wait(library_->Reserve(file_, kGap + (1 << 20), 0)).status, absl::OkStatus());
  std::vector<uint64_t> pieces;  // offsets on the device
  size_t allowed = 2;
  {
    std::lock_guard lock(gate_.mu);
    gate_.fails = [](const IoRequest& r) { return r.op == IoOp::kWrite && r.length == 8192; };
  }
  gate_.Set([&](const IoRequest& r) {
    if (r.op != IoOp::kWrite || r.length == 8192) return false;
    if (pieces.empty() || pieces.back() != r.offset) pieces.push_back(r.offset);
    if (allowed == 0) return true;
    --allowed;
    return false;
  });
  const std::string block(4096, 'b'), fails(8192, 'f');
  ASSERT_EQ(library_->WriteFile(file_, kGap, block.data(), block.size(), 1), absl::OkStatus());
  ASSERT_TRUE(Eventually([&] { return gate_.Holds(1); }));
  ASSERT_EQ(library_->WriteFile(file_, kGap + 4096, fails.data(), fails.size(), 2),
            absl::OkStatus());
  const Completion failed = Next();
  EXPECT_EQ(failed.cookie, 2u);
  EXPECT_EQ(failed.status.code(), absl::StatusCode::kInternal) << failed.status;
  {
    std::lock_guard lock(gate_.mu);
    ASSERT_EQ(pieces.size(), 3u);
    allowed = 1;
  }
  ASSERT_TRUE(Eventually([&] {
    std::lock_guard lock(gate_.mu);
    return pieces.size() == 4;
  }));
  gate_.Open();
  EXPECT_EQ(pieces[3], pieces[0]) << "it begins anew, after those that waited";
  EXPECT_EQ(Next().cookie, 1u);
  {
    std::lock_guard lock(gate_.mu);
    gate_.fails = [](const IoRequest&) { return false; };
  }
  EXPECT_EQ(client_->Stat(file_).size, kGap + 4096);
  EXPECT_TRUE(client_->Read(file_, kGap - 4096, 100'000) == std::string(4096, '\0') + block);
}

TEST_P(OrderTest, Changes_OfSeveralSessions_TakeTurns) {
  std::string order;
  std::mutex mu;
  const char sessions[3] = {};
  const auto add = [&](char who) {
    agent_.files()->Change(&sessions[who - 'a'], [&order, &mu, who] {
      std::lock_guard lock(mu);
      order += who;
    });
  };
  {
    const StoppedChanges stopped(agent_.files());
    for (const char who : std::string("aaaabbc")) add(who);
  }
  ASSERT_TRUE(Eventually([&] {
    std::lock_guard lock(mu);
    return order.size() == 7;
  }));
  EXPECT_EQ(order, "abcabaa");
}

// With `vmread` the agent writes wherever the library's memory was, so that the library waits until
// it has stopped doing so.
TEST_P(OrderTest, LibraryEnd_ReadUnderWay_WaitsForTheAgentNotTheIo) {
  ASSERT_EQ(client_->Write(file_, 0, std::string(4096, 'x')).status, absl::OkStatus());
  auto other = agent_.Connect(GetParam());
  auto second = std::make_unique<Client>(other.get());
  const File theirs = second->Open("d", "f").file;
  gate_.Set([](const IoRequest& r) { return r.op == IoOp::kRead; });
  char byte;
  ASSERT_EQ(other->ReadFile(theirs, 0, &byte, 1, 1), absl::OkStatus());
  ASSERT_TRUE(Eventually([&] { return gate_.Holds(1); }));
  std::atomic<bool> ended{false};
  std::thread ends;
  {
    // The worker stands in the back-end.
    const std::lock_guard lock(gate_.mu);
    ends = std::thread([&] {
      other.reset();
      ended = true;
    });
    EXPECT_TRUE(testing_util::Stays([&] { return !ended; }));
  }
  ends.join();
  // It need not wait for the I/O.
  EXPECT_TRUE(gate_.Holds(1));
  EXPECT_EQ(agent_.server()->session_count(), 2u);
  gate_.Open();
  EXPECT_TRUE(Eventually([&] { return agent_.server()->session_count() == 1; }));
}

INSTANTIATE_TEST_SUITE_P(Transfers, OrderTest,
                         testing::Values(Transfer::kShared, Transfer::kVmRead));

}  // namespace
}  // namespace pulse::files
