// RunReader: reads one run, from memory or a mapped file. Neighbours of a node by an exact index
// (bitmap and base for each 64 nodes), scans in CSR order, properties by position.
//
// Damage: index and tables are checked when a run is opened, a group's or a segment's checksum and
// structure when it is first touched. What does not fit is DataLoss that names the run, the nodes
// and the offset; no content of a run, whatever made it, is read outside its bytes.
//
// Threads: any, at the same time. Blocks on page faults where the bytes are a mapped file. Views
// live as long as the reader.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/model/graph.h"
#include "services/graph/model/read_counts.h"
#include "services/graph/runs/list.h"
#include "services/graph/runs/run_format.h"

namespace pulse::graph {

struct RunBytes {
  const char* data = nullptr;
  uint64_t size = 0;
  // The same bytes for look-ups (ForLookups); null: those of `data`.
  const char* pages = nullptr;
  std::string name;                   // for errors: the file's path
  std::shared_ptr<const void> owner;  // keeps the bytes
};

// Maps `size` bytes from `offset` on of a file, for reading.
absl::StatusOr<RunBytes> MapRun(const std::string& path, uint64_t offset = 0,
                                uint64_t size = ~uint64_t{0});
RunBytes OwnRun(std::string bytes, std::string name);
// Maps a mapped file once more, so that a look-up whose page is not in memory reads that page
// alone, and not what the kernel reads around it for those who read all. Bytes that are no mapped
// file are given back as they are.
RunBytes ForLookups(RunBytes bytes);

inline constexpr uint64_t kNoPosition = ~uint64_t{0};

// Fills a cypher::Column slot by slot, in any order, from several runs and from elsewhere. Slots
// that nobody puts are null. The column stays one of numbers as long as all that is put is of one
// kind.
class ColumnGather {
 public:
  // Makes `out` a column of `size` nulls.
  ColumnGather(size_t size, cypher::Column* out);
  void PutInt(size_t slot, int64_t value);
  void PutFloat(size_t slot, double value);
  void Put(size_t slot, cypher::Value value);  // also null

  // Makes it a column of integers, if it can be one, and says whether it is: then its vectors may
  // be written directly.
  bool BeginInts();
  bool BeginFloats();
  cypher::Column* column() { return out_; }

 private:
  void BecomeFloats();
  void BecomeValues();
  cypher::Column* out_;
  size_t size_;
  bool any_ = false;
};

class RunReader {
 public:
  // DataLoss: damaged; FailedPrecondition: a version that this program does not know.
  static absl::StatusOr<std::shared_ptr<const RunReader>> Open(RunBytes bytes);
  // A damaged run, for salvage: it needs a whole footer, index and meta data. Without its tables of
  // segments it has no properties. Appends what else is wrong to *damage.
  static absl::StatusOr<std::shared_ptr<const RunReader>> OpenDamaged(
      RunBytes bytes, std::vector<std::string>* damage);

  const RunInfo& info() const { return info_; }
  const std::string& name() const { return bytes_.name; }

  // Whether the run has records of a node; exact, and does not touch the node's data.
  bool Contains(NodeId node) const {
    const GroupEntry* entry = FindGroup(node / kGroupNodes);
    return entry != nullptr && (entry->bitmap >> (node % kGroupNodes) & 1) != 0;
  }
  // count() 0 where there are none.
  absl::StatusOr<NodeView> Find(NodeId node) const;
  // Adds to `counts` how many records each node has.
  absl::Status AddCounts(std::span<const NodeId> nodes, std::span<uint64_t> counts) const;
  // Brings a node's entry of the index, and where its group begins, into the cache.
  void PrefetchNode(NodeId node) const {
    const GroupEntry* entry = FindGroup(node / kGroupNodes);
    if (entry != nullptr) __builtin_prefetch(pages_ + entry->offset);
  }

  // Finds nodes one after the other; the next one of a group goes on where the last one ended,
  // instead of adding up the group's lengths again. One thread.
  class Finder {
   public:
    explicit Finder(const RunReader* run) : run_(run) {}
    // view->count() is 0 where there are none.
    absl::Status Find(NodeId node, NodeView* view) {
      const uint64_t bit = uint64_t{1} << (node % kGroupNodes);
      if (node / kGroupNodes != group_ || (left_ & (bit | (bit - 1))) != bit) {
        return Seek(node, view);
      }
      Take(node, view);
      return absl::OkStatus();
    }

