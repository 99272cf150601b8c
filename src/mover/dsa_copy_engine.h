// DsaCopyEngine: a CopyEngine on Intel's Data Streaming Accelerator, by way of the kernel's idxd
// driver (linux/idxd.h) and a work queue of type "user" in /dev/dsa. Descriptors lie in memory that
// is allocated once and handed out by a freelist; several copies are submitted as one batch; a copy
// that stops at a page fault completes in part, after the page was touched, and the caller submits
// the rest. Pages are touched before, too: the engine's own faults are slow. Sections II and III-B
// of the DSA paper.
//
// It is compiled everywhere. OpenDsaCopyEngine says why there is no device where there is none. No
// machine of ours has had one: what was tested is the engine on a portal in software
// (test_dsa_portal.h), which does as Intel's architecture specification says.
//
// Threads: one, as for every engine; its destructor waits for what is in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "mover/copy_engine.h"

namespace pulse {

// How descriptors reach the device; the seam between engine and hardware.
class DsaPortal {
 public:
  virtual ~DsaPortal() = default;
  // One descriptor of 64 bytes, aligned to 64. False: not taken. Mostly the work queue is full;
  // one that others keep full, or that has gone, never takes any: who waits has an end.
  virtual bool Submit(const void* descriptor) = 0;
  virtual std::string Describe() const = 0;
};

struct DsaOptions {
  size_t depth = 128;  // copies in flight
  // Of one batch; 1: none. From 2 on, as the device allows.
  size_t batch = 32;
  // The most that one descriptor copies; what is longer completes in part.
  uint64_t largest = uint64_t{2} << 20;
  bool touch_pages = true;
};

// InvalidArgument for a depth, a batch or a size that is none.
absl::StatusOr<std::unique_ptr<CopyEngine>> CreateDsaCopyEngine(std::unique_ptr<DsaPortal> portal,
                                                                const DsaOptions& options);

struct DsaDevice {
  std::unique_ptr<DsaPortal> portal;
  DsaOptions options;  // as the device has them
};
// Where devices and what is known of them are; others in tests.
struct DsaPaths {
  std::string devices = "/dev/dsa";
  std::string sysfs = "/sys/bus/dsa/devices";
};
// Opens the first work queue that can be used. NotFound, PermissionDenied or FailedPrecondition
// say why there is none, of each queue that was looked at.
absl::StatusOr<DsaDevice> OpenDsaDevice(const DsaPaths& paths = {});

}  // namespace pulse
