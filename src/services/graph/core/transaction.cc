#include "services/graph/core/transaction.h"

#include <algorithm>

#include "base/errors.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

absl::Status CheckStorable(const Value& value) {
  if (cypher::IsStorable(value)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Concat("a property cannot be a ", cypher::TypeName(value.type())));
}

absl::Status CheckStorable(const Properties& properties) {
  for (const auto& [key, value] : properties) PULSE_RETURN_IF_ERROR(CheckStorable(value));
  return absl::OkStatus();
}

absl::Status CheckSize(const std::string& properties) {
  if (properties.size() <= NodeTable::kMaxProperties) return absl::OkStatus();
  return absl::ResourceExhaustedError(Concat("the properties take ", properties.size(),
                                             " bytes, at most ", NodeTable::kMaxProperties,
                                             " are kept"));
}

// Of a property that was changed, beside its bytes; of a relationship in the lists of both ends.
constexpr int64_t kChangeBytes = 96, kLinkBytes = 32;
// A table of hashes has about twice as many places as entries just after it has grown; and what a
// small allocation takes.
constexpr int64_t kPlaces = 2, kBlockBytes = 48;

int64_t Bytes(const std::string& text) { return static_cast<int64_t>(text.size()); }

}  // namespace

template <typename T>
absl::Status Transaction::SetProperty(Token key, const Value& value, T* draft) {
  PULSE_RETURN_IF_ERROR(CheckStorable(value));
  std::string changed;
  if (!ChangeProperties(draft->properties, EncodeProperties({{key, value}}, true), &changed)) {
    return absl::DataLossError("damaged properties");
  }
  PULSE_RETURN_IF_ERROR(CheckSize(changed));
  const bool fresh = draft->changes.insert_or_assign(key, value).second;
  change_bytes_ += 2 * (Bytes(changed) - Bytes(draft->properties)) + (fresh ? kChangeBytes : 0);
  draft->properties = std::move(changed);
  return absl::OkStatus();
}

void Transaction::SetLabel(Token label, bool has, NodeDraft* draft) {
  const bool fresh = draft->label_changes.insert_or_assign(label, has).second;
  change_bytes_ += fresh ? kBlockBytes + kLinkBytes : 0;
}

template <typename T>
void Transaction::DropProperties(T* draft) {
  change_bytes_ -= 2 * Bytes(draft->properties);
  draft->properties = {};
}

absl::Status Transaction::Commit() {
  if (finished_) return absl::FailedPreconditionError("the transaction is over");
  finished_ = true;
  absl::Status status =
      writes_.empty() ? absl::OkStatus() : host_->CommitWrites(*base_, writes_, reads());
  base_.reset();
  return status;
}

absl::StatusOr<Token> Transaction::AddName(NameKind kind, std::string_view name) {
  bool durable;
  PULSE_ASSIGN_OR_RETURN(const Token token, host_->AddName(kind, name, &durable));
  if (!durable && std::find(writes_.names.begin(), writes_.names.end(),
                            std::make_pair(kind, token)) == writes_.names.end()) {
    writes_.names.emplace_back(kind, token);
  }
  return token;
}

bool Transaction::Look(NodeId node, std::span<const Token>* labels,
                       std::string_view* properties) const {
  if (const NodeDraft* draft = writes_.FindNode(node)) {
    *labels = draft->labels;
    *properties = draft->properties;
    return !draft->deleted;
  }
  const NodeVersion* version = base_->FindNode(node);
  if (version == nullptr) return false;
  *labels = version->labels();
  *properties = version->properties();
  return true;
}

absl::StatusOr<NodeDraft*> Transaction::Draft(NodeId node) {
  if (const NodeDraft* created = writes_.FindCreated(node)) {
    if (created->deleted) return NoSuch("node", node);
    return const_cast<NodeDraft*>(created);
  }
  const auto it = writes_.nodes.find(node);
  if (it != writes_.nodes.end()) {
    if (it->second.deleted) return NoSuch("node", node);
    return &it->second;
  }
  const NodeVersion* version = base_->FindNode(node);
  if (version == nullptr) return NoSuch("node", node);
  NodeDraft& draft = writes_.nodes[node];
  draft.id = node;
  draft.labels.assign(version->labels().begin(), version->labels().end());
  draft.properties = version->properties();
  change_bytes_ +=
      kPlaces * static_cast<int64_t>(sizeof(NodeDraft)) + kBlockBytes + 2 * Bytes(draft.properties);
  drafted_.push_back(node);
  touched_.push_back(node);
  return &draft;
}

