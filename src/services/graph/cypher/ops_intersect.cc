// The operator that finds the nodes which two bound nodes have as neighbours: the last hops of a
// triangle, and of larger cycles.
//
// A hop from one end and a hop back to the other would make a row of each neighbour of the first.
// This intersects the sorted lists of both, in the time that the shorter one takes, as
// worst-case-optimal joins do. Lists are kept for later rows. A list that is much longer than the
// other is first read when as much was spent without it: until then each neighbour in the shorter
// list is asked for its relationships to the longer one's node.
#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "services/graph/cypher/match.h"
#include "services/graph/cypher/operators.h"
#include "services/graph/expressions/batch_filter.h"

namespace pulse::cypher {
namespace {

// Of an end's relationships in a sorted list.
struct Neighbour {
  NodeId node;
  EdgeId edge;
  Token type;
  bool incoming;  // at the end whose list it is

  bool operator<(const Neighbour& other) const {
    return node != other.node ? node < other.node : edge < other.edge;
  }
};
using NeighbourList = std::vector<Neighbour>;

EdgeRef RefOf(const Neighbour& n, NodeId end) {
  return {n.edge, n.incoming ? n.node : end, n.incoming ? end : n.node, n.type};
}

// Lists that are shorter than this are read at once.
constexpr uint64_t kShort = 1024;
// Parts of the limit of memory: for one list, and, of a thread's part, for those that are kept.
constexpr size_t kShareOfList = 256, kShareOfLists = 16;

class IntersectOperator : public Operator {
 public:
  IntersectOperator(const Step* step, Runtime* runtime, Operator* next)
      : Operator(step, runtime, next), filter_(step->inner[0].predicates) {
    const Step &first = step->inner[0], &second = step->inner[1];
    const bool away = second.from == first.slot;
    hops_[0] = {&first, first.from, first.direction, {}, {}, {}};
    hops_[1] = {&second,
                away ? second.slot : second.from,
                away ? Reversed(second.direction) : second.direction,
                {},
                {},
                {}};
    unique_ = second.unique;
    differ_ = std::erase(unique_, first.edge) > 0 && first.edge >= 0;
    const auto entries = [](size_t memory) {
      return (memory == 0 ? size_t{1} << 30 : memory) / sizeof(Neighbour);
    };
    longest_ = entries(ctx_.limits.memory_bytes) / kShareOfList;
    most_kept_ = entries(ctx_.SpillShare()) / kShareOfLists;
  }

  bool Push(Rows& in) override {
    pairs_.clear();
    for (Hop& hop : hops_) {
      if (!ResolveTypes(hop.step->types, ctx_, &hop.types)) return true;
    }
    for (size_t i = 0; i < in.size(); ++i) {
      Pair pair{in.Row(i), {}, {UINT64_MAX, UINT64_MAX}};
      if (NodeOf(pair.row[hops_[0].end], ctx_, &pair.ends[0]) &&
          NodeOf(pair.row[hops_[1].end], ctx_, &pair.ends[1])) {
        pairs_.push_back(pair);
      } else if (ctx_.failed()) {
        return false;
      }
    }
    filters_ = !filter_.empty() && !filter_.PassesAll(ctx_);
    matches_.clear();
    // What a transaction has changed it looks through for each degree; and to read the other end's
    // list may conflict with others.
    if (ctx_.transaction != nullptr) {
      for (const Pair& pair : pairs_) {
        if (!InParts(pair, 0, nullptr)) return false;
      }
      return EmitMatches() && Flush();
    }
    if (!FindDegrees(0) || !FindDegrees(1)) return false;
    for (const Pair& pair : pairs_) {
      if (pair.degrees[0] == 0 || pair.degrees[1] == 0) continue;
      if (!Intersect(pair)) return false;
    }
    return EmitMatches() && Flush();
  }

 private:
  struct Hop {
    const Step* step;
    Slot end;             // the bound node
    Direction direction;  // from there
    std::vector<Token> types;
    absl::flat_hash_map<NodeId, std::unique_ptr<NeighbourList>> lists;
    absl::flat_hash_map<NodeId, uint64_t> spent;  // without the list of a node
  };
  struct Pair {
    const Value* row;
    NodeId ends[2];
    uint64_t degrees[2];  // not known in transactions
  };
  struct Match {
    const Value* row;
    NodeId node;
    EdgeRef edges[2];
  };

