// Lets the simulated disk see what an engine does past the C library: an IoBackend around another
// one that records its writes, truncations and syncs.
#pragma once

#include "uring/io_backend.h"

namespace pulse::powercut {

// A factory for IoBackendOptions that makes the engine `kind` and wraps it.
IoBackendFactory RecordingFactory(EngineKind kind);

}  // namespace pulse::powercut
