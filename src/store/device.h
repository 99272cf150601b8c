// Device: what the store needs of the thing its metadata lies on. The one seam between the store
// and the operating system, so that tests can cut power (sim_device.h).
//
// Threads: any. Reads and writes of disjoint ranges may run at the same time. Every call blocks.
// Errors: those of the system calls, naming the path; a range past the end is Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace pulse::store {

class Device {
 public:
  virtual ~Device() = default;

  // Offset, length and address are multiples of kBlock (4 KiB); the whole range or an error.
  virtual absl::Status Read(uint64_t offset, void* data, size_t length) = 0;
  virtual absl::Status Write(uint64_t offset, const void* data, size_t length) = 0;
  // Everything written before, data or metadata, survives a power cut once this returned OK.
  virtual absl::Status Sync() = 0;
  virtual uint64_t size() const = 0;
  // For messages.
  virtual const std::string& name() const = 0;
  // The descriptor for others to read and write it with, with O_DIRECT or without; -1 without one.
  virtual int fd(bool direct) const { return -1; }
};

}  // namespace pulse::store
