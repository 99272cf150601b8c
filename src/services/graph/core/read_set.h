// What a serializable transaction has read, and what a commit has changed, so that the one can be
// checked against the other when it commits (store_commit.cc). A transaction whose reads nobody has
// changed since its snapshot could have run at the moment of its commit: those that commit are
// serializable in the order of their commits, and those that only read in that of their snapshots.
//
// Reads are kept as ranges: nodes and relationships as bitmaps of 64 numbers, scans by label or
// type, index reads by the value. What cannot be told apart counts as a conflict: the transaction
// is run again without a need.
//
// Pure; one thread at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "services/graph/core/names.h"
#include "services/graph/core/operations.h"
#include "services/graph/model/graph.h"

namespace pulse::graph {

struct WriteSet;

// A set of numbers, most of which have neighbours.
class NumberSet {
 public:
  void Add(uint64_t number) { words_[number / 64] |= uint64_t{1} << (number % 64); }
  bool Contains(uint64_t number) const {
    const auto it = words_.find(number / 64);
    return it != words_.end() && (it->second >> (number % 64) & 1) != 0;
  }
  bool empty() const { return words_.empty(); }
  size_t words() const { return words_.size(); }

 private:
  absl::flat_hash_map<uint64_t, uint64_t> words_;
};

// Nodes of a label that have a value of a key.
uint64_t SeekHash(Token label, Token key, const Value& value);

// What one commit changed.
struct Footprint {
  uint64_t sequence = 0;
  bool everything = false;           // a bulk load
  std::vector<NodeId> nodes;         // labels, properties, existence
  std::vector<EdgeId> edges;         // properties, existence
  std::vector<NodeId> sources;       // of relationships that were created or deleted
  std::vector<NodeId> targets;       // the same
  std::vector<Token> types;          // the same
  std::vector<Token> types_changed;  // of relationships whose properties changed
  std::vector<Token> labels;         // that a node has got or lost, also by creation or deletion
  bool any_node = false;             // one was created or deleted
  std::vector<uint64_t> values;      // SeekHash() of what a node has now
  bool any_value = false;            // and of what else it may have
  std::vector<std::pair<NameKind, Token>> names;  // that it brought

  static Footprint Of(const WriteSet& writes, uint64_t sequence);
  size_t bytes() const;
};

class ReadSet {
 public:
  void AddNode(NodeId node) { Add(node, &nodes_); }
  void AddEdge(EdgeId edge) { Add(edge, &edges_); }
  // Which relationships a node has.
  void AddAdjacency(NodeId node, cypher::Direction direction);
  void AddLabel(Token label);  // which nodes have it; kNoToken: which there are
  void AddTypes(std::span<const Token> types, bool properties);  // a scan; empty: of all
  void AddSeek(Token label, Token key, const Value& value);
  // A name that nothing had.
  void AddMissingName(NameKind kind, std::string_view name);

  // What the commit changed that was read, for the message; nothing: no conflict.
  std::optional<std::string> Conflict(const Footprint& commit, const NameTable& names) const;

 private:
  // 32 MiB or so; then everything counts as read.
  static constexpr size_t kMostWords = size_t{1} << 20;
  void Add(uint64_t number, NumberSet* set);
  // It has grown.
  void Count(size_t words);

  bool everything_ = false;
  NumberSet nodes_, edges_, outgoing_, incoming_;
  size_t words_ = 0;
  bool all_nodes_ = false;
  absl::flat_hash_set<Token> labels_;
  // kNoToken among them: all types.
  absl::flat_hash_set<Token> types_, types_with_properties_;
  absl::flat_hash_set<uint64_t> seeks_;
  absl::flat_hash_map<NameKind, absl::flat_hash_set<std::string>> missing_;
};

}  // namespace pulse::graph
