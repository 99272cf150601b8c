// IoBackend: the agent's way to the kernel. The product has two: io_uring (PulseDB III-B.3) and
// threads that make blocking calls. The rivals that PulseDB IV-E compares them with implement it in
// bench/rivals. FileEngine on top knows files and their ordering, a back-end knows neither.
//
// Owned and called by one worker thread, which also creates it. Nothing here blocks except
// Close-like system calls where the chosen engine has no asynchronous form. Buffers and descriptors
// stay valid until their result was harvested. Bounded: at most `depth` requests are in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "uring/io_class.h"

namespace pulse {

enum class IoOp : uint8_t {
  kRead,
  kWrite,
  kRangeSync,  // sync_file_range: start write-back of [offset, offset+length) and wait for it
  kSync,       // fdatasync
  kFallocate,  // reserve [0, length) and extend the file to it
  kSyncClose,  // truncate to `length` (unless kNoTruncate), fdatasync, close: always closes
  kClose,
};

inline constexpr uint64_t kNoTruncate = ~uint64_t{0};

struct IoRequest {
  IoOp op;
  int fd = -1;
  int file_index = -1;    // from RegisterFile, or -1
  int buffer_index = -1;  // from RegisterBuffer, or -1
  char* buffer = nullptr;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t tag = 0;
  IoClass io_class = IoClass::kUnknown;  // for information: the engine has put it in order already
};

struct IoResult {
  uint64_t tag;
  int64_t result;  // bytes, or 0, or -errno
};

// Of the product's engines; the values are the protocol's (wire.h, kHelloAck), and agents of
// earlier releases may send others.
enum class EngineKind : int { kUring = 0, kThreads = 3 };
// InvalidArgument names the engines that there are.
absl::StatusOr<EngineKind> ParseEngineKind(absl::string_view name);
// "unknown" for what is none.
absl::string_view EngineName(EngineKind kind);

class IoBackend {
 public:
  virtual ~IoBackend() = default;

  // Queues a request; false when `depth` are in flight already (harvest first).
  virtual bool Enqueue(const IoRequest& request) = 0;
  // Hands queued requests to the kernel, in one call where the engine can.
  virtual void Submit() = 0;
  // Copies up to `max` results out; returns how many.
  virtual size_t Harvest(IoResult* out, size_t max) = 0;

  // Readable when Harvest may have something, unless needs_polling().
  virtual int wait_fd() const = 0;
  // True while results arrive only if Harvest is called again and again.
  virtual bool needs_polling() const { return false; }
  virtual size_t in_flight() const = 0;
  // The engine that serves; of one that a factory made, the nearest of the product's.
  virtual EngineKind kind() const = 0;

  // Pins a buffer or file for cheaper requests. -1 when the engine has no such thing or the limit
  // on locked memory is too low: callers then use the plain form.
  virtual int RegisterBuffer(char* base, size_t bytes) { return -1; }
  virtual void UnregisterBuffer(int index) {}
  virtual int RegisterFile(int fd) { return -1; }
  virtual void UnregisterFile(int index) {}
};

struct IoBackendOptions;
using IoBackendFactory =
    std::function<absl::StatusOr<std::unique_ptr<IoBackend>>(const IoBackendOptions&)>;

struct IoBackendOptions {
  EngineKind kind = EngineKind::kUring;
  uint32_t depth = 256;
  std::vector<int> cpus;  // for the engine's helper threads
  // Replaces the engine: delayed, failing or recording back-ends in tests, rivals in pulse-bench.
  IoBackendFactory factory;
};

// Creates the engine asked for. Where the kernel denies io_uring, takes threads and logs one line
// that says so and why.
absl::StatusOr<std::unique_ptr<IoBackend>> CreateIoBackend(const IoBackendOptions& options);

// The engines themselves, without fallback; for tests and for CreateIoBackend.
absl::StatusOr<std::unique_ptr<IoBackend>> CreateUringBackend(const IoBackendOptions& options);
absl::StatusOr<std::unique_ptr<IoBackend>> CreateThreadBackend(const IoBackendOptions& options);

// Executes one request by plain system calls, blocking. The thread engine's core, and the reference
// for the others' semantics.
int64_t ExecuteBlocking(const IoRequest& request);

}  // namespace pulse
