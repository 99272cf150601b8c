#include "services/graph/runs/merge.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "services/graph/model/text.h"
#include "services/graph/runs/run_writer.h"

namespace pulse::graph {
namespace {

// At most so many rows go into a short segment, so that whole ones of an input can be copied behind
// it; else they are decoded and join the rows before.
constexpr uint64_t kShortRows = 1024;

// One record of one input.
struct Version {
  NodeId other;
  EdgeId edge;
  uint64_t stamp;
  Token type;
  uint32_t input;
  uint64_t position;
};

// Of a record while its node is merged: a Version, and what is encoded of it.
constexpr uint64_t kVersionBytes = sizeof(Version) + 3 * sizeof(uint64_t);

bool SameEdge(const Version& a, const Version& b) {
  return a.edge == b.edge && a.other == b.other && a.type == b.type;
}
class Merge {
 public:
  using Runs = std::span<const std::shared_ptr<const RunReader>>;
  Merge(Runs runs, const MergeOptions& options, uint64_t horizon, RunWriter* writer, RunSink* sink,
        MergeStats* stats)
      : runs_(runs),
        options_(options),
        horizon_(horizon),
        writer_(*writer),
        sink_(*sink),
        stats_(*stats) {
    for (const auto& run : runs) {
      std::vector<Token> all;
      std::set_union(keys_.begin(), keys_.end(), run->info().keys.begin(), run->info().keys.end(),
                     std::back_inserter(all));
      keys_.swap(all);
    }
    at_.resize(runs.size());
    positions_.resize(runs.size());
    for (size_t i = 0; i < runs.size(); ++i) {
      const auto groups = runs[i]->groups();
      const auto first =
          std::lower_bound(groups.begin(), groups.end(), options.first_node / kGroupNodes,
                           [](const GroupEntry& e, uint64_t g) { return e.group < g; });
      at_[i] = static_cast<size_t>(first - groups.begin());
    }
  }

  absl::Status Run() {
    while (true) {
      PULSE_RETURN_IF_ERROR(sink_.Continue());
      // The next group that any input has, and who has it.
      uint64_t group = ~uint64_t{0};
      for (size_t i = 0; i < runs_.size(); ++i) {
        if (const GroupEntry* entry = Entry(i)) group = std::min(group, entry->group);
      }
      if (group > options_.last_node / kGroupNodes) break;
      having_.clear();
      for (size_t i = 0; i < runs_.size(); ++i) {
        const GroupEntry* entry = Entry(i);
        if (entry != nullptr && entry->group == group) having_.push_back(i);
      }
      if (having_.size() == 1 && CanCopyGroup(having_[0])) {
        PULSE_RETURN_IF_ERROR(CopyGroup(having_[0]));
      } else {
        PULSE_RETURN_IF_ERROR(MergeGroup(group));
      }
      for (const size_t i : having_) ++at_[i];
    }
    PULSE_RETURN_IF_ERROR(FlushRows());
    PULSE_RETURN_IF_ERROR(FlushBatch());
    CountTypes();
    return absl::OkStatus();
  }

 private:
  // Rows of one input that follow each other.
  struct Span {
    size_t input;
    uint64_t from;
    uint64_t count;
    void Take(uint64_t n) {
      from += n;
      count -= n;
    }
  };
  struct Positions {
    std::vector<uint64_t> positions;
    std::vector<uint32_t> slots;
  };
  static constexpr size_t kManySpans = 4096;
  static constexpr uint64_t kBatchRows = 4096;
  static constexpr uint64_t kBatchBytes = uint64_t{1} << 20;

  const GroupEntry* Entry(size_t input) const {
    const auto groups = runs_[input]->groups();
    return at_[input] < groups.size() ? &groups[at_[input]] : nullptr;
  }
  uint64_t EndPosition(size_t input) const {
    const auto groups = runs_[input]->groups();
    return at_[input] + 1 < groups.size() ? groups[at_[input] + 1].position
                                          : runs_[input]->info().records;
  }

  // Without stamps there is nothing to drop.
  bool CanCopyGroup(size_t input) const {
    const GroupEntry& entry = *Entry(input);
    const NodeId first = entry.group * kGroupNodes;
    return (entry.flags & GroupEntry::kVersions) == 0 && first >= options_.first_node &&
           first + (kGroupNodes - 1) <= options_.last_node;
  }

