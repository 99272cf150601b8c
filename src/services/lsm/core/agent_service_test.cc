// The agent's half of the service against a host that asks for what it must not get. On one thread:
// the test is host, worker and engine in turn.
#include "services/lsm/core/agent_service.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "agent/test_host.h"
#include "base/clock.h"
#include "base/testing.h"
#include "services/lsm/core/wire.h"

namespace pulse::lsm {
namespace {

using agent_test::TestHost;
using testing_util::OpenDescriptors;
using testing_util::ScratchPath;

class AgentServiceTest : public ::testing::Test {
 protected:
  AgentServiceTest() { engine_ = std::make_unique<FileEngine>(CreateThreadBackend({}).value()); }

  void Start(AgentLimits limits = {}, MoverWrapper wrap_mover = {}) {
    host_ = std::make_unique<TestHost>(/*shared=*/true);
    host_->wrap_mover = std::move(wrap_mover);
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    host_->socket().reset(fds[0]);
    session_ =
        host_->NewSession(engine_.get(), limits, UniqueFd(fds[1]), &CreateAgentService, usage_);
    ASSERT_TRUE(host_->SendAttach(host_->NewQueue(), TestHost::kArena).ok());
    ASSERT_TRUE(session_->HandleSocket());
    ASSERT_TRUE(host_->Answer(wire::MessageType::kAttachAck).ok());
  }
  void TearDown() override {
    if (session_ == nullptr) return;
    session_->BeginShutdown();
    while (!session_->Drained()) engine_->Poll();
    session_.reset();
    EXPECT_EQ(usage_->files, 0u);
    EXPECT_EQ(usage_->arena_bytes, 0u);
    EXPECT_TRUE(engine_->idle());
  }

  static wire::Descriptor Request(Opcode opcode, uint32_t file, uint64_t offset = 0,
                                  uint64_t length = 0) {
    wire::Descriptor d{};
    d.opcode = static_cast<uint32_t>(opcode);
    d.file = file;
    d.file_offset = offset;
    d.length = length;
    return d;
  }
  // What the agent answers to `d`.
  int64_t Ask(wire::Descriptor d) {
    d.tag = ++tag_;
    EXPECT_TRUE(host_->queue().ring.TryPush(d));
    wire::Completion c{};
    // A hang becomes a failure.
    const int64_t limit = NowNanos() + int64_t{60} * 1'000'000'000;
    for (uint64_t i = 1; i % 1024 != 0 || NowNanos() < limit; ++i) {
      session_->PollQueues(16);
      engine_->Poll();
      session_->Deliver();
      if (host_->queue().ring.TryPop(&c)) {
        EXPECT_EQ(c.tag, d.tag);
        return c.result;
      }
      if (session_->shutting_down()) return -ENODATA;
      std::this_thread::yield();
    }
    ADD_FAILURE() << "no answer";
    return -ENODATA;
  }
  int64_t OpenFile(uint32_t file, int fd) {
    EXPECT_TRUE(host_->SendFile(file, fd).ok());
    return Ask(Request(Opcode::kOpen, file));
  }
  UniqueFd Scratch() { return UniqueFd(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)); }

