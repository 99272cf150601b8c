#include "store/format.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "store/records.h"

namespace pulse::store {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian, and so is its code");

// Room for one change, whatever it is, and for the mark of a clean end.
constexpr uint64_t kMinJournalBytes = 4 * kBlock;
constexpr uint64_t kMaxJournalBytes = uint64_t{32} << 20;
constexpr uint64_t kMinCheckpointBytes = 2 * kBlock;

absl::Status Damaged(const char* what, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(what, " is damaged: ", why));
}

template <typename T>
void EncodeBlock(const T& value, uint64_t seed, uint8_t* block) {
  std::memset(block, 0, kBlock);
  std::memcpy(block, &value, sizeof(value));
  const uint64_t sum = Checksum(block, kBlockChecksumAt, seed);
  std::memcpy(block + kBlockChecksumAt, &sum, sizeof(sum));
}

bool BlockChecksumHolds(const uint8_t* block, uint64_t seed) {
  uint64_t sum;
  std::memcpy(&sum, block + kBlockChecksumAt, sizeof(sum));
  return sum == Checksum(block, kBlockChecksumAt, seed);
}

uint64_t BatchChecksum(const uint8_t* buffer, uint32_t payload_bytes, uint64_t seed) {
  const uint64_t header = Checksum(buffer, offsetof(BatchHeader, checksum), seed);
  return Checksum(buffer + sizeof(BatchHeader), payload_bytes, header);
}

}  // namespace

uint64_t Checksum(const void* data, size_t length, uint64_t seed) {
  return XXH3_64bits_withSeed(data, length, seed);
}

uint64_t Superblock::seed() const { return Checksum(uuid.data(), uuid.size(), 0); }

absl::Status LayOut(Superblock* s) {
  const uint64_t total = s->metadata_bytes();
  // The largest change is a record full of runs, or one for every segment if these are fewer.
  const uint64_t largest = std::min<uint64_t>(s->segments * sizeof(Run), uint64_t{64} << 10);
  const uint64_t journal = std::max(RoundUpToBlock(largest * 2) + kMinJournalBytes,
                                    std::min(kMaxJournalBytes, total / 8 / kBlock * kBlock));
  if (total < 2 * kBlock + 2 * journal + 2 * kMinCheckpointBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata of ", total, " bytes are too few for ", s->segments,
                     " segments; at least ", 2 * kBlock + 2 * journal + 2 * kMinCheckpointBytes,
                     " are needed: raise --metadata, or choose a larger --segment"));
  }
  s->journal_bytes = journal;
  s->checkpoint_bytes = (total - 2 * kBlock - 2 * journal) / 2 / kBlock * kBlock;
  s->checkpoint_offset[0] = kBlock;
  s->checkpoint_offset[1] = s->checkpoint_offset[0] + s->checkpoint_bytes;
  s->journal_offset[0] = s->checkpoint_offset[1] + s->checkpoint_bytes;
  s->journal_offset[1] = s->journal_offset[0] + s->journal_bytes;
  return absl::OkStatus();
}

void EncodeSuperblock(const Superblock& superblock, uint8_t* block) {
  EncodeBlock(superblock, 0, block);
}

absl::StatusOr<Superblock> DecodeSuperblock(const uint8_t* block) {
  Superblock s;
  std::memcpy(&s, block, sizeof(s));
  if (s.magic != kSuperblockMagic) {
    return absl::NotFoundError("there is no PulseDB store");
  }
  if (!BlockChecksumHolds(block, 0)) return Damaged("the superblock", "its checksum is wrong");
  if (s.version != kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat("the store has format version ", s.version,
                                                      ", this program knows ", kFormatVersion,
                                                      "; use a version of PulseDB that knows it"));
  }
  const bool sound = s.block_bytes == kBlock && std::has_single_bit(s.segment_bytes) &&
                     s.segment_bytes >= kMinSegmentBytes && s.segment_bytes <= kMaxSegmentBytes &&
                     s.segments <= kMaxSegments && s.metadata_segments >= 1 &&
                     s.metadata_segments < s.segments;
  Superblock expected = s;
  if (!sound || !LayOut(&expected).ok() || std::memcmp(&s, &expected, sizeof(s)) != 0) {
    return Damaged("the superblock", "its fields contradict each other");
  }
  return s;
}

void EncodeCheckpointHeader(const CheckpointHeader& header, const Superblock& superblock,
                            uint8_t* block) {
  EncodeBlock(header, superblock.seed(), block);
}

absl::StatusOr<CheckpointHeader> DecodeCheckpointHeader(const uint8_t* block,
                                                        const Superblock& superblock, int slot) {
  CheckpointHeader h;
  std::memcpy(&h, block, sizeof(h));
  if (h.magic != kCheckpointMagic) return Damaged("the checkpoint", "its magic is wrong");
  if (!BlockChecksumHolds(block, superblock.seed())) {
    return Damaged("the checkpoint", "its header's checksum is wrong");
  }
  if (h.version != kFormatVersion || h.generation == 0 ||
      h.generation % 2 != static_cast<uint64_t>(slot) || h.next_id == 0 ||
      h.body_bytes > superblock.checkpoint_body_capacity()) {
    return Damaged("the checkpoint", "its header's fields make no sense");
  }
  return h;
}

void SealBatch(BatchHeader header, const Superblock& superblock, uint8_t* buffer) {
  std::memcpy(buffer, &header, sizeof(header));
  header.checksum = BatchChecksum(buffer, header.payload_bytes, superblock.seed());
  std::memcpy(buffer, &header, sizeof(header));
}

bool DecodeBatch(const uint8_t* buffer, size_t available, const Superblock& superblock,
                 BatchHeader* header) {
  if (available < sizeof(BatchHeader)) return false;
  std::memcpy(header, buffer, sizeof(*header));
  return header->magic == kBatchMagic && header->version == kFormatVersion &&
         header->total_bytes() <= available &&
         header->checksum == BatchChecksum(buffer, header->payload_bytes, superblock.seed());
}

}  // namespace pulse::store
