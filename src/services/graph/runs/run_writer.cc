#include "services/graph/runs/run_writer.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/errors.h"
#include "services/graph/model/text.h"
#include "services/graph/runs/value_codec.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

// Column bytes of one key are written in pieces of about this size.
constexpr size_t kPendingBytes = size_t{1} << 20;
constexpr uint64_t kMaxListRecords = uint64_t{1} << 31;

int WidthBytes(uint64_t most) {
  return most < 256 ? 1 : most < 65536 ? 2 : most <= 0xffffffffu ? 4 : 8;
}

void AppendNumber(uint64_t value, int bytes, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), static_cast<size_t>(bytes));
}

template <typename T>
absl::string_view BytesOf(const T& object) {
  return {reinterpret_cast<const char*>(&object), sizeof(object)};
}

absl::Status OutOfOrder(NodeId node, std::string_view what) {
  return absl::InvalidArgumentError(Concat("a run cannot be written: at node ", node, ", ", what));
}

// What EncodeBlock relies on.
absl::Status CheckLists(NodeId node, std::span<const ListInput> lists) {
  if (lists.empty()) return OutOfOrder(node, "no list of relationships");
  for (size_t l = 0; l < lists.size(); ++l) {
    const ListInput& list = lists[l];
    const size_t n = list.others.size();
    if (n == 0 || n > kMaxListRecords || list.edges.size() != n ||
        (!list.stamps.empty() && list.stamps.size() != n)) {
      return OutOfOrder(node, "a list whose columns differ in length, or which is too long");
    }
    if (l > 0 && lists[l - 1].type >= list.type) return OutOfOrder(node, "types do not ascend");
    for (size_t i = 1; i < n; ++i) {
      if (list.others[i - 1] < list.others[i]) continue;
      const bool same = list.others[i - 1] == list.others[i];
      const bool edges_ascend = list.edges[i - 1] < list.edges[i] ||
                                (list.edges[i - 1] == list.edges[i] && !list.stamps.empty() &&
                                 list.stamps[i - 1] >= list.stamps[i]);
      if (!same || !edges_ascend) return OutOfOrder(node, "relationships are out of order");
    }
  }
  return absl::OkStatus();
}

}  // namespace

RunWriter::RunWriter(const RunOptions& options, RunOutput* output)
    : options_(options), output_(output) {
  info_.side = options.side;
  info_.horizon = options.horizon;
  RunHeader header{};
  std::memcpy(header.magic, kRunMagic, sizeof(kRunMagic));
  header.version = kRunVersion;
  header.crc = Crc32c(&header, offsetof(RunHeader, crc));
  // Into an empty buffer, which cannot fail.
  output_->Append(BytesOf(header)).IgnoreError();
}

absl::Status RunWriter::StartNode(NodeId node) {
  if (info_.nodes > 0 && node <= info_.last_node) {
    return OutOfOrder(node, "nodes do not ascend");
  }
  const uint64_t group = node / kGroupNodes;
  if (group_.bitmap != 0 && group_.group != group) PULSE_RETURN_IF_ERROR(FlushGroup());
  if (group_.bitmap == 0) {
    group_ = {};
    group_.group = group;
    group_.position = info_.records;
  }
  group_.bitmap |= uint64_t{1} << (node % kGroupNodes);
  if (info_.nodes == 0) info_.first_node = node;
  info_.last_node = node;
  ++info_.nodes;
  return absl::OkStatus();
}

absl::Status RunWriter::AddLists(NodeId node, std::span<const ListInput> lists) {
  PULSE_RETURN_IF_ERROR(CheckLists(node, lists));
  PULSE_RETURN_IF_ERROR(StartNode(node));
  const size_t begin = scratch_.size();
  if (EncodeBlock(node, options_.side, lists, options_.horizon, &scratch_)) {
    group_.flags |= GroupEntry::kVersions;
  }
  uint64_t records = 0;
  for (const ListInput& list : lists) {
    records += list.others.size();
    uint64_t tombstones = 0;
    for (const uint64_t stamp : list.stamps) {
      tombstones += IsTombstone(stamp) ? 1 : 0;
      info_.updates += !IsTombstone(stamp) && (stamp & kUpdate) != 0 ? 1 : 0;
      if (SequenceOf(stamp) > options_.horizon) {
        info_.max_sequence = std::max(info_.max_sequence, SequenceOf(stamp));
      }
    }
    info_.tombstones += tombstones;
    CountType(list.type, list.others.size() - tombstones);
  }
  parts_.push_back({records, scratch_.size() - begin, nullptr});
  bytes_encoded_ += scratch_.size() - begin;
  info_.records += records;
  return absl::OkStatus();
}

