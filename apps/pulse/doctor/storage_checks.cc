#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "apps/pulse/doctor/check.h"
#include "apps/pulse/util/disk.h"
#include "base/unique_fd.h"
#include "fmt/format.h"

namespace pulse::doctor {
namespace {

constexpr uint64_t kLowSpace = uint64_t{2} << 30;
constexpr size_t kProbeBytes = 4096;

// A file in `dir` without a name, or with one that is taken away at once.
UniqueFd OpenProbe(const std::string& dir) {
  UniqueFd fd(open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd.valid()) return fd;
  std::string name = dir + "/.pulse-doctor-XXXXXX";
  fd.reset(mkostemp(name.data(), O_CLOEXEC));
  if (fd.valid()) unlink(name.c_str());
  return fd;
}

Check CheckWritable(const std::string& dir, int fd, int err) {
  if (fd < 0) {
    return Fail("directory", fmt::format("{}: cannot create a file: {}", dir, strerror(err)),
                "give this user write permission, or choose another --db directory");
  }
  return Ok("directory", dir + " is writable");
}

std::string StatedAlignment(int fd) {
#ifdef STATX_DIOALIGN
  struct statx sx;
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) == 0 &&
      (sx.stx_mask & STATX_DIOALIGN) != 0 && sx.stx_dio_offset_align != 0) {
    return fmt::format("; the file system asks for {} B offsets, {} B memory",
                       sx.stx_dio_offset_align, sx.stx_dio_mem_align);
  }
#endif
  return "";
}

// Writes with O_DIRECT at ever coarser alignment until one goes through.
Check CheckDirectIo(int fd) {
  const std::string name = "direct I/O";
  const char* remedy = "put the database on a local disk (ext4, xfs); here PulseDB writes buffered";
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) {
    return Warn(name, fmt::format("refused: {}", strerror(errno)), remedy);
  }
  const std::unique_ptr<void, decltype(&free)> buffer(aligned_alloc(kProbeBytes, kProbeBytes),
                                                      free);
  if (buffer == nullptr) return Warn(name, "not tried: out of memory", "free some memory");
  std::memset(buffer.get(), 0, kProbeBytes);
  for (size_t align = 512; align <= kProbeBytes; align *= 2) {
    const ssize_t n = pwrite(fd, buffer.get(), align, static_cast<off_t>(align));
    if (n == static_cast<ssize_t>(align)) {
      return Ok(name, fmt::format("works at {} B{}", align, StatedAlignment(fd)));
    }
    if (n < 0 && errno != EINVAL) break;
  }
  return Warn(name, fmt::format("writes fail: {}", strerror(errno)), remedy);
}

Check CheckFileSystem(const DiskInfo& disk) {
  if (disk.in_memory) {
    return Warn("file system", disk.type,
                "fine for a trial, but it persists nothing: put the database on a disk");
  }
  if (disk.type == "nfs" || disk.type == "fuse" || disk.type == "overlay") {
    return Warn("file system", disk.type,
                "use a volume on ext4 or xfs: direct and asynchronous writes are slow here");
  }
  return Ok("file system", disk.type);
}

std::filesystem::path ParentOf(const std::string& dir) {
  std::error_code ec;
  const auto path = std::filesystem::absolute(dir, ec).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).parent_path();
}

}  // namespace

Checks CheckDirectory(const std::string& dir) {
  const std::string where = ExistingAncestor(dir);
  Checks checks;
  const std::filesystem::path parent = ParentOf(dir);
  if (std::error_code ec; !std::filesystem::exists(parent, ec)) {
    checks.push_back(Fail("directory",
                          fmt::format("{} does not exist, and a database makes its own directory "
                                      "alone",
                                      parent.string()),
                          fmt::format("mkdir -p {}", parent.string())));
  }
  const UniqueFd probe = OpenProbe(where);
  checks.push_back(CheckWritable(where, probe.get(), errno));
  if (const auto disk = InspectDisk(where); disk.ok()) {
    checks.push_back(CheckFileSystem(*disk));
    const std::string found = FormatBytes(disk->free_bytes) + " free";
    checks.push_back(
        disk->free_bytes >= kLowSpace
            ? Ok("free space", found)
            : Warn("free space", found, "make room: a compaction needs its inputs' size again"));
  }
  if (probe.valid()) checks.push_back(CheckDirectIo(probe.get()));
  return checks;
}

}  // namespace pulse::doctor
