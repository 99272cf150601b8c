// What `pulse bench ring` and its job share.
#pragma once

#include <cstdint>

namespace pulse::bench {

inline constexpr int kMaxRingProducers = 64;
// Defaults: the limit (M) of the rings that take batches, and the slots of the one that does not.
inline constexpr uint64_t kRingLimit = uint64_t{64} << 10;
inline constexpr uint32_t kRingSlots = 64;

inline constexpr char kRingProgress[] = "progress";
inline constexpr char kRingFarm[] = "farm";
inline constexpr char kRingMutex[] = "lock-mutex";
inline constexpr char kRingSpin[] = "lock-spin";

}  // namespace pulse::bench