absl::Status RunWriter::AddBlock(NodeId node, uint64_t count, absl::string_view block) {
  PULSE_RETURN_IF_ERROR(StartNode(node));
  parts_.push_back({count, block.size(), block.data()});
  info_.records += count;
  return absl::OkStatus();
}

absl::Status RunWriter::AddGroup(const GroupEntry& entry, uint64_t nodes, uint64_t records,
                                 NodeId first, NodeId last, absl::string_view bytes) {
  if (info_.nodes > 0 && first <= info_.last_node) return OutOfOrder(first, "nodes do not ascend");
  PULSE_RETURN_IF_ERROR(FlushGroup());
  GroupEntry copy = entry;
  copy.offset = output_->offset();
  copy.position = info_.records;
  index_.push_back(copy);
  if (info_.nodes == 0) info_.first_node = first;
  info_.last_node = last;
  info_.nodes += nodes;
  info_.records += records;
  return output_->AppendByPlan(bytes);
}

absl::Status RunWriter::FlushGroup() {
  if (group_.bitmap == 0) return absl::OkStatus();
  uint64_t most_count = 0, most_bytes = 0;
  for (const Part& part : parts_) {
    most_count = std::max(most_count, part.count);
    most_bytes = std::max(most_bytes, part.bytes);
  }
  const int count_width = WidthBytes(most_count), bytes_width = WidthBytes(most_bytes);
  std::string directory;
  directory.push_back(static_cast<char>(count_width));
  directory.push_back(static_cast<char>(bytes_width));
  for (const Part& part : parts_) AppendNumber(part.count, count_width, &directory);
  for (const Part& part : parts_) AppendNumber(part.bytes, bytes_width, &directory);
  group_.offset = output_->offset();
  group_.crc = Crc32c(directory.data(), directory.size());
  bytes_encoded_ += directory.size();
  PULSE_RETURN_IF_ERROR(output_->Append(directory));
  size_t in_scratch = 0;
  for (const Part& part : parts_) {
    const char* from = part.source != nullptr ? part.source : scratch_.data() + in_scratch;
    group_.crc = ExtendCrc32c(group_.crc, from, part.bytes);
    if (part.source != nullptr) {
      PULSE_RETURN_IF_ERROR(output_->AppendByPlan({from, part.bytes}));
    } else {
      in_scratch += part.bytes;
      PULSE_RETURN_IF_ERROR(output_->Append({from, part.bytes}));
    }
  }
  group_.bytes = output_->offset() - group_.offset;
  index_.push_back(group_);
  group_ = {};
  parts_.clear();
  scratch_.clear();
  return absl::OkStatus();
}

RunWriter::KeyColumn* RunWriter::ColumnOf(Token key) {
  for (const auto& column : columns_) {
    if (column->key == key) return column.get();
  }
  columns_.push_back(std::make_unique<KeyColumn>());
  KeyColumn* column = columns_.back().get();
  column->key = key;
  return column;
}

uint64_t RunWriter::rows(Token key) const {
  for (const auto& column : columns_) {
    if (column->key == key) return column->rows;
  }
  return 0;
}

uint64_t RunWriter::SegmentEnd(const KeyColumn& column) {
  const size_t segment = column.entries.size();
  if (segment < cuts_.size()) return cuts_[segment];
  return (cuts_.empty() ? 0 : cuts_.back()) + options_.rows_per_segment;
}

absl::Status RunWriter::AfterRows(KeyColumn* column) {
  if (column->rows < SegmentEnd(*column)) return absl::OkStatus();
  if (column->entries.size() == cuts_.size()) cuts_.push_back(column->rows);
  return EncodeSegment(column, column->buffer.size());
}

absl::Status RunWriter::CutHere(const KeyColumn& column) {
  const size_t segment = cuts_.size();
  const uint64_t end = column.rows;
  cuts_.push_back(end);
  for (const auto& other : columns_) {
    if (other->entries.size() != segment || other->rows < end) continue;
    PULSE_RETURN_IF_ERROR(EncodeSegment(other.get(), other->buffer.size() - (other->rows - end)));
  }
  return absl::OkStatus();
}

