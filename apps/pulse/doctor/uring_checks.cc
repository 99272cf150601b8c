#include <liburing.h>

#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_join.h"
#include "apps/pulse/doctor/check.h"
#include "fmt/format.h"

namespace pulse::doctor {
namespace {

constexpr char kFallback[] = "until then the agent writes with threads (engine=threads)";

// By number: distributions' liburing is often older than the kernel.
constexpr int kOpFtruncate = 55;

Check CheckSetup(io_uring* ring, bool* up) {
  const std::string disabled = FirstLineOf("/proc/sys/kernel/io_uring_disabled");
  const int err = io_uring_queue_init(8, ring, 0);
  *up = err == 0;
  if (*up) return Ok("io_uring", disabled == "1" ? "works (privileged processes only)" : "works");
  const std::string found =
      fmt::format("io_uring_setup: {}{}", strerror(-err),
                  disabled.empty() ? "" : ", kernel.io_uring_disabled=" + disabled);
  if (disabled == "1" || disabled == "2") {
    return Warn("io_uring", found, fmt::format("sysctl kernel.io_uring_disabled=0; {}", kFallback));
  }
  if (err == -EPERM || err == -ENOSYS) {
    return Warn("io_uring", found,
                fmt::format("allow io_uring_setup, io_uring_enter and io_uring_register in the "
                            "container's seccomp profile, or use a kernel that has them; {}",
                            kFallback));
  }
  return Warn("io_uring", found,
              fmt::format("raise the limits of descriptors and locked memory; {}", kFallback));
}

Check CheckOps(io_uring* ring) {
  const std::unique_ptr<io_uring_probe, decltype(&io_uring_free_probe)> probe(
      io_uring_get_probe_ring(ring), io_uring_free_probe);
  if (probe == nullptr) {
    return Warn("io_uring operations", "the kernel cannot list them", "use Linux 5.10 or later");
  }
  struct Op {
    int number;
    const char* name;
    bool optional;
  };
  constexpr Op kOps[] = {{IORING_OP_FSYNC, "fsync", false},
                         {IORING_OP_FALLOCATE, "fallocate", false},
                         {IORING_OP_CLOSE, "close", false},
                         {IORING_OP_READ_FIXED, "read_fixed", false},
                         {IORING_OP_WRITE_FIXED, "write_fixed", false},
                         {kOpFtruncate, "ftruncate", true}};
  std::vector<std::string> has, lacks, optional;
  for (const Op& op : kOps) {
    auto& list = io_uring_opcode_supported(probe.get(), op.number) ? has
                 : op.optional                                     ? optional
                                                                   : lacks;
    list.push_back(op.name);
  }
  const std::string name = "io_uring operations";
  if (!lacks.empty()) {
    return Warn(name, "missing: " + absl::StrJoin(lacks, ", "),
                "use Linux 5.10 or later; until then the agent makes these calls from threads");
  }
  if (!optional.empty()) {
    return Ok(name, fmt::format("{} (no {}: one blocking call per file instead)",
                                absl::StrJoin(has, ", "), absl::StrJoin(optional, ", ")));
  }
  return Ok(name, absl::StrJoin(has, ", "));
}

}  // namespace

Checks CheckIoUring() {
  io_uring ring;
  bool up = false;
  Checks checks = {CheckSetup(&ring, &up)};
  if (up) {
    checks.push_back(CheckOps(&ring));
    io_uring_queue_exit(&ring);
  }
  return checks;
}

}  // namespace pulse::doctor
