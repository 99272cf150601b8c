// A mover whose transfers take the time of a profile's DMA engine. The bytes are copied by another
// mover, at once and free of charge for the calling thread's slow core, since an engine of its own
// does it on a card; they count as there when the link says so, or when the copy is done, whichever
// is later.
//
// StartPull and StartPush return at once: the core goes on, and who uses the bytes waits until they
// are there (FileEngine). Pull, Push and the calls with spans wait for it: message rings, whose
// consumer polls its DMA as the thread of DDS 7 does. Short waits spin.
//
// A mover's first transfer begins no earlier than its set-up is done (Profile::setup_ms), which
// keeps nobody else waiting.
//
// Threads: as every mover. The link is shared, and must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "mover/mover.h"
#include "vdpu/dma_link.h"

namespace pulse::vdpu {

// What transfers are timed by, and how their ends are waited for; tests have their own.
struct MoverClock {
  std::function<int64_t()> now;                  // null: CLOCK_MONOTONIC
  std::function<void(int64_t when)> wait_until;  // null: the calling thread waits
};

std::unique_ptr<Mover> CreatePricedMover(std::unique_ptr<Mover> mover, DmaLink* link,
                                         int64_t setup_nanos, MoverClock clock = {});

}  // namespace pulse::vdpu
