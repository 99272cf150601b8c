// What `pulse bench ring` and its job share.
#pragma once

namespace pulse::bench {

inline constexpr int kMaxRingProducers = 64;

inline constexpr char kRingProgress[] = "progress";
inline constexpr char kRingFarm[] = "farm";
inline constexpr char kRingMutex[] = "lock-mutex";
inline constexpr char kRingSpin[] = "lock-spin";

}  // namespace pulse::bench
