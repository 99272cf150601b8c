// How `pulse kv` divides its --memory, so that the process as a whole obeys it.
#pragma once

#include <cstdint>

namespace pulse::kv {

struct MemoryShares {
  uint64_t set_aside = 0;  // not for index, keys and values: the program, and the two below
  // Of requests and replies on their way and of transactions, as ServeOptions::buffer_bytes; beside
  // it there is room for the one that goes on beyond it, twice: as it was received, and as it is
  // carried out; or a reply as it was made, and as it is sent.
  uint64_t buffers = 0;
  uint64_t max_value = 0;
};

// `max_value` 0: as long as the memory that is set aside in any case has room for, 32 MiB at most;
// a longer one takes more of `memory`. With `agents` requests come two ways, of which each may have
// one that goes on. Of agents each loop may have one, and several at the same time go beyond that.
MemoryShares DivideMemory(uint64_t memory, uint64_t max_value, bool agents);

}  // namespace pulse::kv
