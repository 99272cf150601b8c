// RunReader: properties, and the check of everything.
#include <algorithm>
#include <utility>

#include "base/crc32c.h"
#include "base/errors.h"
#include "services/graph/model/text.h"
#include "services/graph/runs/run_reader.h"

namespace pulse::graph {

using cypher::Column;
using cypher::Concat;
using cypher::Value;

ColumnGather::ColumnGather(size_t size, Column* out) : out_(out), size_(size) {
  out->kind = Column::Kind::kInts;
  out->ints.assign(size, 0);
  out->floats.clear();
  out->values.clear();
  out->valid.assign(size, 0);
}

bool ColumnGather::BeginInts() {
  if (out_->kind != Column::Kind::kInts) return false;
  any_ = true;
  return true;
}

bool ColumnGather::BeginFloats() {
  if (out_->kind == Column::Kind::kInts && !any_) {
    out_->kind = Column::Kind::kFloats;
    out_->ints.clear();
    out_->floats.assign(size_, 0);
  }
  if (out_->kind != Column::Kind::kFloats) return false;
  any_ = true;
  return true;
}

void ColumnGather::BecomeValues() {
  if (out_->kind == Column::Kind::kValues) return;
  out_->values.assign(size_, Value());
  for (size_t i = 0; i < size_; ++i) {
    if (out_->valid[i] == 0) continue;
    out_->values[i] = out_->kind == Column::Kind::kInts ? Value::Int(out_->ints[i])
                                                        : Value::Float(out_->floats[i]);
  }
  out_->kind = Column::Kind::kValues;
  out_->ints.clear();
  out_->floats.clear();
  out_->valid.clear();
}

void ColumnGather::PutInt(size_t slot, int64_t value) {
  if (BeginInts()) {
    out_->ints[slot] = value;
    out_->valid[slot] = 1;
    return;
  }
  BecomeValues();
  out_->values[slot] = Value::Int(value);
}

void ColumnGather::PutFloat(size_t slot, double value) {
  if (BeginFloats()) {
    out_->floats[slot] = value;
    out_->valid[slot] = 1;
    return;
  }
  BecomeValues();
  out_->values[slot] = Value::Float(value);
}

void ColumnGather::Put(size_t slot, Value value) {
  if (value.is_null()) {
    if (out_->kind == Column::Kind::kValues) {
      out_->values[slot] = Value();
    } else {
      out_->valid[slot] = 0;
    }
  } else if (value.is_int()) {
    PutInt(slot, value.as_int());
  } else if (value.is_float()) {
    PutFloat(slot, value.as_float());
  } else {
    BecomeValues();
    out_->values[slot] = std::move(value);
  }
}

int RunReader::KeyIndex(Token key) const {
  const auto found = std::lower_bound(info_.keys.begin(), info_.keys.end(), key);
  if (found == info_.keys.end() || *found != key) return -1;
  return static_cast<int>(found - info_.keys.begin());
}

size_t RunReader::SegmentOf(uint64_t position) const {
  // Segments are of one size but where compaction took them over.
  const size_t guess = position / (starts_[1] - starts_[0]);
  if (guess + 1 < starts_.size() && starts_[guess] <= position && position < starts_[guess + 1]) {
    return guess;
  }
  return static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), position) -
                             starts_.begin()) -
         1;
}

absl::StatusOr<const char*> RunReader::SegmentBytes(const char* bytes, size_t key_index,
                                                    size_t segment, bool check) const {
  const SegmentEntry& entry = RawSegment(key_index, segment);
  const char* at = bytes + entry.offset;
  if (check &&
      segment_checked_[key_index * segments() + segment].load(std::memory_order_acquire) == 0 &&
      Crc32c(at, entry.bytes) != entry.crc) {
    return Damaged(Concat("the checksum of property ", info_.keys[key_index], " of records ",
                          starts_[segment], " to ", starts_[segment + 1] - 1),
                   entry.offset);
  }
  return at;
}