  std::shared_ptr<AgentUsage> usage_ = std::make_shared<AgentUsage>();
  ScratchPath path_{"service"};
  std::unique_ptr<FileEngine> engine_;
  std::unique_ptr<TestHost> host_;
  std::unique_ptr<Session> session_;
  uint64_t tag_ = 0;
};

// Flags that no host sends count as untold, and no class is closed to anyone.
TEST_F(AgentServiceTest, Requests_OfEveryPurpose_AreCountedInTheirClass) {
  Start();
  const auto requests = [&](IoClass c) -> uint64_t {
    return session_->class_counters()[static_cast<size_t>(c)].requests;
  };
  uint32_t file = 1;
  uint64_t position = 0;
  for (uint32_t value = 0; value < 16; ++value) {
    const IoClass expected = value == 1   ? IoClass::kCritical
                             : value == 2 ? IoClass::kElevated
                             : value == 3 ? IoClass::kBackground
                                          : IoClass::kUnknown;
    for (uint32_t rest : {0u, 0x80u, 0xfffff000u}) {
      const uint64_t before = requests(expected);
      EXPECT_TRUE(host_->SendFile(file, Scratch().get()).ok());
      wire::Descriptor d = Request(Opcode::kOpen, file);
      d.flags = value << kPurposeShift | rest;
      ASSERT_EQ(Ask(d), 0) << d.flags;
      d = Request(Opcode::kWrite, file, 0, 4096);
      d.position = position += 4096;
      d.arena_offset = (position - 4096) % TestHost::kArena;
      ASSERT_EQ(Ask(d), 4096) << d.flags;
      EXPECT_EQ(requests(expected), before + 1) << d.flags;
      // A read tells for itself.
      const uint64_t reads = requests(expected);
      d = Request(Opcode::kRead, file, 0, 4096);
      d.flags = value << kPurposeShift;
      ASSERT_EQ(Ask(d), 4096);
      EXPECT_EQ(requests(expected), reads + 1) << d.flags;
      ASSERT_EQ(Ask(Request(Opcode::kDiscard, file)), 0);
      ++file;
    }
  }
  EXPECT_EQ(requests(IoClass::kInteractive), 0u) << "no host of this service can be one of files";
}

TEST_F(AgentServiceTest, Open_OtherThanRegularFile_IsRefused) {
  Start();
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd directory(open(".", O_RDONLY | O_CLOEXEC));
  const UniqueFd path_only(open("/dev/null", O_PATH | O_CLOEXEC));
  uint32_t file = 1;
  for (int fd : {reader.get(), writer.get(), null.get(), directory.get(), path_only.get(),
                 host_->socket().get()}) {
    EXPECT_EQ(OpenFile(file++, fd), -EINVAL);
  }
  EXPECT_EQ(OpenFile(file, Scratch().get()), 0);
}

TEST_F(AgentServiceTest, Request_OffsetTooLargeForTheKernel_IsRefused) {
  Start();
  ASSERT_EQ(OpenFile(1, Scratch().get()), 0);
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  for (uint64_t offset : {kMost, kMost + 1, ~uint64_t{0}, ~uint64_t{0} - 4095}) {
    wire::Descriptor write = Request(Opcode::kWrite, 1, offset, 4096);
    EXPECT_EQ(Ask(write), -EINVAL) << offset;
    EXPECT_EQ(Ask(Request(Opcode::kRead, 1, offset, 4096)), -EINVAL) << offset;
    EXPECT_EQ(Ask(Request(Opcode::kRangeSync, 1, offset, 4096)), -EINVAL) << offset;
  }
  EXPECT_EQ(Ask(Request(Opcode::kRangeSync, 1, 4096, kMost)), -EINVAL);
  EXPECT_EQ(Ask(Request(Opcode::kRangeSync, 1, 1, ~uint64_t{0})), -EINVAL);
}

TEST_F(AgentServiceTest, RangeSync_ToTheEndOrBeyondFourGigabytes_IsDone) {
  Start();
  ASSERT_EQ(OpenFile(1, Scratch().get()), 0);
  wire::Descriptor write = Request(Opcode::kWrite, 1, 0, 4096);
  write.position = 4096;
  ASSERT_EQ(Ask(write), 4096);
  EXPECT_EQ(Ask(Request(Opcode::kRangeSync, 1, 0, 0)), 0);
  EXPECT_EQ(Ask(Request(Opcode::kRangeSync, 1, 0, uint64_t{1} << 32)), 0);
  EXPECT_EQ(Ask(Request(Opcode::kRangeSync, 1, 0, std::numeric_limits<int64_t>::max())), 0);
}

TEST_F(AgentServiceTest, Open_DescriptorLost_FailsAlone) {
  Start();
  UniqueFd fd = Scratch();
  ASSERT_TRUE(host_->SendFile(1, fd.get()).ok());
  {
    const testing_util::NoMoreFiles none;
    EXPECT_EQ(Ask(Request(Opcode::kOpen, 1)), -EMFILE);
  }
  EXPECT_FALSE(session_->shutting_down());
  EXPECT_EQ(OpenFile(2, fd.get()), 0);
  EXPECT_EQ(OpenFile(1, fd.get()), 0) << "the number is free";
}

TEST_F(AgentServiceTest, Open_SessionFileLimitReached_FailsUntilOneIsClosed) {
  AgentLimits limits;
  limits.max_session_files = 3;
  limits.max_total_files = 100;
  Start(limits);
  UniqueFd fd = Scratch();
  for (uint32_t i = 1; i <= 3; ++i) ASSERT_EQ(OpenFile(i, fd.get()), 0);
  EXPECT_EQ(OpenFile(4, fd.get()), -ENFILE);
  EXPECT_EQ(usage_->files, 3u);
  EXPECT_EQ(Ask(Request(Opcode::kDiscard, 2)), 0);
  EXPECT_EQ(OpenFile(5, fd.get()), 0);
  wire::Descriptor close = Request(Opcode::kSyncClose, 1);
  close.aux = ~uint64_t{0};
  EXPECT_EQ(Ask(close), 0);
  EXPECT_EQ(usage_->files, 2u);
}

TEST_F(AgentServiceTest, Descriptors_PassedAndNeverOpened_AreBounded) {
  AgentLimits limits;
  limits.max_session_files = 10;
  limits.max_total_files = 100;
  Start(limits);
  UniqueFd fd = Scratch();
  const size_t before = OpenDescriptors();
  for (uint32_t i = 1; i <= 100; ++i) {
    ASSERT_TRUE(host_->SendFile(i, fd.get()).ok());
    ASSERT_TRUE(session_->HandleSocket());
  }
  EXPECT_EQ(OpenDescriptors(), before + 10);
  EXPECT_EQ(usage_->files, 10u);
  EXPECT_EQ(Ask(Request(Opcode::kOpen, 50)), -ENFILE) << "said, not passed over";
  EXPECT_EQ(Ask(Request(Opcode::kOpen, 5)), 0);
  // The same number over and over takes one place.
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(host_->SendFile(7, fd.get()).ok());
    ASSERT_TRUE(session_->HandleSocket());
  }
  EXPECT_EQ(usage_->files, 10u);
}