  bool FindDegrees(size_t side) {
    nodes_.clear();
    for (const Pair& pair : pairs_) {
      if (nodes_.empty() || nodes_.back() != pair.ends[side]) nodes_.push_back(pair.ends[side]);
    }
    const Hop& hop = hops_[side];
    if (!cypher::FindDegrees(nodes_, hop.direction, hop.types, ctx_, &degrees_)) return false;
    size_t at = 0;
    for (Pair& pair : pairs_) {
      if (nodes_[at] != pair.ends[side]) ++at;
      pair.degrees[side] = degrees_[at];
    }
    return true;
  }

  bool Intersect(const Pair& pair) {
    if (kept_ > most_kept_) ForgetLists();
    const size_t small = pair.degrees[1] < pair.degrees[0] ? 1 : 0, large = 1 - small;
    Hop& hop = hops_[large];
    const NodeId end = pair.ends[large];
    const uint64_t degree = pair.degrees[large];
    const NeighbourList* list = nullptr;
    const bool worth = degree <= kShort || hop.lists.contains(end) || hop.spent[end] >= degree;
    if (degree <= longest_ && worth) {
      list = Load(large, end);
      if (list == nullptr) return false;
    }
    if (pair.degrees[small] > longest_) return InParts(pair, small, list);
    const NeighbourList* shorter = Load(small, pair.ends[small]);
    return shorter != nullptr && Look(pair, small, *shorter, list);
  }

  // The shorter list is too long to be kept as well.
  bool InParts(const Pair& pair, size_t small, const NeighbourList* list) {
    const NodeId end = pair.ends[small];
    const Hop& hop = hops_[small];
    NeighbourList part;
    for (ExpandPosition position; position.node < 1;) {
      if (!ExpandNext({&end, 1}, hop.direction, hop.types, ctx_, &position, &batch_)) return false;
      part.clear();
      AddBatch(&part);
      std::sort(part.begin(), part.end());
      if (!Look(pair, small, part, list)) return false;
    }
    return true;
  }

  // Relationships of neighbours of the shorter list with the other end, whose list may be known.
  bool Look(const Pair& pair, size_t small, const NeighbourList& shorter,
            const NeighbourList* list) {
    if (filters_) return Filter(shorter) && LookAt(pair, small, passing_, list);
    return LookAt(pair, small, shorter, list);
  }

  // Those of a list that the predicates hold for.
  bool Filter(const NeighbourList& list) {
    FindNodes(list);
    if (!filter_.Select(nodes_, ctx_, &selected_) || !ctx_.Tick(nodes_.size())) return false;
    passing_.clear();
    auto from = list.begin();
    for (const uint32_t i : selected_) {
      while (from->node < nodes_[i]) ++from;
      for (; from != list.end() && from->node == nodes_[i]; ++from) passing_.push_back(*from);
    }
    return true;
  }

  // The nodes of a list, each once.
  void FindNodes(const NeighbourList& list) {
    nodes_.clear();
    for (const Neighbour& n : list) {
      if (nodes_.empty() || nodes_.back() != n.node) nodes_.push_back(n.node);
    }
  }

  bool LookAt(const Pair& pair, size_t small, const NeighbourList& shorter,
              const NeighbourList* list) {
    if (list == nullptr && !AskNeighbours(pair, small, shorter, &list)) return false;
    const NeighbourList& longer = list != nullptr ? *list : asked_;
    const auto before = [](const Neighbour& n, NodeId node) { return n.node < node; };
    auto from = longer.begin();
    for (auto i = shorter.begin(); i != shorter.end() && from != longer.end();) {
      const NodeId node = i->node;
      auto i_end = i;
      while (i_end != shorter.end() && i_end->node == node) ++i_end;
      // Ever larger steps, then the exact place.
      auto low = from;
      for (std::ptrdiff_t step = 1; low->node < node; step *= 2) {
        from = low + 1;
        if (longer.end() - low <= step) {
          low = longer.end();
          break;
        }
        low += step;
      }
      from = std::lower_bound(from, low, node, before);
      for (; from != longer.end() && from->node == node; ++from) {
        for (auto k = i; k != i_end; ++k) {
          if (!AddMatch(pair, node, small == 0 ? *k : *from, small == 0 ? *from : *k)) return false;
        }
      }
      i = i_end;
    }
    return ctx_.Tick(shorter.size());
  }