absl::StatusOr<ColumnSegment> RunReader::ParsedSegment(const char* bytes, size_t key_index,
                                                       size_t segment) const {
  const SegmentEntry& entry = RawSegment(key_index, segment);
  std::atomic<uint8_t>& checked = segment_checked_[key_index * segments() + segment];
  PULSE_ASSIGN_OR_RETURN(const char* at, SegmentBytes(bytes, key_index, segment, true));
  auto parsed = ColumnSegment::Parse({at, entry.bytes}, entry.zone(),
                                     checked.load(std::memory_order_acquire) != 0);
  if (!parsed.ok()) {
    return Damaged(Concat("the form of property ", info_.keys[key_index], " of records ",
                          starts_[segment], " to ", starts_[segment + 1] - 1),
                   entry.offset);
  }
  if (cypher::counted_reads != nullptr && checked.load(std::memory_order_relaxed) == 0) {
    cypher::counted_reads->checked_bytes += entry.bytes;
  }
  checked.store(1, std::memory_order_release);
  return parsed;
}

ColumnZone RunReader::Zone(Token key, size_t segment) const {
  const int index = KeyIndex(key);
  if (index < 0) return {};
  return RawSegment(static_cast<size_t>(index), segment).zone();
}

absl::StatusOr<ColumnSegment> RunReader::Segment(Token key, size_t segment) const {
  const int index = KeyIndex(key);
  if (index < 0) return absl::NotFoundError(Concat("the run has no property ", key));
  return ParsedSegment(static_cast<size_t>(index), segment);
}

