// A page: 8 KiB, of which the header names the page, the LSN of the last log record in it, and a
// checksum over all of it. In the store file each page has two slots of which the newer valid one
// is the page; a new version goes to the other, so a torn write costs nothing but itself. Any
// thread; nothing blocks.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/status/status.h"

namespace pulse::pages {

inline constexpr uint32_t kPageBytes = 8192;
inline constexpr uint64_t kPageMagic = 0x3145474150534C50;  // "PLSPAGE1"

struct PageHeader {
  uint64_t magic;
  uint64_t page;
  uint64_t lsn;
  uint64_t checksum;  // XXH3 of the header before it, and of the payload
};
static_assert(sizeof(PageHeader) == 32);
inline constexpr uint32_t kPayload = kPageBytes - sizeof(PageHeader);

// Where slot 0 or 1 of a page lies in the store file.
inline uint64_t SlotOffset(uint64_t page, int slot) {
  return (2 * page + static_cast<uint64_t>(slot)) * kPageBytes;
}

// Makes the header around what the payload holds.
void Seal(char* page, uint64_t number, uint64_t lsn);
// DataLoss: not a whole page, or another one.
absl::Status CheckPage(const char* page, uint64_t number);
inline PageHeader HeaderOf(const char* page) {
  PageHeader h;
  std::memcpy(&h, page, sizeof(h));
  return h;
}

uint64_t Checksum(std::string_view bytes, uint64_t seed);

}  // namespace pulse::pages
