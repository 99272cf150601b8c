// Indexes of nodes by label and the values of keys. An index holds a hash for each value that a
// node has in any version that is kept; who seeks looks at the nodes themselves, with a snapshot's
// eyes. An index of several keys is found by all of them and by the first.
// Constraints of relationships and of types (IndexDefinition::IsExtended) are kept here with the
// others; they hold nothing, and nothing is found by them.
// Ranges are found by an order of the first key's values, which an index has once somebody asked
// for one.
//
// Threads: any; a lock for each of 64 parts, and one for the order.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "services/graph/model/database.h"
#include "services/graph/model/property_type.h"
#include "services/graph/nodes/index_order.h"
#include "services/graph/nodes/node_table.h"

namespace pulse::graph {

using cypher::IndexDefinition;

class Index {
 public:
  // A type by any of its names; definition() has the one that is shown.
  Index(IndexDefinition definition, Token label, std::vector<Token> keys)
      : definition_(std::move(definition)),
        label_(label),
        keys_(std::move(keys)),
        value_type_(cypher::ParsePropertyType(definition_.type)) {
    if (value_type_) definition_.type = cypher::PropertyTypeText(*value_type_);
  }

  const IndexDefinition& definition() const { return definition_; }
  Token label() const { return label_; }  // of a constraint of relationships: their type
  const std::vector<Token>& keys() const { return keys_; }

  // The values of all keys, where the version has the label and all of them.
  std::optional<std::vector<Value>> ValuesOf(const NodeVersion& version) const;
  // That its property has to have; none: any.
  const std::optional<cypher::PropertyType>& value_type() const { return value_type_; }
  // Whether a node has all of the keys. NaN is a value, though no index finds it.
  bool HasAllKeys(const NodeVersion& version) const;
  bool Concerns(Token label_or_key, bool is_label) const;
  // What a node or relationship, or a key's value, must have and has not, for a constraint that
  // looks at one alone; empty: it may be as it is.
  std::string Lacking(std::string_view properties) const;
  std::string Lacking(size_t key, const Value& value) const;
  // About what it has in memory; and for a node of these labels and properties alone.
  uint64_t memory() const;
  uint64_t MemoryFor(std::span<const Token> labels, std::string_view properties) const;

  void Add(NodeId node, const NodeVersion& version);
  // What a version that is dropped had and those that are left, from `newest` on, have not.
  void Drop(NodeId node, const NodeVersion& dropped, const NodeVersion* newest);

  // Nodes that may have these values, in no order: of the first key, or of all.
  void FindBy(std::span<const Value> values, std::vector<NodeId>* out) const;

  // Nodes that may have a value of the first key in the range, by value, for a snapshot that is
  // open: the first call looks at all nodes with the label. False: there are more than `most`, or
  // the snapshot is older than the order.
  bool FindRange(const NodeTable& nodes, uint64_t sequence, const OrderRange& range, size_t most,
                 std::vector<NodeId>* out) const;

  // Of a value that no equality holds for (null, NaN) there is none.
  static bool Indexable(const Value& value);
  uint64_t HashAll(std::span<const Value> values) const;

 private:
  static constexpr int kPartBits = 6;
  // About what a hash takes in a part, and a node in the order.
  static constexpr uint64_t kEntryBytes = 28, kPlaceBytes = 32;
  // Most values are of one node: one look into a hash table finds it. A table that grows is copied
  // under its lock; the number of parts keeps that short.
  struct alignas(64) Part {
    mutable std::mutex mu;
    absl::flat_hash_map<uint64_t, NodeId> first;          // a node for each hash
    absl::btree_set<std::pair<uint64_t, NodeId>> others;  // that have it, too
  };
  // Of a version: of all keys, and of the first where there are more.
  void HashesOf(const NodeVersion& version, std::vector<uint64_t>* out) const;
  const Part& PartOf(uint64_t hash) const { return parts_[hash >> (64 - kPartBits)]; }
  Part& PartOf(uint64_t hash) { return parts_[hash >> (64 - kPartBits)]; }
  void Find(uint64_t hash, std::vector<NodeId>* out) const;
  // Where the version is in the order.
  std::optional<OrderPlace> PlaceIn(const NodeVersion& version) const;
  const IndexOrder& MakeOrder(const NodeTable& nodes, uint64_t sequence) const;

  IndexDefinition definition_;
  const Token label_;
  const std::vector<Token> keys_;
  const std::optional<cypher::PropertyType> value_type_;
  Part parts_[1 << kPartBits];
  std::atomic<uint64_t> entries_{0};  // of all parts
  mutable std::mutex order_mu_;       // of who makes the order
  mutable std::unique_ptr<IndexOrder> order_;
  mutable std::atomic<IndexOrder*> kept_order_{nullptr};  // order_, from when it has to be kept up
};

// InvalidArgument: there is no such index or constraint.
absl::Status CheckDefinition(const IndexDefinition& definition);

class IndexSet {
 public:
  using List = std::vector<std::shared_ptr<Index>>;
  // The indexes that there are at one time. To be walked without a name: a loop over *list_ of a
  // call that ends would walk what another thread may give back.
  class Snapshot {
   public:
    explicit Snapshot(std::shared_ptr<const List> list) : list_(std::move(list)) {}
    List::const_iterator begin() const { return list_->begin(); }
    List::const_iterator end() const { return list_->end(); }
    bool empty() const { return list_->empty(); }

   private:
    std::shared_ptr<const List> list_;
  };

  Snapshot list() const {
    std::shared_lock lock(mu_);
    return Snapshot(list_);
  }
  std::shared_ptr<Index> FindByName(const std::string& name) const;
  // One whose first key it is; of several keys, one that has these alone, in this order.
  std::shared_ptr<const Index> FindFor(Token label, std::span<const Token> keys) const;
  // Keys of those that have several.
  std::vector<std::vector<Token>> WideFor(Token label) const;
  bool AnyExtended() const;
  void Add(std::shared_ptr<Index> index);
  void Remove(const std::string& name);

 private:
  mutable std::shared_mutex mu_;
  std::shared_ptr<const List> list_ = std::make_shared<List>();
};

}  // namespace pulse::graph
