// What the query engine asks of a graph. A store answers it; src/services/graph/cypher has no
// storage of its own. Reads take and fill spans: one virtual call serves a batch of nodes or
// relationships, and none is made for each of them.
//
// A view shows one snapshot. Who gives it to the engine owns it, and keeps it unchanged and alive
// while a query runs. Reads of a view may come from several threads at once; a transaction is used
// by one. Calls may block on the store's I/O. Errors are the store's; the engine hands them on and
// stops.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/model/value.h"

namespace pulse::cypher {

enum class Direction : uint8_t { kOut, kIn, kBoth };
// The same relationships, seen from their other ends.
inline Direction Reversed(Direction d) {
  return d == Direction::kBoth ? d : d == Direction::kOut ? Direction::kIn : Direction::kOut;
}

// A vector of numbers that resize() leaves as they are: who grows it writes them at once.
template <typename T>
struct UnfilledAllocator : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = UnfilledAllocator<U>;
  };
  template <typename U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  template <typename U, typename... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
};
template <typename T>
using UnfilledVector = std::vector<T, UnfilledAllocator<T>>;

// Relationships found by an expansion, one entry in each column. In and out batches are columns so
// that a store copies whole runs of its adjacency lists.
struct NeighbourBatch {
  UnfilledVector<uint32_t> origin;  // index into the nodes that were expanded
  UnfilledVector<NodeId> node;      // the other end
  UnfilledVector<EdgeId> edge;
  UnfilledVector<Token> type;
  UnfilledVector<uint8_t> incoming;  // 1: `node` is the source
  // Set by who expands and wants `origin` and `node` alone: the other columns stay empty.
  bool ends_only = false;

  size_t size() const { return node.size(); }
  void clear() { Resize(0); }
  void Resize(size_t size) {
    origin.resize(size);
    node.resize(size);
    const size_t rest = ends_only ? 0 : size;
    edge.resize(rest);
    type.resize(rest);
    incoming.resize(rest);
  }
  void Add(uint32_t from, EdgeId id, NodeId other, Token t, bool in) {
    origin.push_back(from);
    node.push_back(other);
    if (ends_only) return;
    edge.push_back(id);
    type.push_back(t);
    incoming.push_back(in ? 1 : 0);
  }
};

// Where an expansion of many nodes goes on. {0, 0} begins; the store gives `inner` its meaning.
struct ExpandPosition {
  size_t node = 0;
  uint64_t inner = 0;
};

using Properties = std::vector<std::pair<Token, Value>>;

// Values of one property for many owners. A store that keeps a column of numbers fills `ints` or
// `floats` and `valid`, and the engine adds them up without a Value for each.
struct Column {
  enum class Kind : uint8_t { kInts, kFloats, kValues };
  Kind kind = Kind::kValues;
  std::vector<int64_t> ints;
  std::vector<double> floats;
  std::vector<uint8_t> valid;  // for the two kinds of numbers: 0 is null
  std::vector<Value> values;
};

// What a property's value is compared with. Values that have no order with it lie beyond.
struct Bound {
  enum class Kind : uint8_t { kAtLeast, kAtMost, kBeginsWith };
  Kind kind = Kind::kAtLeast;
  Value value;
};
struct PropertyBound {
  Token key = kNoToken;
  Bound bound;
};

class GraphView {
 public:
  virtual ~GraphView() = default;

  // Names. A name that the graph never saw has no token.
  virtual std::optional<Token> FindLabel(std::string_view name) const = 0;
  virtual std::optional<Token> FindType(std::string_view name) const = 0;
  virtual std::optional<Token> FindKey(std::string_view name) const = 0;
  virtual std::string LabelName(Token label) const = 0;
  virtual std::string TypeName(Token type) const = 0;
  virtual std::string KeyName(Token key) const = 0;

  // Writes the next nodes into `out` and returns how many; 0 is the end. `label` kNoToken: all
  // nodes. *position begins with 0; the store gives it its meaning.
  virtual absl::StatusOr<size_t> ScanNodes(Token label, uint64_t* position,
                                           std::span<NodeId> out) const = 0;
  // The same for all relationships of some types (empty: of all).
  virtual absl::StatusOr<size_t> ScanEdges(std::span<const Token> types, uint64_t* position,
                                           std::span<EdgeRef> out) const = 0;
  // The same scan, of which only one property is wanted: *out gets that of the next relationships,
  // at most `limit`. Returns how many; 0 is the end. A store that has columns overrides it.
  virtual absl::StatusOr<size_t> ScanEdgeProperty(std::span<const Token> types, Token key,
                                                  uint64_t* position, size_t limit,
                                                  Column* out) const {
    std::vector<EdgeRef> edges(limit);
    absl::StatusOr<size_t> count = ScanEdges(types, position, edges);
    if (!count.ok() || *count == 0) return count;
    absl::Status status = ReadEdgeProperty(key, {edges.data(), *count}, out);
    if (!status.ok()) return status;
    return count;
  }
  // Moves *position of such a scan past relationships of which the store knows, without a look at
  // them, that not all bounds hold. Returns after how many of those that follow it may know this
  // again. Who calls it goes on with ScanEdgeProperty.
  virtual size_t SkipEdges(std::span<const Token> /*types*/,
                           std::span<const PropertyBound> /*bounds*/,
                           uint64_t* /*position*/) const {
    return ~size_t{0};
  }
  // Appends about `limit` relationships of `nodes`, from *position on, and moves it; the end is
  // reached when position->node == nodes.size(). kBoth gives a loop once.
  virtual absl::Status Expand(std::span<const NodeId> nodes, Direction direction,
                              std::span<const Token> types, size_t limit, ExpandPosition* position,
                              NeighbourBatch* out) const = 0;
  // Adds to `degrees` the number of relationships of each node; kBoth counts a loop once.
  virtual absl::Status Degrees(std::span<const NodeId> nodes, Direction direction,
                               std::span<const Token> types, std::span<uint64_t> degrees) const = 0;

