// The hardware's half of dsa_copy_engine.h: work queues of the idxd driver, their portals.
#include <dirent.h>
#include <linux/idxd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/private_memory.h"
#include "mover/dsa_copy_engine.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace pulse {
namespace {

constexpr size_t kPortalBytes = 4096;

#if defined(__x86_64__)
constexpr unsigned kMovdir64b = 1u << 28, kEnqcmd = 1u << 29;

unsigned CpuFeatures() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 ? c : 0;
}
// To a queue that several processes share. False: it has no room.
bool Enqcmd(void* portal, const void* descriptor) {
  unsigned char retry = 0;
  asm volatile("sfence\n\t.byte 0xf2, 0x0f, 0x38, 0xf8, 0x02\n\tsetz %0"
               : "=r"(retry)
               : "a"(portal), "d"(descriptor)
               : "memory", "cc");
  return retry == 0;
}
void Movdir64b(void* portal, const void* descriptor) {
  asm volatile("sfence\n\t.byte 0x66, 0x0f, 0x38, 0xf8, 0x02"
               :
               : "a"(portal), "d"(descriptor)
               : "memory");
}
#endif

// A queue that is mapped: one store submits.
class MappedPortal : public DsaPortal {
 public:
  MappedPortal(UniqueFd fd, MappedMemory portal, bool shared, size_t size, std::string name)
      : fd_(std::move(fd)),
        portal_(std::move(portal)),
        shared_(shared),
        size_(size),
        name_(std::move(name)) {}
  bool Submit(const void* descriptor) override {
#if defined(__x86_64__)
    if (shared_) return Enqcmd(portal_.get(), descriptor);
    // Nobody says that a dedicated queue is full: what is too much is lost. So descriptors are
    // counted by who owns them, and the engine's depth is at most the queue's size.
    Movdir64b(portal_.get(), descriptor);
    return true;
#else
    (void)descriptor;
    return false;
#endif
  }
  std::string Describe() const override {
    return absl::StrCat(name_, ", ", shared_ ? "shared" : "dedicated", ", ", size_, " entries");
  }

 private:
  const UniqueFd fd_;
  const MappedMemory portal_;
  const bool shared_;
  const size_t size_;
  const std::string name_;
};

// A queue that this user may not map: the kernel takes descriptors by write().
class WrittenPortal : public DsaPortal {
 public:
  WrittenPortal(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}
  bool Submit(const void* descriptor) override {
    ssize_t n;
    do {
      n = write(fd_.get(), descriptor, sizeof(dsa_hw_desc));
    } while (n < 0 && errno == EINTR);
    return n == static_cast<ssize_t>(sizeof(dsa_hw_desc));
  }
  std::string Describe() const override { return absl::StrCat(name_, ", by write()"); }

 private:
  const UniqueFd fd_;
  const std::string name_;
};

std::string Attribute(const DsaPaths& paths, const std::string& queue, const std::string& name) {
  const UniqueFd fd = OpenFile(absl::StrCat(paths.sysfs, "/", queue, "/", name), O_RDONLY);
  char text[128];
  const ssize_t n = fd.valid() ? read(fd.get(), text, sizeof(text)) : -1;
  if (n <= 0) return "";
  return std::string(absl::StripAsciiWhitespace(absl::string_view(text, static_cast<size_t>(n))));
}
uint64_t Number(const DsaPaths& paths, const std::string& queue, const std::string& name,
                uint64_t otherwise) {
  uint64_t n = 0;
  return absl::SimpleAtoi(Attribute(paths, queue, name), &n) && n > 0 ? n : otherwise;
}

absl::StatusOr<DsaDevice> OpenQueue(const DsaPaths& paths, const std::string& queue) {
  const std::string path = absl::StrCat(paths.devices, "/", queue);
  UniqueFd fd = OpenFile(path, O_RDWR);
  if (!fd.valid()) return ErrnoError(errno, "opening", path);
  if (const std::string state = Attribute(paths, queue, "state"); state != "enabled") {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " is ", state.empty() ? "unknown to sysfs" : state, ", and not enabled"));
  }
  if (const std::string type = Attribute(paths, queue, "type"); type != "user") {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is of type ", type, ", and not user"));
  }
  const bool shared = Attribute(paths, queue, "mode") == "shared";
  const uint64_t size = Number(paths, queue, "size", 16);
  DsaDevice device;
  device.options.depth = std::clamp<uint64_t>(size, 1, 1024);
  device.options.batch = std::clamp<uint64_t>(Number(paths, queue, "max_batch_size", 1), 1, 32);
  device.options.largest =
      std::clamp<uint64_t>(Number(paths, queue, "max_transfer_size", 1 << 20), 4096, 1u << 31);
  // With it the device waits for pages, and nobody need touch them.
  device.options.touch_pages = Attribute(paths, queue, "block_on_fault") != "1";
#if defined(__x86_64__)
  if ((CpuFeatures() & (shared ? kEnqcmd : kMovdir64b)) != 0) {
    void* at = mmap(nullptr, kPortalBytes, PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
    if (at != MAP_FAILED) {
      device.portal = std::make_unique<MappedPortal>(
          std::move(fd), MappedMemory(static_cast<char*>(at), Unmap{kPortalBytes}), shared, size,
          path);
      return device;
    }
  }
#endif
  // Kernels that do not take writes say so at once, to one of no bytes that would do nothing.
  if (write(fd.get(), nullptr, 0) < 0) {
    return ErrnoError(errno, "neither mapping nor writing to", path);
  }
  // They refuse batches, whose descriptors they cannot check.
  device.options.batch = 1;
  device.portal = std::make_unique<WrittenPortal>(std::move(fd), path);
  return device;
}

}  // namespace

absl::StatusOr<DsaDevice> OpenDsaDevice(const DsaPaths& paths) {
  std::vector<std::string> queues;
  if (DIR* dir = opendir(paths.devices.c_str()); dir != nullptr) {
    while (const dirent* entry = readdir(dir)) {
      if (strncmp(entry->d_name, "wq", 2) == 0) queues.emplace_back(entry->d_name);
    }
    closedir(dir);
  }
  std::sort(queues.begin(), queues.end());
  if (queues.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no work queue in ", paths.devices, ": this machine has no Intel DSA",
                     access(paths.sysfs.c_str(), F_OK) == 0
                         ? ", or no queue of it is enabled (accel-config enable-wq)"
                         : " that its kernel knows (driver idxd)"));
  }
  std::vector<std::string> reasons;
  for (const std::string& queue : queues) {
    auto device = OpenQueue(paths, queue);
    if (device.ok()) return device;
    reasons.emplace_back(device.status().message());
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no work queue of the DSA can be used: ", absl::StrJoin(reasons, "; ")));
}

}  // namespace pulse
