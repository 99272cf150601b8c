// Neighbours of many nodes, and how many there are: out of runs as they lie where nothing newer
// hides any of it, which is the usual case, and else record by record.
#include <algorithm>
#include <optional>

#include "base/errors.h"
#include "services/graph/core/read_costs.h"
#include "services/graph/core/view.h"

namespace pulse::graph {
namespace {

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

constexpr uint64_t kWholeNode = ~uint64_t{0};

// Nodes ahead of the one that is read whose groups are brought into the cache.
constexpr size_t kAhead = 8;

// Whether a run as it lies is what a snapshot sees of it.
bool IsPlain(const Run& run, uint64_t sequence) {
  return !run.hides() && run.reader->info().max_sequence <= sequence;
}

void PrefetchNode(const SideLayers& layers, NodeId node) {
  for (const Run& run : layers.runs) run.reader->PrefetchNode(node);
}

// Appends to a batch what lists are decoded into. Columns that are the same for many relationships
// are filled when they change.
class BatchWriter {
 public:
  explicit BatchWriter(NeighbourBatch* out) : out_(*out), size_(out->size()), filled_(size_) {}
  ~BatchWriter() { Finish(); }
  BatchWriter(const BatchWriter&) = delete;
  BatchWriter& operator=(const BatchWriter&) = delete;

  size_t size() const { return size_; }

  void AddPiece(NodeId node, uint32_t origin, const ListView& list, uint64_t piece, bool incoming,
                bool skip_loops) {
    const uint32_t n = list.PieceCount(piece);
    if (size_ + n + kSlack > room_) Grow(n);
    NodeId* const others = out_.node.data() + size_;
    list.Others(piece, others);
    EdgeId* edges = nullptr;
    if (!out_.ends_only) {
      Begin(list.type(), incoming);
      edges = out_.edge.data() + size_;
      list.Edges(piece, others, edges);
    }
    uint32_t kept = n;
    if (skip_loops && std::find(others, others + n, node) != others + n) {
      kept = 0;
      for (uint32_t i = 0; i < n; ++i) {
        if (others[i] == node) continue;
        others[kept] = others[i];
        if (edges != nullptr) edges[kept] = edges[i];
        ++kept;
      }
    }
    // By eights; there is room.
    uint32_t* const origins = out_.origin.data() + size_;
    for (uint32_t i = 0; i < kept; i += 8) {
      for (uint32_t k = 0; k < 8; ++k) origins[i + k] = origin;
    }
    size_ += kept;
  }

  void Add(uint32_t origin, const Neighbour& n, bool incoming) {
    if (size_ + 1 + kSlack > room_) Grow(1);
    if (!out_.ends_only) {
      Begin(n.type, incoming);
      out_.edge[size_] = n.edge;
    }
    out_.node[size_] = n.other;
    out_.origin[size_] = origin;
    ++size_;
  }

  // The batch is what was added.
  void Finish() {
    Fill();
    out_.Resize(size_);
    room_ = 0;
  }

 private:
  // Whole words are unpacked, a few more than there are.
  static constexpr size_t kSlack = 8;

  void Grow(size_t n) {
    room_ = std::max(size_ + n + kSlack, std::max(out_.node.capacity(), 2 * size_));
    out_.Resize(room_);
  }
  void Begin(Token type, bool incoming) {
    if (type == type_ && incoming == incoming_) return;
    Fill();
    type_ = type;
    incoming_ = incoming;
  }
  void Fill() {
    if (!out_.ends_only && filled_ < size_) {
      std::fill_n(out_.type.data() + filled_, size_ - filled_, type_);
      std::fill_n(out_.incoming.data() + filled_, size_ - filled_,
                  static_cast<uint8_t>(incoming_ ? 1 : 0));
    }
    filled_ = size_;
  }

  NeighbourBatch& out_;
  size_t size_;
  size_t room_ = 0;
  size_t filled_;
  Token type_ = kNoToken;
  bool incoming_ = false;
};

}  // namespace

// Neighbours of one side. Made for a call, so that what nodes have in common is looked at once.
class View::SideExpander {
 public:
  SideExpander(const View& view, Side side, bool skip_loops, std::span<const Token> types,
               size_t most, BatchWriter* out)
      : layers_(view.layers_->side(side)),
        sequence_(view.sequence_),
        incoming_(side == Side::kIn),
        skip_loops_(skip_loops),
        types_(types),
        most_(most),
        out_(*out) {}

