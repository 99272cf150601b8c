#include "services/graph/core/view.h"

#include <algorithm>
#include <bit>

#include "base/errors.h"
#include "services/graph/core/edge_scan.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

constexpr size_t kKeptScans = 64;
constexpr size_t kKeptHints = 4;

absl::Status NoSuch(std::string_view what, uint64_t id) {
  return absl::NotFoundError(Concat("there is no ", what, " ", id));
}

// Where Expand goes on within a node: the side, the level, and the pieces of lists that were given.
struct Inner {
  explicit Inner(uint64_t bits)
      : incoming(bits >> 63 != 0), level(bits >> 40 & 0x7FFFFF), pieces(bits & kMask) {}
  static constexpr uint64_t kMask = (uint64_t{1} << 40) - 1;
  static uint64_t Make(bool incoming, uint64_t level, uint64_t pieces) {
    return uint64_t{incoming} << 63 | level << 40 | pieces;
  }
  bool incoming;
  uint64_t level;
  uint64_t pieces;
};

}  // namespace

absl::StatusOr<size_t> View::ScanNodes(Token label, uint64_t* position,
                                       std::span<NodeId> out) const {
  const NodeTable& nodes = tables_->nodes;
  const NodeId end = nodes.end();
  size_t count = 0;
  NodeId node = *position;
  if (label == kNoToken) {
    for (; node < end && count < out.size(); ++node) {
      if (nodes.Find(node, sequence_) != nullptr) out[count++] = node;
    }
    *position = node;
    return count;
  }
  while (node < end && count < out.size()) {
    uint64_t word = nodes.LabelWord(label, node & ~uint64_t{63}) >> (node % 64) << (node % 64);
    const NodeId first = node & ~uint64_t{63};
    node = first + 64;
    for (; word != 0; word &= word - 1) {
      const NodeId candidate = first + static_cast<NodeId>(std::countr_zero(word));
      if (count == out.size()) {
        node = candidate;
        break;
      }
      const NodeVersion* version = nodes.Find(candidate, sequence_);
      if (version != nullptr && version->HasLabel(label)) out[count++] = candidate;
    }
  }
  *position = node;
  return count;
}

absl::StatusOr<size_t> View::ScanEdges(std::span<const Token> types, uint64_t* position,
                                       std::span<EdgeRef> out) const {
  std::shared_ptr<EdgeScan> scan;
  std::shared_ptr<BatchHint> hint;
  {
    std::lock_guard lock(scans_mu_);
    for (auto it = scans_.begin(); *position != 0 && it != scans_.end(); ++it) {
      if ((*it)->position() != *position || !(*it)->Has(types)) continue;
      scan = *it;
      scans_.erase(it);
      break;
    }
    if (hints_.size() >= kKeptHints && hints_.front().use_count() == 1) {
      hint = hints_.front();
      hints_.erase(hints_.begin());
    }
  }
  if (scan == nullptr) {
    scan = std::make_shared<EdgeScan>(this, types);
    PULSE_RETURN_IF_ERROR(scan->SkipTo(*position));
  }
  if (hint == nullptr) hint = std::make_shared<BatchHint>();
  hint->ids.clear();
  hint->ranges.clear();
  size_t count;
  PULSE_RETURN_IF_ERROR(scan->Fill(out, &count, hint.get()));
  *position = scan->position();
  std::lock_guard lock(scans_mu_);
  if (count > 0) {
    if (scans_.size() >= kKeptScans) scans_.erase(scans_.begin());
    scans_.push_back(std::move(scan));
  }
  hints_.push_back(std::move(hint));
  if (hints_.size() > 2 * kKeptHints) hints_.erase(hints_.begin());
  return count;
}