// The host passes both before either is opened; the second has no place, though one is free later.
TEST_F(AgentServiceTest, Open_HadNoPlaceAmongThePassed_SaysThatFilesAreLimited) {
  AgentLimits limits;
  limits.max_session_files = 1;
  limits.max_total_files = 100;
  Start(limits);
  UniqueFd fd = Scratch();
  ASSERT_TRUE(host_->SendFile(1, fd.get()).ok());
  ASSERT_TRUE(session_->HandleSocket());
  ASSERT_TRUE(host_->SendFile(2, fd.get()).ok());
  ASSERT_TRUE(session_->HandleSocket());
  EXPECT_EQ(Ask(Request(Opcode::kOpen, 1)), 0);
  EXPECT_EQ(Ask(Request(Opcode::kOpen, 2)), -ENFILE);
  EXPECT_EQ(Ask(Request(Opcode::kDiscard, 1)), 0);
  EXPECT_EQ(OpenFile(3, fd.get()), 0);
}

TEST_F(AgentServiceTest, Open_TotalFileLimitReached_FailsUntilOneIsClosed) {
  AgentLimits limits;
  limits.max_total_files = 2;
  Start(limits);
  usage_->files = 1;  // another session's
  UniqueFd fd = Scratch();
  EXPECT_EQ(OpenFile(1, fd.get()), 0);
  EXPECT_EQ(OpenFile(2, fd.get()), -ENFILE);
  usage_->files = 1;  // it closed its own
  EXPECT_EQ(OpenFile(3, fd.get()), 0);
}

