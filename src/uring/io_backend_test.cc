#include "uring/io_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/test_no_threads.h"
#include "base/testing.h"
#include "uring/denied_uring_test_util.h"
#include "uring/io_backend_suite.h"

namespace pulse {
namespace io_backend_suite {

INSTANTIATE_TEST_SUITE_P(
    Engines, EngineTest,
    ::testing::Values(Engine{"io_uring", EngineKind::kUring, CreateUringBackend},
                      Engine{"threads", EngineKind::kThreads, CreateThreadBackend}),
    NameOf);

}  // namespace io_backend_suite

namespace {

using ::testing::HasSubstr;
using testing_util::Text;

TEST(EngineNameTest, Name_KnownOrNot_IsParsedOrRefused) {
  for (EngineKind kind : {EngineKind::kUring, EngineKind::kThreads}) {
    EXPECT_EQ(*ParseEngineKind(EngineName(kind)), kind);
  }
  const absl::Status st = ParseEngineKind("spdk").status();
  EXPECT_TRUE(absl::IsInvalidArgument(st));
  EXPECT_THAT(Text(st), HasSubstr("\"spdk\""));
  EXPECT_THAT(Text(st), HasSubstr("io_uring or threads"));
}

TEST(EngineNameTest, RivalEngine_IsRefused_SaysWhereItIs) {
  for (const char* name : {"libaio", "io_uring_poll"}) {
    const absl::Status st = ParseEngineKind(name).status();
    EXPECT_TRUE(absl::IsInvalidArgument(st)) << st;
    EXPECT_THAT(Text(st), HasSubstr(name));
    EXPECT_THAT(Text(st), HasSubstr("pulse-bench"));
    EXPECT_THAT(Text(st), HasSubstr("choose io_uring or threads"));
  }
}

// What the protocol says of an agent's engine: the numbers of earlier releases stay as they are.
TEST(EngineNameTest, NumberOfAnotherRelease_IsNamedUnknown) {
  EXPECT_EQ(static_cast<int>(EngineKind::kUring), 0);
  EXPECT_EQ(static_cast<int>(EngineKind::kThreads), 3);
  for (int number : {1, 2, 4, -1}) {
    EXPECT_EQ(EngineName(static_cast<EngineKind>(number)), "unknown") << number;
  }
}

// The engine that CreateIoBackend makes of `kind` in a process where io_uring is denied.
int KindWhereDenied(EngineKind kind) {
  return testing_util::WhereUringIsDenied(0, [kind] {
    IoBackendOptions options;
    options.kind = kind;
    options.depth = 32;
    auto made = CreateIoBackend(options);
    return made.ok() ? static_cast<int>((*made)->kind()) : 99;
  });
}

TEST(FallbackTest, Create_UringDenied_ServesWithThreads) {
  EXPECT_EQ(KindWhereDenied(EngineKind::kUring), static_cast<int>(EngineKind::kThreads));
  EXPECT_EQ(KindWhereDenied(EngineKind::kThreads), static_cast<int>(EngineKind::kThreads));
}

TEST(FallbackTest, Create_WhereNoThreadStarts_IsAnErrorUntilOneDoes) {
  IoBackendOptions options;
  options.kind = EngineKind::kThreads;
  {
    const testing_util::NoThreads no_threads;
    EXPECT_THAT(Text(CreateIoBackend(options).status()),
                HasSubstr("engine threads: no thread can be started"));
  }
  EXPECT_TRUE(CreateIoBackend(options).ok());
}

TEST(FallbackTest, Create_WithAFactory_TakesItsEngineOrError) {
  IoBackendOptions options;
  options.kind = EngineKind::kUring;
  options.factory = [](const IoBackendOptions& o) {
    EXPECT_EQ(o.depth, 256u);
    return CreateThreadBackend(o);
  };
  auto made = CreateIoBackend(options);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->kind(), EngineKind::kThreads);
  options.factory = [](const IoBackendOptions&) -> absl::StatusOr<std::unique_ptr<IoBackend>> {
    return absl::UnavailableError("no disk today");
  };
  EXPECT_EQ(Text(CreateIoBackend(options).status()), "no disk today");
}

}  // namespace
}  // namespace pulse