absl::Status View::ExpandSide(NodeId node, uint32_t origin, Side side, bool skip_loops,
                              std::span<const Token> types, size_t most, uint64_t* inner,
                              NeighbourBatch* out) const {
  const SideLayers& layers = layers_->side(side);
  const bool incoming = side == Side::kIn;
  Inner at(*inner);
  NodeReader reader(layers, sequence_);
  if (at.level == 0) {
    reader.Start(node);
  } else {
    PULSE_RETURN_IF_ERROR(reader.StartAt(node, at.level));
  }
  std::vector<Neighbour> found;
  NodeId others[kPiece + 8];
  EdgeId edges[kPiece + 8];
  while (!reader.done()) {
    const size_t level = reader.level();
    if (out->size() >= most) {
      *inner = Inner::Make(incoming, level, at.pieces);
      return absl::OkStatus();
    }
    if (level < layers.chunks.size() || !reader.Plain(layers.runs[level - layers.chunks.size()])) {
      found.clear();
      PULSE_RETURN_IF_ERROR(reader.ReadLevel(types, &found));
      for (const Neighbour& n : found) {
        if (!skip_loops || n.other != node) out->Add(origin, n.edge, n.other, n.type, incoming);
      }
      continue;
    }
    reader.SkipLevel();
    const RunReader& run = *layers.runs[level - layers.chunks.size()].reader;
    if (!run.Contains(node)) continue;
    PULSE_ASSIGN_OR_RETURN(const NodeView view, run.Find(node));
    NodeView::Lists lists(view);
    ListView list;
    uint64_t pieces = 0;  // before this list
    while (lists.Next(&list)) {
      if (!HasType(types, list.type())) continue;
      for (uint64_t piece = at.pieces > pieces ? at.pieces - pieces : 0; piece < list.pieces();
           ++piece) {
        if (out->size() >= most) {
          *inner = Inner::Make(incoming, level, pieces + piece);
          return absl::OkStatus();
        }
        const uint32_t n = list.PieceCount(piece);
        list.Others(piece, others);
        list.Edges(piece, others, edges);
        if (skip_loops && std::find(others, others + n, node) != others + n) {
          for (uint32_t i = 0; i < n; ++i) {
            if (others[i] != node) out->Add(origin, edges[i], others[i], list.type(), incoming);
          }
          continue;
        }
        const size_t size = out->size() + n;
        out->edge.insert(out->edge.end(), edges, edges + n);
        out->node.insert(out->node.end(), others, others + n);
        out->origin.resize(size, origin);
        out->type.resize(size, list.type());
        out->incoming.resize(size, incoming ? 1 : 0);
      }
      pieces += list.pieces();
    }
    at.pieces = 0;
  }
  *inner = ~uint64_t{0};
  return absl::OkStatus();
}