TEST_F(AgentServiceTest, Open_NumberInUse_IsRefusedAndDescriptorClosed) {
  Start();
  UniqueFd fd = Scratch();
  ASSERT_EQ(OpenFile(1, fd.get()), 0);
  const size_t before = OpenDescriptors();
  EXPECT_EQ(OpenFile(1, fd.get()), -EEXIST);
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_F(AgentServiceTest, Open_SocketBroken_EndsTheSession) {
  Start();
  ASSERT_EQ(send(host_->socket().get(), "garbage", 7, 0), 7);
  wire::Descriptor d = Request(Opcode::kOpen, 1);
  for (uint64_t i = 0; i < 5; ++i) {
    d.tag = i;
    ASSERT_TRUE(host_->queue().ring.TryPush(d));
  }
  EXPECT_EQ(session_->PollQueues(16), 1u) << "nothing is taken from it any more";
  EXPECT_TRUE(session_->shutting_down());
}

// Moves at once, and says that it takes a while.
class LateMover : public Mover {
 public:
  explicit LateMover(std::unique_ptr<Mover> mover) : mover_(std::move(mover)) {}
  char* local() const override { return mover_->local(); }
  size_t size() const override { return mover_->size(); }
  MoverKind kind() const override { return mover_->kind(); }
  absl::Status Pull(uint64_t, uint64_t) override { return absl::InternalError("waits"); }
  absl::Status Push(uint64_t, uint64_t) override { return absl::InternalError("waits"); }
  absl::Status StartPull(uint64_t offset, uint64_t length, int64_t* there_at) override {
    last_ = *there_at = NowNanos() + delay_;
    return fail_ ? absl::UnavailableError("a test's") : mover_->Pull(offset, length);
  }
  absl::Status StartPush(uint64_t offset, uint64_t length, int64_t* there_at) override {
    last_ = *there_at = NowNanos() + delay_;
    return fail_ ? absl::UnavailableError("a test's") : mover_->Push(offset, length);
  }

  int64_t delay_ = 5'000'000;
  int64_t last_ = 0;
  bool fail_ = false;

 private:
  std::unique_ptr<Mover> mover_;
};

class LateMoverTest : public AgentServiceTest {
 protected:
  void StartLate() {
    Start({}, [this](std::unique_ptr<Mover> m, bool first) {
      EXPECT_TRUE(first);
      auto late = std::make_unique<LateMover>(std::move(m));
      mover_ = late.get();
      return late;
    });
    ASSERT_EQ(OpenFile(1, Scratch().get()), 0);
  }
  char* Arena() { return host_->queue().region.data(); }

  LateMover* mover_ = nullptr;
};

TEST_F(LateMoverTest, WritesAndReads_BytesOnTheirWay_WaitForThem) {
  StartLate();
  std::memset(Arena(), 'w', 4096);
  wire::Descriptor write = Request(Opcode::kWrite, 1, 0, 4096);
  write.position = 4096;
  ASSERT_EQ(Ask(write), 4096);
  EXPECT_GE(NowNanos(), mover_->last_) << "written before its bytes were there";
  std::memset(Arena(), 0, 4096);
  ASSERT_EQ(Ask(Request(Opcode::kRead, 1, 0, 4096)), 4096);
  EXPECT_GE(NowNanos(), mover_->last_) << "answered before the bytes were there";
  EXPECT_EQ(Arena()[0], 'w');
  EXPECT_EQ(Arena()[4095], 'w');
  EXPECT_EQ(Ask(Request(Opcode::kSyncClose, 1)), 0);
}

TEST_F(LateMoverTest, Sync_WriteBytesOnTheirWay_WaitsForTheWrite) {
  StartLate();
  mover_->delay_ = 500'000'000;
  wire::Descriptor write = Request(Opcode::kWrite, 1, 0, 4096);
  write.position = 4096;
  ASSERT_TRUE(host_->queue().ring.TryPush(write));
  session_->PollQueues(16);
  if (NowNanos() < mover_->last_) {  // else it may not have had to wait
    EXPECT_EQ(engine_->next_due(), mover_->last_);
  }
  wire::Descriptor sync = Request(Opcode::kSync, 1);
  sync.tag = 8;
  ASSERT_TRUE(host_->queue().ring.TryPush(sync));
  std::vector<uint64_t> order;
  while (order.size() < 2) {
    session_->PollQueues(16);
    engine_->Poll();
    session_->Deliver();
    wire::Completion c{};
    if (host_->queue().ring.TryPop(&c)) {
      order.push_back(c.tag);
      EXPECT_GE(c.result, 0);
    }
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{0, 8}));
}

TEST_F(LateMoverTest, Request_MoverFails_FailsWithEio) {
  StartLate();
  wire::Descriptor write = Request(Opcode::kWrite, 1, 0, 4096);
  write.position = 4096;
  ASSERT_EQ(Ask(write), 4096);
  mover_->fail_ = true;
  EXPECT_EQ(Ask(Request(Opcode::kRead, 1, 0, 4096)), -EIO);
  write.position = 8192;
  EXPECT_EQ(Ask(write), -EIO);
}

// TearDown drains, with a read on its way.
TEST_F(LateMoverTest, SessionEnd_ReadOnItsWay_WaitsForItsArrival) {
  StartLate();
  wire::Descriptor write = Request(Opcode::kWrite, 1, 0, 4096);
  write.position = 4096;
  ASSERT_EQ(Ask(write), 4096);
  const int64_t before = mover_->last_;
  ASSERT_TRUE(host_->queue().ring.TryPush(Request(Opcode::kRead, 1, 0, 4096)));
  while (mover_->last_ == before) {
    session_->PollQueues(16);
    engine_->Poll();
  }
  session_->BeginShutdown();
  const int64_t there_at = mover_->last_;
  while (!session_->Drained()) engine_->Poll();
  EXPECT_GE(NowNanos(), there_at);
}

}  // namespace
}  // namespace pulse::lsm
