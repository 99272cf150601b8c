// Properties of relationships, and whether there are these: by what a scan remembers, from memory,
// or from the runs.
#include <algorithm>
#include <bit>

#include "base/errors.h"
#include "services/graph/core/edge_scan.h"
#include "services/graph/core/read_costs.h"
#include "services/graph/core/view.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

// The numbers of a range of positions, where all are integers.
absl::StatusOr<bool> ReadIntRange(const RunReader& run, Token key, uint64_t position, size_t count,
                                  int64_t* ints, uint8_t* valid) {
  if (!run.HasKey(key)) return false;
  while (count > 0) {
    const size_t segment = run.SegmentOf(position);
    const auto first = static_cast<uint32_t>(position - run.SegmentStart(segment));
    if (run.Zone(key, segment).kind != ColumnKind::kInts) return false;
    PULSE_ASSIGN_OR_RETURN(const ColumnSegment column, run.Segment(key, segment));
    const auto n = static_cast<uint32_t>(std::min<size_t>(count, column.count() - first));
    run.CountColumn(static_cast<size_t>(run.KeyIndex(key)), segment, n);
    column.ReadInts(first, n, ints);
    if (column.has_nulls()) {
      column.ReadValid(first, n, valid);
    } else {
      std::fill(valid, valid + n, uint8_t{1});
    }
    position += n;
    ints += n;
    valid += n;
    count -= n;
  }
  return true;
}

void PutBytes(size_t slot, std::string_view properties, Token key, ColumnGather* gather) {
  std::string_view bytes = FindProperty(properties, key);
  if (bytes.empty()) return;
  int64_t number;
  if (cypher::ReadInt(&bytes, &number)) return gather->PutInt(slot, number);
  Value value;
  if (cypher::ReadValue(&bytes, &value)) gather->Put(slot, std::move(value));
}

// Whether a bound may hold for a value of a segment: where it holds for none at the zone's end, it
// holds for none between. It never does for null and NaN.
bool MayHold(const cypher::Bound& bound, const ColumnZone& zone) {
  const int64_t end = bound.kind == cypher::Bound::Kind::kAtMost ? zone.min : zone.max;
  Value value;
  switch (zone.kind) {
    case ColumnKind::kNulls:
      return false;
    case ColumnKind::kInts:
      value = Value::Int(end);
      break;
    case ColumnKind::kFloats:
      value = Value::Float(std::bit_cast<double>(end));
      break;
    default:
      return true;
  }
  const int order = cypher::Compare(value, bound.value);
  return order == 0 || order == (bound.kind == cypher::Bound::Kind::kAtMost ? -1 : 1);
}

}  // namespace

// False: there is no such hint, or it does not help.
bool View::ReadHinted(Token key, std::span<const EdgeRef> edges, Column* out,
                      absl::Status* status) const {
  std::shared_ptr<BatchHint> hint;
  {
    std::lock_guard lock(scans_mu_);
    for (auto it = hints_.rbegin(); it != hints_.rend() && hint == nullptr; ++it) {
      if ((*it)->ids.size() == edges.size() && (*it)->ids.front() == edges.front().id) hint = *it;
    }
  }
  if (hint == nullptr) return false;
  for (size_t i = 0; i < edges.size(); ++i) {
    if (edges[i].id != hint->ids[i]) return false;
  }
  // Most often: one integer for each, out of one run.
  out->kind = Column::Kind::kInts;
  out->ints.resize(edges.size());
  out->valid.resize(edges.size());
  bool ints = true;
  for (const BatchHint::Range& range : hint->ranges) {
    if (range.run == nullptr) {
      ints = false;
      break;
    }
    const auto read = ReadIntRange(*range.run, key, range.position, range.count,
                                   out->ints.data() + range.slot, out->valid.data() + range.slot);
    if (!read.ok()) return *status = read.status(), true;
    if (!*read) {
      ints = false;
      break;
    }
  }
  if (ints) return true;
  ColumnGather gather(edges.size(), out);
  std::vector<uint64_t> positions;
  std::vector<uint32_t> slots;
  for (const BatchHint::Range& range : hint->ranges) {
    if (range.run == nullptr) {
      for (uint32_t i = range.slot; i < range.slot + range.count; ++i) {
        tables_->edges.Read(edges[i].id, sequence_, [&](std::string_view properties) {
          PutBytes(i, properties, key, &gather);
        });
      }
      continue;
    }
    if (!range.run->HasKey(key)) continue;
    positions.resize(range.count);
    slots.resize(range.count);
    for (uint32_t i = 0; i < range.count; ++i) {
      positions[i] = range.position + i;
      slots[i] = range.slot + i;
    }
    *status = range.run->Gather(key, positions, slots, &gather);
    if (!status->ok()) return true;
  }
  return true;
}