  // *inner becomes kWholeNode at the end of the node.
  absl::Status Expand(NodeId node, uint32_t origin, uint64_t* inner) {
    if (!begun_) Begin();
    if (reader_) return ByLevels(node, origin, inner);
    const size_t chunks = layers_.chunks.size();
    const Inner at(*inner);
    uint64_t first = at.pieces;
    for (size_t r = at.level > chunks ? at.level - chunks : 0; r < finders_.size(); ++r) {
      PULSE_RETURN_IF_ERROR(finders_[r].Find(node, &view_));
      if (view_.count() == 0) continue;
      if (counts_ != nullptr && first == 0) CountList(counts_, view_, r);
      uint64_t next = 0;
      if (!AsItLies(view_, origin, first, &next)) {
        *inner = Inner::Make(incoming_, chunks + r, next);
        return absl::OkStatus();
      }
      first = 0;
    }
    *inner = kWholeNode;
    return absl::OkStatus();
  }

 private:
  void Begin() {
    begun_ = true;
    finders_.reserve(layers_.runs.size());
    bool plain = true;
    for (const Run& run : layers_.runs) {
      finders_.emplace_back(run.reader.get());
      plain = plain && IsPlain(run, sequence_);
    }
    for (const auto& l0 : layers_.chunks) plain = plain && l0->chunk().size() == 0;
    if (!plain) reader_.emplace(layers_, sequence_);
  }

  absl::Status ByLevels(NodeId node, uint32_t origin, uint64_t* inner) {
    Inner at(*inner);
    if (at.level == 0) {
      reader_->Start(node);
    } else {
      PULSE_RETURN_IF_ERROR(reader_->StartAt(node, at.level, types_));
    }
    while (!reader_->done()) {
      const size_t level = reader_->level(), chunks = layers_.chunks.size();
      if (out_.size() >= most_) {
        *inner = Inner::Make(incoming_, level, at.pieces);
        return absl::OkStatus();
      }
      if (level < chunks || !reader_->Plain(layers_.runs[level - chunks])) {
        PULSE_RETURN_IF_ERROR(ByRecord(node, origin));
        continue;
      }
      reader_->SkipLevel();
      PULSE_RETURN_IF_ERROR(finders_[level - chunks].Find(node, &view_));
      if (at.pieces == 0) CountList(counts_, view_, level - chunks);
      uint64_t next = 0;
      if (view_.count() > 0 && !AsItLies(view_, origin, at.pieces, &next)) {
        *inner = Inner::Make(incoming_, level, next);
        return absl::OkStatus();
      }
      at.pieces = 0;
    }
    *inner = kWholeNode;
    return absl::OkStatus();
  }

  absl::Status ByRecord(NodeId node, uint32_t origin) {
    found_.clear();
    PULSE_RETURN_IF_ERROR(reader_->ReadLevel(types_, &found_));
    for (const Neighbour& n : found_) {
      if (!skip_loops_ || n.other != node) out_.Add(origin, n, incoming_);
    }
    return absl::OkStatus();
  }

  // Lists of a run, from piece `first` on. False: the batch is full, and *next comes next.
  bool AsItLies(const NodeView& view, uint32_t origin, uint64_t first, uint64_t* next) {
    NodeView::Lists lists(view);
    ListView list;
    uint64_t pieces = 0;  // before this list
    while (lists.Next(&list)) {
      if (!HasType(types_, list.type())) continue;
      const uint64_t end = list.pieces();
      for (uint64_t piece = first > pieces ? first - pieces : 0; piece < end; ++piece) {
        if (out_.size() >= most_) {
          *next = pieces + piece;
          return false;
        }
        out_.AddPiece(view.node(), origin, list, piece, incoming_, skip_loops_);
      }
      pieces += end;
    }
    return true;
  }

