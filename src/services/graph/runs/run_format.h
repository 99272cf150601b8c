// The bytes of a run: one direction of many relationships in CSR order, as a file or in memory.
// docs/reference/graph-run-format.md is the specification; a change here raises kRunVersion and
// changes that page. Little-endian. Section III-A of the DSA paper (sorted lists), with an exact
// index in place of its hash indexes.
//
//   RunHeader | group data and column segments, in any order | key tables | index | meta |
//   RunFooter
//
// A group is 64 nodes, the number of the first divided by 64: a directory (how many records and how
// many bytes each node has) and then the nodes' blocks, each self-contained. What compaction copies
// are blocks, groups and column segments. Every byte of a run is covered by the magic or by one of
// its checksums, or is one of the zeros in front of the tables.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "services/graph/runs/column.h"
#include "services/graph/runs/record.h"

namespace pulse::graph {

inline constexpr uint32_t kRunVersion = 1;
inline constexpr char kRunMagic[8] = {'P', 'U', 'L', 'S', 'E', 'R', 'U', 'N'};
inline constexpr uint64_t kGroupNodes = 64;
// No writer makes longer segments of rows.
inline constexpr uint64_t kMostSegmentRows = uint64_t{1} << 20;
// No list has more records to a byte: 256 records of no bits take four bytes at least.
inline constexpr uint64_t kMostRecordsOfByte = 64;

struct RunHeader {
  char magic[8];
  uint32_t version;
  uint32_t crc;  // of the fields before
};
static_assert(sizeof(RunHeader) == 16);

// One for each group that has a node, ascending.
struct GroupEntry {
  static constexpr uint32_t kVersions = 1;  // some list has stamps

  uint64_t group = 0;
  uint64_t bitmap = 0;    // of its nodes
  uint64_t offset = 0;    // of its directory, in the file
  uint64_t bytes = 0;     // directory and blocks
  uint64_t position = 0;  // of its first record, counted from the first of the run
  uint32_t crc = 0;       // of its bytes
  uint32_t flags = 0;
};
static_assert(sizeof(GroupEntry) == 48);

// One for each key and row segment. Rows are records by position; all keys share the cuts.
struct SegmentEntry {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  int64_t min = 0;
  int64_t max = 0;
  uint32_t count = 0;
  uint32_t nulls = 0;
  uint32_t crc = 0;
  uint32_t kind = 0;

  ColumnZone zone() const { return {static_cast<ColumnKind>(kind), count, nulls, min, max}; }
};
static_assert(sizeof(SegmentEntry) == 48);

struct RunFooter {
  uint64_t index_offset = 0;
  uint64_t groups = 0;
  uint64_t tables_offset = 0;  // of the tables of segments, one after the other
  uint64_t segments = 0;       // of each key
  uint64_t meta_offset = 0;
  uint64_t file_bytes = 0;
  uint32_t tables_crc = 0;
  uint32_t index_crc = 0;
  uint32_t meta_crc = 0;
  uint32_t crc = 0;  // of the fields before
  char magic[8] = {};
};
static_assert(sizeof(RunFooter) == 72);

// What a run says of itself.
struct RunInfo {
  Side side = Side::kOut;
  uint64_t bytes = 0;
  uint64_t nodes = 0;
  uint64_t records = 0;
  uint64_t tombstones = 0;
  uint64_t updates = 0;
  NodeId first_node = 0;  // where records > 0
  NodeId last_node = 0;
  // Of records that have a sequence; 0: none has. Others are visible to every snapshot.
  uint64_t max_sequence = 0;
  uint64_t horizon = 0;
  std::vector<Token> keys;  // ascending
  // Records that are no tombstones, by type, ascending. An estimate of relationships: a
  // relationship with several versions counts for each.
  std::vector<std::pair<Token, uint64_t>> types;
};

}  // namespace pulse::graph