  absl::Status CopyGroup(size_t input) {
    const GroupEntry& entry = *Entry(input);
    const auto nodes = static_cast<uint64_t>(__builtin_popcountll(entry.bitmap));
    const uint64_t records = EndPosition(input) - entry.position;
    const NodeId first = entry.group * kGroupNodes;
    PULSE_ASSIGN_OR_RETURN(const char* bytes,
                           runs_[input]->GroupBytes(at_[input], options_.check_copied));
    PULSE_RETURN_IF_ERROR(writer_.AddGroup(
        entry, nodes, records, first + static_cast<unsigned>(__builtin_ctzll(entry.bitmap)),
        first + 63 - static_cast<unsigned>(__builtin_clzll(entry.bitmap)), {bytes, entry.bytes}));
    stats_.nodes_copied += nodes;
    stats_.bytes_copied += entry.bytes;
    stats_.records_in += records;
    return AddRows(input, entry.position, records);
  }

  absl::Status MergeGroup(uint64_t group) {
    views_.resize(having_.size() * kGroupNodes);
    uint64_t nodes = 0;
    std::vector<const NodeView*> next;
    std::vector<size_t> left;
    for (size_t k = 0; k < having_.size(); ++k) {
      NodeView* views = &views_[k * kGroupNodes];
      PULSE_ASSIGN_OR_RETURN(const size_t n, runs_[having_[k]]->ReadGroup(at_[having_[k]], views));
      next.push_back(views);
      left.push_back(n);
      nodes |= Entry(having_[k])->bitmap;
    }
    for (; nodes != 0; nodes &= nodes - 1) {
      const NodeId node = group * kGroupNodes + static_cast<unsigned>(__builtin_ctzll(nodes));
      sources_.clear();
      for (size_t k = 0; k < having_.size(); ++k) {
        if (left[k] == 0 || next[k]->node() != node) continue;
        sources_.emplace_back(having_[k], *next[k]);
        ++next[k];
        --left[k];
      }
      if (node < options_.first_node || node > options_.last_node) continue;
      PULSE_RETURN_IF_ERROR(MergeNode(node));
    }
    return absl::OkStatus();
  }

  absl::Status MergeNode(NodeId node) {
    bool plain = sources_.size() == 1;
    for (const auto& [input, view] : sources_) {
      stats_.records_in += view.count();
      if (!plain || (Entry(input)->flags & GroupEntry::kVersions) == 0) continue;
      NodeView::Lists lists(view);
      ListView list;
      while (lists.Next(&list)) plain = plain && list.plain();
    }
    if (plain) {
      const auto& [input, view] = sources_[0];
      PULSE_RETURN_IF_ERROR(writer_.AddBlock(node, view.count(), {view.data(), view.bytes()}));
      ++stats_.nodes_copied;
      stats_.bytes_copied += view.bytes();
      return AddRows(input, view.position(), view.count());
    }
    versions_.clear();
    uint64_t records = 0;
    for (const auto& [input, view] : sources_) records += view.count();
    if (records > options_.most_node_bytes / kVersionBytes) {
      return absl::ResourceExhaustedError(cypher::Concat(
          "the ", records, " records of node ", node, " take ", records * kVersionBytes,
          " bytes in a merge, which has ", options_.most_node_bytes));
    }
    for (const auto& [input, view] : sources_) {
      PULSE_RETURN_IF_ERROR(Decode(static_cast<uint32_t>(input), view));
    }
    PULSE_RETURN_IF_ERROR(sink_.Continue());
    std::sort(versions_.begin(), versions_.end(),
              [this](const Version& a, const Version& b) { return Before(a, b); });
    PULSE_RETURN_IF_ERROR(sink_.Continue());
    DropSuperseded();
    ++stats_.nodes_merged;
    return versions_.empty() ? absl::OkStatus() : AddVersions(node);
  }

  // Above the horizon sequences tell what is newer. Below it some are no longer stored: what a
  // newer input has is newer, and in one input they are in order.
  uint64_t Sequence(const Version& v) const {
    const uint64_t sequence = SequenceOf(v.stamp);
    return sequence > horizon_ ? sequence : 0;
  }
  // The order of a run.
  bool Before(const Version& a, const Version& b) const {
    if (a.type != b.type) return a.type < b.type;
    if (a.other != b.other) return a.other < b.other;
    if (a.edge != b.edge) return a.edge < b.edge;
    if (Sequence(a) != Sequence(b)) return Sequence(a) > Sequence(b);
    if (a.input != b.input) return a.input < b.input;
    return a.position < b.position;
  }

