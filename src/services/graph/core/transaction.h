// A transaction of the graph store: a snapshot, and what it changed, which nobody else sees before
// it is committed. Snapshot isolation: the first to commit of two that changed the same wins.
//
// One thread at a time. Nothing is logged or locked before Commit(). Memory: what it changed, and a
// hash index of it for each label and key that it seeks.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "services/graph/core/view.h"
#include "services/graph/model/database.h"

namespace pulse::graph {

// A node as it will be.
struct NodeDraft {
  NodeId id = 0;
  bool deleted = false;
  std::vector<Token> labels;
  std::string properties;  // as bytes; none where it is deleted
  // Of a node that was there before: by key, null removes; by label, true adds.
  std::map<Token, Value> changes;
  std::map<Token, bool> label_changes;
};

// A node as a commit leaves it: what others changed meanwhile, and what it changes.
struct NodeOutcome {
  std::vector<Token> labels;
  std::string properties;
};
// `latest`: the newest version; null for a node that the commit creates.
NodeOutcome OutcomeOf(const NodeDraft& draft, const NodeVersion* latest);

struct EdgeDraft {
  EdgeRef ref;
  bool deleted = false;
  std::string properties;  // none where it is deleted
  std::map<Token, Value> changes;
};

// What a commit consists of; what the store validates and logs.
struct WriteSet {
  std::vector<std::pair<NameKind, Token>> names;  // not durable when they were asked for
  std::deque<NodeDraft> created_nodes;            // by ascending identifier
  std::deque<EdgeDraft> created_edges;
  absl::flat_hash_map<NodeId, NodeDraft> nodes;  // that were there before
  absl::flat_hash_map<EdgeId, EdgeDraft> edges;

  bool empty() const {
    return created_nodes.empty() && created_edges.empty() && nodes.empty() && edges.empty();
  }
  const NodeDraft* FindCreated(NodeId node) const;
  // Created or changed; null: as the snapshot has it.
  const NodeDraft* FindNode(NodeId node) const;
  const EdgeDraft* FindEdge(EdgeId edge) const;
  // The operations that the log gets.
  std::string Encode(const NameTable& names) const;
};

class ReadSet;

// What a transaction needs of its store.
class TransactionHost {
 public:
  virtual ~TransactionHost() = default;
  // `reads` null: snapshot isolation is enough.
  virtual absl::Status CommitWrites(const View& base, const WriteSet& writes,
                                    const ReadSet* reads) = 0;
  virtual absl::StatusOr<NodeId> NewNodeId() = 0;
  virtual absl::StatusOr<EdgeId> NewEdgeId() = 0;
  // InvalidArgument: a new one that is empty. ResourceExhausted: there are too many.
  virtual absl::StatusOr<Token> AddName(NameKind kind, std::string_view name, bool* durable) = 0;
  virtual const Tables& tables() const = 0;
  virtual uint64_t ChangeLimit() const = 0;  // of one transaction; 0: none
};

class Transaction : public cypher::DatabaseTransaction {
 public:
  Transaction(TransactionHost* host, std::shared_ptr<const View> base)
      : host_(host), base_(std::move(base)) {}

  absl::Status Commit() override;

  std::optional<Token> FindLabel(std::string_view name) const override {
    return base_->FindLabel(name);
  }
  std::optional<Token> FindType(std::string_view name) const override {
    return base_->FindType(name);
  }
  std::optional<Token> FindKey(std::string_view name) const override {
    return base_->FindKey(name);
  }
  std::string LabelName(Token label) const override { return base_->LabelName(label); }
  std::string TypeName(Token type) const override { return base_->TypeName(type); }
  std::string KeyName(Token key) const override { return base_->KeyName(key); }
  absl::StatusOr<size_t> ScanNodes(Token label, uint64_t* position,
                                   std::span<NodeId> out) const override;
  absl::StatusOr<size_t> ScanEdges(std::span<const Token> types, uint64_t* position,
                                   std::span<EdgeRef> out) const override;
  absl::StatusOr<size_t> ScanEdgeProperty(std::span<const Token> types, Token key,
                                          uint64_t* position, size_t limit,
                                          Column* out) const override {
    const bool own = !writes_.created_edges.empty() || !writes_.edges.empty();
    return own ? GraphView::ScanEdgeProperty(types, key, position, limit, out)
               : base_->ScanEdgeProperty(types, key, position, limit, out);
  }
  size_t SkipEdges(std::span<const Token> types, std::span<const cypher::PropertyBound> bounds,
                   uint64_t* position) const override {
    const bool own = !writes_.created_edges.empty() || !writes_.edges.empty();
    return own ? GraphView::SkipEdges(types, bounds, position)
               : base_->SkipEdges(types, bounds, position);
  }
  absl::Status Expand(std::span<const NodeId> nodes, Direction direction,
                      std::span<const Token> types, size_t limit, ExpandPosition* position,
                      NeighbourBatch* out) const override;
  absl::Status Degrees(std::span<const NodeId> nodes, Direction direction,
                       std::span<const Token> types, std::span<uint64_t> degrees) const override;
  absl::Status ReadNodeProperty(Token key, std::span<const NodeId> nodes,
                                Column* out) const override;
  absl::Status ReadEdgeProperty(Token key, std::span<const EdgeRef> edges,
                                Column* out) const override;
  absl::Status ReadNodeProperties(NodeId node, Properties* out) const override;
  absl::Status ReadEdgeProperties(const EdgeRef& edge, Properties* out) const override;
  absl::Status ReadLabels(NodeId node, std::vector<Token>* out) const override;
  absl::Status HasLabel(Token label, std::span<const NodeId> nodes,
                        std::span<uint8_t> out) const override;
  bool EveryNodeHas(Token label) const override {
    return touched_.empty() && writes_.nodes.empty() && base_->EveryNodeHas(label);
  }
  absl::StatusOr<bool> NodeExists(NodeId node) const override {
    const NodeDraft* draft = writes_.FindNode(node);
    return draft != nullptr ? !draft->deleted : base_->HasNode(node);
  }
  absl::StatusOr<bool> EdgeExists(const EdgeRef& edge) const override;
  bool HasIndex(Token label, std::span<const Token> keys) const override {
    return base_->HasIndex(label, keys);
  }
  std::vector<std::vector<Token>> WideIndexes(Token label) const override {
    return base_->WideIndexes(label);
  }
  absl::Status Seek(Token label, std::span<const Token> keys, std::span<const Value> values,
                    std::vector<NodeId>* out) const override;
  absl::StatusOr<bool> SeekRange(Token label, Token key, std::span<const cypher::Bound> bounds,
                                 size_t most, std::vector<NodeId>* out) const override;
  absl::StatusOr<size_t> SampleNodes(Token label, std::span<NodeId> out) const override {
    return base_->SampleNodes(label, out);
  }
  uint64_t NodeCount(Token label) const override {
    return base_->NodeCount(label) + writes_.created_nodes.size();
  }
  uint64_t EdgeCount(Token type) const override {
    return base_->EdgeCount(type) + writes_.created_edges.size();
  }

