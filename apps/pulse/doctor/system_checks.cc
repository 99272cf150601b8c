#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "absl/strings/match.h"
#include "apps/pulse/doctor/check.h"
#include "apps/pulse/util/disk.h"
#include "base/cpu_list.h"
#include "base/machine_memory.h"
#include "fmt/format.h"

namespace pulse::doctor {
namespace {

// A session with four compaction threads: a queue pair each, 32 MiB of requests and 1 MiB of
// completions.
constexpr uint64_t kStreams = 4;
constexpr uint64_t kStreamBytes = uint64_t{33} << 20;
constexpr int kCapIpcLock = 14;

Check CheckKernel() {
  utsname name;
  int major = 0;
  int minor = 0;
  if (uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &major, &minor) != 2) {
    return Warn("kernel", "unknown version", "use Linux 5.10 or later");
  }
  const std::string found = fmt::format("{} {}", name.sysname, name.release);
  if (major < 5 || (major == 5 && minor < 10)) {
    return Warn("kernel", found, "use Linux 5.10 or later: this one's io_uring is too young");
  }
  return Ok("kernel", found);
}

Check CheckCpus() {
  const std::vector<int> cpus = MyCpus();
  if (cpus.empty()) {
    return Warn("processors", fmt::format("cannot tell: {}", strerror(errno)), "see nproc(1)");
  }
  const double quota = CpuQuota();
  const std::string found =
      fmt::format("{} usable ({}) of {} online{}", cpus.size(), FormatCpuList(cpus),
                  sysconf(_SC_NPROCESSORS_ONLN),
                  quota > 0 ? fmt::format(", for the time of {:.3g}", quota) : "");
  if (cpus.size() < 2) {
    return Warn("processors", found,
                "give the process a second CPU (taskset, cgroup): host and agent share one now, "
                "which takes away most of the gain");
  }
  if (quota > 0 && quota < 2) {
    return Warn(
        "processors", found,
        "raise the limit of the cgroup (cpu.max, cpu.cfs_quota_us; --cpus of a container) to "
        "2 CPUs or more: host and agent stand still once they have had their time");
  }
  return Ok("processors", found);
}

// By a child, which reads its parent: a process may always read itself.
Check CheckVmRead() {
  static char source[64] = "reading the memory of another process";
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return Warn("process_vm_readv", strerror(errno), "not tried, as fork failed");
  if (child == 0) {
    char copy[sizeof(source)] = {};
    const iovec local = {copy, sizeof(copy)};
    const iovec remote = {source, sizeof(source)};
    const ssize_t n = process_vm_readv(parent, &local, 1, &remote, 1, 0);
    if (n < 0) _exit(errno);
    _exit(n == static_cast<ssize_t>(sizeof(source)) && std::memcmp(copy, source, sizeof(copy)) == 0
              ? 0
              : EIO);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Ok("process_vm_readv", "works");
  return Warn("process_vm_readv", strerror(WIFEXITED(status) ? WEXITSTATUS(status) : EIO),
              "mover=vmread is not to be had: stay with mover=shared, set "
              "kernel.yama.ptrace_scope=0, or allow the call in the container's seccomp profile");
}

bool HasIpcLock() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!absl::StartsWith(line, "CapEff:")) continue;
    return (std::strtoull(line.c_str() + 7, nullptr, 16) >> kCapIpcLock & 1) != 0;
  }
  return false;
}

Check CheckMemlock() {
  const uint64_t need = kStreams * kStreamBytes;
  rlimit limit;
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
    return Warn("locked memory", strerror(errno), "see ulimit -l");
  }
  const std::string has =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : FormatBytes(limit.rlim_cur);
  const std::string found =
      fmt::format("limit {}; {} streams need {}", has, kStreams, FormatBytes(need));
  if (limit.rlim_cur >= need) return Ok("locked memory", found);
  if (HasIpcLock()) return Ok("locked memory", found + "; CAP_IPC_LOCK lifts the limit");
  return Warn("locked memory", found,
              fmt::format("raise it to {} KiB (ulimit -l, LimitMEMLOCK= of the service, "
                          "/etc/security/limits.conf) or lower queue=; until then buffers are not "
                          "registered with io_uring and each write costs a little more",
                          need >> 10));
}

// Hosts pass a descriptor for every file that the agent reads ahead or writes, and RocksDB keeps
// its tables open.
Check CheckOpenFiles() {
  constexpr rlim_t kNeed = 4096;
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return Warn("open files", strerror(errno), "see ulimit -n");
  }
  const std::string found = fmt::format("limit {}, at most {}", limit.rlim_cur, limit.rlim_max);
  if (limit.rlim_cur >= kNeed) return Ok("open files", found);
  const std::string remedy = fmt::format(
      "raise it to {} or more (ulimit -n, LimitNOFILE= of the service, /etc/security/limits.conf), "
      "or lower RocksDB's max_open_files",
      kNeed);
  if (limit.rlim_max < kNeed) return Warn("open files", found, remedy);
  return Warn("open files", found, remedy + "; an agent process raises its own by itself");
}

// The chosen word of "always [madvise] never".
std::string Chosen(const std::string& line) {
  const size_t open = line.find('[');
  const size_t close = line.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return "absent";
  return line.substr(open + 1, close - open - 1);
}

Check CheckHugePages() {
  const std::string thp = "/sys/kernel/mm/transparent_hugepage/";
  const std::string enabled = Chosen(FirstLineOf(thp + "enabled"));
  const std::string shmem = Chosen(FirstLineOf(thp + "shmem_enabled"));
  const std::string found = fmt::format("transparent {}, shared memory {}", enabled, shmem);
  if (shmem != "never" && shmem != "deny" && shmem != "absent") return Ok("huge pages", found);
  return Warn("huge pages", found,
              "optional: echo advise > " + thp +
                  "shmem_enabled; until then the queues shared with an agent process use small "
                  "pages");
}

}  // namespace

std::string FirstLineOf(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

Checks CheckSystem() {
  return {CheckKernel(),  CheckCpus(),      CheckVmRead(),
          CheckMemlock(), CheckOpenFiles(), CheckHugePages()};
}

}  // namespace pulse::doctor