  const SideLayers& layers_;
  const uint64_t sequence_;
  const bool incoming_;
  const bool skip_loops_;
  const std::span<const Token> types_;
  const size_t most_;
  BatchWriter& out_;
  ReadCounts* const counts_ = cypher::counted_reads;
  bool begun_ = false;
  std::vector<RunReader::Finder> finders_;
  // Where something has to be read record by record.
  std::optional<NodeReader> reader_;
  NodeView view_;
  std::vector<Neighbour> found_;
};

absl::Status View::Expand(std::span<const NodeId> nodes, Direction direction,
                          std::span<const Token> types, size_t limit, ExpandPosition* position,
                          NeighbourBatch* out) const {
  const size_t most = out->size() + limit;
  BatchWriter writer(out);
  SideExpander outgoing(*this, Side::kOut, false, types, most, &writer);
  SideExpander incoming(*this, Side::kIn, direction == Direction::kBoth, types, most, &writer);
  for (; position->node < nodes.size(); *position = {position->node + 1, 0}) {
    const NodeId node = nodes[position->node];
    const auto origin = static_cast<uint32_t>(position->node);
    uint64_t& inner = position->inner;
    if (writer.size() >= most) return absl::OkStatus();
    // Nodes in their order share groups, which are there already.
    const size_t next = position->node + kAhead;
    if (next < nodes.size() && nodes[next] / kGroupNodes != nodes[next - 1] / kGroupNodes) {
      const NodeId ahead = nodes[next];
      if (direction != Direction::kIn) PrefetchNode(layers_->out, ahead);
      if (direction != Direction::kOut) PrefetchNode(layers_->in, ahead);
    }
    if (direction != Direction::kIn && inner >> 63 == 0) {
      PULSE_RETURN_IF_ERROR(outgoing.Expand(node, origin, &inner));
      if (inner != kWholeNode) return absl::OkStatus();
      inner = Inner::Make(true, 0, 0);
    }
    if (direction == Direction::kOut) continue;
    if (writer.size() >= most) return absl::OkStatus();
    PULSE_RETURN_IF_ERROR(incoming.Expand(node, origin, &inner));
    if (inner != kWholeNode) return absl::OkStatus();
  }
  return absl::OkStatus();
}

namespace {

// The records of a node in a run, by type; loops apart where these are not wanted.
absl::StatusOr<uint64_t> CountInRun(const RunReader& run, NodeId node, bool skip_loops,
                                    std::span<const Token> types, size_t layer) {
  if (!run.Contains(node)) return 0;
  PULSE_ASSIGN_OR_RETURN(const NodeView view, run.Find(node));
  CountList(cypher::counted_reads, view, layer);
  NodeView::Lists lists(view);
  ListView list;
  uint64_t count = 0;
  while (lists.Next(&list)) {
    if (!HasType(types, list.type())) continue;
    count += list.count();
    if (skip_loops) count -= list.CountOther(node);
  }
  return count;
}

}  // namespace

absl::Status View::DegreesOfSide(std::span<const NodeId> nodes, Side side, bool skip_loops,
                                 std::span<const Token> types, std::span<uint64_t> degrees) const {
  const SideLayers& layers = layers_->side(side);
  const bool plain = std::all_of(layers.runs.begin(), layers.runs.end(),
                                 [this](const Run& run) { return IsPlain(run, sequence_); }) &&
                     std::none_of(layers.chunks.begin(), layers.chunks.end(),
                                  [](const auto& chunk) { return chunk->hides(); });
  NodeReader reader(layers, sequence_);
  std::vector<Neighbour> found;
  // Level by level where none hides anything of another: what is read of the index stays close.
  if (plain) {
    for (size_t c = 0; c < layers.chunks.size(); ++c) {
      const L0Chunk& l0 = *layers.chunks[c];
      if (l0.chunk().size() == 0) continue;
      uint64_t records = 0;
      for (size_t i = 0; i < nodes.size(); ++i) {
        const uint64_t n = l0.Count(nodes[i], sequence_, skip_loops, types);
        degrees[i] += n;
        records += n;
      }
      CountChunk(cypher::counted_reads, side, c, records);
    }
    for (size_t level = 0; level < layers.runs.size(); ++level) {
      const RunReader& r = *layers.runs[level].reader;
      if (!skip_loops && HasOnly(r.info(), types)) {
        // Numbers of the index alone: a look at each node.
        if (cypher::counted_reads != nullptr) {
          cypher::counted_reads->nodes += nodes.size();
          cypher::counted_reads->runs[static_cast<size_t>(side)].Add(level);
        }
        PULSE_RETURN_IF_ERROR(r.AddCounts(nodes, degrees));
        continue;
      }
      for (size_t i = 0; i < nodes.size(); ++i) {
        if (i + kAhead < nodes.size()) r.PrefetchNode(nodes[i + kAhead]);
        PULSE_ASSIGN_OR_RETURN(const uint64_t n, CountInRun(r, nodes[i], skip_loops, types, level));
        degrees[i] += n;
      }
    }
    return absl::OkStatus();
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (reader.Start(nodes[i]); !reader.done();) {
      found.clear();
      PULSE_RETURN_IF_ERROR(reader.ReadLevel(types, &found));
      for (const Neighbour& n : found) degrees[i] += skip_loops && n.other == nodes[i] ? 0 : 1;
    }
  }
  return absl::OkStatus();
}

absl::Status View::Degrees(std::span<const NodeId> nodes, Direction direction,
                           std::span<const Token> types, std::span<uint64_t> degrees) const {
  if (direction != Direction::kIn) {
    PULSE_RETURN_IF_ERROR(DegreesOfSide(nodes, Side::kOut, false, types, degrees));
  }
  if (direction == Direction::kOut) return absl::OkStatus();
  return DegreesOfSide(nodes, Side::kIn, direction == Direction::kBoth, types, degrees);
}

}  // namespace pulse::graph
