// The rivals do what the product's engines do: figures of engines that lose or tear requests would
// be worth nothing.
#include "bench/rivals/engines.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <memory>

#include "base/testing.h"
#include "uring/denied_uring_test_util.h"
#include "uring/io_backend_suite.h"

namespace pulse {
namespace io_backend_suite {

absl::StatusOr<std::unique_ptr<IoBackend>> CreatePolled(const IoBackendOptions& options) {
  auto made = rivals::CreatePollBackend(options);
  if (!made.ok()) return made.status();
  return std::unique_ptr<IoBackend>(*std::move(made));
}

INSTANTIATE_TEST_SUITE_P(
    Rivals, EngineTest,
    ::testing::Values(Engine{"io_uring_poll", EngineKind::kUring, CreatePolled},
                      Engine{"libaio", EngineKind::kThreads, rivals::CreateAioBackend}),
    NameOf);

}  // namespace io_backend_suite

namespace rivals {
namespace {

using ::testing::HasSubstr;
using testing_util::Text;
using testing_util::WhereUringIsDenied;

// What the factory of `rival` makes of it in a process where io_uring is denied: the kind, and 50
// more if it polls.
int MadeWhereDenied(const char* rival, uint32_t entries) {
  return WhereUringIsDenied(entries, [rival] {
    IoBackendOptions options;
    options.depth = 32;
    options.factory = *FactoryOf(rival);
    auto made = CreateIoBackend(options);
    if (!made.ok()) return 99;
    const auto* polled = dynamic_cast<const PollBackend*>(made->get());
    return static_cast<int>((*made)->kind()) + (polled != nullptr && polled->polling() ? 50 : 0);
  });
}

TEST(RivalFactory_WhereUringIsDenied, PollingRing_ThreadsServe) {
  EXPECT_EQ(MadeWhereDenied("io_uring_poll", 0), static_cast<int>(EngineKind::kThreads));
}

TEST(RivalFactory_WhereUringIsDenied, OnlyThePolledRing_PlainUringServes) {
  if (!CreateUringBackend({}).ok()) GTEST_SKIP() << "no io_uring here";
  // The polled ring has `depth` entries, the main ring more.
  EXPECT_EQ(MadeWhereDenied("io_uring_poll", 32), static_cast<int>(EngineKind::kUring));
  EXPECT_EQ(MadeWhereDenied("io_uring_poll", 31), static_cast<int>(EngineKind::kUring) + 50);
}

TEST(RivalFactory, UnknownName_IsRefused) {
  const absl::Status st = FactoryOf("spdk").status();
  EXPECT_TRUE(absl::IsInvalidArgument(st));
  EXPECT_THAT(Text(st), HasSubstr("io_uring_poll, libaio"));
}

// No file in memory or in the page cache can be polled.
TEST(PollBackendTest, FileThatCannotBePolled_IsServedByThePlainRing) {
  auto backend = CreatePollBackend({});
  if (!backend.ok()) GTEST_SKIP() << "not to be had here: " << backend.status();
  EXPECT_TRUE((*backend)->polling());
  testing_util::ScratchPath path("polled");
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  char text[] = "abc";
  IoRequest r{};
  r.op = IoOp::kWrite;
  r.fd = fd.get();
  r.buffer = text;
  r.length = 3;
  r.tag = 7;
  ASSERT_TRUE((*backend)->Enqueue(r));
  IoResult result{};
  while ((*backend)->Harvest(&result, 1) == 0) (*backend)->Submit();
  EXPECT_EQ(result.tag, 7u);
  EXPECT_EQ(result.result, 3);
  EXPECT_FALSE((*backend)->polling());
  EXPECT_EQ((*backend)->in_flight(), 0u);
}

}  // namespace
}  // namespace rivals
}  // namespace pulse
