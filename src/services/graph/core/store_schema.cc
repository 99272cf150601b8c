// Indexes and constraints: made, dropped, and checked at commit.
#include <algorithm>
#include <map>
#include <utility>

#include "base/errors.h"
#include "base/shortage.h"
#include "services/graph/core/claims.h"
#include "services/graph/core/store_impl.h"
#include "services/graph/load/load_columns.h"
#include "services/graph/model/literal.h"
#include "services/graph/model/property_type.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

std::string Described(const Index& index) {
  std::string keys;
  for (const std::string& key : index.definition().keys) {
    if (!keys.empty()) keys += ", ";
    keys += key;
  }
  const IndexDefinition& definition = index.definition();
  return Concat("constraint ", definition.name,
                definition.of_edges ? " on [:" : " on :", definition.label,
                definition.of_edges ? "](" : "(", keys, ")");
}

// Keys and values, for messages.
std::string ValuesText(const Index& index, const std::vector<Value>& values,
                       const cypher::GraphView& view) {
  std::string out;
  for (size_t i = 0; i < values.size(); ++i) {
    out += Concat(i == 0 ? "" : ", ", index.definition().keys[i], " = ",
                  cypher::ValueText(values[i], view));
  }
  return out;
}

uint64_t NameHash(const Index& index) {
  const std::string& name = index.definition().name;
  return XXH3_64bits(name.data(), name.size());
}

std::optional<std::vector<Value>> ValuesOf(const Index& index, const std::vector<Token>& labels,
                                           const std::string& properties) {
  NodeVersion* const version = NodeVersion::Make(0, labels, properties);
  auto values = index.ValuesOf(*version);
  NodeVersion::Free(version);
  return values;
}

absl::Status Broken(const Index& index, std::string_view how) {
  return absl::FailedPreconditionError(Concat(Described(index), ": ", how));
}

// What a key's value must be and is not, for a constraint that looks at one node or relationship
// alone; empty: it may be as it is.
std::string Lacking(const Index& index, size_t key, const Value& value) {
  const IndexDefinition& definition = index.definition();
  if (definition.required && value.is_null()) return Concat(" must have ", definition.keys[key]);
  if (!index.value_type() || cypher::FitsType(value, *index.value_type())) return {};
  return Concat(" must have ", definition.keys[key], " of type ", definition.type, ", and has ",
                cypher::ShortText(cypher::LiteralText(value).value_or("another value")));
}

std::string Lacking(const Index& index, std::string_view properties) {
  std::string lacking;
  for (size_t i = 0; i < index.keys().size() && lacking.empty(); ++i) {
    lacking = Lacking(index, i, PropertyValue(properties, index.keys()[i]));
  }
  return lacking;
}

std::string EdgeText(const EdgeRef& edge) {
  return Concat("relationship ", edge.id, " from node ", edge.source, " to node ", edge.target);
}

absl::Status CheckDefinition(const IndexDefinition& definition) {
  if (definition.name.empty() || definition.label.empty() || definition.keys.empty()) {
    return absl::InvalidArgumentError("an index has a name, a label, and one key at least");
  }
  if (!definition.IsExtended()) return absl::OkStatus();
  if (definition.unique || !definition.constraint ||
      definition.required != definition.type.empty()) {
    return absl::InvalidArgumentError(
        "a constraint of relationships or of types requires a value or its type, and is no index");
  }
  if (definition.type.empty()) return absl::OkStatus();
  if (definition.keys.size() == 1 && cypher::ParsePropertyType(definition.type)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(Concat(
      "a constraint of types has one key and one type of properties, and not ", definition.type));
}

}  // namespace

std::optional<std::vector<Value>> StoreImpl::ValuesSeen(const Index& index, NodeId node,
                                                        uint64_t since,
                                                        const WriteSet& writes) const {
  if (const auto own = writes.nodes.find(node); own != writes.nodes.end()) {
    return ValuesOf(index, own->second.labels, own->second.properties);
  }
  const NodeVersion* seen = tables_.nodes.Latest(node);
  while (seen != nullptr && seen->begin() > since) seen = seen->previous();
  return seen == nullptr ? std::nullopt : index.ValuesOf(*seen);
}