  // Into asked_, as if it were the other end's list; or that list where it is found to take less.
  bool AskNeighbours(const Pair& pair, size_t small, const NeighbourList& shorter,
                     const NeighbourList** list) {
    asked_.clear();
    Hop& hop = hops_[1 - small];
    const NodeId end = pair.ends[1 - small];
    const uint64_t degree = pair.degrees[1 - small];
    FindNodes(shorter);
    uint64_t looked = 0;
    for (ExpandPosition position; position.node < nodes_.size();) {
      if (!ExpandNext(nodes_, Reversed(hop.direction), hop.types, ctx_, &position, &batch_)) {
        return false;
      }
      looked += batch_.size();
      if (looked > degree && degree <= longest_) {
        hop.spent[end] += looked;
        *list = Load(1 - small, end);
        return *list != nullptr;
      }
      for (size_t i = 0; i < batch_.size(); ++i) {
        if (batch_.node[i] != end) continue;
        // Loops are listed once and go both ways.
        asked_.push_back(
            {nodes_[batch_.origin[i]], batch_.edge[i], batch_.type[i], batch_.incoming[i] == 0});
      }
      if (!ctx_.Fits(asked_.size() * sizeof(Neighbour))) return false;
    }
    std::sort(asked_.begin(), asked_.end());
    if (degree != UINT64_MAX) hop.spent[end] += looked;
    return true;
  }

  void AddBatch(NeighbourList* out) const {
    for (size_t i = 0; i < batch_.size(); ++i) {
      out->push_back({batch_.node[i], batch_.edge[i], batch_.type[i], batch_.incoming[i] != 0});
    }
  }

  // The kept list of an end; null: an error.
  const NeighbourList* Load(size_t side, NodeId end) {
    Hop& hop = hops_[side];
    std::unique_ptr<NeighbourList>& list = hop.lists[end];
    if (list != nullptr) return list.get();
    auto made = std::make_unique<NeighbourList>();
    for (ExpandPosition position; position.node < 1;) {
      if (!ExpandNext({&end, 1}, hop.direction, hop.types, ctx_, &position, &batch_))
        return nullptr;
      AddBatch(made.get());
    }
    if (!std::is_sorted(made->begin(), made->end())) std::sort(made->begin(), made->end());
    made->shrink_to_fit();
    kept_ += made->size() + kOverhead;
    const auto bytes = static_cast<int64_t>((made->size() + kOverhead) * sizeof(Neighbour));
    charged_ += bytes;
    list = std::move(made);
    return ctx_.Charge(bytes) ? list.get() : nullptr;
  }

  void ForgetLists() {
    for (Hop& hop : hops_) {
      hop.lists.clear();
      hop.spent.clear();
    }
    kept_ = 0;
    ctx_.Charge(-std::exchange(charged_, 0));
  }

  bool AddMatch(const Pair& pair, NodeId node, const Neighbour& first, const Neighbour& second) {
    if (!ctx_.Tick()) return false;
    if (differ_ && first.edge == second.edge) return true;
    if (!Differs(pair.row, hops_[0].step->unique, first.edge)) return true;
    if (!Differs(pair.row, unique_, second.edge)) return true;
    matches_.push_back({pair.row, node, {RefOf(first, pair.ends[0]), RefOf(second, pair.ends[1])}});
    return matches_.size() < kGraphBatch || EmitMatches();
  }

  bool EmitMatches() {
    for (const Match& match : matches_) {
      Value* out = NewRow(match.row);
      if (out == nullptr) return false;
      out[step().slot] = Value::Node(match.node);
      for (size_t side = 0; side < 2; ++side) {
        const Step& hop = *hops_[side].step;
        if (hop.edge < 0) continue;
        out[hop.edge] = hop.edge_number ? Value::Int(static_cast<int64_t>(match.edges[side].id))
                                        : Value::Edge(match.edges[side]);
      }
    }
    matches_.clear();
    return true;
  }

  // Of a list that is kept, in entries.
  static constexpr size_t kOverhead = 4;

  BatchFilter filter_;
  bool filters_ = false;  // there are nodes that it may drop
  std::array<Hop, 2> hops_;
  std::vector<Slot> unique_;         // of the second hop, without the first one's relationship
  bool differ_ = false;              // the second relationship must not be the first
  size_t longest_ = 0;               // list that is kept, in entries
  size_t most_kept_ = 0, kept_ = 0;  // entries of lists
  int64_t charged_ = 0;
  std::vector<Pair> pairs_;
  std::vector<NodeId> nodes_;
  std::vector<uint64_t> degrees_;
  NeighbourBatch batch_;
  NeighbourList asked_, passing_;
  std::vector<Match> matches_;
  std::vector<uint32_t> selected_;
};

}  // namespace

std::unique_ptr<Operator> MakeIntersectOperator(const Step& step, Runtime* runtime,
                                                Operator* next) {
  return std::make_unique<IntersectOperator>(&step, runtime, next);
}

}  // namespace pulse::cypher