   private:
    absl::Status Seek(NodeId node, NodeView* view);
    static uint64_t NumberAt(const char* numbers, unsigned width, uint64_t mask, unsigned i) {
      uint64_t word;
      std::memcpy(&word, numbers + width * i, sizeof(word));
      return word & mask;
    }
    void Take(NodeId node, NodeView* view) {
      const uint64_t count = NumberAt(counts_, count_width_, count_mask_, at_);
      const uint64_t bytes = NumberAt(lengths_, bytes_width_, bytes_mask_, at_);
      *view = NodeView(node, side_, count, position_, block_, bytes);
      position_ += count;
      block_ += bytes;
      ++at_;
      left_ &= left_ - 1;
    }

    const RunReader* run_;
    const GroupEntry* entry_ = nullptr;
    uint64_t group_ = ~uint64_t{0};
    // Of the group.
    Side side_ = Side::kOut;
    unsigned count_width_ = 0, bytes_width_ = 0;
    uint64_t count_mask_ = 0, bytes_mask_ = 0;
    const char* counts_ = nullptr;
    const char* lengths_ = nullptr;
    const char* blocks_ = nullptr;
    // The nodes that are not behind, the number of the first of them, and where it begins.
    uint64_t left_ = 0;
    unsigned at_ = 0;
    uint64_t position_ = 0;
    const char* block_ = nullptr;
  };

  // Nodes in order, of [first, last].
  class Cursor {
   public:
    explicit Cursor(const RunReader* run, NodeId first = 0, NodeId last = ~NodeId{0});
    // False: no more.
    absl::StatusOr<bool> Next(NodeView* view);
    // The same by groups: up to kGroupNodes views. 0: no more.
    absl::StatusOr<size_t> NextGroup(NodeView* views);

   private:
    const RunReader* run_;
    NodeId first_, last_;
    size_t group_;
    NodeView views_[kGroupNodes];
    size_t at_ = 0, count_ = 0;
  };

  // Properties; runs of side kOut have them.
  bool HasKey(Token key) const { return KeyIndex(key) >= 0; }
  // The values at `positions` go to `slots` of the column (empty: to 0, 1, 2...). kNoPosition is
  // skipped. Ascending positions are read fastest.
  absl::Status Gather(Token key, std::span<const uint64_t> positions,
                      std::span<const uint32_t> slots, ColumnGather* out) const;
  // All properties of one record, by ascending key.
  absl::Status ReadProperties(uint64_t position, cypher::Properties* out) const;
  // Row segments: zones without reading data, and the segments themselves.
  size_t segments() const { return starts_.empty() ? 0 : starts_.size() - 1; }
  uint64_t SegmentStart(size_t segment) const { return starts_[segment]; }
  ColumnZone Zone(Token key, size_t segment) const;
  absl::StatusOr<ColumnSegment> Segment(Token key, size_t segment) const;

  // Reads and checks everything. Calls `damaged` for each piece that is not what it should be, and
  // returns the first as DataLoss.
  absl::Status Verify(const std::function<void(const absl::Status&)>& damaged = {}) const;

  // For compaction.
  std::span<const GroupEntry> groups() const { return {groups_, group_count_}; }
  // The views of one group's nodes.
  absl::StatusOr<size_t> ReadGroup(size_t group, NodeView* views) const;
  // The bytes of a group, and whether to check them.
  absl::StatusOr<const char*> GroupBytes(size_t group, bool check) const;
  // The entry of a segment and its bytes.
  const SegmentEntry& RawSegment(size_t key_index, size_t segment) const {
    return segment_entries_[key_index * segments() + segment];
  }
  absl::StatusOr<const char*> SegmentBytes(size_t key_index, size_t segment, bool check) const {
    return SegmentBytes(bytes_.data, key_index, segment, check);
  }
  absl::StatusOr<ColumnSegment> ParsedSegment(size_t key_index, size_t segment) const {
    return ParsedSegment(bytes_.data, key_index, segment);
  }
  // The segment that a position lies in.
  size_t SegmentOf(uint64_t position) const;
  // Tells who counts that `rows` values of a segment are read: their share of its bytes.
  void CountColumn(size_t key_index, size_t segment, uint64_t rows) const {
    if (cypher::counted_reads == nullptr) return;
    const SegmentEntry& entry = RawSegment(key_index, segment);
    cypher::counted_reads->run_bytes += entry.bytes * rows / entry.count;
  }
  int KeyIndex(Token key) const;