absl::Status View::Expand(std::span<const NodeId> nodes, Direction direction,
                          std::span<const Token> types, size_t limit, ExpandPosition* position,
                          NeighbourBatch* out) const {
  const size_t most = out->size() + limit;
  for (; position->node < nodes.size(); *position = {position->node + 1, 0}) {
    const NodeId node = nodes[position->node];
    const auto origin = static_cast<uint32_t>(position->node);
    uint64_t& inner = position->inner;
    if (direction != Direction::kIn && inner >> 63 == 0) {
      if (out->size() >= most) return absl::OkStatus();
      PULSE_RETURN_IF_ERROR(ExpandSide(node, origin, Side::kOut, false, types, most, &inner, out));
      if (inner != ~uint64_t{0}) return absl::OkStatus();
      inner = Inner::Make(true, 0, 0);
    }
    if (direction == Direction::kOut) continue;
    if (out->size() >= most) return absl::OkStatus();
    PULSE_RETURN_IF_ERROR(ExpandSide(node, origin, Side::kIn, direction == Direction::kBoth, types,
                                     most, &inner, out));
    if (inner != ~uint64_t{0}) return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status View::Degrees(std::span<const NodeId> nodes, Direction direction,
                           std::span<const Token> types, std::span<uint64_t> degrees) const {
  std::vector<Neighbour> found;
  const auto count = [&](NodeId node, Side side, uint64_t* degree) {
    const SideLayers& layers = layers_->side(side);
    NodeReader reader(layers, sequence_);
    for (reader.Start(node); !reader.done();) {
      const size_t level = reader.level();
      // Loops are counted once, for which they have to be seen.
      if (level >= layers.chunks.size() && types.empty() && direction != Direction::kBoth) {
        const Run& run = layers.runs[level - layers.chunks.size()];
        if (reader.Plain(run)) {
          reader.SkipLevel();
          PULSE_ASSIGN_OR_RETURN(const NodeView view, run.reader->Find(node));
          *degree += view.count();
          continue;
        }
      }
      found.clear();
      PULSE_RETURN_IF_ERROR(reader.ReadLevel(types, &found));
      for (const Neighbour& n : found) {
        if (side == Side::kIn && direction == Direction::kBoth && n.other == node) continue;
        ++*degree;
      }
    }
    return absl::OkStatus();
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (direction != Direction::kIn) {
      PULSE_RETURN_IF_ERROR(count(nodes[i], Side::kOut, &degrees[i]));
    }
    if (direction != Direction::kOut) {
      PULSE_RETURN_IF_ERROR(count(nodes[i], Side::kIn, &degrees[i]));
    }
  }
  return absl::OkStatus();
}

absl::Status View::ReadNodeProperty(Token key, std::span<const NodeId> nodes, Column* out) const {
  ColumnGather gather(nodes.size(), out);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeVersion* version = FindNode(nodes[i]);
    if (version == nullptr) continue;
    std::string_view bytes = FindProperty(version->properties(), key);
    if (bytes.empty()) continue;
    int64_t number;
    if (cypher::ReadInt(&bytes, &number)) {
      gather.PutInt(i, number);
      continue;
    }
    Value value;
    if (cypher::ReadValue(&bytes, &value)) gather.Put(i, std::move(value));
  }
  return absl::OkStatus();
}

absl::Status View::ReadNodeProperties(NodeId node, Properties* out) const {
  const NodeVersion* version = FindNode(node);
  if (version == nullptr) return NoSuch("node", node);
  if (!DecodeProperties(version->properties(), out)) {
    return absl::DataLossError(Concat("the properties of node ", node, " are damaged"));
  }
  return absl::OkStatus();
}

absl::Status View::ReadLabels(NodeId node, std::vector<Token>* out) const {
  const NodeVersion* version = FindNode(node);
  if (version == nullptr) return NoSuch("node", node);
  out->assign(version->labels().begin(), version->labels().end());
  return absl::OkStatus();
}

absl::Status View::HasLabel(Token label, std::span<const NodeId> nodes,
                            std::span<uint8_t> out) const {
  // The slots of some nodes, then their versions, come from memory together.
  constexpr size_t kTogether = 32;
  const NodeTable& table = tables_->nodes;
  for (size_t begin = 0; begin < nodes.size(); begin += kTogether) {
    const size_t end = std::min(begin + kTogether, nodes.size());
    if (end - begin > 1) {
      for (size_t i = begin; i < end; ++i) table.PrefetchSlot(nodes[i]);
      for (size_t i = begin; i < end; ++i) table.PrefetchVersion(nodes[i]);
    }
    for (size_t i = begin; i < end; ++i) {
      const NodeVersion* version = FindNode(nodes[i]);
      out[i] = version != nullptr && version->HasLabel(label) ? 1 : 0;
    }
  }
  return absl::OkStatus();
}

absl::Status View::Seek(Token label, Token key, const Value& value,
                        std::vector<NodeId>* out) const {
  const auto index = tables_->indexes.FindFor(label, key);
  if (index == nullptr) return absl::FailedPreconditionError("there is no such index any more");
  std::vector<NodeId> candidates;
  index->FindFirst(value, &candidates);
  for (const NodeId node : candidates) {
    const NodeVersion* version = FindNode(node);
    if (version == nullptr || !version->HasLabel(label)) continue;
    if (cypher::Equals(PropertyValue(version->properties(), key), value) == 1) {
      out->push_back(node);
    }
  }
  return absl::OkStatus();
}

uint64_t View::NodeCount(Token label) const {
  const auto* count = label == kNoToken ? &tables_->node_count : tables_->label_counts.Get(label);
  return count == nullptr ? 0 : static_cast<uint64_t>(std::max<int64_t>(0, *count));
}

uint64_t View::EdgeCount(Token type) const {
  const auto* count = type == kNoToken ? &tables_->edge_count : tables_->type_counts.Get(type);
  return count == nullptr ? 0 : static_cast<uint64_t>(std::max<int64_t>(0, *count));
}

}  // namespace pulse::graph
