// The bytes of a store's metadata: superblock, checkpoint header, batch header, and where they lie.
// docs/reference/store-format.md is the specification; a change here raises kFormatVersion and
// changes that page. Everything is little-endian. The contents of checkpoints and batches are
// records (records.h).
//
// Thread-safe; never blocks. What is read is untrusted: each Decode* checks every field.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pulse::store {

inline constexpr uint64_t kBlock = 4096;
inline constexpr uint32_t kFormatVersion = 1;
inline constexpr uint64_t kMinSegmentBytes = kBlock;
inline constexpr uint64_t kMaxSegmentBytes = uint64_t{1} << 30;
inline constexpr uint64_t kMaxSegments = uint64_t{1} << 32;

constexpr uint64_t RoundUpToBlock(uint64_t n) { return (n + kBlock - 1) / kBlock * kBlock; }

constexpr uint64_t Magic(const char (&text)[9]) {
  uint64_t magic = 0;
  for (int i = 7; i >= 0; --i) magic = magic << 8 | static_cast<uint8_t>(text[i]);
  return magic;
}
inline constexpr uint64_t kSuperblockMagic = Magic("PULSESTO");
inline constexpr uint64_t kCheckpointMagic = Magic("PULSECKP");
inline constexpr uint64_t kBatchMagic = Magic("PULSEBAT");

// One block, at offset 0 and in the last block of the metadata area. Written once.
struct Superblock {
  uint64_t magic = kSuperblockMagic;
  uint32_t version = kFormatVersion;
  uint32_t block_bytes = kBlock;
  std::array<uint8_t, 16> uuid{};
  uint64_t segment_bytes = 0;
  uint64_t segments = 0;
  uint64_t metadata_segments = 0;
  int64_t created_ns = 0;
  uint64_t checkpoint_offset[2] = {};
  uint64_t checkpoint_bytes = 0;  // of each slot, its header block included
  uint64_t journal_offset[2] = {};
  uint64_t journal_bytes = 0;  // of each half

  uint64_t metadata_bytes() const { return metadata_segments * segment_bytes; }
  uint64_t device_bytes() const { return segments * segment_bytes; }
  uint64_t copy_offset() const { return metadata_bytes() - kBlock; }
  uint64_t checkpoint_body_capacity() const { return checkpoint_bytes - kBlock; }
  // Seeds every other checksum, so that what an earlier store left on the device is not taken for
  // this one's.
  uint64_t seed() const;
};
static_assert(sizeof(Superblock) == 112);

// One block at the start of a checkpoint slot; the body follows.
struct CheckpointHeader {
  uint64_t magic = kCheckpointMagic;
  uint32_t version = kFormatVersion;
  uint32_t reserved = 0;
  uint64_t generation = 0;
  uint64_t last_sequence = 0;  // of the last batch that it contains
  uint64_t next_id = 0;
  uint64_t body_bytes = 0;
  uint64_t records = 0;
  uint64_t body_checksum = 0;
};
static_assert(sizeof(CheckpointHeader) == 64);

// At the start of a batch; the records follow at once, then zeros to the next block.
struct BatchHeader {
  static constexpr uint32_t kClean = 1;  // the store was closed after this batch; it has no records

  uint64_t magic = kBatchMagic;
  uint32_t version = kFormatVersion;
  uint32_t flags = 0;
  uint64_t generation = 0;
  uint64_t sequence = 0;
  uint32_t payload_bytes = 0;
  uint32_t records = 0;
  uint64_t reserved = 0;
  uint64_t checksum = 0;  // of the fields above, and of the records

  uint64_t total_bytes() const { return RoundUpToBlock(sizeof(BatchHeader) + payload_bytes); }
};
static_assert(sizeof(BatchHeader) == 56);

// In a superblock or checkpoint header, where the checksum of all that precedes it lies.
inline constexpr size_t kBlockChecksumAt = kBlock - 8;

uint64_t Checksum(const void* data, size_t length, uint64_t seed);

// Lays out the metadata area. InvalidArgument when it is too small for that many segments.
absl::Status LayOut(Superblock* superblock);

// `block` is kBlock bytes.
void EncodeSuperblock(const Superblock& superblock, uint8_t* block);
// FailedPrecondition: not a store, or a version that is not known. DataLoss: a store once.
absl::StatusOr<Superblock> DecodeSuperblock(const uint8_t* block);

void EncodeCheckpointHeader(const CheckpointHeader& header, const Superblock& superblock,
                            uint8_t* block);
// DataLoss, without an offset, which the caller knows. `slot` is 0 or 1.
absl::StatusOr<CheckpointHeader> DecodeCheckpointHeader(const uint8_t* block,
                                                        const Superblock& superblock, int slot);

// Fills in the header's magic, lengths and checksum, at the start of `buffer`, whose records follow
// the header already.
void SealBatch(BatchHeader header, const Superblock& superblock, uint8_t* buffer);
// True when a whole batch of this store lies at `buffer`, which has `available` bytes.
bool DecodeBatch(const uint8_t* buffer, size_t available, const Superblock& superblock,
                 BatchHeader* header);

}  // namespace pulse::store