 private:
  RunReader() = default;
  // `damage` null: all of it is an error.
  absl::Status Load(std::vector<std::string>* damage);
  absl::Status LoadMeta(const RunFooter& footer);
  absl::Status LoadIndex(const RunFooter& footer, uint64_t* covered);
  absl::Status LoadTables(const RunFooter& footer, uint64_t* covered);
  absl::Status CheckPadding(const RunFooter& footer, uint64_t covered) const;
  absl::Status Damaged(absl::string_view what, uint64_t offset) const;
  // `bytes`: those of data or of pages, whichever the caller reads.
  absl::Status CheckGroup(const char* bytes, size_t group) const;
  absl::Status Touch(const char* bytes, size_t group) const {
    if (group_checked_[group].load(std::memory_order_acquire) != 0) return absl::OkStatus();
    return CheckGroup(bytes, group);
  }
  absl::StatusOr<const char*> SegmentBytes(const char* bytes, size_t key_index, size_t segment,
                                           bool check) const;
  absl::StatusOr<ColumnSegment> ParsedSegment(const char* bytes, size_t key_index,
                                              size_t segment) const;
  const GroupEntry* FindGroup(uint64_t group) const {
    if (group < first_group_ || group > last_group_) return nullptr;
    if (dense_) return &groups_[group - first_group_];
    if (direct_.empty()) return SearchGroup(group);
    const uint32_t at = direct_[group - first_group_];
    return at == kNoRecord ? nullptr : &groups_[at];
  }
  const GroupEntry* SearchGroup(uint64_t group) const;

  RunBytes bytes_;
  const char* pages_ = nullptr;  // for look-ups
  RunInfo info_;
  const GroupEntry* groups_ = nullptr;
  size_t group_count_ = 0;
  uint64_t first_group_ = 1, last_group_ = 0;  // none
  bool dense_ = false;                         // every group between has an entry
  std::vector<uint32_t> direct_;       // else: group to entry, where that takes little memory
  std::vector<GroupEntry> unaligned_;  // where the bytes are not aligned
  std::vector<uint64_t> starts_;       // of row segments, and the end
  std::vector<SegmentEntry> segment_entries_;
  // 1: checked, and good.
  std::unique_ptr<std::atomic<uint8_t>[]> group_checked_;
  std::unique_ptr<std::atomic<uint8_t>[]> segment_checked_;
};

// Finds records of relationships in a run of side kOut (by source) or kIn (by target). Remembers
// where it was: relationships in the order of a scan or an expansion cost no search. One thread.
class EdgeLocator {
 public:
  explicit EdgeLocator(const RunReader* run) : run_(run) {}

  struct Found {
    uint64_t position = kNoPosition;  // none
    uint64_t stamp = 0;
  };
  // The newest record with at most this sequence.
  absl::StatusOr<Found> Find(const EdgeRef& edge, uint64_t sequence = kMaxSequence);
  // The positions of many, or kNoPosition. A record that is a tombstone counts as none.
  absl::Status FindAll(std::span<const EdgeRef> edges, uint64_t sequence, uint64_t* positions);

 private:
  const RunReader* run_;
  // Makes list_ the one that has `type` of `node`; false: there is none.
  absl::StatusOr<bool> Seek(NodeId node, Token type);
  void LoadPiece(uint64_t piece);
  // The number in list_ of the newest record, or its count.
  uint64_t Locate(NodeId other, EdgeId edge);

  NodeView node_;
  ListView list_;
  uint64_t list_position_ = 0;
  EdgeId first_edge_ = 0;
  bool have_list_ = false;
  bool counted_ = false;  // list_ is plain and consecutive
  uint64_t piece_ = kNoPosition;
  uint32_t next_ = 0;
  NodeId others_[kPiece + 8];
  EdgeId edges_[kPiece + 8];
};

}  // namespace pulse::graph
