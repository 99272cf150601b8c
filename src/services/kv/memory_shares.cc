#include "services/kv/memory_shares.h"

#include <algorithm>

#include "services/redis/commands/codec.h"

namespace pulse::kv {
namespace {

constexpr uint64_t kLeastSetAside = uint64_t{32} << 20;
// What the process has before it holds a key.
constexpr uint64_t kProgramBytes = uint64_t{20} << 20;
constexpr uint64_t kUsualValue = uint64_t{32} << 20;

}  // namespace

MemoryShares DivideMemory(uint64_t memory, uint64_t max_value, bool agents) {
  const uint64_t usual = std::max(kLeastSetAside, memory / 16) - kProgramBytes;
  const uint64_t copies = agents ? 4 : 2;
  MemoryShares shares;
  shares.max_value = max_value;
  if (max_value == 0) {
    shares.max_value = std::min(kUsualValue, usual / 2 / copies - redis::kAroundValue);
  }
  const uint64_t large = copies * redis::LongestRequest(shares.max_value);
  shares.buffers = std::max(usual / 2, usual - std::min(usual, large));
  shares.set_aside = kProgramBytes + shares.buffers + large;
  return shares;
}

}  // namespace pulse::kv