  // Null where there is none. `out` is filled to the size of the input.
  virtual absl::Status ReadNodeProperty(Token key, std::span<const NodeId> nodes,
                                        Column* out) const = 0;
  virtual absl::Status ReadEdgeProperty(Token key, std::span<const EdgeRef> edges,
                                        Column* out) const = 0;
  virtual absl::Status ReadNodeProperties(NodeId node, Properties* out) const = 0;
  virtual absl::Status ReadEdgeProperties(const EdgeRef& edge, Properties* out) const = 0;
  // Sorted by token or not; replaces what `out` holds.
  virtual absl::Status ReadLabels(NodeId node, std::vector<Token>* out) const = 0;
  virtual absl::Status HasLabel(Token label, std::span<const NodeId> nodes,
                                std::span<uint8_t> out) const = 0;
  // Whether every node of the view certainly has the label, so that nobody needs to ask for each.
  // False also where that is not known at once.
  virtual bool EveryNodeHas(Token label) const = 0;
  virtual absl::StatusOr<bool> NodeExists(NodeId node) const = 0;
  virtual absl::StatusOr<bool> EdgeExists(const EdgeRef& edge) const = 0;

  // Whether Seek works for the label and these keys: the first of an index, or all of it, in its
  // order. It appends the nodes whose values are equal to these, each once.
  // FailedPrecondition: there is no such index any more.
  virtual bool HasIndex(Token label, std::span<const Token> keys) const = 0;
  virtual absl::Status Seek(Token label, std::span<const Token> keys, std::span<const Value> values,
                            std::vector<NodeId>* out) const = 0;
  absl::Status SeekOne(Token label, Token key, const Value& value, std::vector<NodeId>* out) const {
    return Seek(label, {&key, 1}, {&value, 1}, out);
  }
  // *out gets nodes with the label, ascending, among them all whose property is within the bounds.
  // False: no index tells, or it found more than `most`; a scan finds them.
  virtual absl::StatusOr<bool> SeekRange(Token /*label*/, Token /*key*/,
                                         std::span<const Bound> /*bounds*/, size_t /*most*/,
                                         std::vector<NodeId>* /*out*/) const {
    return false;
  }
  // Keys of the indexes of several keys that nodes with the label have.
  virtual std::vector<std::vector<Token>> WideIndexes(Token label) const = 0;

  // Estimates for the planner. kNoToken: of all.
  virtual uint64_t NodeCount(Token label) const = 0;
  virtual uint64_t EdgeCount(Token type) const = 0;
  // Some of the nodes with a label, ascending, from all over the graph as far as that costs little.
  // Returns how many; at most those that `out` has room for.
  virtual absl::StatusOr<size_t> SampleNodes(Token label, std::span<NodeId> out) const {
    uint64_t position = 0;
    return ScanNodes(label, &position, out);
  }
};

// A view that also changes. What was written is seen by its own reads at once; the caller commits
// or rolls back, outside the engine.
class GraphTransaction : public GraphView {
 public:
  // Makes the name known where it is not.
  virtual absl::StatusOr<Token> AddLabelName(std::string_view name) = 0;
  virtual absl::StatusOr<Token> AddTypeName(std::string_view name) = 0;
  virtual absl::StatusOr<Token> AddKeyName(std::string_view name) = 0;

  // Each label once; no property is null.
  virtual absl::StatusOr<NodeId> CreateNode(std::span<const Token> labels,
                                            const Properties& properties) = 0;
  virtual absl::StatusOr<EdgeRef> CreateEdge(NodeId source, NodeId target, Token type,
                                             const Properties& properties) = 0;
  // A null value removes the property.
  virtual absl::Status SetNodeProperty(NodeId node, Token key, const Value& value) = 0;
  virtual absl::Status SetEdgeProperty(const EdgeRef& edge, Token key, const Value& value) = 0;
  // OK also where nothing changes.
  virtual absl::Status AddLabel(NodeId node, Token label) = 0;
  virtual absl::Status RemoveLabel(NodeId node, Token label) = 0;
  // The engine deletes a node's relationships first, or refuses to delete the node.
  virtual absl::Status DeleteNode(NodeId node) = 0;
  virtual absl::Status DeleteEdge(const EdgeRef& edge) = 0;
  // Commits what was changed so far, and goes on with a new transaction, also after an error:
  // Aborted is as of a commit. For who gives each statement a transaction of its own.
  virtual absl::Status CommitAndGoOn() {
    return absl::FailedPreconditionError("this transaction is not one of several in turn");
  }
  // Gives up what was changed since the last commit, and goes on with a new transaction; an error:
  // there is none to go on with.
  virtual absl::Status RollbackAndGoOn() {
    return absl::FailedPreconditionError("this transaction is not one of several in turn");
  }
  // About how much memory its changes take until it ends; 0: none, or nobody knows.
  virtual uint64_t ChangeBytes() const { return 0; }
  // The most that they may take, which the caller sees to; 0: no limit.
  virtual uint64_t ChangeLimit() const { return 0; }
};

// One value as text: as TCK, shells and logs show it, (:Label {key: 1}) and so on.
std::string ValueText(const Value& value, const GraphView& graph);

}  // namespace pulse::cypher
