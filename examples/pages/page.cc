#include "examples/pages/page.h"

#include <cstring>

#include "absl/strings/str_cat.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace pulse::pages {
namespace {

uint64_t ChecksumOf(const char* page) {
  const uint64_t seed = XXH3_64bits(page, offsetof(PageHeader, checksum));
  return XXH3_64bits_withSeed(page + sizeof(PageHeader), kPayload, seed);
}

}  // namespace

uint64_t Checksum(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

void Seal(char* page, uint64_t number, uint64_t lsn) {
  PageHeader h{kPageMagic, number, lsn, 0};
  std::memcpy(page, &h, sizeof(h));
  h.checksum = ChecksumOf(page);
  std::memcpy(page, &h, sizeof(h));
}

absl::Status CheckPage(const char* page, uint64_t number) {
  const PageHeader h = HeaderOf(page);
  if (h.magic == kPageMagic && h.page == number && h.checksum == ChecksumOf(page)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("pages: page ", number, " is damaged"));
}

}  // namespace pulse::pages
