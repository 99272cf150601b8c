// What a host and the agent's half of the operators say to each other inside the rings of a message
// group (channel/group_wire.h). docs/reference/protocol.md has the same in prose; a change here
// raises kServiceVersion. Section 4.2 of the co-processing paper.
//
// kPrepare makes an operator of the host's number, kChunk has it process one chunk, kDrop ends it.
// kReport tells what the host's placement decided for one, for the agent's metrics.
// A response has the result's bytes, or minus the code of an absl::Status and a text for people.
// The peer is untrusted: what is used was copied once and checked; the CRC-32 of what crosses is
// compared before it is used.
#pragma once

#include <cstdint>
#include <type_traits>

namespace pulse::ops::remote {

inline constexpr uint32_t kServiceId = 2;
inline constexpr uint32_t kServiceVersion = 4;

enum class MessageKind : uint16_t { kPrepare = 1, kDrop = 2, kChunk = 3, kReport = 4 };
inline uint16_t KindOf(MessageKind kind) { return static_cast<uint16_t>(kind); }

// The hello's answer tells, in its first fact: threads (16 bits) and, above, the versions of the
// codecs as one number (CodecVersions). In its second: which engines there are, by EngineBit.
inline constexpr int kThreadBits = 16;
inline constexpr int kDecoderBit = 8;
inline constexpr int kFilterBit = 16;

// kPrepare, then `text_bytes`: the members of an EngineOrder. kDrop: nothing follows, and only
// `number` counts.
struct Prepare {
  uint64_t id;        // comes back in the response
  uint32_t number;    // of the operator
  uint32_t text_crc;  // CRC-32 of the text
  uint64_t text_bytes;
  uint8_t kind;
  uint8_t codec;
  uint8_t format;
  uint8_t level;
  uint32_t reserved;  // 0
};
static_assert(sizeof(Prepare) == 32 && std::is_trivially_copyable_v<Prepare>);

// kChunk, then `bytes`: the members of a Chunk (engine.h).
struct ChunkRequest {
  uint64_t id;
  uint64_t number;
  uint64_t offset;
  uint64_t prefix;  // of the bytes
  uint64_t bytes;
  uint64_t tag;
  uint32_t operator_number;
  uint32_t crc;  // CRC-32 of the bytes
  uint32_t checksum;
  uint32_t kind;
  uint32_t last;
  uint32_t reserved;  // 0
};
static_assert(sizeof(ChunkRequest) == 72 && std::is_trivially_copyable_v<ChunkRequest>);

// In front of the result's bytes: the members of a Result.
struct ChunkAnswer {
  uint64_t bytes;
  uint64_t count;
  int64_t busy_nanos;  // that its thread worked on it
  uint32_t checksum;
  uint32_t crc;  // CRC-32 of the bytes
};
static_assert(sizeof(ChunkAnswer) == 32 && std::is_trivially_copyable_v<ChunkAnswer>);

// kReport: a PlacementReport (placement_report.h). Rates in bytes per second.
struct Report {
  struct OfSide {
    uint64_t chunks;
    uint64_t bytes;
    uint64_t redone;
    uint64_t rate;
    uint64_t refused;
    uint64_t discarded;
    uint64_t lost;
    uint64_t busy_nanos;
  };
  uint64_t id;
  uint32_t operator_number;
  uint8_t placement;  // a Placement::Kind
  uint8_t ended;
  uint16_t reserved;  // 0
  OfSide host;
  OfSide agent;
  uint64_t whole;
  uint64_t before_nanos;
};
static_assert(sizeof(Report) == 160 && std::is_trivially_copyable_v<Report>);
// No count of a report is larger, no rate (17 TB/s) and no set-up (4.9 hours).
inline constexpr uint64_t kMostReported = uint64_t{1} << 50;
inline constexpr uint64_t kMostRate = uint64_t{1} << 44;
inline constexpr uint64_t kMostSetUp = uint64_t{1} << 44;

// No part of a text for people is longer.
inline constexpr uint64_t kMostText = 2048;

}  // namespace pulse::ops::remote
