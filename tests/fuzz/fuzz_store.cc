// What a store's device may hold: superblock, checkpoint, journal. Checksums are made good first,
// so that the fields behind them are reached. What opens must be consistent, and repair must end in
// something that opens, or say that it cannot.
#include <cstring>
#include <vector>

#include "fuzz_input.h"
#include "store/check.h"
#include "store/format.h"
#include "store/recovery.h"
#include "store/sim_device.h"

namespace pulse::store {
namespace {

constexpr uint64_t kSegments = 64;

Superblock SmallStore() {
  Superblock s;
  s.uuid.fill(7);
  s.segment_bytes = kBlock;
  s.segments = kSegments;
  s.metadata_segments = 24;
  FUZZ_CHECK(LayOut(&s).ok());
  return s;
}

void PutSuperblock(const Superblock& s, SimDevice* device) {
  std::vector<uint8_t> block(kBlock);
  EncodeSuperblock(s, block.data());
  FUZZ_CHECK(device->Write(0, block.data(), kBlock).ok());
  FUZZ_CHECK(device->Write(s.copy_offset(), block.data(), kBlock).ok());
}

// Two directories and a file, or, as a checkpoint's body, whatever `body` says.
void PutCheckpoint(const Superblock& s, uint64_t records, const std::string& body,
                   SimDevice* device) {
  CheckpointImage image;
  image.generation = 2;
  image.last_sequence = 5;
  image.next_id = 100;
  image.records = records;
  image.body = body.substr(0, s.checkpoint_body_capacity());
  FUZZ_CHECK(WriteCheckpoint(*device, s, image).ok());
}

std::string KnownBody(uint64_t* records) {
  State state(kSegments, 24, kBlock);
  const auto apply = [&](Record r) { FUZZ_CHECK(state.Apply(r).ok()); };
  Record r;
  r.type = RecordType::kCreateDirectory;
  r.directory = 1;
  r.name = "a";
  apply(r);
  r.directory = 2;
  r.name = "b";
  apply(r);
  r.type = RecordType::kCreateFile;
  r.file = 3;
  r.directory = 1;
  r.name = "f";
  apply(r);
  const Run run{30, 4};
  r.type = RecordType::kAddSegments;
  r.runs = RunView(&run, 1);
  apply(r);
  std::string body;
  *records = state.Serialize(&body);
  return body;
}

void PutBatches(const Superblock& s, fuzz::Input* in, SimDevice* device) {
  uint64_t at = 0;
  for (uint64_t sequence = 5; !in->empty() && sequence < 10; ++sequence) {
    std::vector<uint8_t> batch(sizeof(BatchHeader) + in->Number<uint16_t>() % 2000);
    BatchHeader header;
    header.flags = in->Byte() % 2;
    header.records = in->Byte();
    header.generation = 2 + in->Below(8) / 7;
    header.sequence = sequence + in->Below(8) / 7;
    header.payload_bytes = static_cast<uint32_t>(batch.size() - sizeof(header));
    in->Bytes(batch.data() + sizeof(header), header.payload_bytes);
    batch.resize(header.total_bytes());
    if (at + batch.size() > s.journal_bytes) return;
    SealBatch(header, s, batch.data());
    FUZZ_CHECK(
        device->Write(s.journal_offset[header.generation % 2] + at, batch.data(), batch.size())
            .ok());
    at += batch.size();
  }
}

void Try(SimDevice* device) {
  const auto opened = Recover(*device);
  const uint64_t writes = device->writes;
  const auto looked = Check(*device, {.repair = false, .tick = {}});
  FUZZ_CHECK(device->writes == writes);
  if (opened.ok()) {
    FUZZ_CHECK(looked.ok());
    // Opening does not look at the superblock's copy.
    for (const auto& problem : looked->problems) {
      FUZZ_CHECK(problem.offset == opened->superblock.copy_offset());
    }
    // A checkpoint of it says the same.
    const CheckpointImage image = MakeCheckpoint(*opened->state, 7, 7);
    FUZZ_CHECK(image.body.size() == opened->state->checkpoint_bytes());
    const Superblock& s = opened->superblock;
    State again(s.segments, s.metadata_segments, s.segment_bytes);
    again.set_next_id(image.next_id);
    FUZZ_CHECK(LoadRecords(image.body.data(), image.body.size(), image.records, 0,
                           State::Source::kCheckpoint, &again, nullptr)
                   .ok());
    FUZZ_CHECK(again.CheckComplete().ok());
    FUZZ_CHECK(again.files() == opened->state->files());
    FUZZ_CHECK(again.checkpoint_bytes() == image.body.size());
    FUZZ_CHECK(again.free_segments().free() == opened->state->free_segments().free());
    return;
  }
  FUZZ_CHECK(opened.status().message().find("offset") != absl::string_view::npos);
  const auto repaired = Check(*device, {.repair = true, .tick = {}});
  if (repaired.ok()) FUZZ_CHECK(Recover(*device).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input in(data, size);
  SimDevice device(kSegments * kBlock);
  const Superblock s = SmallStore();
  uint64_t records = 0;
  const std::string known = KnownBody(&records);
  switch (in.Below(4)) {
    case 0: {
      std::vector<uint8_t> block(kBlock);
      Superblock evil = s;
      evil.segment_bytes = uint64_t{1} << in.Below(64);
      evil.segments = in.Evil(kSegments);
      evil.metadata_segments = in.Evil(24);
      if (in.Below(2) == 0) (void)LayOut(&evil).ok();
      std::memcpy(block.data(), &evil, sizeof(evil));
      const std::string more = in.Rest();
      for (size_t i = 0; i + 1 < more.size() && i < 64; i += 2) {
        block[static_cast<uint8_t>(more[i]) % sizeof(evil)] ^= static_cast<uint8_t>(more[i + 1]);
      }
      const uint64_t sum = Checksum(block.data(), kBlockChecksumAt, 0);
      std::memcpy(block.data() + kBlockChecksumAt, &sum, sizeof(sum));
      const auto decoded = DecodeSuperblock(block.data());
      if (decoded.ok()) {
        FUZZ_CHECK(decoded->copy_offset() >= decoded->journal_offset[1] + decoded->journal_bytes);
        FUZZ_CHECK(decoded->metadata_bytes() < decoded->device_bytes());
      }
      PutSuperblock(s, &device);
      PutCheckpoint(s, records, known, &device);
      FUZZ_CHECK(device.Write(0, block.data(), kBlock).ok());
      break;
    }
    case 1: {
      PutSuperblock(s, &device);
      const uint64_t claimed = in.Byte();
      PutCheckpoint(s, claimed, in.Rest(), &device);
      break;
    }
    case 2:
      PutSuperblock(s, &device);
      PutCheckpoint(s, records, known, &device);
      PutBatches(s, &in, &device);
      break;
    default: {
      // Bytes anywhere, and checksums as they are.
      PutSuperblock(s, &device);
      PutCheckpoint(s, records, known, &device);
      PutBatches(s, &in, &device);
      auto image = device.Written();
      for (int i = 0; i < 4; ++i) image[in.Number<uint32_t>() % image.size()] ^= in.Byte();
      SimDevice damaged(image);
      Try(&damaged);
      return 0;
    }
  }
  Try(&device);
  return 0;
}

}  // namespace pulse::store