absl::Status RunWriter::EncodeSegment(KeyColumn* column, uint64_t n) {
  const size_t begin = column->pending.size();
  PULSE_ASSIGN_OR_RETURN(const ColumnZone zone, column->buffer.Encode(n, &column->pending));
  SegmentEntry entry;
  entry.offset = begin;
  entry.bytes = column->pending.size() - begin;
  entry.crc = Crc32c(column->pending.data() + begin, entry.bytes);
  entry.min = zone.min;
  entry.max = zone.max;
  entry.count = zone.count;
  entry.nulls = zone.nulls;
  entry.kind = static_cast<uint32_t>(zone.kind);
  column->entries.push_back(entry);
  column_bytes_encoded_ += entry.bytes;
  return column->pending.size() >= kPendingBytes ? FlushPending(column) : absl::OkStatus();
}

absl::Status RunWriter::FlushPending(KeyColumn* column) {
  for (size_t i = column->first_pending; i < column->entries.size(); ++i) {
    column->entries[i].offset += output_->offset();
  }
  column->first_pending = column->entries.size();
  PULSE_RETURN_IF_ERROR(output_->Append(column->pending));
  column->pending.clear();
  return absl::OkStatus();
}

template <typename Number>
absl::Status RunWriter::AppendNumbers(Token key, std::span<const Number> values,
                                      std::span<const uint8_t> valid,
                                      void (ColumnBuffer::*append)(std::span<const Number>,
                                                                   std::span<const uint8_t>)) {
  KeyColumn* column = ColumnOf(key);
  if (column->rows + values.size() > info_.records) {
    return absl::InvalidArgumentError("a run has more properties than relationships");
  }
  while (!values.empty()) {
    const size_t n = std::min<size_t>(values.size(), SegmentEnd(*column) - column->rows);
    (column->buffer.*append)(values.first(n), valid.empty() ? valid : valid.first(n));
    column->rows += n;
    values = values.subspan(n);
    if (!valid.empty()) valid = valid.subspan(n);
    PULSE_RETURN_IF_ERROR(AfterRows(column));
  }
  return absl::OkStatus();
}

absl::Status RunWriter::AppendInts(Token key, std::span<const int64_t> values,
                                   std::span<const uint8_t> valid) {
  return AppendNumbers(key, values, valid, &ColumnBuffer::AppendInts);
}

absl::Status RunWriter::AppendFloats(Token key, std::span<const double> values,
                                     std::span<const uint8_t> valid) {
  return AppendNumbers(key, values, valid, &ColumnBuffer::AppendFloats);
}

absl::Status RunWriter::AppendValues(Token key, std::span<const cypher::Value> values) {
  KeyColumn* column = ColumnOf(key);
  if (column->rows + values.size() > info_.records) {
    return absl::InvalidArgumentError("a run has more properties than relationships");
  }
  for (const cypher::Value& value : values) {
    column->buffer.AppendValue(value);
    ++column->rows;
    // Where other keys have cut already, it ends there, too.
    const bool first = column->entries.size() == cuts_.size();
    if (first && column->buffer.bytes() >= options_.segment_bytes) {
      PULSE_RETURN_IF_ERROR(CutHere(*column));
    } else {
      PULSE_RETURN_IF_ERROR(AfterRows(column));
    }
  }
  return absl::OkStatus();
}

absl::Status RunWriter::FillNulls(Token key, uint64_t rows) {
  KeyColumn* column = ColumnOf(key);
  if (rows > info_.records) {
    return absl::InvalidArgumentError("a run has more properties than relationships");
  }
  while (column->rows < rows) {
    const uint64_t n = std::min(rows, SegmentEnd(*column)) - column->rows;
    column->buffer.AppendNulls(n);
    column->rows += n;
    PULSE_RETURN_IF_ERROR(AfterRows(column));
  }
  return absl::OkStatus();
}

absl::Status RunWriter::CutRows(uint64_t rows) {
  // Columns that are behind meet the automatic cuts on their way.
  for (const auto& column : columns_) PULSE_RETURN_IF_ERROR(FillNulls(column->key, rows));
  if (rows == (cuts_.empty() ? 0 : cuts_.back())) return absl::OkStatus();
  cuts_.push_back(rows);
  for (const auto& column : columns_) PULSE_RETURN_IF_ERROR(AfterRows(column.get()));
  return absl::OkStatus();
}