  absl::StatusOr<Token> AddLabelName(std::string_view name) override {
    return AddName(NameKind::kLabel, name);
  }
  absl::StatusOr<Token> AddTypeName(std::string_view name) override {
    return AddName(NameKind::kType, name);
  }
  absl::StatusOr<Token> AddKeyName(std::string_view name) override {
    return AddName(NameKind::kKey, name);
  }
  absl::StatusOr<NodeId> CreateNode(std::span<const Token> labels,
                                    const Properties& properties) override;
  absl::StatusOr<EdgeRef> CreateEdge(NodeId source, NodeId target, Token type,
                                     const Properties& properties) override;
  absl::Status SetNodeProperty(NodeId node, Token key, const Value& value) override;
  absl::Status SetEdgeProperty(const EdgeRef& edge, Token key, const Value& value) override;
  absl::Status AddLabel(NodeId node, Token label) override;
  absl::Status RemoveLabel(NodeId node, Token label) override;
  absl::Status DeleteNode(NodeId node) override;
  absl::Status DeleteEdge(const EdgeRef& edge) override;
  uint64_t ChangeBytes() const override { return static_cast<uint64_t>(change_bytes_); }
  uint64_t ChangeLimit() const override { return host_->ChangeLimit(); }

 protected:
  // What Commit() has to validate; null: nothing.
  virtual const ReadSet* reads() const { return nullptr; }

 private:
  template <typename T>
  absl::Status SetProperty(Token key, const Value& value, T* draft);
  template <typename T>
  void DropProperties(T* draft);
  void SetLabel(Token label, bool has, NodeDraft* draft);
  // A node as this transaction sees it; false where it is not there.
  bool Look(NodeId node, std::span<const Token>* labels, std::string_view* properties) const;
  // Its draft, which is made where there is none.
  absl::StatusOr<NodeDraft*> Draft(NodeId node);
  absl::StatusOr<EdgeDraft*> Draft(const EdgeRef& edge);
  absl::StatusOr<Token> AddName(NameKind kind, std::string_view name);
  // Whether reads of adjacency are the snapshot's own.
  bool EdgesUntouched() const { return writes_.created_edges.empty() && deleted_edges_ == 0; }
  void LinkCreated() const;
  // Appends what this transaction created of a node; from `from` on, at most `most` in all.
  void OwnEdges(NodeId node, uint32_t origin, Direction direction, std::span<const Token> types,
                size_t* from, size_t most, NeighbourBatch* out) const;
  void DropDeleted(size_t from, NeighbourBatch* batch) const;

  TransactionHost* const host_;
  std::shared_ptr<const View> base_;
  WriteSet writes_;
  mutable int64_t change_bytes_ = 0;  // of drafts, and of properties twice: Commit() encodes them
  uint64_t deleted_edges_ = 0;        // that were there before
  std::vector<NodeId> touched_;       // every creation, draft, and change of labels or properties
  std::vector<NodeId> drafted_;       // nodes that were there before and have a draft
  bool finished_ = false;

  // Created relationships by node; made when adjacency is first read.
  using Linked = absl::flat_hash_map<NodeId, std::vector<uint32_t>>;
  mutable Linked out_, in_;
  mutable size_t linked_ = 0;
  // Touched nodes by the hash of a value, for each label and key that was sought.
  struct OwnIndex {
    absl::flat_hash_map<uint64_t, absl::flat_hash_set<NodeId>> nodes;
    size_t upto = 0;  // of touched_
  };
  mutable std::map<std::pair<Token, Token>, OwnIndex> own_indexes_;
};

}  // namespace pulse::graph
