#include "services/graph/core/edge_scan.h"

#include <algorithm>

#include "base/errors.h"
#include "services/graph/core/read_costs.h"

namespace pulse::graph {

absl::Status View::EdgeScan::BeginLevel() {
  begun_ = true;
  given_ = 0;
  node_at_ = 0;
  have_list_ = false;
  lists_.reset();
  newer_hides_ = false;
  for (size_t i = 0; i < level_; ++i) {
    newer_hides_ |= i < layers_.chunks.size() ? layers_.chunks[i]->hides()
                                              : layers_.runs[i - layers_.chunks.size()].hides();
  }
  if (InChunks()) {
    nodes_.clear();
    layers_.chunks[level_]->chunk().Nodes(&nodes_);
  } else {
    cursor_.emplace(run().reader.get());
  }
  return absl::OkStatus();
}

// The next piece of a run whose records are taken as they are.
absl::StatusOr<bool> View::EdgeScan::NextPiece() {
  while (true) {
    if (have_list_ && piece_ < list_.pieces()) {
      piece_count_ = list_.PieceCount(piece_);
      piece_at_ = 0;
      piece_position_ = list_position_ + piece_ * kPiece;
      list_.Others(piece_, others_);
      list_.Edges(piece_, others_, edges_);
      ++piece_;
      return true;
    }
    if (lists_.has_value()) {
      if (have_list_) list_position_ += list_.count();
      have_list_ = lists_->Next(&list_);
      piece_ = 0;
      if (have_list_) {
        type_ = list_.type();
        if (!HasType(types_, type_)) piece_ = list_.pieces();
        continue;
      }
      lists_.reset();
    }
    PULSE_ASSIGN_OR_RETURN(const bool more, cursor_->Next(&node_));
    if (!more) return false;
    CountList(cypher::counted_reads, node_, level_ - layers_.chunks.size());
    source_ = node_.node();
    list_position_ = node_.position();
    lists_.emplace(node_);
  }
}

absl::StatusOr<bool> View::EdgeScan::Advance() {
  if (!InChunks() && !newer_hides_ && !run().hides() &&
      run().reader->info().max_sequence <= sequence_) {
    return NextPiece();
  }
  single_.clear();
  single_at_ = 0;
  while (single_.empty()) {
    if (InChunks()) {
      if (node_at_ == nodes_.size()) return false;
      source_ = nodes_[node_at_++];
    } else {
      PULSE_ASSIGN_OR_RETURN(const bool more, cursor_->Next(&node_));
      if (!more) return false;
      source_ = node_.node();
    }
    if (newer_hides_) {
      PULSE_RETURN_IF_ERROR(reader_.StartAt(source_, level_, types_));
    } else {
      reader_.Start(source_, level_);
    }
    PULSE_RETURN_IF_ERROR(reader_.ReadLevel(types_, &single_));
  }
  return true;
}

size_t View::EdgeScan::Give(std::span<EdgeRef> out, size_t at, BatchHint* hint) {
  const auto put = [hint](uint32_t slot, uint32_t count, const RunReader* run, uint64_t position) {
    if (!hint->ranges.empty()) {
      BatchHint::Range& last = hint->ranges.back();
      if (last.run == run && (run == nullptr || last.position + last.count == position)) {
        last.count += count;
        return;
      }
    }
    hint->ranges.push_back({slot, count, run, position});
  };
  size_t n = std::min<size_t>(piece_count_ - piece_at_, out.size() - at);
  if (n > 0) {
    EdgeRef* to = out.data() + at;
    for (size_t i = 0; i < n; ++i) {
      to[i] = {edges_[piece_at_ + i], source_, others_[piece_at_ + i], type_};
    }
    hint->ids.insert(hint->ids.end(), edges_ + piece_at_, edges_ + piece_at_ + n);
    put(static_cast<uint32_t>(at), static_cast<uint32_t>(n), run().reader.get(),
        piece_position_ + piece_at_);
    piece_at_ += static_cast<uint32_t>(n);
    return n;
  }
  n = std::min(single_.size() - single_at_, out.size() - at);
  for (size_t i = 0; i < n; ++i) {
    const Neighbour& found = single_[single_at_ + i];
    out[at + i] = {found.edge, source_, found.other, found.type};
    hint->ids.push_back(found.edge);
    put(static_cast<uint32_t>(at + i), 1, InChunks() ? nullptr : run().reader.get(),
        found.position);
  }
  single_at_ += n;
  return n;
}

absl::Status View::EdgeScan::Fill(std::span<EdgeRef> out, size_t* count, BatchHint* hint) {
  *count = 0;
  while (*count < out.size() && level_ < layers_.levels()) {
    if (!begun_ && !InChunks() && !HasAny(run().reader->info(), types_)) {
      ++level_;
      continue;
    }
    if (!begun_) PULSE_RETURN_IF_ERROR(BeginLevel());
    const size_t n = Give(out, *count, hint);
    *count += n;
    given_ += n;
    if (n > 0) continue;
    PULSE_ASSIGN_OR_RETURN(const bool more, Advance());
    if (more) continue;
    ++level_;
    begun_ = false;
    given_ = 0;
  }
  return absl::OkStatus();
}

absl::Status View::EdgeScan::SkipTo(uint64_t position) {
  level_ = position >> kLevelShift;
  uint64_t left = position & ((uint64_t{1} << kLevelShift) - 1);
  std::vector<EdgeRef> skipped(1024);
  while (left > 0) {
    BatchHint hint;
    size_t count;
    PULSE_RETURN_IF_ERROR(
        Fill({skipped.data(), std::min<uint64_t>(left, skipped.size())}, &count, &hint));
    if (count == 0) return absl::OkStatus();
    left -= count;
  }
  return absl::OkStatus();
}

}  // namespace pulse::graph