absl::Status StoreImpl::ValidateConstraints(uint64_t since, const WriteSet& writes,
                                            std::vector<uint64_t>* claims) const {
  const auto indexes = tables_.indexes.list();
  std::vector<const Index*> constraints;
  for (const auto& index : indexes) {
    if (index->definition().of_edges) {
      PULSE_RETURN_IF_ERROR(ValidateEdgeConstraint(*index, writes));
    } else if (index->definition().Refuses()) {
      constraints.push_back(index.get());
    }
  }
  if (constraints.empty()) return absl::OkStatus();
  const View latest(&tables_, layers_, kMaxSequence, nullptr);
  // Tuples that this commit itself brings.
  std::map<std::pair<const Index*, uint64_t>, std::vector<std::pair<NodeId, std::vector<Value>>>>
      own;
  const auto check = [&](const NodeDraft& draft, const NodeVersion* before) -> absl::Status {
    std::optional<NodeVersion*> version;
    absl::Status status;
    for (const Index* index : constraints) {
      if (before != nullptr) {
        bool concerned = false;
        for (const auto& [key, value] : draft.changes) concerned |= index->Concerns(key, false);
        for (const auto& [label, add] : draft.label_changes)
          concerned |= index->Concerns(label, true);
        if (!concerned) continue;
        // Two that pass alone may break it together.
        const uint64_t key = ConstrainedClaim(draft.id);
        if (Claimed(key, applied_)) {
          status = absl::AbortedError(
              Concat("another transaction changes node ", draft.id, "; run this one again"));
          break;
        }
        claims->push_back(key);
      }
      if (!version) {
        const NodeOutcome outcome = OutcomeOf(draft, before);
        version = NodeVersion::Make(0, outcome.labels, outcome.properties);
      }
      if (!(*version)->HasLabel(index->label())) continue;
      if (index->value_type()) {
        const std::string lacking = Lacking(*index, (*version)->properties());
        if (lacking.empty()) continue;
        status = Broken(*index, Concat("node ", draft.id, lacking));
        break;
      }
      const auto values = index->ValuesOf(**version);
      if (!values) {
        if (!index->definition().required || index->HasAllKeys(**version)) continue;
        status = Broken(*index,
                        Concat("node ", draft.id, " must have ",
                               index->definition().keys.size() > 1 ? "all of its keys"
                                                                   : index->definition().keys[0]));
        break;
      }
      if (!index->definition().unique) continue;
      const uint64_t hash = index->HashAll(*values);
      const uint64_t claim = UniqueClaim(NameHash(*index), hash);
      if (Claimed(claim, applied_)) {
        status =
            absl::AbortedError(Concat("another transaction commits the same ",
                                      ValuesText(*index, *values, latest), "; run this one again"));
        break;
      }
      claims->push_back(claim);
      std::vector<NodeId> candidates;
      index->FindBy(*values, &candidates);
      auto& same = own[{index, hash}];
      const auto equal = [&](const std::vector<Value>& other) {
        for (size_t i = 0; i < other.size(); ++i) {
          if (cypher::Equals(other[i], (*values)[i]) != 1) return false;
        }
        return true;
      };
      NodeId rival = ~NodeId{0};
      for (const NodeId node : candidates) {
        // What this commit changes is looked at as it leaves it.
        if (node == draft.id || writes.nodes.contains(node)) {
          const auto it = writes.nodes.find(node);
          if (node == draft.id || it->second.deleted) continue;
          const NodeVersion* other = tables_.nodes.Latest(node);
          if (other == nullptr || other->deleted()) continue;
          const NodeOutcome outcome = OutcomeOf(it->second, other);
          const auto theirs = ValuesOf(*index, outcome.labels, outcome.properties);
          if (theirs && equal(*theirs)) rival = node;
          continue;
        }
        const NodeVersion* other = tables_.nodes.Latest(node);
        if (other == nullptr) continue;
        const auto theirs = index->ValuesOf(*other);
        if (theirs && equal(*theirs)) rival = node;
      }
      // One that is on its way to the disk may take the values from it.
      if (rival != ~NodeId{0} &&
          (Claimed(ConstrainedClaim(rival), applied_) || Claimed(DeletionClaim(rival), applied_))) {
        status = absl::AbortedError(
            Concat("another transaction changes node ", rival, "; run this one again"));
        break;
      }
      // Who runs again sees what this transaction did not: neither its snapshot nor its own changes
      // have it.
      if (rival != ~NodeId{0}) {
        const auto theirs = ValuesSeen(*index, rival, since, writes);
        if (!theirs || !equal(*theirs)) {
          status = absl::AbortedError(Concat("another transaction committed the same ",
                                             ValuesText(*index, *values, latest),
                                             " meanwhile; run this one again"));
          break;
        }
      }
      for (const auto& [node, theirs] : same) {
        if (equal(theirs)) rival = node;
      }
      if (rival != ~NodeId{0}) {
        status = Broken(*index, Concat("node ", rival, " has ", ValuesText(*index, *values, latest),
                                       " already"));
        break;
      }
      same.emplace_back(draft.id, *values);
    }
    if (version) NodeVersion::Free(*version);
    return status;
  };
  for (const NodeDraft& draft : writes.created_nodes) {
    if (!draft.deleted) PULSE_RETURN_IF_ERROR(check(draft, nullptr));
  }
  for (const auto& [id, draft] : writes.nodes) {
    if (!draft.deleted) PULSE_RETURN_IF_ERROR(check(draft, tables_.nodes.Latest(id)));
  }
  return absl::OkStatus();
}

