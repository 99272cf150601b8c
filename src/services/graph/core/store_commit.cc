// Commits: validation against what was committed since the snapshot, group commit, applying.
#include <algorithm>

#include "base/errors.h"
#include "base/log.h"
#include "base/shortage.h"
#include "services/graph/core/claims.h"
#include "services/graph/core/store_impl.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;

absl::Status Conflict(std::string_view what, uint64_t id, std::string_view more = "") {
  return absl::AbortedError(Concat("another transaction changed ", what, " ", id, more,
                                   " meanwhile; run this one again"));
}

// Whether a run has a record of the node that is newer than a sequence.
absl::StatusOr<bool> HasNewer(const RunReader& run, NodeId node, uint64_t since) {
  if (run.info().max_sequence <= since || !run.Contains(node)) return false;
  PULSE_ASSIGN_OR_RETURN(const NodeView view, run.Find(node));
  NodeView::Lists lists(view);
  ListView list;
  uint64_t stamps[kPiece + 8];
  while (lists.Next(&list)) {
    if (list.plain()) continue;
    for (uint64_t piece = 0; piece < list.pieces(); ++piece) {
      list.Stamps(piece, stamps);
      for (uint32_t i = 0; i < list.PieceCount(piece); ++i) {
        if (SequenceOf(stamps[i]) > since) return true;
      }
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<uint64_t> StoreImpl::NextSequence() {
  if (last_sequence_ < kMaxStoredSequence) return ++last_sequence_;
  return absl::ResourceExhaustedError("a database has at most 2^61 commits");
}

absl::StatusOr<Token> StoreImpl::AddName(NameKind kind, std::string_view name, bool* durable) {
  // Older versions took them; such a property can be removed.
  if (name.empty() && !tables_.names.Find(kind, name).has_value()) {
    return absl::InvalidArgumentError("a label, type or property has no name");
  }
  if (!cypher::IsUtf8(name) && !tables_.names.Find(kind, name).has_value()) {
    return absl::InvalidArgumentError("the name of a label, type or property is not UTF-8");
  }
  const Token token = tables_.names.Add(kind, name, durable);
  if (token < Tables::kMaxTokens) return token;
  return absl::ResourceExhaustedError("there are too many names of labels, types or keys");
}

absl::StatusOr<NodeId> StoreImpl::NewNodeId() {
  const NodeId id = next_node_.fetch_add(1, std::memory_order_relaxed);
  if (id < NodeTable::kCapacity) return id;
  return absl::ResourceExhaustedError("a database has at most 2^32 nodes");
}

absl::StatusOr<EdgeId> StoreImpl::NewEdgeId() {
  const EdgeId id = next_edge_.fetch_add(1, std::memory_order_relaxed);
  if (id < kLocalEdgeIds) return id;
  return absl::ResourceExhaustedError("a database has at most 2^52 relationships");
}

// Whether the node changed, or a relationship of it was created or deleted, after the snapshot.
absl::Status StoreImpl::ValidateDeletion(const View& base, NodeId node) const {
  const NodeVersion* latest = tables_.nodes.Latest(node);
  const uint64_t since = base.sequence();
  if (latest == nullptr || latest->deleted() || latest->begin() > since ||
      Claimed(NodeClaim(node), since) || Claimed(DeletionClaim(node), since)) {
    return Conflict("node", node);
  }
  const absl::Status edges = Conflict("relationships of node", node);
  for (const Side side : {Side::kOut, Side::kIn}) {
    const SideLayers& now = layers_->side(side);
    for (const auto& l0 : now.chunks) {
      const uint32_t head = l0->chunk().Head(node);
      if (head != kNoRecord && SequenceOf(l0->chunk().record(head).stamp) > since) return edges;
    }
    for (const Run& run : now.runs) {
      PULSE_ASSIGN_OR_RETURN(const bool newer, HasNewer(*run.reader, node, since));
      if (newer) return edges;
    }
  }
  for (const auto* list : {&queue_, &in_flight_}) {
    for (Pending* pending : *list) {
      if (Joins(pending, node)) return edges;
    }
  }
  return absl::OkStatus();
}

absl::Status StoreImpl::ValidateNodes(uint64_t since, const WriteSet& writes) const {
  for (const auto& [id, draft] : writes.nodes) {
    if (draft.deleted || (draft.changes.empty() && draft.label_changes.empty())) continue;
    const NodeVersion* latest = tables_.nodes.Latest(id);
    if (latest == nullptr || latest->deleted() || Claimed(DeletionClaim(id), since)) {
      return Conflict("node", id);
    }
    // Each alone is small enough, and both together may not be; what is on its way is not known.
    const uint64_t together = latest->properties().size() + draft.properties.size();
    if ((Claimed(NodeClaim(id), since) && together > NodeTable::kMaxProperties) ||
        (Claimed(NodeClaim(id), applied_) && together > NodeTable::kMaxProperties / 64)) {
      return Conflict("node", id);
    }
    for (const auto& [key, value] : draft.changes) {
      if (Claimed(PropertyClaim(id, key), since)) {
        return Conflict("property", key,
                        Concat(" (", tables_.names.NameOf(NameKind::kKey, key), ") of node ", id));
      }
    }
    for (const auto& [label, add] : draft.label_changes) {
      if (Claimed(LabelClaim(id, label), since)) {
        return Conflict(
            "label", label,
            Concat(" (", tables_.names.NameOf(NameKind::kLabel, label), ") of node ", id));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status StoreImpl::ValidateEndpoints(uint64_t since, const WriteSet& writes) const {
  // The snapshot had all of them, so that only what was deleted after it is missing.
  if (last_deletion_ <= since) return absl::OkStatus();
  NodeId last = ~NodeId{0};
  for (const EdgeDraft& edge : writes.created_edges) {
    if (edge.deleted) continue;
    for (const NodeId node : {edge.ref.source, edge.ref.target}) {
      // In a row, most of a loading transaction's are the same.
      if (std::exchange(last, node) == node || writes.FindCreated(node) != nullptr) continue;
      const NodeVersion* latest = tables_.nodes.Latest(node);
      if (latest == nullptr || latest->deleted() || Claimed(DeletionClaim(node), since)) {
        return Conflict("node", node);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status StoreImpl::Validate(const View& base, const WriteSet& writes) const {
  const uint64_t since = base.sequence();
  PULSE_RETURN_IF_ERROR(ValidateNodes(since, writes));
  for (const auto& [id, draft] : writes.edges) {
    if (Claimed(EdgeClaim(id), since)) return Conflict("relationship", id);
  }
  PULSE_RETURN_IF_ERROR(ValidateEndpoints(since, writes));
  for (const auto& [id, draft] : writes.nodes) {
    if (draft.deleted) PULSE_RETURN_IF_ERROR(ValidateDeletion(base, id));
  }
  return absl::OkStatus();
}

void StoreImpl::Claim(const WriteSet& writes, const std::vector<uint64_t>& more,
                      uint64_t sequence) {
  for (const auto& [id, draft] : writes.nodes) {
    if (draft.deleted) {
      claims_[DeletionClaim(id)] = sequence;
      last_deletion_ = sequence;
      continue;
    }
    claims_[NodeClaim(id)] = sequence;
    for (const auto& [key, value] : draft.changes) claims_[PropertyClaim(id, key)] = sequence;
    for (const auto& [label, add] : draft.label_changes) claims_[LabelClaim(id, label)] = sequence;
  }
  for (const auto& [id, draft] : writes.edges) claims_[EdgeClaim(id)] = sequence;
  for (const uint64_t key : more) claims_[key] = sequence;
  if (claims_.size() > forget_claims_at_) ForgetClaims();
}

void StoreImpl::ForgetClaims() {
  // No transaction has an older snapshot, nor will.
  const uint64_t oldest = oldest_.load(std::memory_order_acquire);
  const uint64_t applied = applied_;
  absl::erase_if(claims_, [&](const auto& claim) {
    return claim.second <= oldest && claim.second <= applied;
  });
  forget_claims_at_ = std::max<size_t>(4096, 2 * claims_.size());
}

bool StoreImpl::Joins(Pending* pending, NodeId node) {
  if (pending->writes == nullptr) return false;
  if (!pending->endpoints.has_value()) {
    std::vector<NodeId> nodes;
    for (const EdgeDraft& edge : pending->writes->created_edges) {
      if (edge.deleted) continue;
      for (const NodeId end : {edge.ref.source, edge.ref.target}) {
        if (nodes.empty() || nodes.back() != end) nodes.push_back(end);
      }
    }
    std::sort(nodes.begin(), nodes.end());
    pending->endpoints = std::move(nodes);
  }
  return std::binary_search(pending->endpoints->begin(), pending->endpoints->end(), node);
}

absl::Status StoreImpl::CommitWrites(const View& base, const WriteSet& writes,
                                     const ReadSet* reads) {
  Pending pending;
  PULSE_RETURN_IF_ERROR(CatchNoMemory([&] {
    pending.payload = writes.Encode(tables_.names);
    return absl::OkStatus();
  }));
  if (pending.payload.empty()) return absl::OkStatus();
  std::unique_lock lock(commit_mu_);
  const auto may_commit = [this] { return !schema_changing_ && quiet_waiters_ == 0; };
  do {
    commit_cv_.wait(lock, may_commit);
    PULSE_RETURN_IF_ERROR(WaitForMemory(&lock));
  } while (!may_commit());  // a change may have begun while it waited for memory
  if (closed_) return absl::FailedPreconditionError("the database is closed");
  PULSE_RETURN_IF_ERROR(apply_failure_);
  PULSE_RETURN_IF_ERROR(CatchNoMemory([&] { return Validate(base, writes); }));
  if (reads != nullptr) PULSE_RETURN_IF_ERROR(ValidateReads(base.sequence(), *reads));
  std::vector<uint64_t> more;
  PULSE_RETURN_IF_ERROR(ValidateConstraints(base.sequence(), writes, &more));
  if (LimitsNodes()) {
    PULSE_RETURN_IF_ERROR(CatchNoMemory([&] {
      pending.node_memory = AddedNodeMemory(writes);
      return CheckNodeMemory(pending.node_memory);
    }));
  }
  PULSE_ASSIGN_OR_RETURN(pending.entry.sequence, NextSequence());
  pending.entry.payload = pending.payload;
  pending.writes = &writes;
  for (auto& [index, broken] : edge_checks_) {
    if (index != nullptr) broken.Update(ValidateEdgeConstraint(*index, writes));
  }
  if (!serializable_.empty()) {
    Footprint footprint = Footprint::Of(writes, pending.entry.sequence);
    // Together with what others did to a node, it may have any of the values that it did not have.
    for (const auto& [id, draft] : writes.nodes) {
      footprint.any_value |= Claimed(NodeClaim(id), base.sequence());
    }
    KeepFootprint(std::move(footprint));
  }
  Claim(writes, more, pending.entry.sequence);
  queue_.push_back(&pending);
  if (leading_) pending.turn.wait(lock, [&] { return pending.done || pending.leads; });
  if (!pending.done) Lead(&lock);
  return pending.entry.result;
}

void StoreImpl::Lead(std::unique_lock<std::mutex>* lock) {
  leading_ = true;
  in_flight_.swap(queue_);
  lock->unlock();
  // Without memory, too, the next one is told that it leads.
  const absl::Status written = CatchNoMemory([this] {
    std::vector<WalEntry*> entries;
    for (Pending* pending : in_flight_) entries.push_back(&pending->entry);
    wal_->Write(entries);
    return absl::OkStatus();
  });
  lock->lock();
  uint64_t logged = 0;
  for (Pending* pending : in_flight_) {
    WalEntry& entry = pending->entry;
    if (!written.ok()) entry.result = written;
    if (entry.result.ok()) {
      logged = entry.sequence;
      if (apply_failure_.ok())
        KeepApplyFailure(CatchNoMemory([&] { return Apply(logged, entry.payload); }));
      entry.result = apply_failure_;
    }
    // A sequence whose commit failed stands for nothing; nobody sees a half of one.
    if (apply_failure_.ok()) applied_ = entry.sequence;
  }
  Publish(applied_);
  // Not one that failed: its record may be there, and its sequence may be given again.
  if (logged != 0) {
    if (options_.sync) synced_ = logged;
    WriteCommitted(logged);
  }
  for (Pending* pending : in_flight_) {
    pending->done = true;
    pending->turn.notify_one();
  }
  in_flight_.clear();
  leading_ = !queue_.empty();
  if (leading_) {
    queue_.front()->leads = true;
    queue_.front()->turn.notify_one();
  } else {
    commit_cv_.notify_all();
  }
  if (WantsFlush()) WakeMaintenance();
  // What it does not come to for want of memory, a later one does.
  CatchNoMemory([this] {
    PruneNodes();
    return absl::OkStatus();
  }).IgnoreError();
}

void StoreImpl::KeepApplyFailure(const absl::Status& applied) {
  if (applied.ok()) return;
  apply_failure_ = applied;  // also without memory for more words
  CatchNoMemory([&] {
    apply_failure_ = absl::Status(
        applied.code(), Concat(std::string(applied.message()),
                               "; the commit is in the log, and the database goes on for reading "
                               "only: open it again"));
    return absl::OkStatus();
  }).IgnoreError();
}

void StoreImpl::WaitForQuiet(std::unique_lock<std::mutex>* lock) {
  ++quiet_waiters_;
  while (leading_) commit_cv_.wait(*lock);
  // Those that it kept waiting come when the caller gives the mutex back.
  if (--quiet_waiters_ == 0) commit_cv_.notify_all();
}

void StoreImpl::Publish(uint64_t sequence) {
  std::lock_guard lock(view_mu_);
  visible_ = sequence;
  UpdateOldest();
}

void StoreImpl::WriteCommitted(uint64_t sequence) {
  if (committed_ == nullptr) return;
  const absl::Status written = committed_->Write({sequence, synced_});
  // Followers wait then; what is committed stays so.
  if (!written.ok() && !committed_failed_) {
    Log(LogLevel::kWarn,
        Concat("graph: change feeds of ", path_, " lag behind: ", std::string(written.message())));
  }
  committed_failed_ = !written.ok();
}

absl::Status StoreImpl::Apply(uint64_t sequence, std::string_view payload) {
  OperationReader reader(payload);
  while (true) {
    // Some at a time, so that what they find in the chunks is fetched together.
    size_t count = 0;
    bool more = true;
    for (; count < operations_.size(); ++count) {
      Operation& op = operations_[count];
      PULSE_ASSIGN_OR_RETURN(more, reader.Next(&op));
      if (!more) break;
      using Kind = Operation::Kind;
      if (op.kind == Kind::kCreateEdge || op.kind == Kind::kDeleteEdge) PrefetchEnds(op.edge);
    }
    for (const Operation& op : std::span(operations_).first(count)) {
      PULSE_RETURN_IF_ERROR(ApplyOperation(sequence, op));
    }
    if (!more) return absl::OkStatus();
  }
}

void StoreImpl::PrefetchEnds(const EdgeRef& edge) const {
  const auto& out = layers_->out.chunks;
  const auto& in = layers_->in.chunks;
  if (!out.empty()) out.front()->chunk().Prefetch(edge.source);
  if (!in.empty()) in.front()->chunk().Prefetch(edge.target);
}

absl::Status StoreImpl::ApplyOperation(uint64_t sequence, const Operation& op) {
  using Kind = Operation::Kind;
  switch (op.kind) {
    case Kind::kName:
      if (op.token >= Tables::kMaxTokens ||
          !tables_.names.SetDurable(op.name_kind, op.token, op.text)) {
        return absl::DataLossError(Concat("commit ", sequence, " gives a name twice"));
      }
      break;
    case Kind::kCreateNode:
    case Kind::kSetNode:
    case Kind::kAddLabel:
    case Kind::kRemoveLabel:
    case Kind::kDeleteNode:
      return ApplyNode(sequence, op);
    case Kind::kCreateEdge:
    case Kind::kSetEdge:
    case Kind::kDeleteEdge:
      // Only when the log is read: these are in runs.
      if (sequence > layers_->flushed) return ApplyEdge(sequence, op);
      break;
    case Kind::kCreateIndex:
    case Kind::kDropIndex:
      return ApplyIndex(op);
    case Kind::kCounters:
      next_node_ = std::max<NodeId>(next_node_, op.node);
      next_edge_ = std::max<EdgeId>(next_edge_, op.edge.id);
      break;
  }
  return absl::OkStatus();
}

void StoreImpl::CountLabels(std::span<const Token> labels, int64_t by) {
  for (const Token label : labels) *tables_.label_counts.Make(label) += by;
}

void StoreImpl::Install(NodeId node, NodeVersion* version) {
  const NodeVersion* before = tables_.nodes.Latest(node);
  if (before != nullptr && !before->deleted()) {
    CountLabels(before->labels(), -1);
    --tables_.node_count;
  }
  if (!version->deleted()) {
    CountLabels(version->labels(), 1);
    ++tables_.node_count;
  }
  tables_.nodes.Install(node, version);
  const auto indexes = tables_.indexes.list();
  for (const auto& index : indexes) index->Add(node, *version);
  if (before != nullptr) prunable_.emplace_back(version->begin(), node);
}

void StoreImpl::PruneNodes() {
  const uint64_t oldest = oldest_.load(std::memory_order_relaxed);
  if (prunable_.empty() || prunable_.front().first > oldest) return;
  const auto indexes = tables_.indexes.list();
  // Some at a time, once a snapshot has gone that kept many; and more than come.
  size_t left = std::max<size_t>(4096, prunable_.size() / 64);
  for (; left > 0 && !prunable_.empty() && prunable_.front().first <= oldest; --left) {
    const NodeId node = prunable_.front().second;
    prunable_.pop_front();
    NodeTable::Drop drop;
    if (!indexes.empty()) {
      drop = [&](const NodeVersion& dropped, const NodeVersion* newest) {
        for (const auto& index : indexes) index->Drop(node, dropped, newest);
      };
    }
    tables_.nodes.Prune(node, oldest, drop);
  }
}

absl::Status StoreImpl::ApplyNode(uint64_t sequence, const Operation& op) {
  using Kind = Operation::Kind;
  if (op.node >= NodeTable::kCapacity) {
    return absl::DataLossError(Concat("commit ", sequence, " has node ", op.node));
  }
  if (op.kind == Kind::kCreateNode) {
    for (const Token label : op.labels) {
      if (label >= Tables::kMaxTokens) return absl::DataLossError("a label is damaged");
    }
    if (op.node >= next_node_) next_node_ = op.node + 1;
    Install(op.node, NodeVersion::Make(sequence, op.labels, op.properties));
    return absl::OkStatus();
  }
  const NodeVersion* latest = tables_.nodes.Latest(op.node);
  if (latest == nullptr || latest->deleted()) {
    return absl::DataLossError(
        Concat("commit ", sequence, " changes node ", op.node, ", which is not there"));
  }
  std::vector<Token> labels(latest->labels().begin(), latest->labels().end());
  std::string properties;
  std::string_view bytes = latest->properties();
  switch (op.kind) {
    case Kind::kSetNode:
      if (!ChangeProperties(bytes, op.properties, &properties)) {
        return absl::DataLossError(Concat("the properties of node ", op.node, " are damaged"));
      }
      bytes = properties;
      break;
    case Kind::kAddLabel:
      if (op.token >= Tables::kMaxTokens) return absl::DataLossError("a label is damaged");
      if (!latest->HasLabel(op.token)) labels.push_back(op.token);
      break;
    case Kind::kRemoveLabel:
      std::erase(labels, op.token);
      break;
    default:
      Install(op.node, NodeVersion::Make(sequence, {}, {}, true));
      return absl::OkStatus();
  }
  Install(op.node, NodeVersion::Make(sequence, labels, bytes));
  return absl::OkStatus();
}

void StoreImpl::AddChunk(Side side) {
  auto next = std::make_shared<Layers>(*layers_);
  auto& chunks = side == Side::kOut ? next->out.chunks : next->in.chunks;
  chunks.insert(chunks.begin(), std::make_shared<L0Chunk>(side));
  InstallLayers(std::move(next));
}

void StoreImpl::AppendRecord(Side side, NodeId node, const Record& record) {
  const auto& chunks = layers_->side(side).chunks;
  if (!chunks.empty() && chunks.front()->Append(node, record)) return;
  AddChunk(side);
  PULSE_CHECK(layers_->side(side).chunks.front()->Append(node, record));
}

absl::Status StoreImpl::ApplyEdge(uint64_t sequence, const Operation& op) {
  using Kind = Operation::Kind;
  const EdgeRef& edge = op.edge;
  if (edge.type >= Tables::kMaxTokens || edge.source >= NodeTable::kCapacity ||
      edge.target >= NodeTable::kCapacity) {
    return absl::DataLossError(Concat("commit ", sequence, " has a damaged relationship"));
  }
  const uint64_t oldest = oldest_.load(std::memory_order_relaxed);
  const uint64_t flags = op.kind == Kind::kCreateEdge ? 0
                         : op.kind == Kind::kSetEdge  ? kUpdate
                                                      : kTombstone;
  Record record{edge.target, edge.id, MakeStamp(sequence, flags), kNoRecord, edge.type};
  if (op.kind == Kind::kSetEdge) {
    const View latest(&tables_, layers_, kMaxSequence, nullptr);
    std::string before, after;
    PULSE_ASSIGN_OR_RETURN(const bool found, latest.EdgeBytes(edge, &before));
    if (!found) {
      return absl::DataLossError(
          Concat("commit ", sequence, " changes relationship ", edge.id, ", which is not there"));
    }
    if (!ChangeProperties(before, op.properties, &after)) {
      return absl::DataLossError(
          Concat("the properties of relationship ", edge.id, " are damaged"));
    }
    tables_.edges.Add(edge.id, sequence, false, after, oldest);
    AppendRecord(Side::kOut, edge.source, record);
    return absl::OkStatus();
  }
  const bool deleted = op.kind == Kind::kDeleteEdge;
  if (deleted || !op.properties.empty()) {
    tables_.edges.Add(edge.id, sequence, deleted, op.properties, oldest);
  }
  AppendRecord(Side::kOut, edge.source, record);
  record.other = edge.source;
  AppendRecord(Side::kIn, edge.target, record);
  tables_.edge_count += deleted ? -1 : 1;
  *tables_.type_counts.Make(edge.type) += deleted ? -1 : 1;
  if (!IsLocalEdgeId(edge.id) && edge.id >= next_edge_) next_edge_ = edge.id + 1;
  return absl::OkStatus();
}

}  // namespace pulse::graph