bool View::PlainRun(size_t level) const {
  const SideLayers& layers = layers_->out;
  for (size_t i = 0; i < std::min(level, layers.chunks.size()); ++i) {
    if (layers.chunks[i]->hides()) return false;
  }
  for (size_t i = layers.chunks.size(); i <= level; ++i) {
    if (layers.runs[i - layers.chunks.size()].hides()) return false;
  }
  const Run& run = layers.runs[level - layers.chunks.size()];
  return run.reader->info().max_sequence <= sequence_;
}

absl::Status View::ReadPositions(const RunReader& run, Token key, uint64_t position, size_t count,
                                 Column* out) const {
  out->kind = Column::Kind::kInts;
  out->ints.resize(count);
  out->valid.resize(count);
  PULSE_ASSIGN_OR_RETURN(const bool ints, ReadIntRange(run, key, position, count, out->ints.data(),
                                                       out->valid.data()));
  if (ints) return absl::OkStatus();
  ColumnGather gather(count, out);
  if (!run.HasKey(key)) return absl::OkStatus();
  std::vector<uint64_t> positions(count);
  for (size_t i = 0; i < count; ++i) positions[i] = position + i;
  return run.Gather(key, positions, {}, &gather);
}

const RunReader* View::RunOfColumns(std::span<const Token> types, uint64_t* position,
                                    uint64_t* given) const {
  const SideLayers& layers = layers_->out;
  while (true) {
    const size_t level = *position >> EdgeScan::kLevelShift;
    *given = *position & ((uint64_t{1} << EdgeScan::kLevelShift) - 1);
    if (level < layers.chunks.size() && layers.chunks[level]->chunk().size() == 0) {
      *position = uint64_t{level + 1} << EdgeScan::kLevelShift;
      continue;
    }
    if (level < layers.chunks.size() || level >= layers.levels() || !PlainRun(level))
      return nullptr;
    const RunReader* const run = layers.runs[level - layers.chunks.size()].reader.get();
    if (!HasOnly(run->info(), types)) return nullptr;
    if (*given < run->info().records) return run;
    *position = uint64_t{level + 1} << EdgeScan::kLevelShift;
  }
}

// Where a run is shown as it is, its columns are what is wanted, and no list is decoded.
absl::StatusOr<size_t> View::ScanEdgeProperty(std::span<const Token> types, Token key,
                                              uint64_t* position, size_t limit, Column* out) const {
  uint64_t given;
  const RunReader* const run = RunOfColumns(types, position, &given);
  if (run == nullptr) return GraphView::ScanEdgeProperty(types, key, position, limit, out);
  const size_t count = std::min<uint64_t>(limit, run->info().records - given);
  PULSE_RETURN_IF_ERROR(ReadPositions(*run, key, given, count, out));
  if (ReadCounts* const counts = cypher::counted_reads) {
    counts->properties += count;
    counts->runs[0].Add((*position >> EdgeScan::kLevelShift) - layers_->out.chunks.size());
  }
  *position += count;
  return count;
}

// All keys of a run have their segments at the same rows.
size_t View::SkipEdges(std::span<const Token> types, std::span<const cypher::PropertyBound> bounds,
                       uint64_t* position) const {
  uint64_t given;
  while (const RunReader* const run = RunOfColumns(types, position, &given)) {
    if (run->info().keys.empty()) return run->info().records - given;
    const size_t segment = run->SegmentOf(given);
    const uint64_t left = run->SegmentStart(segment + 1) - given;
    // Of a property that the run does not have, the zone is that of nulls.
    if (std::all_of(bounds.begin(), bounds.end(), [&](const cypher::PropertyBound& bound) {
          return MayHold(bound.bound, run->Zone(bound.key, segment));
        })) {
      return left;
    }
    *position += left;
    if (cypher::counted_reads != nullptr) ++cypher::counted_reads->skipped_segments;
  }
  return ~size_t{0};
}

