// What a relationship is in the layers of the graph store: the packed record of layer 0 (32 bytes,
// one for each direction), its stamp, and how its identifier may be chosen. Section III-A of the
// DSA paper, whose records take 100 bytes.
//
// A record does not say whose it is: chunks (chunk.h) and runs (run_reader.h) are ordered by that
// node. Of one relationship there may be several records, each a version with its stamp.
#pragma once

#include <cstdint>

#include "services/graph/model/value.h"

namespace pulse::graph {

using cypher::EdgeId;
using cypher::EdgeRef;
using cypher::kNoToken;
using cypher::NodeId;
using cypher::Token;
using cypher::Value;

// Which end of its relationships owns a chunk, or a run: kOut, the source; kIn, the target.
enum class Side : uint8_t { kOut = 0, kIn = 1 };

// Commit sequence and what the commit did to the relationship. Sequences are below 2^62. Greater
// stamps are newer; of one commit and relationship there is one record.
inline constexpr uint64_t kTombstone = 1;  // it was deleted
inline constexpr uint64_t kUpdate = 2;     // it had a version before: properties changed
inline constexpr uint64_t kMaxSequence = (uint64_t{1} << 62) - 1;
// No commit gets a greater one, and a file that says one is damaged.
inline constexpr uint64_t kMaxStoredSequence = kMaxSequence / 2;
constexpr uint64_t MakeStamp(uint64_t sequence, uint64_t flags = 0) {
  return sequence << 2 | flags;
}
constexpr uint64_t SequenceOf(uint64_t stamp) { return stamp >> 2; }
constexpr bool IsTombstone(uint64_t stamp) { return (stamp & kTombstone) != 0; }
// Whether an older version of it may lie in an older layer, which this record hides.
constexpr bool HidesOlder(uint64_t stamp) { return (stamp & (kTombstone | kUpdate)) != 0; }

inline constexpr uint32_t kNoRecord = ~uint32_t{0};

struct Record {
  NodeId other = 0;
  EdgeId edge = 0;
  uint64_t stamp = 0;
  uint32_t previous = kNoRecord;  // of the same node, in the same chunk
  Token type = kNoToken;
};
static_assert(sizeof(Record) == 32);

// Identifiers. Either the store counts (below 2^52), or a relationship is numbered within its
// source, which takes runs a bit or two where a counted one takes twenty: the other direction's
// runs then store only the ordinal. Both kinds stay below 2^53, as a double holds them.
//
// Who gives local identifiers out makes sure that each is given once: bulk load gives them to the
// relationships of nodes that it creates itself, transactions count.
inline constexpr EdgeId kLocalEdgeIds = EdgeId{1} << 52;
inline constexpr int kOrdinalBits = 20;
inline constexpr NodeId kMaxLocalSource = (NodeId{1} << (52 - kOrdinalBits)) - 1;
inline constexpr uint64_t kMaxOrdinal = (uint64_t{1} << kOrdinalBits) - 1;
constexpr bool IsLocalEdgeId(EdgeId id) { return (id >> 52) == 1; }
constexpr bool IsEdgeId(EdgeId id) { return (id >> 53) == 0; }  // of either kind
// source <= kMaxLocalSource, ordinal <= kMaxOrdinal.
constexpr EdgeId LocalEdgeId(NodeId source, uint64_t ordinal) {
  return kLocalEdgeIds | source << kOrdinalBits | ordinal;
}
constexpr uint64_t OrdinalOf(EdgeId id) { return id & kMaxOrdinal; }
constexpr NodeId SourceOfLocal(EdgeId id) { return (id & (kLocalEdgeIds - 1)) >> kOrdinalBits; }

}  // namespace pulse::graph
