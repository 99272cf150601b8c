// What single services can use here: a tmpfs for `pulse kv --memory-file`, segments of datagrams
// for --udp-port, connections, and the engine of `pulse filter`.
#include <linux/magic.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statfs.h>

#include <cerrno>
#include <cstring>

#include "apps/pulse/doctor/check.h"
#include "apps/pulse/util/disk.h"
#include "base/unique_fd.h"
#include "fmt/format.h"
#include "services/ops/dpdk/device.h"
#include "services/ops/filter/scanner.h"

namespace pulse::doctor {

Check CheckMemoryFiles(const std::string& dir) {
  const char* const name = "kv: memory file";
  struct statfs system {};
  if (statfs(dir.c_str(), &system) != 0) {
    return Warn(name, fmt::format("{}: {}", dir, strerror(errno)),
                "mount a tmpfs there, or keep --memory-file on another one; without one a store's "
                "keys end with its process");
  }
  if (system.f_type != TMPFS_MAGIC) {
    return Warn(name, dir + " is no tmpfs",
                "mount a tmpfs there, or keep --memory-file on another one");
  }
  // As for the store's default memory.
  constexpr uint64_t kUsual = uint64_t{1} << 30;
  const uint64_t room = system.f_bavail * static_cast<uint64_t>(system.f_bsize);
  const std::string found = fmt::format("{} has room for {}", dir, FormatBytes(room));
  if (room < kUsual) {
    return Warn(name, found,
                fmt::format("mount -o remount,size=... {} (of a container: --shm-size): "
                            "--memory-file needs room for all of --memory",
                            dir));
  }
  return Ok(name, found);
}

namespace {

Check CheckDatagrams() {
  const char* const name = "kv: datagrams";
  const UniqueFd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return Warn(name, strerror(errno), "allow UDP sockets, or do without --udp-port");
  }
  const int on = 1;
  const int segment = 1432;
  const bool gro = setsockopt(fd.get(), IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) == 0;
  const bool gso = setsockopt(fd.get(), IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)) == 0;
  const std::string found =
      fmt::format("sent in segments: {}, received so: {}", gso ? "yes" : "no", gro ? "yes" : "no");
  if (gso && gro) return Ok(name, found);
  return Warn(name, found,
              "use Linux 5.0 or later: --udp-port takes a system call for each datagram");
}

// A client is a descriptor; the servers' default is 10,000 clients.
Check CheckConnections() {
  constexpr rlim_t kClients = 10'000;
  const char* const name = "serve, kv: connections";
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return Warn(name, strerror(errno), "see ulimit -n");
  const std::string found = fmt::format("at most {} open files", limit.rlim_max);
  if (limit.rlim_max >= kClients + 1000) return Ok(name, found);
  return Warn(name, found,
              fmt::format("raise the hard limit to {} (LimitNOFILE= of the service, "
                          "/etc/security/limits.conf), or lower --max-clients",
                          kClients + 1000));
}

// Nobody needs it: that it is not there is no shortcoming.
Check CheckDpdk() {
  const char* const name = "compress: DPDK";
  const auto module = ops::dpdk::LoadModule();
  if (module.ok()) return Ok(name, "loads; compress and decompress have --engine dpdk:NAME");
  if (absl::IsUnimplemented(module.status())) return Ok(name, "not in this build; not needed");
  return Warn(name, std::string(module.status().message()),
              "install the module of this version, or remove it");
}

Check CheckFilter() {
  const char* const name = "filter: engine";
  switch (filter::Scanner::SoundUse()) {
    case filter::VectorscanUse::kAll:
      return Ok(name, "Vectorscan, RE2 and a text finder");
    case filter::VectorscanUse::kTexts:
      return Ok(
          name,
          "RE2, and Vectorscan for texts: this version misses some matches of patterns, so it "
          "is not used for these");
    case filter::VectorscanUse::kNone:
      break;
  }
  return Ok(name,
            "RE2 and a text finder: this Vectorscan misses matches on processors with AVX-512, so "
            "it is not used here");
}

}  // namespace

Checks CheckServices() {
  return {CheckMemoryFiles("/dev/shm"), CheckDatagrams(), CheckConnections(), CheckFilter(),
          CheckDpdk()};
}

}  // namespace pulse::doctor
