// Indexes and constraints: made, dropped, and checked at commit.
#include <algorithm>
#include <map>
#include <utility>

#include "base/errors.h"
#include "base/shortage.h"
#include "services/graph/core/claims.h"
#include "services/graph/core/store_impl.h"
#include "services/graph/load/load_columns.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

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

std::optional<std::vector<Value>> ValuesOf(const Index& index, const std::vector<Token>& labels,
                                           const std::string& properties) {
  NodeVersion* const version = NodeVersion::Make(0, labels, properties);
  auto values = index.ValuesOf(*version);
  NodeVersion::Free(version);
  return values;
}

absl::Status Broken(const Index& index, std::string_view how) {
  return absl::FailedPreconditionError(Concat(index.definition().Described(), ": ", how));
}

bool AreEqual(const std::optional<std::vector<Value>>& a, const std::vector<Value>& b) {
  return a && std::equal(b.begin(), b.end(), a->begin(),
                         [](const Value& x, const Value& y) { return cypher::Equals(x, y) == 1; });
}

std::string EdgeText(const EdgeRef& edge) {
  return Concat("relationship ", edge.id, " from node ", edge.source, " to node ", edge.target);
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
        const std::string lacking = index->Lacking((*version)->properties());
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
      const std::string& name = index->definition().name;
      const uint64_t claim = UniqueClaim(XXH3_64bits(name.data(), name.size()), hash);
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
      NodeId rival = ~NodeId{0};
      for (const NodeId node : candidates) {
        const NodeVersion* other = tables_.nodes.Latest(node);
        if (node == draft.id || other == nullptr || other->deleted()) continue;
        auto theirs = index->ValuesOf(*other);
        // What this commit changes is looked at as it leaves it.
        if (const auto it = writes.nodes.find(node); it != writes.nodes.end()) {
          if (it->second.deleted) continue;
          const NodeOutcome outcome = OutcomeOf(it->second, other);
          theirs = ValuesOf(*index, outcome.labels, outcome.properties);
        }
        if (AreEqual(theirs, *values)) rival = node;
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
        if (!AreEqual(ValuesSeen(*index, rival, since, writes), *values)) {
          status = absl::AbortedError(Concat("another transaction committed the same ",
                                             ValuesText(*index, *values, latest),
                                             " meanwhile; run this one again"));
          break;
        }
      }
      for (const auto& [node, theirs] : same) {
        if (AreEqual(theirs, *values)) rival = node;
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
    const std::string lacking = index.Lacking(draft.properties);
    if (lacking.empty()) return absl::OkStatus();
    return Broken(index, EdgeText(draft.ref) + lacking);
  };
  for (const EdgeDraft& draft : writes.created_edges) PULSE_RETURN_IF_ERROR(check(draft));
  for (const auto& [id, draft] : writes.edges) PULSE_RETURN_IF_ERROR(check(draft));
  return absl::OkStatus();
}

// Those that a snapshot sees.
static absl::Status CheckExistingEdges(const View& view, const Index& index) {
  const Token type = index.label();
  std::vector<EdgeRef> edges(64);  // and a property of each, which may be long
  cypher::Column column;
  for (uint64_t position = 0;;) {
    PULSE_ASSIGN_OR_RETURN(const size_t count, view.ScanEdges({&type, 1}, &position, edges));
    if (count == 0) return absl::OkStatus();
    for (size_t key = 0; key < index.keys().size(); ++key) {
      PULSE_RETURN_IF_ERROR(
          view.ReadEdgeProperty(index.keys()[key], {edges.data(), count}, &column));
      for (size_t i = 0; i < count; ++i) {
        const std::string lacking = index.Lacking(key, ValueAt(column, i));
        if (!lacking.empty()) return Broken(index, EdgeText(edges[i]) + lacking);
      }
    }
  }
}

absl::Status StoreImpl::CheckExisting(const Index& index) const {
  const IndexDefinition& definition = index.definition();
  if (!definition.Refuses()) return absl::OkStatus();
  const View latest(&tables_, layers_, kMaxSequence, nullptr);
  for (NodeId node = 0; node < tables_.nodes.end(); ++node) {
    const NodeVersion* version = tables_.nodes.Latest(node);
    if (version == nullptr || version->deleted() || !version->HasLabel(index.label())) continue;
    if (index.value_type()) {
      const std::string lacking = index.Lacking(version->properties());
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
      if (rival != nullptr && AreEqual(index.ValuesOf(*rival), *values)) {
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

// Those of the latest commit; what later ones bring is checked with them.
absl::Status StoreImpl::CheckEdgesThere(std::span<const cypher::SchemaChange> changes) {
  std::unique_lock lock(commit_mu_);
  WaitForQuiet(&lock);
  PULSE_RETURN_IF_ERROR(CheckSchemaMayChange());
  PULSE_ASSIGN_OR_RETURN(const auto view, Snapshot(applied_));
  for (const cypher::SchemaChange& change : changes) {
    const bool of_edges = !change.drop && change.index.of_edges;
    const bool checks = of_edges && CheckDefinition(change.index).ok();
    edge_checks_.push_back({checks ? BuildIndex(change.index, nullptr) : nullptr, {}});
  }
  lock.unlock();
  for (auto& [index, broken] : edge_checks_) {
    if (index == nullptr) continue;
    const absl::Status there = CheckExistingEdges(*view, *index);
    const std::lock_guard commits(commit_mu_);
    broken.Update(there);
  }
  return absl::OkStatus();
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
    PULSE_RETURN_IF_ERROR(definition.of_edges ? edge_checks_[&change - changes.data()].second
                                              : CheckExisting(*built->back()));
    built_bytes += built->back()->memory();
    if (LimitsNodes()) PULSE_RETURN_IF_ERROR(CompareNodeMemory(built_bytes));
    log->CreateIndex(built->back()->definition());
    indexes.push_back(definition);
  }
  return absl::OkStatus();
}

absl::Status StoreImpl::ChangeSchema(std::span<const cypher::SchemaChange> changes) {
  const bool extended = std::any_of(
      changes.begin(), changes.end(),
      [](const cypher::SchemaChange& change) { return !change.drop && change.index.IsExtended(); });
  const std::lock_guard schema(schema_mu_);
  absl::Status status;
  if (extended) status = CatchNoMemory([&] { return CheckEdgesThere(changes); });
  std::unique_lock maintenance(maintenance_mu_, std::defer_lock);
  if (extended && format_ < kStoreFormat) maintenance.lock();  // of the manifest
  std::unique_lock lock(commit_mu_);
  WaitForQuiet(&lock);
  std::vector<std::shared_ptr<Index>> built;
  OperationWriter writer;
  if (status.ok()) status = CheckSchemaMayChange();
  if (status.ok()) status = CatchNoMemory([&] { return PrepareSchema(changes, &built, &writer); });
  edge_checks_.clear();
  commit_cv_.notify_all();  // for bulk loads
  PULSE_RETURN_IF_ERROR(status);
  // Before the log has what an older program does not know.
  if (maintenance.owns_lock()) PULSE_RETURN_IF_ERROR(RaiseFormat(kStoreFormat));
  // Nobody commits a change of nodes until it is applied.
  built_indexes_ = std::move(built);
  status = CommitSchema(&lock, writer.Take());
  built_indexes_.clear();
  return status;
}

}  // namespace pulse::graph
