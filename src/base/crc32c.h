// CRC-32C (Castagnoli), by the processor's instruction where it has one. Any thread; nothing
// blocks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pulse {

// The checksum of some bytes and then `n` more, of which the first have the checksum `crc` (0 where
// there are none).
uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t n);
inline uint32_t Crc32c(const void* data, size_t n) { return ExtendCrc32c(0, data, n); }

// As LevelDB's formats store it, RocksDB's log and MANIFEST among them.
constexpr uint32_t MaskedCrc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

// The checksum of the last `n` bytes of a text. `whole` is that of the text, `front` that of what
// stands before them. Some hundred steps, whatever n is.
uint32_t Crc32cOfLast(uint32_t whole, uint32_t front, uint64_t n);

// For tests: ExtendCrc32c without the instruction.
uint32_t ExtendCrc32cPortable(uint32_t crc, const void* data, size_t n);

}  // namespace pulse