  absl::Status Decode(uint32_t input, const NodeView& view) {
    NodeId others[kPiece];
    EdgeId edges[kPiece];
    uint64_t stamps[kPiece];
    uint64_t position = view.position();
    NodeView::Lists lists(view);
    ListView list;
    while (lists.Next(&list)) {
      for (uint64_t piece = 0; piece < list.pieces(); ++piece) {
        if (piece % 64 == 63) PULSE_RETURN_IF_ERROR(sink_.Continue());
        const uint32_t n = list.PieceCount(piece);
        list.Others(piece, others);
        list.Edges(piece, others, edges);
        list.Stamps(piece, stamps);
        decoded_ += n;
        uint64_t& of_type = decoded_types_[list.type()];
        for (uint32_t i = 0; i < n; ++i) {
          versions_.push_back({others[i], edges[i], stamps[i], list.type(), input, position++});
          of_type += IsTombstone(stamps[i]) ? 0 : 1;
        }
      }
    }
    return absl::OkStatus();
  }

  // Keeps of each relationship the versions that some snapshot sees: all above the oldest snapshot,
  // and the first at or below it.
  void DropSuperseded() {
    size_t kept = 0;
    for (size_t i = 0; i < versions_.size();) {
      size_t end = i + 1;
      while (end < versions_.size() && SameEdge(versions_[i], versions_[end])) ++end;
      // Whether older layers have nothing of it: always when its insertion is among these.
      const bool whole = options_.bottom || !HidesOlder(versions_[end - 1].stamp);
      const size_t first_kept = kept;
      bool settled = false;
      for (size_t j = i; j < end && !settled; ++j) {
        // Of one commit there is one record; that of the newest input counts.
        if (kept > first_kept && Sequence(versions_[kept - 1]) == Sequence(versions_[j])) continue;
        settled = Sequence(versions_[j]) == 0;
        versions_[kept++] = versions_[j];
      }
      Version& oldest = versions_[kept - 1];
      stats_.versions_dropped += (end - i) - (kept - first_kept);
      if (whole && IsTombstone(oldest.stamp)) {
        ++stats_.tombstones_dropped;
        --kept;
      } else if (whole) {
        oldest.stamp &= ~kUpdate;
      }
      i = end;
    }
    versions_.resize(kept);
  }

  absl::Status AddVersions(NodeId node) {
    others_.clear();
    edges_.clear();
    stamps_.clear();
    for (const Version& v : versions_) {
      others_.push_back(v.other);
      edges_.push_back(v.edge);
      stamps_.push_back(v.stamp);
    }
    lists_.clear();
    size_t first = 0;
    for (size_t i = 0; i < versions_.size(); ++i) {
      if (i + 1 < versions_.size() && versions_[i + 1].type == versions_[i].type) continue;
      const size_t n = i + 1 - first;
      lists_.push_back(
          {versions_[i].type, {&others_[first], n}, {&edges_[first], n}, {&stamps_[first], n}});
      first = i + 1;
    }
    PULSE_RETURN_IF_ERROR(writer_.AddLists(node, lists_));
    for (const Version& v : versions_) PULSE_RETURN_IF_ERROR(AddRows(v.input, v.position, 1));
    return absl::OkStatus();
  }

  // The next rows of the output are these of an input.
  absl::Status AddRows(size_t input, uint64_t position, uint64_t count) {
    if (keys_.empty()) return absl::OkStatus();
    if (!spans_.empty()) {
      Span& last = spans_.back();
      if (last.input == input && last.from + last.count == position) {
        last.count += count;
        return absl::OkStatus();
      }
      if (spans_.size() >= kManySpans) PULSE_RETURN_IF_ERROR(FlushRows());
    }
    spans_.push_back({input, position, count});
    return absl::OkStatus();
  }

