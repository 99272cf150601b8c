// How much nodes and their indexes have in memory, and the limit of it.
#include <algorithm>

#include "base/errors.h"
#include "base/shortage.h"
#include "services/graph/core/store_impl.h"
#include "services/graph/model/text.h"

namespace pulse::graph {

using cypher::Concat;

uint64_t StoreImpl::NodeMemory() const {
  uint64_t bytes = tables_.nodes.memory();
  const auto indexes = tables_.indexes.list();
  for (const auto& index : indexes) bytes += index->memory();
  return bytes;
}

uint64_t StoreImpl::MemoryOfVersion(std::span<const Token> labels,
                                    std::string_view properties) const {
  uint64_t bytes = NodeVersion::MemoryOf(labels.size(), properties.size());
  const auto indexes = tables_.indexes.list();
  for (const auto& index : indexes) bytes += index->MemoryFor(labels, properties);
  return bytes;
}

uint64_t StoreImpl::MemoryOfNewNode(std::span<const Token> labels,
                                    std::string_view properties) const {
  return NodeTable::kSlotBytes + MemoryOfVersion(labels, properties);
}

uint64_t StoreImpl::AddedNodeMemory(const WriteSet& writes) const {
  uint64_t added = 0, gone = 0;
  for (const NodeDraft& draft : writes.created_nodes) {
    if (!draft.deleted) added += MemoryOfNewNode(draft.labels, draft.properties);
  }
  for (const auto& [id, draft] : writes.nodes) {
    if (!draft.deleted && draft.changes.empty() && draft.label_changes.empty()) continue;
    // What it replaces is freed when no snapshot sees it any more.
    const NodeVersion* latest = tables_.nodes.Latest(id);
    if (latest != nullptr) gone += MemoryOfVersion(latest->labels(), latest->properties());
    if (draft.deleted) {
      added += NodeVersion::MemoryOf(0, 0);
    } else {
      const NodeOutcome outcome = OutcomeOf(draft, latest);
      added += MemoryOfVersion(outcome.labels, outcome.properties);
    }
  }
  return added - std::min(added, gone);
}

absl::Status StoreImpl::CompareNodeMemory(uint64_t more) const {
  if (more == 0) return absl::OkStatus();
  uint64_t coming = reserved_nodes_;
  for (const auto* list : {&queue_, &in_flight_}) {
    for (const Pending* pending : *list) coming += pending->node_memory;
  }
  const uint64_t limit = options_.node_memory;
  const uint64_t held = NodeMemory() + coming;
  if (held + more <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(Concat(
      "nodes and their indexes may take ", limit, " bytes of memory (node_memory), have ", held,
      ", and this needs ", more,
      " more: delete nodes, properties or indexes, or open the database with a higher limit"));
}

void StoreImpl::PruneAllNodes() {
  while (!prunable_.empty() && prunable_.front().first <= oldest_.load(std::memory_order_relaxed)) {
    PruneNodes();
  }
}

absl::Status StoreImpl::CheckNodeMemory(uint64_t more) {
  if (CompareNodeMemory(more).ok()) return absl::OkStatus();
  // Commits free only some of it, each.
  PruneAllNodes();
  return CompareNodeMemory(more);
}

absl::Status StoreImpl::ReserveNodeMemory(uint64_t bytes, LoadedGraph* graph) {
  if (!LimitsNodes()) return absl::OkStatus();
  std::lock_guard lock(commit_mu_);
  PULSE_RETURN_IF_ERROR(CatchNoMemory([&] { return CheckNodeMemory(bytes); }));
  reserved_nodes_ += bytes;
  graph->node_memory += bytes;
  return absl::OkStatus();
}

}  // namespace pulse::graph
