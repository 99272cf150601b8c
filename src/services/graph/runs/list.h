// Blocks of nodes in a run: the relationships of one node and direction, as one list for each type.
// A block is self-contained and is copied as it is. Other ends are ascending and stored as
// differences, identifiers as a frame and bits, stamps only where a list has some.
//
// Views point into the run; the reader checked a block (CheckBlock) before it hands one out, so
// that nothing here can fail or read outside it by more than 8 bytes. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "services/graph/runs/record.h"

namespace pulse::graph {

// Lists are decoded in pieces of so many records; the last one of a list may be shorter.
inline constexpr uint32_t kPiece = 256;

// One type's relationships of one node, sorted by other end, then identifier, then newest first.
class ListView {
 public:
  Token type() const { return type_; }
  uint64_t count() const { return count_; }
  uint64_t pieces() const { return (count_ + kPiece - 1) / kPiece; }
  uint32_t PieceCount(uint64_t piece) const {
    const uint64_t left = count_ - piece * kPiece;
    return left < kPiece ? static_cast<uint32_t>(left) : kPiece;
  }
  // The other ends of a piece; PieceCount(piece) values.
  void Others(uint64_t piece, NodeId* out) const;
  // Its identifiers. `others` are what Others() gave for it.
  void Edges(uint64_t piece, const NodeId* others, EdgeId* out) const;
  // Whether all its records are insertions that every snapshot sees: the usual case, in which
  // stamps need not be looked at.
  bool plain() const { return versions_ == nullptr; }
  // The stamps of a piece. Sequence 0: at most the run's horizon.
  void Stamps(uint64_t piece, uint64_t* out) const;
  // Whether identifiers count up from that of the first record, so that they tell a record's
  // number.
  bool consecutive() const { return consecutive_ && (!local_ || side_ == Side::kOut); }
  EdgeId first_edge() const;
  // How many records have this other end.
  uint64_t CountOther(NodeId other) const;
  // The first record, which is the newest, of a relationship, or count().
  uint64_t Find(NodeId other, EdgeId edge) const;

 private:
  friend class NodeView;
  friend struct ListLayout;
  // The first piece behind which none begins with less than `other`: it may end in it.
  uint64_t PieceOf(NodeId other) const;
  Token type_ = kNoToken;
  Side side_ = Side::kOut;
  bool local_ = false;
  bool consecutive_ = false;
  uint8_t other_width_ = 0;
  uint8_t edge_width_ = 0;
  NodeId node_ = 0;
  uint64_t count_ = 0;
  uint64_t other_base_ = 0;
  uint64_t edge_base_ = 0;
  const char* directory_ = nullptr;  // of pieces, where there are several
  const char* packed_ = nullptr;
  const char* versions_ = nullptr;
};

// All relationships of one node in a run.
class NodeView {
 public:
  NodeView() = default;
  NodeView(NodeId node, Side side, uint64_t count, uint64_t position, const char* data,
           uint64_t bytes)
      : node_(node), side_(side), count_(count), position_(position), data_(data), bytes_(bytes) {}

  NodeId node() const { return node_; }
  Side side() const { return side_; }
  // Records; 0: the run has none of this node.
  uint64_t count() const { return count_; }
  // Of its first record in the run. A list's records follow those of the list before.
  uint64_t position() const { return position_; }
  const char* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

  // Walks the lists, by ascending type.
  class Lists {
   public:
    explicit Lists(const NodeView& view)
        : view_(view), at_(view.data_), left_(view.count_ == 0 ? 0 : 1) {
      // The bit that says that there are several lists (list.cc).
      if (left_ != 0 && (static_cast<uint8_t>(at_[2]) & 0x80) != 0) BeginSeveral();
    }
    bool Next(ListView* list) {
      if (left_ == 0) return false;
      --left_;
      if (!several_) {
        ReadOnly(list);
        return true;
      }
      return NextOfSeveral(list);
    }

   private:
    void BeginSeveral();
    void ReadOnly(ListView* list) const;
    bool NextOfSeveral(ListView* list);

    const NodeView& view_;
    const char* at_;
    uint64_t left_;
    bool several_ = false;
  };

 private:
  NodeId node_ = 0;
  Side side_ = Side::kOut;
  uint64_t count_ = 0;
  uint64_t position_ = 0;
  const char* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// One list to encode. Others ascending; of equal ones identifiers ascending; of equal ones stamps
// descending. `stamps` is empty, or one for each: what is not above `horizon` is stored without a
// sequence. Not empty; at most 2^31 records.
struct ListInput {
  Token type = kNoToken;
  std::span<const NodeId> others;
  std::span<const EdgeId> edges;
  std::span<const uint64_t> stamps;
};

// Appends the block of a node. Lists by ascending type, each type once. True: the block has stamps.
bool EncodeBlock(NodeId node, Side side, std::span<const ListInput> lists, uint64_t horizon,
                 std::string* out);

// Whether `bytes` bytes are a block of `count` records that ListView may read. Where `has_stamps`
// is not null, it is set when the block has some.
bool CheckBlock(const char* data, uint64_t bytes, uint64_t count, bool* has_stamps);

}  // namespace pulse::graph
