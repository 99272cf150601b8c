#include "base/machine_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/testing.h"

namespace pulse {
namespace {

void Write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

TEST(MachineMemoryTest, LimitsOfCgroups_TheLeastOfThemCounts) {
  const testing_util::ScratchPath scratch("machine_memory");
  const std::filesystem::path root = scratch.get();
  const uint64_t all = MachineMemory(root);
  EXPECT_GT(all, uint64_t{1} << 20);
  Write(root / "proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n");
  EXPECT_EQ(MachineMemory(root), all) << "there are no files of limits";
  Write(root / "sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(MachineMemory(root), all);
  Write(root / "sys/fs/cgroup/a/memory.max", "65536\n");
  EXPECT_EQ(MachineMemory(root), 65536u);
  Write(root / "sys/fs/cgroup/a/b/memory.max", "32768\n");
  EXPECT_EQ(MachineMemory(root), 32768u);
  Write(root / "sys/fs/cgroup/a/b/memory.max", "99999999999999999999999\n");
  EXPECT_EQ(MachineMemory(root), 65536u);
  // A container sees its own group as the root.
  Write(root / "proc/self/cgroup", "0::/\n");
  Write(root / "sys/fs/cgroup/memory.max", "16384\n");
  EXPECT_EQ(MachineMemory(root), 16384u);
  std::filesystem::remove_all(root);
}

TEST(MachineMemoryTest, LimitsOfCgroupsOfVersion1_TheLeastOfThemCounts) {
  const testing_util::ScratchPath scratch("machine_memory_1");
  const std::filesystem::path root = scratch.get();
  const uint64_t all = MachineMemory(root);
  Write(root / "proc/self/cgroup", "3:cpu,cpuacct:/a/b\n2:name=systemd:/x\n1:memory:/a/b\n");
  const std::filesystem::path memory = root / "sys/fs/cgroup/memory";
  Write(memory / "a/b/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(MachineMemory(root), all) << "that number is no limit";
  Write(memory / "a/memory.limit_in_bytes", "32768\n");
  EXPECT_EQ(MachineMemory(root), 32768u);
  // A container knows the name that its group has outside, and sees it as the topmost.
  Write(memory / "memory.limit_in_bytes", "16384\n");
  EXPECT_EQ(MachineMemory(root), 16384u);
  std::filesystem::remove_all(root);
}

TEST(MachineMemoryTest, CpuQuota_TheLeastOfBothVersionsCounts) {
  const testing_util::ScratchPath scratch("machine_cpus");
  const std::filesystem::path root = scratch.get();
  EXPECT_EQ(CpuQuota(root), 0);
  Write(root / "proc/self/cgroup", "3:cpu,cpuacct:/a\n0::/b/c\n");
  EXPECT_EQ(CpuQuota(root), 0) << "there are no files of limits";
  Write(root / "sys/fs/cgroup/b/c/cpu.max", "max 100000\n");
  Write(root / "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
  Write(root / "sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CpuQuota(root), 0);
  Write(root / "sys/fs/cgroup/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(CpuQuota(root), 4);
  Write(root / "sys/fs/cgroup/b/c/cpu.max", "75000 50000\n");
  EXPECT_EQ(CpuQuota(root), 1.5);
  Write(root / "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(CpuQuota(root), 0.5);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace pulse