absl::Status RunWriter::AddSegments(uint64_t rows, std::span<const RawSegment> segments) {
  PULSE_RETURN_IF_ERROR(CutRows(cuts_.empty() ? 0 : cuts_.back()));
  const uint64_t end = (cuts_.empty() ? 0 : cuts_.back()) + rows;
  for (const RawSegment& segment : segments) {
    PULSE_RETURN_IF_ERROR(FillNulls(segment.key, end - rows));
    KeyColumn* column = ColumnOf(segment.key);
    PULSE_RETURN_IF_ERROR(FlushPending(column));
    SegmentEntry entry = segment.entry;
    entry.offset = output_->offset();
    column->entries.push_back(entry);
    column->first_pending = column->entries.size();
    column->rows = end;
    PULSE_RETURN_IF_ERROR(output_->AppendByPlan(segment.bytes));
  }
  cuts_.push_back(end);
  for (const auto& column : columns_) {
    if (column->rows == end) continue;
    column->buffer.AppendNulls(rows);
    column->rows = end;
    PULSE_RETURN_IF_ERROR(AfterRows(column.get()));
  }
  return absl::OkStatus();
}

std::string RunWriter::MetaBytes() const {
  std::string meta;
  for (const uint64_t number :
       {static_cast<uint64_t>(info_.side), info_.nodes, info_.records, info_.tombstones,
        info_.updates, info_.first_node, info_.last_node, info_.max_sequence, info_.horizon}) {
    AppendVarint(number, &meta);
  }
  AppendVarint(info_.keys.size(), &meta);
  for (const Token key : info_.keys) AppendVarint(key, &meta);
  AppendVarint(info_.types.size(), &meta);
  for (const auto& [type, records] : info_.types) {
    AppendVarint(type, &meta);
    AppendVarint(records, &meta);
  }
  AppendVarint(cuts_.size(), &meta);
  uint64_t start = 0;
  for (const uint64_t end : cuts_) {
    AppendVarint(end - start, &meta);
    start = end;
  }
  return meta;
}

absl::StatusOr<RunInfo> RunWriter::Finish() {
  PULSE_RETURN_IF_ERROR(FlushGroup());
  if (!columns_.empty()) PULSE_RETURN_IF_ERROR(CutRows(info_.records));
  std::sort(columns_.begin(), columns_.end(),
            [](const auto& a, const auto& b) { return a->key < b->key; });
  for (const auto& column : columns_) PULSE_RETURN_IF_ERROR(FlushPending(column.get()));
  info_.keys.clear();
  for (const auto& column : columns_) info_.keys.push_back(column->key);
  info_.types.clear();
  for (const auto& type : types_) {
    if (type.second > 0) info_.types.push_back(type);
  }

  RunFooter footer;
  footer.segments = cuts_.size();
  // Entries are read where they lie.
  PULSE_RETURN_IF_ERROR(output_->Append(std::string((8 - output_->offset() % 8) % 8, '\0')));
  footer.tables_offset = output_->offset();
  for (const auto& column : columns_) {
    const absl::string_view table(reinterpret_cast<const char*>(column->entries.data()),
                                  column->entries.size() * sizeof(SegmentEntry));
    footer.tables_crc = ExtendCrc32c(footer.tables_crc, table.data(), table.size());
    PULSE_RETURN_IF_ERROR(output_->Append(table));
  }
  footer.index_offset = output_->offset();
  footer.groups = index_.size();
  const absl::string_view index(reinterpret_cast<const char*>(index_.data()),
                                index_.size() * sizeof(GroupEntry));
  footer.index_crc = Crc32c(index.data(), index.size());
  PULSE_RETURN_IF_ERROR(output_->Append(index));
  footer.meta_offset = output_->offset();
  const std::string meta = MetaBytes();
  footer.meta_crc = Crc32c(meta.data(), meta.size());
  PULSE_RETURN_IF_ERROR(output_->Append(meta));
  footer.file_bytes = output_->offset() + sizeof(footer);
  footer.crc = Crc32c(&footer, offsetof(RunFooter, crc));
  std::memcpy(footer.magic, kRunMagic, sizeof(kRunMagic));
  PULSE_RETURN_IF_ERROR(output_->Append(BytesOf(footer)));
  PULSE_RETURN_IF_ERROR(output_->Finish());
  info_.bytes = footer.file_bytes;
  return info_;
}

}  // namespace pulse::graph
