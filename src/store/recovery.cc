#include "store/recovery.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "store/aligned_buffer.h"

namespace pulse::store {
namespace {

constexpr uint64_t kWriteChunk = uint64_t{1} << 20;
constexpr uint64_t kScanChunk = uint64_t{1} << 20;
// Where a copy of the superblock is looked for when a store is opened: a second's reading.
constexpr uint64_t kMostScannedToOpen = uint64_t{1} << 30;

// A checkpoint that can be loaded, or why not.
struct Slot {
  absl::Status status;
  CheckpointHeader header;
  AlignedBuffer body;
};

Slot ReadSlot(Device& device, const Superblock& superblock, int index, bool salvage) {
  Slot slot;
  const uint64_t offset = superblock.checkpoint_offset[index];
  AlignedBuffer block(kBlock);
  slot.status = device.Read(offset, block.data(), kBlock);
  if (!slot.status.ok()) return slot;
  const auto header = DecodeCheckpointHeader(block.data(), superblock, index);
  if (!header.ok()) {
    slot.status = header.status();
    return slot;
  }
  slot.header = *header;
  slot.body.Reset(header->body_bytes);
  slot.status = device.Read(offset + kBlock, slot.body.data(), slot.body.size());
  if (!slot.status.ok()) return slot;
  if (Checksum(slot.body.data(), header->body_bytes, superblock.seed()) != header->body_checksum) {
    slot.status = absl::DataLossError("the checkpoint is damaged: its contents' checksum is wrong");
    if (!salvage) slot.body = AlignedBuffer();
  }
  return slot;
}

class Journal {
 public:
  Journal(Device& device, const Superblock& superblock) : superblock_(superblock) {
    for (int i = 0; i < 2; ++i) {
      half_[i].Reset(superblock.journal_bytes);
      status_[i] = device.Read(superblock.journal_offset[i], half_[i].data(), half_[i].size());
    }
  }

  absl::Status status() const { return status_[0].ok() ? status_[1] : status_[0]; }

  bool At(int half, uint64_t position, BatchHeader* header) const {
    return position < half_[half].size() &&
           DecodeBatch(half_[half].data() + position, half_[half].size() - position, superblock_,
                       header);
  }
  const char* Payload(int half, uint64_t position) const {
    return reinterpret_cast<const char*>(half_[half].data()) + position + sizeof(BatchHeader);
  }
  uint64_t DeviceOffset(int half, uint64_t position) const {
    return superblock_.journal_offset[half] + position;
  }

  uint64_t HighestGeneration() const {
    uint64_t highest = 0;
    for (int half = 0; half < 2; ++half) {
      for (uint64_t at = 0; at < half_[half].size(); at += kBlock) {
        BatchHeader header;
        if (At(half, at, &header)) highest = std::max(highest, header.generation);
      }
    }
    return highest;
  }

  // The sequence and offset of a whole batch after `sequence`, wherever it is; 0 if there is none.
  std::pair<uint64_t, uint64_t> LaterThan(uint64_t sequence) const {
    for (int half = 0; half < 2; ++half) {
      for (uint64_t at = 0; at < half_[half].size(); at += kBlock) {
        BatchHeader header;
        // Its fields first: the checksum of a batch is work.
        std::memcpy(&header, half_[half].data() + at, sizeof(header));
        if (header.magic != kBatchMagic || header.sequence <= sequence) continue;
        if (At(half, at, &header)) return {header.sequence, DeviceOffset(half, at)};
      }
    }
    return {0, 0};
  }

