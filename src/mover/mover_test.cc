#include "mover/mover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <string>

#include "base/testing.h"
#include "channel/region.h"
#include "channel/wire.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;

constexpr size_t kArena = 64 << 10;

using testing_util::Text;

uint64_t AddressOf(const Region& r) { return reinterpret_cast<uintptr_t>(r.data()); }

TEST(MoverTest, ParseMoverKind_NamesOrOthers_ParsesOrRefuses) {
  for (MoverKind kind : {MoverKind::kShared, MoverKind::kVmRead}) {
    EXPECT_EQ(*ParseMoverKind(MoverName(kind)), kind);
  }
  const absl::Status st = ParseMoverKind("rdma").status();
  EXPECT_TRUE(absl::IsInvalidArgument(st));
  EXPECT_THAT(Text(st), HasSubstr("\"rdma\""));
  EXPECT_THAT(Text(st), HasSubstr("shared, vmread"));
}

TEST(MoverTest, Shared_PullAndPush_MovesNothing) {
  auto arena = Region::CreatePrivate(kArena);
  ASSERT_TRUE(arena.ok());
  auto m = Mover::CreateShared(arena->data(), kArena);
  EXPECT_EQ(m->kind(), MoverKind::kShared);
  EXPECT_EQ(m->local(), arena->data());
  EXPECT_EQ(m->size(), kArena);
  std::memset(arena->data(), 7, kArena);
  EXPECT_TRUE(m->Pull(0, kArena).ok());
  EXPECT_TRUE(m->Push(0, kArena).ok());
  const MoverSpan spans[] = {{0, 8}, {64, 8}};
  EXPECT_TRUE(m->PullSpans(spans, 2).ok());
  EXPECT_TRUE(m->PushSpans(spans, 2).ok());
  EXPECT_EQ(m->local()[kArena - 1], 7);
}

TEST(MoverTest, VmRead_ArenaOfItsOwnProcess_MovesExactlyTheRange) {
  auto arena = Region::CreatePrivate(kArena);
  ASSERT_TRUE(arena.ok());
  for (size_t i = 0; i < kArena; ++i) arena->data()[i] = static_cast<char>(i % 251);
  auto made = Mover::CreateVmRead(getpid(), AddressOf(*arena), kArena);
  ASSERT_TRUE(made.ok()) << made.status();
  Mover& m = **made;
  EXPECT_EQ(m.kind(), MoverKind::kVmRead);
  EXPECT_EQ(m.size(), kArena);
  EXPECT_NE(m.local(), arena->data());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(m.local()) % wire::kPage, 0u);

  // Exactly the range asked for, at any alignment.
  std::memset(m.local(), 0, kArena);
  ASSERT_TRUE(m.Pull(5001, 9000).ok());
  for (size_t i = 0; i < kArena; ++i) {
    const bool in = i >= 5001 && i < 14001;
    ASSERT_EQ(m.local()[i], in ? arena->data()[i] : 0) << i;
  }
  std::memset(m.local(), 'p', kArena);
  ASSERT_TRUE(m.Push(kArena - 3, 3).ok());
  EXPECT_EQ(std::string(arena->data() + kArena - 3, 3), "ppp");
  EXPECT_EQ(arena->data()[kArena - 4], static_cast<char>((kArena - 4) % 251));
  EXPECT_TRUE(m.Pull(0, 0).ok());
  EXPECT_TRUE(m.Push(0, kArena).ok());
}

