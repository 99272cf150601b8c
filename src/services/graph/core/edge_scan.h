// A scan of all relationships that a snapshot sees, from the newest level of the outgoing side to
// the oldest. Between two calls of View::ScanEdges the view keeps it; where it was lost, it is made
// again and skips what had been given.
//
// One thread at a time.
#pragma once

#include <optional>
#include <vector>

#include "services/graph/core/view.h"

namespace pulse::graph {

class View::EdgeScan {
 public:
  EdgeScan(const View* view, std::span<const Token> types)
      : layers_(view->layers().out),
        types_(types.begin(), types.end()),
        sequence_(view->sequence()),
        reader_(layers_, sequence_) {}

  static constexpr int kLevelShift = 48;
  // Level, and how many it gave.
  uint64_t position() const { return uint64_t{level_} << kLevelShift | given_; }
  bool Has(std::span<const Token> types) const {
    return std::equal(types.begin(), types.end(), types_.begin(), types_.end());
  }
  absl::Status SkipTo(uint64_t position);
  // `hint` says where they lie.
  absl::Status Fill(std::span<EdgeRef> out, size_t* count, BatchHint* hint);

 private:
  bool InChunks() const { return level_ < layers_.chunks.size(); }
  const Run& run() const { return layers_.runs[level_ - layers_.chunks.size()]; }
  absl::Status BeginLevel();
  // More to give, of this level: false at its end.
  absl::StatusOr<bool> Advance();
  absl::StatusOr<bool> NextPiece();
  size_t Give(std::span<EdgeRef> out, size_t at, BatchHint* hint);

  const SideLayers& layers_;
  const std::vector<Token> types_;
  const uint64_t sequence_;
  NodeReader reader_;

  size_t level_ = 0;
  uint64_t given_ = 0;
  bool begun_ = false;
  bool newer_hides_ = false;
  // A chunk's nodes, or a run's.
  std::vector<NodeId> nodes_;
  size_t node_at_ = 0;
  std::optional<RunReader::Cursor> cursor_;
  NodeView node_;
  std::optional<NodeView::Lists> lists_;
  ListView list_;
  uint64_t list_position_ = 0;  // of the list that comes after this one
  bool have_list_ = false;
  uint64_t piece_ = 0;
  // What can be given: a piece of a list, all of one type and in a row, or single ones.
  NodeId source_ = 0;
  Token type_ = kNoToken;
  uint32_t piece_at_ = 0, piece_count_ = 0;
  uint64_t piece_position_ = 0;
  NodeId others_[kPiece + 8];
  EdgeId edges_[kPiece + 8];
  std::vector<Neighbour> single_;
  size_t single_at_ = 0;
};

}  // namespace pulse::graph
