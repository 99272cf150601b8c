#include "bench/macro/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace pulse::bench {
namespace {

using testing::HasSubstr;

// Needs so many bytes of each at scale 1.
class Fake : public Experiment {
 public:
  Fake(std::string name, double disk, double memory, bool optional = false)
      : Experiment(std::move(name), "", {}, optional), disk_(disk), memory_(memory) {}
  Needs NeedsAt(const Size& size) const override {
    return {static_cast<uint64_t>(disk_ * size.scale),
            static_cast<uint64_t>(memory_ * size.scale) + 100};
  }
  nlohmann::json Settings(const Size&) const override { return {}; }
  int Steps(const Session&, const Size&, const RowLog&) const override { return 0; }
  double Seconds(const Session&, const Size&, const RowLog&) const override { return 0; }
  absl::Status Run(Session*, const Size&, RowLog*) const override { return absl::OkStatus(); }

 private:
  const double disk_;
  const double memory_;
};

Experiments Two() {
  Experiments all;
  all.push_back(std::make_unique<Fake>("disk", 1e9, 1e6));
  all.push_back(std::make_unique<Fake>("memory", 1e6, 1e9));
  return all;
}

TEST(ExperimentTest, SelectExperiments_ByName_TakesThemOrNamesTheChoice) {
  const Experiments all = Two();
  EXPECT_EQ(SelectExperiments(all, {})->size(), 2U);
  const auto one = SelectExperiments(all, {"memory"});
  ASSERT_EQ(one->size(), 1U);
  EXPECT_EQ(one->front()->name(), "memory");
  const auto wrong = SelectExperiments(all, {"disk", "tape"});
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wrong.status().message()),
              HasSubstr("\"tape\"; choose from disk, memory"));
}

TEST(ExperimentTest, SelectExperiments_Optional_MustBeNamed) {
  Experiments all = Two();
  all.push_back(std::make_unique<Fake>("more", 1, 1, /*optional=*/true));
  EXPECT_EQ(SelectExperiments(all, {})->size(), 2U);
  EXPECT_EQ(SelectExperiments(all, {"more"})->front()->name(), "more");
}

TEST(ExperimentTest, CheckNeeds_TooLittleRoom_NamesWhoLacksWhat) {
  const Experiments all = Two();
  const auto both = *SelectExperiments(all, {});
  EXPECT_TRUE(CheckNeeds(both, {500'000'000, 500'000'100}, {.scale = 0.5}, "DIR", "").ok());
  const absl::Status disk =
      CheckNeeds(both, {400'000'000, UINT64_MAX}, {.scale = 0.5}, "DIR", "remove DIR/loaded");
  EXPECT_EQ(disk.code(), absl::StatusCode::kResourceExhausted);
  const std::string text(disk.message());
  EXPECT_THAT(text, HasSubstr("disk needs 477 MiB of disk in DIR, which has 381 MiB free"));
  EXPECT_THAT(text, HasSubstr("remove DIR/loaded; the largest --scale that fits is 0.4"));
  EXPECT_THAT(text, testing::Not(HasSubstr("memory needs")));
  const absl::Status memory =
      CheckNeeds(both, {UINT64_MAX, 50}, {.scale = 0.5}, "DIR", "remove DIR/loaded");
  EXPECT_THAT(std::string(memory.message()),
              HasSubstr("memory needs 477 MiB of memory, and 50 B can be had"));
  EXPECT_THAT(std::string(memory.message()), HasSubstr("no scale fits"));
  EXPECT_THAT(std::string(memory.message()), testing::Not(HasSubstr("remove")));
}

class AvailableMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    // Without symbolic links, as mounts are named.
    root_ = std::filesystem::canonical(testing::TempDir()) / ("root." + std::to_string(getpid()));
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::filesystem::path root_;
};

TEST_F(AvailableMemoryTest, AvailableMemory_SeveralLimits_TheTightestCounts) {
  EXPECT_EQ(AvailableMemory(root_), UINT64_MAX);
  Write("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:   4000 kB\n");
  EXPECT_EQ(AvailableMemory(root_), 4000U << 10);
  // Without a limit, as at the root.
  Write("proc/self/cgroup", "0::/a/b\n");
  Write("sys/fs/cgroup/a/b/memory.max", "max\n");
  Write("sys/fs/cgroup/a/b/memory.current", "5\n");
  EXPECT_EQ(AvailableMemory(root_), 4000U << 10);
  // The one above limits it; what it could drop is free.
  Write("sys/fs/cgroup/a/memory.max", "1000000\n");
  Write("sys/fs/cgroup/a/memory.current", "900000\n");
  Write("sys/fs/cgroup/a/memory.stat", "anon 400000\ninactive_file 500000\n");
  EXPECT_EQ(AvailableMemory(root_), 600'000U);
}

class MountSourceTest : public AvailableMemoryTest {};

TEST_F(MountSourceTest, MountSource_NestedMounts_TheNearestAboveCounts) {
  EXPECT_EQ(MountSource("/", root_), "unknown");
  Write("proc/self/mountinfo",
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "2 1 8:2 / " +
            root_.string() +
            " rw shared:1 master:2 - xfs /dev/sdb1 rw\n"
            "3 1 8:3 / " +
            root_.string() +
            "/pro rw - xfs /dev/sdc1 rw\n"
            "4 1 8:4 / " +
            root_.string() +
            "/with\\040blank rw - xfs /dev/a\\040b rw\n"
            "nonsense\n");
  EXPECT_EQ(MountSource("/", root_), "/dev/sda1");
  EXPECT_EQ(MountSource(root_, root_), "/dev/sdb1");
  EXPECT_EQ(MountSource(root_ / "proc", root_), "/dev/sdb1") << "its name only begins as a mount's";
  Write("with blank/file", "");
  EXPECT_EQ(MountSource(root_ / "with blank", root_), "/dev/a b");
}

TEST(ExperimentTest, LargestScale_LimitedRoom_IsTheLargestThatFits) {
  const Experiments all = Two();
  const auto both = *SelectExperiments(all, {});
  const Needs plenty = {UINT64_MAX, UINT64_MAX};
  EXPECT_EQ(LargestScale(both, plenty, {}), 1);
  EXPECT_NEAR(LargestScale(both, {375'000'000, UINT64_MAX}, {}), 0.37, 1e-9);
  EXPECT_NEAR(LargestScale(both, {UINT64_MAX, 56'900'000}, {}), 0.056, 1e-9);
  // What the one needs little of is no limit for the other.
  const auto disk = *SelectExperiments(all, {"disk"});
  EXPECT_EQ(LargestScale(disk, {1'000'000'000, 1'000'100}, {}), 1);
  EXPECT_EQ(LargestScale(both, {UINT64_MAX, 99}, {}), 0);
  EXPECT_EQ(LargestScale(both, {0, UINT64_MAX}, {}), 0);
}

}  // namespace
}  // namespace pulse::bench
