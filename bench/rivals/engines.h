// The rivals of the product's I/O engines, with which PulseDB IV-E compares io_uring: Linux AIO
// ("libaio"), and io_uring that polls the device ("io_uring_poll"). Benchmarks measure them, in the
// place of an engine (IoBackendOptions::factory); the product has neither.
//
// Threads, ownership, blocking and errors: as every IoBackend. The factories may be called by any
// thread.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "uring/io_backend.h"

namespace pulse::rivals {

absl::StatusOr<std::unique_ptr<IoBackend>> CreateAioBackend(const IoBackendOptions& options);

// Sends reads and writes through a ring in IOPOLL mode, all else through the product's engine.
// Where device or file system have no polled I/O, which only the first request shows, everything
// takes the product's engine, and polling() is false from then on.
class PollBackend : public IoBackend {
 public:
  virtual bool polling() const = 0;
};
absl::StatusOr<std::unique_ptr<PollBackend>> CreatePollBackend(const IoBackendOptions& options);

// For IoBackendOptions::factory, by the engine's name. Where the kernel denies the rival, the
// factory makes the product's engine that is nearest, and logs one line that says so and why.
// InvalidArgument for another name.
absl::StatusOr<IoBackendFactory> FactoryOf(absl::string_view name);

}  // namespace pulse::rivals
