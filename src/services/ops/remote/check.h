// Checks of what the other side sent, before it is used: orders and chunks on the agent, results on
// the host. Pure; thread-safe.
//
// A result is checked by what the format and the chunk say of it: sizes, framing, and every
// checksum that there is. Whether compressed bytes mean the right data only decompression tells:
// the caller asks for that now and then. Whether the right records were selected only a filter
// tells, which is the caller's.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/ops/engine.h"
#include "services/ops/engine_order.h"

namespace pulse::ops::remote {

uint32_t Crc32(absl::string_view bytes);

// One number for the versions of all codecs: processes in which it is the same write the same bytes
// with codecs that are portable.
uint32_t CodecVersions();
// The engines of this release, one bit each: codecs from bit 0, decoders from kDecoderBit on, the
// filter.
uint64_t EngineBits();
uint64_t EngineBit(const EngineOrder& order);
// "compress with isal, zlib ...; decompress ...; filter", of those bits.
std::string EngineNames(uint64_t bits);

// InvalidArgument: no operation of this release does this.
absl::Status CheckOrder(const EngineOrder& order);
// InvalidArgument: this chunk is none that such an operator may be given: its engine would rely on
// what is not so. ResourceExhausted: it could become so large that the host had better do it.
absl::Status CheckChunk(const EngineOrder& order, const Chunk& chunk);

// What the host checks of `result`, whose checksum it corrects to what it computed itself. DataLoss
// says what is wrong. `decode`: also that compressed bytes mean the chunk's data.
absl::Status CheckResult(const EngineOrder& order, const Chunk& chunk, bool decode, Result& result);

}  // namespace pulse::ops::remote
