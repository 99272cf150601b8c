#include "services/graph/core/layers.h"

#include <cstdlib>

#include "base/check.h"
#include "base/errors.h"
#include "services/graph/core/read_costs.h"

namespace pulse::graph {

L0Chunk::L0Chunk(Side side) : memory_(static_cast<char*>(aligned_alloc(64, Chunk::Bytes()))) {
  PULSE_CHECK(memory_ != nullptr, "out of memory");
  chunk_ = Chunk::Format(memory_, side);
}

L0Chunk::~L0Chunk() { free(memory_); }

bool L0Chunk::Append(NodeId node, const Record& record) {
  // Before the record can be seen.
  if (HidesOlder(record.stamp)) hides_.store(true, std::memory_order_release);
  return chunk_.Append(node, record);
}

uint64_t L0Chunk::Count(NodeId node, uint64_t sequence, bool skip_loops,
                        std::span<const Token> types) const {
  uint64_t count = 0;
  for (uint32_t at = chunk_.Head(node); at != kNoRecord;) {
    const Record& record = chunk_.record(at);
    at = record.previous;
    if (SequenceOf(record.stamp) > sequence || (skip_loops && record.other == node)) continue;
    count += HasType(types, record.type) ? 1 : 0;
  }
  return count;
}

template <typename Emit>
void NodeReader::ReadChunk(const L0Chunk& l0, const Emit& emit) {
  const Chunk& chunk = l0.chunk();
  uint64_t records = 0;
  for (uint32_t at = chunk.Head(node_); at != kNoRecord;) {
    const Record& record = chunk.record(at);
    at = record.previous;
    ++records;
    if (SequenceOf(record.stamp) > sequence_) continue;
    if (!hidden_.empty() && hidden_.contains(record.edge)) continue;
    if (HidesOlder(record.stamp)) hidden_.insert(record.edge);
    if (!IsTombstone(record.stamp)) {
      emit(Neighbour{record.other, record.edge, record.type, kNoPosition});
    }
  }
  if (cypher::counted_reads != nullptr) {
    CountChunk(cypher::counted_reads, chunk.side(), level_, records);
  }
}

template <typename Emit>
absl::Status NodeReader::ReadRun(const Run& run, std::span<const Token> types, const Emit& emit) {
  if (!run.reader->Contains(node_)) return absl::OkStatus();
  PULSE_ASSIGN_OR_RETURN(const NodeView view, run.reader->Find(node_));
  NodeView::Lists lists(view);
  ListView list;
  NodeId others[kPiece + 8];
  EdgeId edges[kPiece + 8];
  uint64_t stamps[kPiece + 8];
  uint64_t position = view.position();
  CountList(cypher::counted_reads, view, level_ - layers_.chunks.size());
  for (; lists.Next(&list); position += list.count()) {
    // Of a type that is not wanted, nothing is hidden from what is.
    if (!HasType(types, list.type())) continue;
    EdgeId last = ~EdgeId{0};  // of which the version that counts was met
    for (uint64_t piece = 0; piece < list.pieces(); ++piece) {
      const uint32_t n = list.PieceCount(piece);
      const uint64_t first = position + piece * kPiece;
      list.Others(piece, others);
      list.Edges(piece, others, edges);
      if (list.plain()) {
        if (hidden_.empty()) {
          for (uint32_t i = 0; i < n; ++i) emit({others[i], edges[i], list.type(), first + i});
        } else {
          for (uint32_t i = 0; i < n; ++i) {
            if (!hidden_.contains(edges[i])) emit({others[i], edges[i], list.type(), first + i});
          }
        }
        continue;
      }
      list.Stamps(piece, stamps);
      for (uint32_t i = 0; i < n; ++i) {
        if (SequenceOf(stamps[i]) > sequence_ || edges[i] == last) continue;
        last = edges[i];
        if (!hidden_.empty() && hidden_.contains(edges[i])) continue;
        if (HidesOlder(stamps[i])) hidden_.insert(edges[i]);
        if (!IsTombstone(stamps[i])) emit({others[i], edges[i], list.type(), first + i});
      }
    }
  }
  return absl::OkStatus();
}

absl::Status NodeReader::ReadLevel(std::span<const Token> types, std::vector<Neighbour>* out) {
  absl::Status status;
  if (level_ < layers_.chunks.size()) {
    ReadChunk(*layers_.chunks[level_], [&](const Neighbour& n) {
      if (HasType(types, n.type)) out->push_back(n);
    });
  } else {
    status = ReadRun(layers_.runs[level_ - layers_.chunks.size()], types,
                     [out](const Neighbour& n) { out->push_back(n); });
  }
  ++level_;
  return status;
}

absl::Status NodeReader::StartAt(NodeId node, size_t level, std::span<const Token> types) {
  Start(node, 0);
  const auto ignore = [](const Neighbour&) {};
  for (; level_ < level; ++level_) {
    if (level_ < layers_.chunks.size()) {
      if (layers_.chunks[level_]->hides()) ReadChunk(*layers_.chunks[level_], ignore);
      continue;
    }
    const Run& run = layers_.runs[level_ - layers_.chunks.size()];
    if (run.hides()) PULSE_RETURN_IF_ERROR(ReadRun(run, types, ignore));
  }
  return absl::OkStatus();
}

}  // namespace pulse::graph
