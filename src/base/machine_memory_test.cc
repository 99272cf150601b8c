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

}  // namespace
}  // namespace pulse