absl::Status View::ReadEdgeProperty(Token key, std::span<const EdgeRef> edges, Column* out) const {
  if (cypher::counted_reads != nullptr) cypher::counted_reads->properties += edges.size();
  absl::Status status;
  if (!edges.empty() && ReadHinted(key, edges, out, &status)) return status;
  ColumnGather gather(edges.size(), out);
  const std::vector<Run>& runs = layers_->out.runs;
  std::vector<EdgeLocator> locators;
  locators.reserve(runs.size());
  for (const Run& run : runs) locators.emplace_back(run.reader.get());
  std::vector<std::vector<uint64_t>> positions(runs.size());
  std::vector<std::vector<uint32_t>> slots(runs.size());
  for (size_t i = 0; i < edges.size(); ++i) {
    const auto found = tables_->edges.Read(
        edges[i].id, sequence_,
        [&](std::string_view properties) { PutBytes(i, properties, key, &gather); });
    if (found != EdgeVersions::Found::kNone) continue;
    for (size_t r = 0; r < runs.size(); ++r) {
      PULSE_ASSIGN_OR_RETURN(const auto at, locators[r].Find(edges[i], sequence_));
      if (at.position == kNoPosition) continue;
      if (!IsTombstone(at.stamp)) {
        positions[r].push_back(at.position);
        slots[r].push_back(static_cast<uint32_t>(i));
      }
      break;
    }
  }
  for (size_t r = 0; r < runs.size(); ++r) {
    if (positions[r].empty() || !runs[r].reader->HasKey(key)) continue;
    if (cypher::counted_reads != nullptr) cypher::counted_reads->runs[0].Add(r);
    PULSE_RETURN_IF_ERROR(runs[r].reader->Gather(key, positions[r], slots[r], &gather));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> View::EdgeBytes(const EdgeRef& edge, std::string* bytes) const {
  bytes->clear();
  switch (tables_->edges.Read(edge.id, sequence_,
                              [&](std::string_view properties) { *bytes = properties; })) {
    case EdgeVersions::Found::kVersion:
      return true;
    case EdgeVersions::Found::kDeleted:
      return false;
    case EdgeVersions::Found::kNone:
      break;
  }
  ReadCounts* const counts = cypher::counted_reads;
  if (counts != nullptr) ++counts->properties;
  for (size_t c = 0; c < layers_->out.chunks.size(); ++c) {
    const Chunk& chunk = layers_->out.chunks[c]->chunk();
    for (uint32_t at = chunk.Head(edge.source); at != kNoRecord;) {
      const Record& record = chunk.record(at);
      at = record.previous;
      CountChunk(counts, Side::kOut, c, 1);
      if (record.edge != edge.id || SequenceOf(record.stamp) > sequence_) continue;
      return !IsTombstone(record.stamp);
    }
  }
  for (size_t r = 0; r < layers_->out.runs.size(); ++r) {
    const Run& run = layers_->out.runs[r];
    PULSE_ASSIGN_OR_RETURN(const auto found, EdgeLocator(run.reader.get()).Find(edge, sequence_));
    if (found.position == kNoPosition) continue;
    if (counts != nullptr) counts->runs[0].Add(r);
    if (IsTombstone(found.stamp)) return false;
    Properties properties;
    PULSE_RETURN_IF_ERROR(run.reader->ReadProperties(found.position, &properties));
    *bytes = EncodeProperties(properties);
    return true;
  }
  return false;
}

absl::StatusOr<bool> View::EdgeExists(const EdgeRef& edge) const {
  std::string bytes;
  return EdgeBytes(edge, &bytes);
}

absl::Status View::ReadEdgeProperties(const EdgeRef& edge, Properties* out) const {
  std::string bytes;
  PULSE_ASSIGN_OR_RETURN(const bool found, EdgeBytes(edge, &bytes));
  if (!found) return absl::NotFoundError(Concat("there is no relationship ", edge.id));
  if (!DecodeProperties(bytes, out)) {
    return absl::DataLossError(Concat("the properties of relationship ", edge.id, " are damaged"));
  }
  return absl::OkStatus();
}

}  // namespace pulse::graph