TEST(MoverTest, VmRead_SeveralSpans_MovesExactlyThose) {
  auto arena = Region::CreatePrivate(kArena);
  ASSERT_TRUE(arena.ok());
  for (size_t i = 0; i < kArena; ++i) arena->data()[i] = static_cast<char>(i % 251);
  auto made = Mover::CreateVmRead(getpid(), AddressOf(*arena), kArena);
  ASSERT_TRUE(made.ok()) << made.status();
  Mover& m = **made;
  std::memset(m.local(), 0, kArena);
  const MoverSpan spans[] = {{40'000, 9000}, {100, 0}, {8, 8}, {kArena - 1, 1}};
  const auto covered = [&spans](size_t i) {
    for (const MoverSpan& s : spans) {
      if (i >= s.offset && i < s.offset + s.length) return true;
    }
    return false;
  };
  ASSERT_TRUE(m.PullSpans(spans, 4).ok());
  for (size_t i = 0; i < kArena; ++i) {
    ASSERT_EQ(m.local()[i], covered(i) ? arena->data()[i] : 0) << i;
  }
  std::memset(m.local(), 'p', kArena);
  ASSERT_TRUE(m.PushSpans(spans, 4).ok());
  for (size_t i = 0; i < kArena; ++i) {
    ASSERT_EQ(arena->data()[i], covered(i) ? 'p' : static_cast<char>(i % 251)) << i;
  }
  EXPECT_TRUE(m.PullSpans(spans, 0).ok());
  MoverSpan many[Mover::kMaxSpans + 1];
  for (size_t i = 0; i < std::size(many); ++i) many[i] = {i, 1};
  EXPECT_TRUE(absl::IsInvalidArgument(m.PullSpans(many, Mover::kMaxSpans + 1)));
}

TEST(MoverTest, VmRead_OneSpanIsNoMemory_Fails) {
  auto arena = Region::CreateShared(2 * wire::kPage);
  ASSERT_TRUE(arena.ok());
  auto made = Mover::CreateVmRead(getpid(), AddressOf(*arena), size_t{1} << 30);
  ASSERT_TRUE(made.ok()) << made.status();
  const MoverSpan spans[] = {{0, wire::kPage}, {wire::kPage, (size_t{1} << 30) - wire::kPage}};
  EXPECT_FALSE((*made)->PullSpans(spans, 2).ok());
  EXPECT_TRUE((*made)->PullSpans(spans, 1).ok());
}

// A host of its own: a forked child that writes a pattern and then waits to be killed.
class Peer {
 public:
  Peer() : arena_(Region::CreatePrivate(kArena).value()) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ == 0) {
      for (size_t i = 0; i < kArena; ++i) arena_.data()[i] = static_cast<char>(i % 127 + 1);
      if (write(ready[1], "r", 1) != 1) _exit(1);
      // Answers each byte that the parent pushes into the last place of the arena.
      volatile char* last = arena_.data() + kArena - 1;
      if (!testing_util::Eventually([&] { return *last == 'Q'; })) _exit(1);
      arena_.data()[0] = 'A';
      testing_util::StayUntilKilled(parent);
    }
    char c;
    EXPECT_EQ(read(ready[0], &c, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }
  ~Peer() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }
  uint64_t address() const { return AddressOf(arena_); }
  const char* own_copy() const { return arena_.data(); }

 private:
  Region arena_;
  pid_t pid_ = 0;
};

TEST(MoverTest, VmRead_AnotherProcess_ReadsAndWritesItsMemory) {
  Peer peer;
  auto made = Mover::CreateVmRead(peer.pid(), peer.address(), kArena);
  if (absl::IsPermissionDenied(made.status())) GTEST_SKIP() << made.status();
  ASSERT_TRUE(made.ok()) << made.status();
  Mover& m = **made;
  ASSERT_TRUE(m.Pull(0, kArena).ok());
  for (size_t i = 0; i < kArena; ++i) ASSERT_EQ(m.local()[i], static_cast<char>(i % 127 + 1)) << i;
  EXPECT_EQ(peer.own_copy()[1], 0) << "the memory of this process is not what was read";

  m.local()[kArena - 1] = 'Q';
  ASSERT_TRUE(m.Push(kArena - 1, 1).ok());
  do {
    ASSERT_TRUE(m.Pull(0, 1).ok());
  } while (m.local()[0] != 'A');
}

TEST(MoverTest, VmRead_PeerGone_SaysWhatToDo) {
  Peer peer;
  auto made = Mover::CreateVmRead(peer.pid(), peer.address(), kArena);
  if (absl::IsPermissionDenied(made.status())) GTEST_SKIP() << made.status();
  ASSERT_TRUE(made.ok()) << made.status();
  const std::string pid = std::to_string(peer.pid());
  peer.Kill();
  const absl::Status pull = (*made)->Pull(0, wire::kPage);
  const absl::Status push = (*made)->Push(0, wire::kPage);
  EXPECT_THAT(Text(pull), HasSubstr("reading the memory of process " + pid));
  EXPECT_THAT(Text(pull), HasSubstr("use mover=shared"));
  EXPECT_THAT(Text(push), HasSubstr("writing the memory of process " + pid));
  EXPECT_THAT(Text(push), HasSubstr("use mover=shared"));
}

TEST(MoverTest, VmRead_WrongAddress_FailsAtOnceWithTheRemedy) {
  const absl::Status st = Mover::CreateVmRead(getpid(), 4096, kArena).status();
  EXPECT_FALSE(st.ok());
  EXPECT_THAT(Text(st), HasSubstr("use mover=shared"));
}

TEST(MoverTest, VmRead_RangeEndsInNoMemory_Fails) {
  auto arena = Region::CreateShared(2 * wire::kPage);
  ASSERT_TRUE(arena.ok());
  // The peer announced more than it maps.
  auto made = Mover::CreateVmRead(getpid(), AddressOf(*arena), size_t{1} << 30);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE((*made)->Pull(0, size_t{1} << 30).ok());
  EXPECT_TRUE((*made)->Pull(0, 2 * wire::kPage).ok());
}

}  // namespace
}  // namespace pulse
