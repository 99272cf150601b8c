// A queue as the host reads it, with an agent that writes any cursor and any completion at any
// time: the host takes only what lies in the ring, takes no entry twice, and never leaves its
// memory.
#include <cstring>
#include <memory>

#include "channel/queue_pair.h"
#include "channel/region.h"
#include "fuzz_input.h"

namespace pulse {
namespace {

constexpr uint64_t kArena = wire::kMinArenaBytes;
constexpr size_t kRings = wire::kPage + wire::kSubmissionSlots * sizeof(wire::Descriptor) +
                          wire::kCompletionSlots * sizeof(wire::Completion);
constexpr char kCanary = 0x5a;

void CheckCanaries(const Region& region) {
  // The arena is the caller's to write, and what follows the rings is nobody's.
  for (size_t i = 0; i < kArena; i += 509) FUZZ_CHECK(region.data()[i] == kCanary);
  for (size_t i = kArena + kRings; i < region.size(); i += 509) {
    FUZZ_CHECK(region.data()[i] == kCanary);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Region* const region =
      new Region(Region::CreatePrivate(QueueRegionBytes(kArena)).value());
  static bool first = true;
  if (first) std::memset(region->data(), kCanary, region->size());
  first = false;
  fuzz::Input in(data, size);
  HostQueue host = HostQueue::Init(*region, 3, kArena).value();
  auto* header = reinterpret_cast<wire::QueueHeader*>(region->data() + kArena);
  auto* submissions = reinterpret_cast<wire::Descriptor*>(region->data() + kArena + wire::kPage);
  auto* completions = reinterpret_cast<wire::Completion*>(submissions + wire::kSubmissionSlots);
  uint64_t pushed = 0, popped = 0;
  while (!in.empty()) {
    const uint8_t op = in.Byte();
    const uint64_t times = 1 + in.Byte();
    switch (op % 8) {
      case 0:
        for (uint64_t i = 0; i < times; ++i) {
          wire::Descriptor d{};
          d.tag = pushed;
          if (!host.TryPush(d)) break;
          FUZZ_CHECK(submissions[pushed % wire::kSubmissionSlots].tag == pushed);
          FUZZ_CHECK(header->submission_tail.value == ++pushed);
        }
        break;
      case 1:
      case 2:
        for (uint64_t i = 0; i < times; ++i) {
          const bool promised = host.HasCompletions();
          const bool was_corrupt = host.corrupt();
          wire::Completion c;
          if (!host.TryPop(&c)) {
            // What looks like work and is none must be a reason to end: a waiter would spin.
            FUZZ_CHECK(!promised || host.corrupt());
            break;
          }
          FUZZ_CHECK(promised && (was_corrupt || !host.corrupt()));
          FUZZ_CHECK(std::memcmp(&c, &completions[popped % wire::kCompletionSlots], sizeof(c)) ==
                     0);
          FUZZ_CHECK(header->completion_head.value == ++popped);
        }
        break;
      case 3:
        header->completion_tail.value = in.Evil(popped + times);
        break;
      case 4:
        header->submission_head.value = in.Evil(pushed - times);
        break;
      case 5:
        header->reclaimed.value = in.Evil(kArena);
        (void)host.reclaimed();
        break;
      case 6:
        in.Bytes(&completions[(popped + times) % wire::kCompletionSlots], sizeof(wire::Completion));
        break;
      default:
        // The agent overwrites what only the host writes.
        header->arena_bytes = in.Evil(kArena);
        header->submission_slots = in.Number<uint32_t>();
        header->completion_slots = in.Number<uint32_t>();
        header->submission_tail.value = in.Evil(pushed);
        if (header->submission_tail.value != pushed) header->submission_tail.value = pushed;
        FUZZ_CHECK(host.arena_bytes() == kArena && host.arena() == region->data());
    }
  }
  CheckCanaries(*region);
  return 0;
}

}  // namespace pulse
