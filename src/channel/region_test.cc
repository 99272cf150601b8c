#include "channel/region.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "channel/wire.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;

using testing_util::Text;

UniqueFd Memfd(size_t bytes, int seals) {
  UniqueFd fd(memfd_create("region-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  if (seals != 0) {
    EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  }
  return fd;
}

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

TEST(RegionTest, SharedRegion_ResizeOrSeal_IsRefused) {
  auto r = Region::CreateShared(8 * wire::kPage);
  ASSERT_TRUE(r.ok()) << r.status();
  EXPECT_EQ(ftruncate(r->fd(), wire::kPage), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(ftruncate(r->fd(), 16 * wire::kPage), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(fcntl(r->fd(), F_ADD_SEALS, F_SEAL_WRITE), -1) << "the seals themselves are sealed";
  EXPECT_NE(fcntl(r->fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(RegionTest, Create_PartOfAPage_IsRoundedUpToPages) {
  auto shared = Region::CreateShared(1);
  auto lone = Region::CreatePrivate(wire::kPage + 1);
  ASSERT_TRUE(shared.ok() && lone.ok());
  EXPECT_EQ(shared->size(), wire::kPage);
  EXPECT_EQ(lone->size(), 2 * wire::kPage);
  std::memset(shared->data(), 1, shared->size());
  std::memset(lone->data(), 1, lone->size());
}

TEST(RegionTest, SharedRegion_MappedTwice_IsZerosAndOneMemory) {
  auto host = Region::CreateShared(3 * wire::kPage);
  ASSERT_TRUE(host.ok()) << host.status();
  for (size_t i = 0; i < host->size(); i += 64) ASSERT_EQ(host->data()[i], 0);
  auto agent = Region::Map(UniqueFd(fcntl(host->fd(), F_DUPFD_CLOEXEC, 0)), 3 * wire::kPage);
  ASSERT_TRUE(agent.ok()) << agent.status();
  EXPECT_NE(agent->data(), host->data());
  host->data()[5000] = 'h';
  EXPECT_EQ(agent->data()[5000], 'h');
  agent->data()[12287] = 'a';
  EXPECT_EQ(host->data()[12287], 'a');
}

TEST(RegionTest, Map_LessThanThereIs_HasTheSizeAskedFor) {
  auto host = Region::CreateShared(4 * wire::kPage);
  ASSERT_TRUE(host.ok());
  auto agent = Region::Map(UniqueFd(fcntl(host->fd(), F_DUPFD_CLOEXEC, 0)), wire::kPage);
  ASSERT_TRUE(agent.ok()) << agent.status();
  EXPECT_EQ(agent->size(), wire::kPage);
}

TEST(RegionTest, Map_NotFullySealed_IsRefused) {
  for (int seals : {0, F_SEAL_GROW, F_SEAL_SHRINK, F_SEAL_SEAL, F_SEAL_SHRINK | F_SEAL_SEAL,
                    F_SEAL_SHRINK | F_SEAL_GROW}) {
    auto r = Region::Map(Memfd(wire::kPage, seals), wire::kPage);
    ASSERT_FALSE(r.ok()) << "seals " << seals;
    EXPECT_TRUE(absl::IsInvalidArgument(r.status())) << r.status();
    EXPECT_THAT(Text(r.status()), HasSubstr("not a sealed memfd"));
  }
}

TEST(RegionTest, Map_NotAMemfd_IsRefused) {
  for (const char* path : {"/dev/null", "/proc/self/exe", "/"}) {
    auto r = Region::Map(UniqueFd(open(path, O_RDONLY | O_CLOEXEC)), wire::kPage);
    EXPECT_TRUE(absl::IsInvalidArgument(r.status())) << path << ": " << r.status();
  }
  EXPECT_FALSE(Region::Map(UniqueFd(), wire::kPage).ok());
}

TEST(RegionTest, Map_TooSmall_IsRefusedWithBothSizes) {
  auto r = Region::Map(Memfd(wire::kPage, kSeals), 2 * wire::kPage);
  ASSERT_TRUE(absl::IsInvalidArgument(r.status())) << r.status();
  EXPECT_THAT(Text(r.status()), HasSubstr("4096"));
  EXPECT_THAT(Text(r.status()), HasSubstr("8192"));
}

TEST(RegionTest, Map_SealedAgainstWriting_IsRefused) {
  auto r = Region::Map(Memfd(wire::kPage, kSeals | F_SEAL_WRITE), wire::kPage);
  EXPECT_FALSE(r.ok());
}

// The peer can take reserved pages away again, and whoever then touches the hole gets SIGBUS. The
// memory need not be there for the refusal: without reserved pages mapping would fail as well, with
// another reason.
TEST(RegionTest, Map_ReservedHugePages_IsRefused) {
  constexpr size_t kHuge = size_t{2} << 20;
  UniqueFd fd(memfd_create("region-test", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!fd.valid()) GTEST_SKIP() << "no hugetlbfs in this kernel";
  ASSERT_EQ(ftruncate(fd.get(), kHuge), 0);
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, kSeals), 0);
  auto r = Region::Map(std::move(fd), wire::kPage);
  ASSERT_TRUE(absl::IsInvalidArgument(r.status())) << r.status();
  EXPECT_THAT(Text(r.status()), HasSubstr("reserved huge pages"));
}

// munmap of a part of a huge page fails, and would leave the rest of the mapping behind.
TEST(RegionTest, SharedRegion_AnySize_IsUnmappedWhole) {
  const size_t maps = testing_util::MappingsNamed("pulse-region");
  for (size_t bytes : {size_t{1}, wire::kPage, (size_t{2} << 20) - 1, (size_t{3} << 20) + 1}) {
    auto host = Region::CreateShared(bytes);
    ASSERT_TRUE(host.ok()) << host.status();
    struct statfs fs;
    ASSERT_EQ(fstatfs(host->fd(), &fs), 0);
    EXPECT_NE(fs.f_type, HUGETLBFS_MAGIC);
    auto agent = Region::Map(UniqueFd(fcntl(host->fd(), F_DUPFD_CLOEXEC, 0)), bytes);
    ASSERT_TRUE(agent.ok()) << agent.status();
    EXPECT_EQ(agent->size() % wire::kPage, 0u);
  }
  EXPECT_EQ(testing_util::MappingsNamed("pulse-region"), maps);
}

TEST(RegionTest, Map_PeerPunchesHole_ReadsAsZeros) {
  auto host = Region::CreateShared(16 * wire::kPage);
  ASSERT_TRUE(host.ok());
  auto agent = Region::Map(UniqueFd(fcntl(host->fd(), F_DUPFD_CLOEXEC, 0)), 16 * wire::kPage);
  ASSERT_TRUE(agent.ok()) << agent.status();
  std::memset(agent->data(), 7, agent->size());
  ASSERT_EQ(fallocate(host->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      static_cast<off_t>(host->size())),
            0);
  for (size_t i = 0; i < agent->size(); i += 64) ASSERT_EQ(agent->data()[i], 0);
  agent->data()[0] = 1;
}

TEST(RegionTest, Map_ZeroBytes_IsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(Region::Map(Memfd(wire::kPage, kSeals), 0).status()));
}

TEST(RegionTest, Map_Refused_ClosesTheDescriptor) {
  const size_t before = testing_util::OpenDescriptors();
  EXPECT_FALSE(Region::Map(Memfd(wire::kPage, 0), wire::kPage).ok());
  EXPECT_FALSE(Region::Map(Memfd(wire::kPage, kSeals), 1 << 20).ok());
  EXPECT_EQ(testing_util::OpenDescriptors(), before);
}

TEST(RegionTest, CreatePrivate_AnySize_StartsOnAHugePageBoundary) {
  for (size_t bytes : {size_t{1}, size_t{64} << 10, (size_t{2} << 20) + 1, size_t{33} << 20}) {
    auto r = Region::CreatePrivate(bytes);
    ASSERT_TRUE(r.ok()) << r.status();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(r->data()) % (size_t{2} << 20), 0u) << bytes;
    EXPECT_GE(r->size(), bytes);
    EXPECT_EQ(r->fd(), -1);
    r->data()[0] = r->data()[r->size() - 1] = 1;
  }
}

TEST(RegionTest, Create_MoreThanThereIs_FailsAndNamesTheSize) {
  const size_t absurd = size_t{1} << 60;
  for (const absl::Status& st :
       {Region::CreateShared(absurd).status(), Region::CreatePrivate(absurd).status()}) {
    EXPECT_FALSE(st.ok());
    EXPECT_THAT(Text(st), HasSubstr("1152921504606846976 bytes"));
  }
}

TEST(RegionTest, CreateShared_BeyondTheLimitOfFileSizes_NamesItAndLives) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit low = before;
  low.rlim_cur = size_t{1} << 20;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  const absl::Status st = Region::CreateShared(size_t{2} << 20).status();
  const bool small = Region::CreateShared(size_t{1} << 20).ok();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(st)) << st;
  EXPECT_THAT(Text(st), HasSubstr("2097152 bytes"));
  EXPECT_THAT(Text(st), HasSubstr("ulimit -f"));
  EXPECT_TRUE(small);
}

TEST(RegionTest, Move_ConstructOrAssign_OwnsTheMappingOnce) {
  const size_t fds = testing_util::OpenDescriptors();
  const size_t maps = testing_util::MappingsNamed("pulse-region");
  {
    auto a = Region::CreateShared(wire::kPage);
    auto b = Region::CreateShared(wire::kPage);
    ASSERT_TRUE(a.ok() && b.ok());
    char* const at = a->data();
    at[7] = 'x';
    Region moved(*std::move(a));
    EXPECT_EQ(moved.data(), at);
    EXPECT_EQ(a->data(), nullptr);  // NOLINT(bugprone-use-after-move)
    *b = std::move(moved);
    EXPECT_EQ(b->data(), at);
    EXPECT_EQ(at[7], 'x');
    Region& same = *b;
    *b = std::move(same);
    EXPECT_EQ(b->data(), at);
    EXPECT_EQ(testing_util::MappingsNamed("pulse-region"), maps + 1);
    b->Populate();
  }
  EXPECT_EQ(testing_util::MappingsNamed("pulse-region"), maps);
  EXPECT_EQ(testing_util::OpenDescriptors(), fds);
  Region().Populate();
}

TEST(Region, Populate_SharedRegion_MakesEveryPageResident) {
  // Not a multiple of anything but pages.
  constexpr size_t kPages = 3 * 256 + 5;
  const auto region = Region::CreateShared(kPages * wire::kPage);
  ASSERT_TRUE(region.ok()) << region.status();
  region->Populate();
  std::vector<unsigned char> there(kPages);
  ASSERT_EQ(mincore(region->data(), region->size(), there.data()), 0);
  for (size_t i = 0; i < kPages; ++i) EXPECT_EQ(there[i] & 1, 1) << "page " << i;
}

}  // namespace
}  // namespace pulse
