// What a store reads for a query, and what the query spills: PROFILE's costs. A thread says where
// its reads are to be counted; the store adds to it once for a batch or for a node's list, and
// nothing where nobody counts.
//
// Threads: each has its own. Who starts threads for a part of a query gives each of them counts and
// adds these up (Add).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace pulse::cypher {

struct ReadCounts {
  // A set of layers, by their place from the newest on; from the 64th on they are one.
  class Layers {
   public:
    void Add(size_t layer) { bits_ |= uint64_t{1} << std::min<size_t>(layer, 63); }
    void Add(const Layers& other) { bits_ |= other.bits_; }
    uint64_t count() const { return static_cast<uint64_t>(std::popcount(bits_)); }

   private:
    uint64_t bits_ = 0;
  };

  uint64_t nodes = 0;       // looked at
  uint64_t seeks = 0;       // in indexes
  uint64_t properties = 0;  // values that were asked for
  // Records of relationships, those of layer 0 and those of sorted runs.
  uint64_t chunk_records = 0, run_records = 0;
  // Layers that had some of them, of outgoing relationships and of incoming ones.
  std::array<Layers, 2> chunks, runs;
  uint64_t run_bytes = 0;         // of lists and columns in runs
  uint64_t checked_bytes = 0;     // that nobody had read before: with their checksums
  uint64_t skipped_segments = 0;  // of columns, whose least and greatest values excluded a match
  uint64_t page_faults = 0;       // for which a file was read
  uint64_t spilled_bytes = 0;     // written to temporary files

  void Add(const ReadCounts& other) {
    nodes += other.nodes;
    seeks += other.seeks;
    properties += other.properties;
    chunk_records += other.chunk_records;
    run_records += other.run_records;
    for (size_t side = 0; side < 2; ++side) {
      chunks[side].Add(other.chunks[side]);
      runs[side].Add(other.runs[side]);
    }
    run_bytes += other.run_bytes;
    checked_bytes += other.checked_bytes;
    skipped_segments += other.skipped_segments;
    page_faults += other.page_faults;
    spilled_bytes += other.spilled_bytes;
  }
  // What drivers call database hits.
  uint64_t hits() const { return nodes + seeks + properties + chunk_records + run_records; }
  uint64_t chunks_touched() const { return chunks[0].count() + chunks[1].count(); }
  uint64_t runs_touched() const { return runs[0].count() + runs[1].count(); }
};

// Where this thread's reads are counted; null: nowhere.
inline constinit thread_local ReadCounts* counted_reads = nullptr;

// Counts this thread's reads in *counts while it lives, and afterwards where they were before.
class CountReadsIn {
 public:
  explicit CountReadsIn(ReadCounts* counts) : before_(counted_reads) { counted_reads = counts; }
  ~CountReadsIn() { counted_reads = before_; }
  CountReadsIn(const CountReadsIn&) = delete;
  CountReadsIn& operator=(const CountReadsIn&) = delete;

 private:
  ReadCounts* const before_;
};

}  // namespace pulse::cypher