  absl::Status FlushRows() {
    for (Span& span : spans_) {
      const RunReader& run = *runs_[span.input];
      if (run.info().keys.empty()) {
        for (; span.count > 0; span.Take(std::min(span.count, kBatchRows))) {
          PULSE_RETURN_IF_ERROR(Batch(span, std::min(span.count, kBatchRows)));
        }
        continue;
      }
      while (span.count > 0) {
        const size_t segment = run.SegmentOf(span.from);
        const uint64_t end = run.SegmentStart(segment + 1);
        const uint64_t whole = end - run.SegmentStart(segment);
        const uint64_t n = std::min(span.count, end - span.from);
        // Rows before it become a segment of their own, which shall not be short for nothing.
        const uint64_t before = (rows_ + batched_) % options_.rows_per_segment;
        const uint64_t before_bytes = (bytes_ + batched_bytes_) % options_.segment_bytes;
        const bool pays = before == 0 || before >= kShortRows || span.count >= 4 * whole ||
                          before_bytes >= options_.segment_bytes / 4;
        const uint64_t bytes = SegmentBytesOf(run, segment);
        const bool large = whole >= kShortRows || bytes >= options_.segment_bytes / 4;
        if (n == whole && large && pays) {
          PULSE_RETURN_IF_ERROR(CopySegment(run, segment));
        } else {
          PULSE_RETURN_IF_ERROR(Batch(span, n));
        }
        span.Take(n);
      }
    }
    spans_.clear();
    return absl::OkStatus();
  }

  absl::Status CopySegment(const RunReader& run, size_t segment) {
    PULSE_RETURN_IF_ERROR(FlushBatch());
    PULSE_RETURN_IF_ERROR(sink_.Continue());
    PULSE_RETURN_IF_ERROR(writer_.CutRows(done_));
    raw_.clear();
    for (size_t k = 0; k < run.info().keys.size(); ++k) {
      const SegmentEntry& entry = run.RawSegment(k, segment);
      PULSE_ASSIGN_OR_RETURN(const char* bytes,
                             run.SegmentBytes(k, segment, options_.check_copied));
      raw_.push_back({run.info().keys[k], entry, {bytes, entry.bytes}});
      stats_.column_bytes_copied += entry.bytes;
    }
    const uint64_t n = run.SegmentStart(segment + 1) - run.SegmentStart(segment);
    done_ += n;
    rows_ = 0;
    bytes_ = 0;
    return writer_.AddSegments(n, raw_);
  }

  // Of all keys.
  static uint64_t SegmentBytesOf(const RunReader& run, size_t segment) {
    uint64_t bytes = 0;
    for (size_t k = 0; k < run.info().keys.size(); ++k) bytes += run.RawSegment(k, segment).bytes;
    return bytes;
  }

  // The first `n` rows of a span, of one segment, are decoded, with others. What they take in
  // memory is bounded, however large their values are.
  absl::Status Batch(const Span& span, uint64_t n) {
    const RunReader& run = *runs_[span.input];
    uint64_t row_bytes = 0;
    if (!run.info().keys.empty()) {
      const size_t segment = run.SegmentOf(span.from);
      row_bytes = SegmentBytesOf(run, segment) /
                  (run.SegmentStart(segment + 1) - run.SegmentStart(segment));
    }
    Positions& of = positions_[span.input];
    for (uint64_t i = 0; i < n; ++i) {
      of.positions.push_back(span.from + i);
      of.slots.push_back(static_cast<uint32_t>(batched_++));
      batched_bytes_ += row_bytes;
      if (batched_ >= kBatchRows || batched_bytes_ >= kBatchBytes) {
        PULSE_RETURN_IF_ERROR(FlushBatch());
      }
    }
    return absl::OkStatus();
  }

  absl::Status FlushBatch() {
    if (batched_ == 0) return absl::OkStatus();
    PULSE_RETURN_IF_ERROR(sink_.Continue());
    for (const Token key : keys_) {
      PULSE_RETURN_IF_ERROR(writer_.FillNulls(key, done_));
      ColumnGather gather(batched_, &column_);
      for (size_t i = 0; i < runs_.size(); ++i) {
        const Positions& of = positions_[i];
        if (of.positions.empty()) continue;
        std::span<const uint32_t> slots = of.slots;
        if (slots.size() == batched_) slots = {};  // all, in their order
        PULSE_RETURN_IF_ERROR(runs_[i]->Gather(key, of.positions, slots, &gather));
      }
      if (column_.kind == cypher::Column::Kind::kValues) {
        PULSE_RETURN_IF_ERROR(writer_.AppendValues(key, column_.values));
      } else if (std::find(column_.valid.begin(), column_.valid.end(), 1) == column_.valid.end()) {
        PULSE_RETURN_IF_ERROR(writer_.FillNulls(key, done_ + batched_));
      } else if (column_.kind == cypher::Column::Kind::kInts) {
        PULSE_RETURN_IF_ERROR(writer_.AppendInts(key, column_.ints, column_.valid));
      } else {
        PULSE_RETURN_IF_ERROR(writer_.AppendFloats(key, column_.floats, column_.valid));
      }
    }
    done_ += batched_;
    rows_ += batched_;
    bytes_ += batched_bytes_;
    batched_ = 0;
    batched_bytes_ = 0;
    for (Positions& of : positions_) {
      of.positions.clear();
      of.slots.clear();
    }
    return absl::OkStatus();
  }

