// What a transaction did, as the log and checkpoints write it: logical operations, one after the
// other, each a byte for its kind and varints. A commit is applied from these bytes, whether it was
// just made durable or is read again after a kill, so that both are the same code.
// docs/internals/graph-store.md specifies the bytes.
//
// Pure; one thread for each object. A reader takes any bytes: damage is DataLoss.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/model/database.h"
#include "services/graph/model/properties.h"

namespace pulse::graph {

using cypher::EdgeId;
using cypher::EdgeRef;
using cypher::IndexDefinition;
using cypher::NodeId;

enum class NameKind : uint8_t { kLabel = 0, kType = 1, kKey = 2 };

struct Operation {
  enum class Kind : uint8_t {
    kName = 1,          // name_kind, token, text
    kCreateNode = 2,    // node, labels, properties
    kCreateEdge = 3,    // edge, properties
    kSetNode = 4,       // node, properties: changes
    kSetEdge = 5,       // edge, properties: changes
    kAddLabel = 6,      // node, token
    kRemoveLabel = 7,   // node, token
    kDeleteNode = 8,    // node
    kDeleteEdge = 9,    // edge
    kCreateIndex = 10,  // index
    kDropIndex = 11,    // text
    kCounters = 12,     // node: the next identifier of a node; edge.id: of a relationship
  };
  Kind kind = Kind::kName;
  NameKind name_kind = NameKind::kLabel;
  Token token = 0;
  NodeId node = 0;
  EdgeRef edge;
  std::vector<Token> labels;
  std::string_view properties;  // into what is read
  std::string_view text;
  IndexDefinition index;
};

class OperationWriter {
 public:
  void Name(NameKind kind, Token token, std::string_view name);
  void CreateNode(NodeId node, std::span<const Token> labels, std::string_view properties);
  void CreateEdge(const EdgeRef& edge, std::string_view properties);
  void SetNode(NodeId node, std::string_view changes);
  void SetEdge(const EdgeRef& edge, std::string_view changes);
  void AddLabel(NodeId node, Token label);
  void RemoveLabel(NodeId node, Token label);
  void DeleteNode(NodeId node);
  void DeleteEdge(const EdgeRef& edge);
  void CreateIndex(const IndexDefinition& index);
  void DropIndex(std::string_view name);
  void Counters(NodeId next_node, EdgeId next_edge);

  const std::string& bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }
  void clear() { bytes_.clear(); }

 private:
  void Begin(Operation::Kind kind) { bytes_.push_back(static_cast<char>(kind)); }
  void Number(uint64_t value) { cypher::AppendVarint(value, &bytes_); }
  void Text(std::string_view text);
  void Edge(const EdgeRef& edge);
  // Identifiers are written as differences from the one before.
  void Id(uint64_t id, uint64_t* last);

  std::string bytes_;
  uint64_t last_node_ = 0;
  uint64_t last_edge_ = 0;
};

class OperationReader {
 public:
  explicit OperationReader(std::string_view bytes) : bytes_(bytes), left_(bytes) {}
  // False: the end.
  absl::StatusOr<bool> Next(Operation* operation);

 private:
  bool Read(Operation* operation);
  bool Number(uint64_t* value) { return cypher::ReadVarint(&left_, value); }
  bool ReadToken(Token* token);
  bool Text(std::string_view* text);
  bool String(std::string* text);
  bool Edge(EdgeRef* edge);
  bool Id(uint64_t* id, uint64_t* last);
  bool Index(bool extended, IndexDefinition* index);

  std::string_view bytes_, left_;
  uint64_t last_node_ = 0;
  uint64_t last_edge_ = 0;
};

}  // namespace pulse::graph