absl::StatusOr<EdgeDraft*> Transaction::Draft(const EdgeRef& edge) {
  if (const EdgeDraft* known = writes_.FindEdge(edge.id)) {
    if (known->deleted) return NoSuch("relationship", edge.id);
    return const_cast<EdgeDraft*>(known);
  }
  std::string properties;
  PULSE_ASSIGN_OR_RETURN(const bool found, base_->EdgeBytes(edge, &properties));
  if (!found) return NoSuch("relationship", edge.id);
  EdgeDraft& draft = writes_.edges[edge.id];
  draft.ref = edge;
  draft.properties = std::move(properties);
  change_bytes_ += kPlaces * static_cast<int64_t>(sizeof(EdgeDraft)) + 2 * Bytes(draft.properties);
  return &draft;
}

absl::StatusOr<NodeId> Transaction::CreateNode(std::span<const Token> labels,
                                               const Properties& properties) {
  PULSE_RETURN_IF_ERROR(CheckStorable(properties));
  NodeDraft draft;
  draft.labels.assign(labels.begin(), labels.end());
  draft.properties = EncodeProperties(properties);
  PULSE_RETURN_IF_ERROR(CheckSize(draft.properties));
  PULSE_ASSIGN_OR_RETURN(draft.id, host_->NewNodeId());
  const NodeId id = draft.id;
  change_bytes_ += static_cast<int64_t>(sizeof(NodeDraft) + labels.size_bytes() + sizeof(id)) +
                   2 * Bytes(draft.properties);
  writes_.created_nodes.push_back(std::move(draft));
  touched_.push_back(id);
  return id;
}

absl::StatusOr<EdgeRef> Transaction::CreateEdge(NodeId source, NodeId target, Token type,
                                                const Properties& properties) {
  PULSE_RETURN_IF_ERROR(CheckStorable(properties));
  for (const NodeId node : {source, target}) {
    PULSE_ASSIGN_OR_RETURN(const bool exists, Transaction::NodeExists(node));
    if (!exists) return NoSuch("node", node);
  }
  EdgeDraft draft;
  draft.properties = EncodeProperties(properties);
  PULSE_RETURN_IF_ERROR(CheckSize(draft.properties));
  draft.ref = {0, source, target, type};
  PULSE_ASSIGN_OR_RETURN(draft.ref.id, host_->NewEdgeId());
  change_bytes_ +=
      static_cast<int64_t>(sizeof(EdgeDraft)) + kLinkBytes + 2 * Bytes(draft.properties);
  writes_.created_edges.push_back(std::move(draft));
  return writes_.created_edges.back().ref;
}

absl::Status Transaction::SetNodeProperty(NodeId node, Token key, const Value& value) {
  PULSE_ASSIGN_OR_RETURN(NodeDraft* const draft, Draft(node));
  PULSE_RETURN_IF_ERROR(SetProperty(key, value, draft));
  touched_.push_back(node);
  change_bytes_ += sizeof(node);
  return absl::OkStatus();
}

absl::Status Transaction::SetEdgeProperty(const EdgeRef& edge, Token key, const Value& value) {
  PULSE_ASSIGN_OR_RETURN(EdgeDraft* const draft, Draft(edge));
  return SetProperty(key, value, draft);
}

absl::Status Transaction::AddLabel(NodeId node, Token label) {
  PULSE_ASSIGN_OR_RETURN(NodeDraft* const draft, Draft(node));
  if (std::find(draft->labels.begin(), draft->labels.end(), label) != draft->labels.end()) {
    return absl::OkStatus();
  }
  draft->labels.push_back(label);
  SetLabel(label, true, draft);
  touched_.push_back(node);
  change_bytes_ += sizeof(node);
  return absl::OkStatus();
}

absl::Status Transaction::RemoveLabel(NodeId node, Token label) {
  PULSE_ASSIGN_OR_RETURN(NodeDraft* const draft, Draft(node));
  if (std::erase(draft->labels, label) > 0) SetLabel(label, false, draft);
  return absl::OkStatus();
}

absl::Status Transaction::DeleteNode(NodeId node) {
  uint64_t degree = 0;
  PULSE_ASSIGN_OR_RETURN(NodeDraft* const draft, Draft(node));
  PULSE_RETURN_IF_ERROR(Degrees({&node, 1}, Direction::kBoth, {}, {&degree, 1}));
  if (degree > 0) {
    return absl::FailedPreconditionError(Concat("node ", node, " has relationships"));
  }
  draft->deleted = true;
  DropProperties(draft);
  return absl::OkStatus();
}

absl::Status Transaction::DeleteEdge(const EdgeRef& edge) {
  PULSE_ASSIGN_OR_RETURN(EdgeDraft* const draft, Draft(edge));
  draft->deleted = true;
  DropProperties(draft);
  if (writes_.edges.contains(edge.id)) ++deleted_edges_;
  return absl::OkStatus();
}

}  // namespace pulse::graph