namespace {

// The values [first, first + n) of a segment go to slots(0), slots(1)...
template <typename SlotOf>
absl::Status PutRun(const ColumnSegment& segment, uint32_t first, uint32_t n, const SlotOf& slot_of,
                    ColumnGather* out) {
  constexpr uint32_t kSome = 256;
  const bool ints = segment.kind() == ColumnKind::kInts;
  if (ints || segment.kind() == ColumnKind::kFloats) {
    int64_t numbers[kSome];
    double floats[kSome];
    for (uint32_t done = 0; done < n; done += kSome) {
      const uint32_t now = std::min(n - done, kSome);
      if (ints) segment.ReadInts(first + done, now, numbers);
      if (!ints) segment.ReadFloats(first + done, now, floats);
      for (uint32_t i = 0; i < now; ++i) {
        if (segment.IsNull(first + done + i)) continue;
        if (ints) out->PutInt(slot_of(done + i), numbers[i]);
        if (!ints) out->PutFloat(slot_of(done + i), floats[i]);
      }
    }
    return absl::OkStatus();
  }
  for (uint32_t i = 0; i < n; ++i) {
    if (segment.IsNull(first + i)) continue;
    Value value;
    PULSE_RETURN_IF_ERROR(segment.ReadValue(first + i, &value));
    out->Put(slot_of(i), std::move(value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunReader::Gather(Token key, std::span<const uint64_t> positions,
                               std::span<const uint32_t> slots, ColumnGather* out) const {
  const int key_index = KeyIndex(key);
  if (key_index < 0) return absl::OkStatus();
  uint64_t start = 0, end = 0;  // of the segment at hand
  size_t at = 0;
  ColumnSegment segment;
  // Many records close to each other are no look-ups.
  const bool dense =
      positions.size() >= 64 && positions.back() - positions.front() < 8 * positions.size();
  const char* bytes = dense ? bytes_.data : pages_;
  for (size_t i = 0; i < positions.size();) {
    const uint64_t position = positions[i];
    if (position == kNoPosition) {
      ++i;
      continue;
    }
    if (position >= info_.records) {
      return absl::InvalidArgumentError(
          Concat("the run ", bytes_.name, " has no record ", position));
    }
    if (position < start || position >= end) {
      at = SegmentOf(position);
      PULSE_ASSIGN_OR_RETURN(segment, ParsedSegment(bytes, static_cast<size_t>(key_index), at));
      start = starts_[at];
      end = starts_[at + 1];
    }
    // As many as follow each other.
    uint32_t n = 1;
    while (i + n < positions.size() && positions[i + n] == position + n && position + n < end) ++n;
    const auto first = static_cast<uint32_t>(position - start);
    const size_t base = i;
    i += n;
    if (segment.kind() == ColumnKind::kNulls) continue;
    CountColumn(static_cast<size_t>(key_index), at, n);
    absl::Status put;
    const bool in_a_row = slots.empty() || (slots[i - 1] - slots[base] == n - 1 &&
                                            std::is_sorted(&slots[base], &slots[base] + n));
    const size_t to = slots.empty() ? base : slots[base];
    if (segment.kind() == ColumnKind::kInts && !segment.has_nulls() && in_a_row &&
        out->BeginInts()) {
      segment.ReadInts(first, n, &out->column()->ints[to]);
      std::fill_n(out->column()->valid.begin() + static_cast<std::ptrdiff_t>(to), n, uint8_t{1});
    } else if (!slots.empty()) {
      put = PutRun(
          segment, first, n, [&](uint32_t k) { return slots[base + k]; }, out);
    } else {
      put = PutRun(
          segment, first, n, [&](uint32_t k) { return base + k; }, out);
    }
    if (!put.ok()) return Damaged(put.message(), RawSegment(key_index, at).offset);
  }
  return absl::OkStatus();
}

absl::Status RunReader::ReadProperties(uint64_t position, cypher::Properties* out) const {
  out->clear();
  if (info_.keys.empty()) return absl::OkStatus();
  if (position >= info_.records) {
    return absl::InvalidArgumentError(Concat("the run ", bytes_.name, " has no record ", position));
  }
  const size_t at = SegmentOf(position);
  for (size_t k = 0; k < info_.keys.size(); ++k) {
    if (RawSegment(k, at).kind == static_cast<uint32_t>(ColumnKind::kNulls)) continue;
    PULSE_ASSIGN_OR_RETURN(const ColumnSegment segment, ParsedSegment(pages_, k, at));
    CountColumn(k, at, 1);
    Value value;
    const absl::Status read =
        segment.ReadValue(static_cast<uint32_t>(position - starts_[at]), &value);
    if (!read.ok()) return Damaged(read.message(), RawSegment(k, at).offset);
    if (!value.is_null()) out->emplace_back(info_.keys[k], std::move(value));
  }
  return absl::OkStatus();
}

absl::Status RunReader::Verify(const std::function<void(const absl::Status&)>& damaged) const {
  absl::Status first;
  const auto note = [&](const absl::Status& status) {
    if (status.ok()) return;
    if (damaged != nullptr) damaged(status);
    if (first.ok()) first = status;
  };
  for (size_t g = 0; g < group_count_; ++g) note(CheckGroup(bytes_.data, g));
  for (size_t k = 0; k < info_.keys.size(); ++k) {
    for (size_t s = 0; s < segments(); ++s) {
      segment_checked_[k * segments() + s].store(0, std::memory_order_release);
      const auto segment = ParsedSegment(k, s);
      note(segment.status());
      if (!segment.ok() || segment->kind() != ColumnKind::kValues) continue;
      for (uint32_t i = 0; i < segment->count(); ++i) {
        Value value;
        if (const absl::Status read = segment->ReadValue(i, &value); !read.ok()) {
          note(Damaged(read.message(), RawSegment(k, s).offset));
          break;
        }
      }
    }
  }
  return first;
}

absl::StatusOr<bool> EdgeLocator::Seek(NodeId node, Token type) {
  if (node_.count() == 0 || node_.node() != node) {
    have_list_ = false;
    PULSE_ASSIGN_OR_RETURN(node_, run_->Find(node));
    if (node_.count() == 0) return false;
  }
  if (have_list_ && list_.type() == type) return true;
  have_list_ = false;
  piece_ = kNoPosition;
  list_position_ = node_.position();
  NodeView::Lists lists(node_);
  while (lists.Next(&list_)) {
    if (list_.type() == type) {
      have_list_ = true;
      counted_ = list_.plain() && list_.consecutive();
      if (counted_) first_edge_ = list_.first_edge();
      return true;
    }
    list_position_ += list_.count();
  }
  return false;
}

void EdgeLocator::LoadPiece(uint64_t piece) {
  if (piece_ == piece) return;
  list_.Others(piece, others_);
  list_.Edges(piece, others_, edges_);
  piece_ = piece;
  if (cypher::counted_reads != nullptr) {
    const uint64_t records = list_.PieceCount(piece);
    cypher::counted_reads->run_records += records;
    cypher::counted_reads->run_bytes += node_.bytes() * records / node_.count();
  }
}

uint64_t EdgeLocator::Locate(NodeId other, EdgeId edge) {
  const auto here = [&](uint32_t i) { return others_[i] == other && edges_[i] == edge; };
  if (list_.plain()) {
    // The next one, as in a scan.
    if (piece_ != kNoPosition && next_ == list_.PieceCount(piece_) && piece_ + 1 < list_.pieces()) {
      LoadPiece(piece_ + 1);
      next_ = 0;
    } else if (piece_ == kNoPosition) {
      LoadPiece(0);
      next_ = 0;
    }
    if (next_ < list_.PieceCount(piece_) && here(next_)) return piece_ * kPiece + next_;
    // Where bulk load put it.
    const uint64_t ordinal = OrdinalOf(edge) - (list_position_ - node_.position());
    if (IsLocalEdgeId(edge) && ordinal < list_.count()) {
      LoadPiece(ordinal / kPiece);
      next_ = static_cast<uint32_t>(ordinal % kPiece);
      if (here(next_)) return ordinal;
    }
  }
  return list_.Find(other, edge);
}

absl::Status EdgeLocator::FindAll(std::span<const EdgeRef> edges, uint64_t sequence,
                                  uint64_t* positions) {
  const bool out = run_->info().side == Side::kOut;
  for (size_t i = 0; i < edges.size(); ++i) {
    const EdgeRef& edge = edges[i];
    if (have_list_ && counted_ && node_.node() == (out ? edge.source : edge.target) &&
        list_.type() == edge.type) {
      const uint64_t number = edge.id - first_edge_;
      positions[i] = number < list_.count() ? list_position_ + number : kNoPosition;
      continue;
    }
    PULSE_ASSIGN_OR_RETURN(const Found found, Find(edge, sequence));
    positions[i] = IsTombstone(found.stamp) ? kNoPosition : found.position;
  }
  return absl::OkStatus();
}

absl::StatusOr<EdgeLocator::Found> EdgeLocator::Find(const EdgeRef& edge, uint64_t sequence) {
  const bool out = run_->info().side == Side::kOut;
  const NodeId other = out ? edge.target : edge.source;
  PULSE_ASSIGN_OR_RETURN(const bool has, Seek(out ? edge.source : edge.target, edge.type));
  if (!has) return Found{};
  if (counted_) {
    const uint64_t number = edge.id - first_edge_;
    return Found{number < list_.count() ? list_position_ + number : kNoPosition, 0};
  }
  uint64_t at = Locate(other, edge.id);
  uint64_t stamps[kPiece];
  uint64_t stamps_of = kNoPosition;  // the piece
  for (; at < list_.count(); ++at) {
    LoadPiece(at / kPiece);
    const auto i = static_cast<uint32_t>(at % kPiece);
    next_ = i + 1;
    if (others_[i] != other || edges_[i] != edge.id) break;
    if (list_.plain()) return Found{list_position_ + at, 0};
    if (stamps_of != piece_) list_.Stamps(piece_, stamps);
    stamps_of = piece_;
    if (SequenceOf(stamps[i]) <= sequence) return Found{list_position_ + at, stamps[i]};
  }
  return Found{};
}

}  // namespace pulse::graph