// A draft has all of its properties: who else changes the relationship meanwhile is a conflict.
absl::Status StoreImpl::ValidateEdgeConstraint(const Index& index, const WriteSet& writes) const {
  const auto check = [&index](const EdgeDraft& draft) -> absl::Status {
    if (draft.deleted || draft.ref.type != index.label()) return absl::OkStatus();
    const std::string lacking = Lacking(index, draft.properties);
    if (lacking.empty()) return absl::OkStatus();
    return Broken(index, EdgeText(draft.ref) + lacking);
  };
  for (const EdgeDraft& draft : writes.created_edges) PULSE_RETURN_IF_ERROR(check(draft));
  for (const auto& [id, draft] : writes.edges) PULSE_RETURN_IF_ERROR(check(draft));
  return absl::OkStatus();
}

absl::Status StoreImpl::CheckExistingEdges(const Index& index) const {
  const View latest(&tables_, layers_, kMaxSequence, nullptr);
  const Token type = index.label();
  std::vector<EdgeRef> edges(1024);
  cypher::Column column;
  for (uint64_t position = 0;;) {
    PULSE_ASSIGN_OR_RETURN(const size_t count, latest.ScanEdges({&type, 1}, &position, edges));
    if (count == 0) return absl::OkStatus();
    for (size_t key = 0; key < index.keys().size(); ++key) {
      PULSE_RETURN_IF_ERROR(
          latest.ReadEdgeProperty(index.keys()[key], {edges.data(), count}, &column));
      for (size_t i = 0; i < count; ++i) {
        const std::string lacking = Lacking(index, key, ValueAt(column, i));
        if (!lacking.empty()) return Broken(index, EdgeText(edges[i]) + lacking);
      }
    }
  }
}

absl::Status StoreImpl::CheckExisting(const Index& index) const {
  const IndexDefinition& definition = index.definition();
  if (definition.of_edges) return CheckExistingEdges(index);
  if (!definition.Refuses()) return absl::OkStatus();
  const View latest(&tables_, layers_, kMaxSequence, nullptr);
  for (NodeId node = 0; node < tables_.nodes.end(); ++node) {
    const NodeVersion* version = tables_.nodes.Latest(node);
    if (version == nullptr || version->deleted() || !version->HasLabel(index.label())) continue;
    if (index.value_type()) {
      const std::string lacking = Lacking(index, version->properties());
      if (!lacking.empty()) return Broken(index, Concat("node ", node, lacking));
      continue;
    }
    const auto values = index.ValuesOf(*version);
    if (!values) {
      if (!definition.required || index.HasAllKeys(*version)) continue;
      return Broken(index, Concat("node ", node, " has not all of its keys"));
    }
    if (!definition.unique) continue;
    std::vector<NodeId> candidates;
    index.FindBy(*values, &candidates);
    for (const NodeId other : candidates) {
      const NodeVersion* rival = other == node ? nullptr : tables_.nodes.Latest(other);
      const auto theirs = rival == nullptr ? std::nullopt : index.ValuesOf(*rival);
      bool equal = theirs.has_value();
      for (size_t i = 0; equal && i < values->size(); ++i) {
        equal = cypher::Equals((*theirs)[i], (*values)[i]) == 1;
      }
      if (equal) {
        return Broken(index, Concat("nodes ", node, " and ", other, " both have ",
                                    ValuesText(index, *values, latest)));
      }
    }
  }
  return absl::OkStatus();
}

// With all versions of all nodes in it. Logs names that are new.
std::shared_ptr<Index> StoreImpl::BuildIndex(const IndexDefinition& definition,
                                             OperationWriter* log) {
  const auto token_of = [&](NameKind kind, const std::string& name) {
    bool durable;
    const Token token = tables_.names.Add(kind, name, &durable);
    if (!durable && log != nullptr) log->Name(kind, token, name);
    return token;
  };
  const NameKind kind = definition.of_edges ? NameKind::kType : NameKind::kLabel;
  const Token label = token_of(kind, definition.label);
  std::vector<Token> keys;
  for (const std::string& key : definition.keys) keys.push_back(token_of(NameKind::kKey, key));
  auto index = std::make_shared<Index>(definition, label, std::move(keys));
  if (definition.IsExtended()) return index;
  for (NodeId first = 0; first < tables_.nodes.end(); first += 64) {
    for (uint64_t word = tables_.nodes.LabelWord(label, first); word != 0; word &= word - 1) {
      const NodeId node = first + static_cast<NodeId>(__builtin_ctzll(word));
      for (const NodeVersion* v = tables_.nodes.Latest(node); v != nullptr; v = v->previous()) {
        index->Add(node, *v);
      }
    }
  }
  return index;
}