  // Types of what was copied, which was not looked at: exact where the range is everything.
  void CountTypes() {
    uint64_t records = 0, all_types = 0;
    std::map<Token, uint64_t> types;
    for (const auto& run : runs_) {
      records += run->info().records;
      for (const auto& [type, count] : run->info().types) {
        types[type] += count;
        all_types += count;
      }
    }
    const bool whole = stats_.records_in == records;
    const uint64_t copied = stats_.records_in - decoded_;
    for (const auto& [type, count] : types) {
      const uint64_t decoded = std::min(decoded_types_[type], count);
      const double share = static_cast<double>(count) / static_cast<double>(all_types);
      writer_.CountType(type, whole ? count - decoded
                                    : static_cast<uint64_t>(static_cast<double>(copied) * share));
    }
  }

  const Runs runs_;
  const MergeOptions& options_;
  const uint64_t horizon_;  // no snapshot is older
  RunWriter& writer_;
  RunSink& sink_;
  MergeStats& stats_;
  std::vector<Token> keys_;
  std::vector<size_t> at_;      // each input's next group
  std::vector<size_t> having_;  // inputs that have the group at hand
  std::vector<NodeView> views_;
  std::vector<std::pair<size_t, NodeView>> sources_;
  std::vector<Version> versions_;
  std::vector<NodeId> others_;
  std::vector<EdgeId> edges_;
  std::vector<uint64_t> stamps_;
  std::vector<ListInput> lists_;

  uint64_t decoded_ = 0;  // records
  std::map<Token, uint64_t> decoded_types_;

  std::vector<Span> spans_;
  std::vector<Positions> positions_;  // of the batch, by input
  uint64_t batched_ = 0;
  uint64_t batched_bytes_ = 0;  // about
  uint64_t done_ = 0;           // rows that the writer has
  uint64_t rows_ = 0;           // of them, since a segment was copied
  uint64_t bytes_ = 0;          // the same in bytes
  cypher::Column column_;
  std::vector<RunWriter::RawSegment> raw_;
};

}  // namespace

absl::StatusOr<MergeResult> MergeRuns(std::span<const std::shared_ptr<const RunReader>> runs,
                                      const MergeOptions& options, CopyEngine* engine,
                                      RunSink* sink) {
  if (runs.empty()) return absl::InvalidArgumentError("a merge needs a run at least");
  if (options.rows_per_segment < 64 || options.rows_per_segment > kMostSegmentRows ||
      options.segment_bytes == 0) {
    return absl::InvalidArgumentError(
        "rows_per_segment of a run is between 64 and 2^20, segment_bytes above 0");
  }
  RunOptions out;
  out.side = runs[0]->info().side;
  out.horizon = options.oldest_snapshot;
  out.rows_per_segment = options.rows_per_segment;
  out.segment_bytes = options.segment_bytes;
  for (const auto& run : runs) {
    if (run->info().side != out.side) {
      return absl::InvalidArgumentError("a merge of runs of both directions");
    }
    out.horizon = std::max(out.horizon, run->info().horizon);
  }
  MergeResult result;
  PlanExecutor executor(engine, options.executor);
  RunOutput output(sink, &executor, options.buffer_bytes);
  RunWriter writer(out, &output);
  Merge merge(runs, options, out.horizon, &writer, sink, &result.stats);
  PULSE_RETURN_IF_ERROR(merge.Run());
  PULSE_ASSIGN_OR_RETURN(result.info, writer.Finish());
  result.stats.records_out = result.info.records;
  result.stats.bytes_encoded = writer.bytes_encoded();
  result.stats.column_bytes_encoded = writer.column_bytes_encoded();
  result.stats.copies = executor.stats();
  result.stats.waited_ns = output.waited_ns();
  return result;
}

}  // namespace pulse::graph