 private:
  const Superblock& superblock_;
  AlignedBuffer half_[2];
  absl::Status status_[2];
};

// Replays one generation's half. `*last` and `result` go on from one to the next.
absl::Status ReplayHalf(const Device& device, const Journal& journal, uint64_t generation,
                        Recovered* result, std::vector<Finding>* findings) {
  const int half = static_cast<int>(generation % 2);
  uint64_t at = 0;
  uint64_t expected = 0;  // any, for the first
  BatchHeader header;
  while (journal.At(half, at, &header) && header.generation == generation &&
         (expected == 0 ? header.sequence <= result->last_sequence + 1
                        : header.sequence == expected)) {
    const uint64_t offset = journal.DeviceOffset(half, at);
    if (header.sequence > result->last_sequence) {
      const auto status =
          LoadRecords(journal.Payload(half, at), header.payload_bytes, header.records, offset,
                      State::Source::kJournal, result->state.get(), findings);
      if (!status.ok()) return DamagedAt(device, offset, status.message());
      result->state->ReleaseFreed();
      result->last_sequence = header.sequence;
      result->clean = (header.flags & BatchHeader::kClean) != 0;
      ++result->batches;
    }
    expected = header.sequence + 1;
    at += header.total_bytes();
    result->generation = generation;
    result->journal_used = at;
  }
  return absl::OkStatus();
}

absl::Status Replay(Device& device, Recovered* result, std::vector<Finding>* findings) {
  const Superblock& superblock = result->superblock;
  Journal journal(device, superblock);
  PULSE_RETURN_IF_ERROR(journal.status());
  const uint64_t generation = result->generation;
  PULSE_RETURN_IF_ERROR(ReplayHalf(device, journal, generation, result, findings));
  const auto [end_half, end_at] = std::pair(generation % 2, result->journal_used);
  PULSE_RETURN_IF_ERROR(ReplayHalf(device, journal, generation + 1, result, findings));
  if (findings != nullptr) {
    result->highest_generation = std::max(result->highest_generation, journal.HighestGeneration());
  }
  const auto [later, later_offset] = journal.LaterThan(result->last_sequence);
  if (later == 0) return absl::OkStatus();
  // The batch that is missing belongs where the replay ended; if that was the end of the half, then
  // at the start of the other.
  uint64_t offset =
      result->generation == generation
          ? journal.DeviceOffset(static_cast<int>(end_half), end_at)
          : journal.DeviceOffset(static_cast<int>((generation + 1) % 2), result->journal_used);
  const std::string what =
      absl::StrCat("batch ", result->last_sequence + 1, " of the journal is damaged, and batch ",
                   later, " follows at offset ", later_offset);
  if (findings == nullptr) return DamagedAt(device, offset, what);
  findings->push_back({offset, what});
  // What follows a lost change cannot be trusted to make sense; it is left out. Its numbers are not
  // used again.
  result->last_sequence = later;
  for (auto next = journal.LaterThan(later); next.first != 0;) {
    result->last_sequence = next.first;
    next = journal.LaterThan(next.first);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DamagedAt(const Device& device, uint64_t offset, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(
      device.name(), ", offset ", offset, ": ", what,
      "; nothing was changed. `pulse pool check` says what can be saved, --repair saves it"));
}

absl::StatusOr<Superblock> ReadSuperblock(Device& device, bool* foreign) {
  if (device.size() < kBlock) {
    return absl::FailedPreconditionError(
        absl::StrCat(device.name(), ", offset 0: ", device.size(),
                     " bytes are no PulseDB store; `pulse pool create` makes one"));
  }
  AlignedBuffer block(kBlock);
  PULSE_RETURN_IF_ERROR(device.Read(0, block.data(), kBlock));
  auto superblock = DecodeSuperblock(block.data());
  if (absl::IsDataLoss(superblock.status())) {
    return DamagedAt(device, 0, superblock.status().message());
  }
  if (absl::IsFailedPrecondition(superblock.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat(device.name(), ", offset 0: ", superblock.status().message()));
  }
  if (!superblock.ok()) {
    if (foreign != nullptr) *foreign = true;
    return absl::FailedPreconditionError(
        absl::StrCat(device.name(), ", offset 0: ", superblock.status().message(),
                     "; `pulse pool create` makes a store, `pulse pool check` tells whether this "
                     "was one"));
  }
  if (device.size() < superblock->device_bytes()) {
    return absl::DataLossError(absl::StrCat(
        device.name(), ", offset ", device.size(), ": the store ends here, and should have ",
        superblock->device_bytes(),
        " bytes; nothing was changed. Give it its size again with `truncate -s ",
        superblock->device_bytes(), " ", device.name(),
        "`; `pulse pool check` then says what can be saved. What was behind the end is lost"));
  }
  return superblock;
}

// The copy is the last block of the metadata area, whose size only the superblock knows.
absl::StatusOr<Superblock> FindSuperblockCopy(Device& device, uint64_t most,
                                              const std::function<void()>& tick) {
  const uint64_t size = std::min(most, device.size() / kBlock * kBlock);
  AlignedBuffer chunk(std::min(kScanChunk, size));
  for (uint64_t at = 0; at < size; at += kScanChunk) {
    const uint64_t n = std::min(kScanChunk, size - at);
    if (tick) tick();
    PULSE_RETURN_IF_ERROR(device.Read(at, chunk.data(), n));
    for (uint64_t i = 0; i < n; i += kBlock) {
      const auto copy = DecodeSuperblock(chunk.data() + i);
      if (copy.ok() && at + i == copy->copy_offset() && copy->device_bytes() <= device.size()) {
        return copy;
      }
    }
  }
  return absl::NotFoundError("there is no copy of a superblock");
}

absl::Status LoadRecords(const char* data, size_t length, uint64_t records, uint64_t offset,
                         State::Source source, State* state, std::vector<Finding>* findings) {
  const char* at = data;
  const char* const end = data + length;
  for (uint64_t i = 0; i < records || at != end; ++i) {
    Record record;
    const char* const start = at;
    if (i >= records || !DecodeRecord(&at, end, &record)) {
      const std::string what = absl::StrCat("record ", i, ", ", start - data,
                                            " bytes in, cannot be read; the rest is lost");
      if (findings == nullptr) return absl::DataLossError(what);
      findings->push_back({offset, what});
      return absl::OkStatus();
    }
    const auto status = state->Apply(record, source);
    if (status.ok()) continue;
    const std::string what =
        absl::StrCat("record ", i, ", ", start - data, " bytes in: ", status.message());
    if (findings == nullptr) return absl::DataLossError(what);
    findings->push_back({offset, what});
  }
  return absl::OkStatus();
}

absl::Status CheckSlot(Device& device, const Superblock& superblock, int slot) {
  return ReadSlot(device, superblock, slot, /*salvage=*/false).status;
}

absl::StatusOr<Recovered> Recover(Device& device, std::vector<Finding>* findings) {
  bool foreign = false;
  const auto superblock = ReadSuperblock(device, &foreign);
  if (superblock.ok()) return Recover(device, *superblock, findings);
  if (!foreign) return superblock.status();
  // Whoever makes a new store where the first block alone is lost would lose the others.
  const auto copy = FindSuperblockCopy(device, kMostScannedToOpen, {});
  if (!copy.ok()) return superblock.status();
  return absl::DataLossError(absl::StrCat(
      device.name(), ", offset 0: the first superblock is damaged, its copy at offset ",
      copy->copy_offset(), " is whole; nothing was changed. `pulse pool check --repair` mends it"));
}

absl::StatusOr<Recovered> Recover(Device& device, const Superblock& superblock,
                                  std::vector<Finding>* findings) {
  Recovered result;
  result.superblock = superblock;
  const bool salvage = findings != nullptr;
  Slot slots[2];
  for (int i = 0; i < 2; ++i) slots[i] = ReadSlot(device, superblock, i, salvage);
  // The newest that is whole; to salvage, also one whose contents are damaged.
  const auto usable = [&](const Slot& s, bool whole) {
    return s.header.generation != 0 && (s.status.ok() || (!whole && salvage));
  };
  int best = -1;
  for (const bool whole : {true, false}) {
    for (int i = 0; i < 2 && (best < 0 || whole); ++i) {
      if (usable(slots[i], whole) &&
          (best < 0 || slots[i].header.generation > slots[best].header.generation)) {
        best = i;
      }
    }
  }
  if (best < 0) {
    for (const Slot& s : slots) {
      if (!s.status.ok() && !absl::IsDataLoss(s.status)) return s.status;
    }
    return DamagedAt(
        device, superblock.checkpoint_offset[1],
        absl::StrCat("no checkpoint is whole, here and at offset ", superblock.checkpoint_offset[0],
                     ": ", slots[1].status.message()));
  }
  Slot& slot = slots[best];
  result.highest_generation = std::max(slots[0].header.generation, slots[1].header.generation);
  slots[1 - best].body = AlignedBuffer();
  const uint64_t offset = superblock.checkpoint_offset[best];
  if (!slot.status.ok()) findings->push_back({offset, std::string(slot.status.message())});

  result.state = std::make_unique<State>(superblock.segments, superblock.metadata_segments,
                                         superblock.segment_bytes);
  result.state->set_next_id(slot.header.next_id);
  // Each file has two records at least; what the header claims is bounded by what there is.
  result.state->ExpectFiles(
      std::min(slot.header.records, slot.header.body_bytes / kFileRecordBytes) / 2);
  result.checkpoint_generation = result.generation = slot.header.generation;
  result.last_sequence = slot.header.last_sequence;
  absl::Status loaded = LoadRecords(reinterpret_cast<const char*>(slot.body.data()),
                                    slot.header.body_bytes, slot.header.records, offset,
                                    State::Source::kCheckpoint, result.state.get(), findings);
  if (loaded.ok()) {
    loaded = result.state->CheckComplete(salvage);
    result.state->ReleaseFreed();
    if (!loaded.ok() && salvage) {
      findings->push_back({offset, std::string(loaded.message())});
      loaded = absl::OkStatus();
    }
  }
  if (!loaded.ok()) return DamagedAt(device, offset, loaded.message());
  slot.body = AlignedBuffer();
  PULSE_RETURN_IF_ERROR(Replay(device, &result, findings));
  return result;
}

CheckpointImage MakeCheckpoint(const State& state, uint64_t generation, uint64_t last_sequence) {
  CheckpointImage image;
  image.generation = generation;
  image.last_sequence = last_sequence;
  image.next_id = state.next_id();
  image.records = state.Serialize(&image.body);
  return image;
}

absl::Status WriteCheckpoint(Device& device, const Superblock& superblock,
                             const CheckpointImage& image) {
  const uint64_t offset = superblock.checkpoint_offset[image.generation % 2];
  if (image.body.size() > superblock.checkpoint_body_capacity()) {
    return absl::InternalError("a checkpoint is larger than its slot");
  }
  AlignedBuffer chunk(std::min<uint64_t>(kWriteChunk, RoundUpToBlock(image.body.size())));
  for (uint64_t at = 0; at < image.body.size(); at += kWriteChunk) {
    const uint64_t n = std::min<uint64_t>(kWriteChunk, image.body.size() - at);
    std::memcpy(chunk.data(), image.body.data() + at, n);
    std::memset(chunk.data() + n, 0, RoundUpToBlock(n) - n);
    PULSE_RETURN_IF_ERROR(device.Write(offset + kBlock + at, chunk.data(), RoundUpToBlock(n)));
  }
  CheckpointHeader header;
  header.generation = image.generation;
  header.last_sequence = image.last_sequence;
  header.next_id = image.next_id;
  header.body_bytes = image.body.size();
  header.records = image.records;
  header.body_checksum = Checksum(image.body.data(), image.body.size(), superblock.seed());
  AlignedBuffer block(kBlock);
  EncodeCheckpointHeader(header, superblock, block.data());
  PULSE_RETURN_IF_ERROR(device.Write(offset, block.data(), kBlock));
  return device.Sync();
}

}  // namespace pulse::store