absl::Status StoreImpl::ApplyIndex(const Operation& op) {
  if (op.kind == Operation::Kind::kDropIndex) {
    tables_.indexes.Remove(std::string(op.text));
    return absl::OkStatus();
  }
  if (op.index.keys.empty()) return absl::DataLossError("an index without a key");
  if (tables_.indexes.FindByName(op.index.name) != nullptr) return absl::OkStatus();
  const auto built = std::find_if(built_indexes_.begin(), built_indexes_.end(),
                                  [&](const auto& i) { return i->definition() == op.index; });
  auto index = built != built_indexes_.end() ? *built : BuildIndex(op.index, nullptr);
  tables_.indexes.Add(std::move(index));
  return absl::OkStatus();
}

absl::Status StoreImpl::CommitSchema(std::unique_lock<std::mutex>* lock,
                                     const std::string& payload) {
  Pending pending;
  pending.payload = payload;
  PULSE_ASSIGN_OR_RETURN(pending.entry.sequence, NextSequence());
  pending.entry.payload = pending.payload;
  queue_.push_back(&pending);
  // A commit that was validated without it must not come behind it.
  schema_changing_ = true;
  Lead(lock);
  schema_changing_ = false;
  commit_cv_.notify_all();
  return pending.entry.result;
}

absl::Status StoreImpl::CheckSchemaMayChange() const {
  if (closed_ || options_.read_only) {
    return absl::FailedPreconditionError("the database is not open for writing");
  }
  if (loads_ > 0) return absl::FailedPreconditionError("a bulk load is running");
  return apply_failure_;
}

absl::Status StoreImpl::PrepareSchema(std::span<const cypher::SchemaChange> changes,
                                      std::vector<std::shared_ptr<Index>>* built,
                                      OperationWriter* log) {
  std::vector<IndexDefinition> indexes;
  for (const auto& index : tables_.indexes.list()) indexes.push_back(index->definition());
  uint64_t built_bytes = 0;
  // Not later: what is built is in no list yet from which versions that go are dropped.
  if (LimitsNodes()) PruneAllNodes();
  for (const cypher::SchemaChange& change : changes) {
    const IndexDefinition& definition = change.index;
    const auto named = std::find_if(indexes.begin(), indexes.end(), [&](const auto& index) {
      return index.name == definition.name;
    });
    if (change.drop) {
      if (named == indexes.end()) {
        return absl::NotFoundError(Concat("there is no index named ", definition.name));
      }
      indexes.erase(named);
      log->DropIndex(definition.name);
      continue;
    }
    PULSE_RETURN_IF_ERROR(CheckDefinition(definition));
    if (named != indexes.end()) {
      return absl::AlreadyExistsError(Concat("there is an index named ", definition.name));
    }
    for (const IndexDefinition& other : indexes) {
      if (!other.Excludes(definition)) continue;
      return absl::AlreadyExistsError(
          Concat("index ", other.name, " is of the same label and keys"));
    }
    built->push_back(BuildIndex(definition, log));
    PULSE_RETURN_IF_ERROR(CheckExisting(*built->back()));
    built_bytes += built->back()->memory();
    if (LimitsNodes()) PULSE_RETURN_IF_ERROR(CompareNodeMemory(built_bytes));
    log->CreateIndex(definition);
    indexes.push_back(definition);
  }
  return absl::OkStatus();
}

absl::Status StoreImpl::ChangeSchema(std::span<const cypher::SchemaChange> changes) {
  const bool extended = std::any_of(
      changes.begin(), changes.end(),
      [](const cypher::SchemaChange& change) { return !change.drop && change.index.IsExtended(); });
  std::unique_lock maintenance(maintenance_mu_, std::defer_lock);
  if (extended) maintenance.lock();  // of the manifest
  std::unique_lock lock(commit_mu_);
  WaitForQuiet(&lock);
  PULSE_RETURN_IF_ERROR(CheckSchemaMayChange());
  std::vector<std::shared_ptr<Index>> built;
  OperationWriter writer;
  PULSE_RETURN_IF_ERROR(CatchNoMemory([&] { return PrepareSchema(changes, &built, &writer); }));
  // Before the log has what an older program does not know.
  if (extended) PULSE_RETURN_IF_ERROR(RaiseFormat(kStoreFormat));
  // Nobody commits a change of nodes until it is applied.
  built_indexes_ = std::move(built);
  const absl::Status status = CommitSchema(&lock, writer.Take());
  built_indexes_.clear();
  return status;
}

}  // namespace pulse::graph
