#include "apps/pulse/util/disk.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/errors.h"
#include "fmt/format.h"

namespace pulse {
namespace {

// Not in every linux/magic.h.
constexpr uint64_t kZfsMagic = 0x2fc12fc1;
constexpr uint64_t kFuseMagic = 0x65735546;

constexpr std::pair<uint64_t, const char*> kTypes[] = {
    {EXT4_SUPER_MAGIC, "ext4"},  // ext2 and ext3 share the number
    {XFS_SUPER_MAGIC, "xfs"},   {BTRFS_SUPER_MAGIC, "btrfs"}, {F2FS_SUPER_MAGIC, "f2fs"},
    {TMPFS_MAGIC, "tmpfs"},     {RAMFS_MAGIC, "ramfs"},       {OVERLAYFS_SUPER_MAGIC, "overlay"},
    {NFS_SUPER_MAGIC, "nfs"},   {kZfsMagic, "zfs"},           {kFuseMagic, "fuse"}};

std::string TypeName(uint64_t magic) {
  for (const auto& [number, name] : kTypes) {
    if (number == magic) return name;
  }
  return fmt::format("type {:#x}", magic);
}

}  // namespace

absl::StatusOr<DiskInfo> InspectDisk(const std::string& dir) {
  struct statfs fs;
  if (statfs(dir.c_str(), &fs) != 0) return ErrnoError(errno, "looking at directory", dir);
  const auto magic = static_cast<uint64_t>(static_cast<uint32_t>(fs.f_type));
  DiskInfo info;
  info.type = TypeName(magic);
  info.in_memory = magic == TMPFS_MAGIC || magic == RAMFS_MAGIC;
  info.free_bytes = static_cast<uint64_t>(fs.f_bavail) * static_cast<uint64_t>(fs.f_bsize);
  return info;
}

std::string ExistingAncestor(const std::string& dir) {
  std::error_code ec;
  std::filesystem::path path = std::filesystem::absolute(dir, ec).lexically_normal();
  while (!std::filesystem::exists(path, ec) && path.has_relative_path()) path = path.parent_path();
  return path.string();
}

std::string FormatBytes(uint64_t bytes) {
  const auto n = static_cast<double>(bytes);
  if (bytes >= uint64_t{1} << 30) return fmt::format("{:.1f} GiB", n / (1 << 30));
  if (bytes >= uint64_t{1} << 20) return fmt::format("{:.0f} MiB", n / (1 << 20));
  if (bytes >= uint64_t{1} << 10) return fmt::format("{:.0f} KiB", n / (1 << 10));
  return fmt::format("{} B", bytes);
}

}  // namespace pulse
