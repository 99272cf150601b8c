#include "services/graph/runs/flush_plan.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/errors.h"

namespace pulse::graph {
namespace {

// The nodes of all chunks, ascending, each once.
std::vector<NodeId> AllNodes(std::span<const Chunk> chunks) {
  std::vector<NodeId> all, one, both;
  for (const Chunk& chunk : chunks) {
    chunk.Nodes(&one);
    both.clear();
    std::set_union(all.begin(), all.end(), one.begin(), one.end(), std::back_inserter(both));
    all.swap(both);
  }
  return all;
}

bool Before(const Record& a, const Record& b) {
  if (a.type != b.type) return a.type < b.type;
  if (a.other != b.other) return a.other < b.other;
  if (a.edge != b.edge) return a.edge < b.edge;
  return a.stamp > b.stamp;
}

// One key's rows, handed on in pieces.
struct Rows {
  Token key = kNoToken;
  uint64_t first = 0;  // row of values[0]
  std::vector<Value> values;
};

class RowCollector {
 public:
  explicit RowCollector(RunBuilder* builder) : builder_(builder) {}

  absl::Status Add(const cypher::Properties& properties, uint64_t row) {
    for (const auto& [key, value] : properties) {
      Rows& rows = RowsOf(key);
      if (rows.values.empty()) rows.first = row;
      rows.values.resize(row - rows.first);
      rows.values.push_back(value);
      if (rows.values.size() >= 4096) PULSE_RETURN_IF_ERROR(HandOn(&rows));
    }
    return absl::OkStatus();
  }
  absl::Status Finish() {
    for (Rows& rows : keys_) PULSE_RETURN_IF_ERROR(HandOn(&rows));
    return absl::OkStatus();
  }

 private:
  Rows& RowsOf(Token key) {
    for (Rows& rows : keys_) {
      if (rows.key == key) return rows;
    }
    return keys_.emplace_back(Rows{key, 0, {}});
  }
  absl::Status HandOn(Rows* rows) {
    if (rows->values.empty()) return absl::OkStatus();
    PULSE_RETURN_IF_ERROR(builder_->FillNulls(rows->key, rows->first));
    PULSE_RETURN_IF_ERROR(builder_->AppendValues(rows->key, rows->values));
    rows->values.clear();
    return absl::OkStatus();
  }

  RunBuilder* const builder_;
  std::vector<Rows> keys_;
};

}  // namespace

FlushPlan PlanFlush(std::span<const Chunk> chunks, Record* destination) {
  FlushPlan plan;
  const std::vector<NodeId> nodes = AllNodes(chunks);
  plan.nodes.reserve(nodes.size());
  std::vector<uint32_t> chain;
  for (const NodeId node : nodes) {
    SortedNode sorted{node, plan.records, 0};
    for (const Chunk& chunk : chunks) {
      chain.clear();
      // Numbers descend along a chain: one that does not is broken, and walked no further.
      uint32_t before = chunk.size();
      for (uint32_t at = chunk.Head(node); at < before; at = chunk.record(at).previous) {
        chain.push_back(at);
        before = at;
      }
      for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
        plan.copies.Add(&chunk.record(*it), destination + plan.records, sizeof(Record));
        ++plan.records;
      }
    }
    sorted.count = plan.records - sorted.first;
    plan.nodes.push_back(sorted);
  }
  return plan;
}

absl::Status AddSorted(const FlushPlan& plan, const Record* sorted,
                       const PropertyLookup& properties, RunBuilder* builder) {
  RowCollector rows(builder);
  std::vector<Record> records;
  std::vector<NodeId> others;
  std::vector<EdgeId> edges;
  std::vector<uint64_t> stamps;
  std::vector<ListInput> lists;
  for (const SortedNode& node : plan.nodes) {
    records.assign(sorted + node.first, sorted + node.first + node.count);
    if (!std::is_sorted(records.begin(), records.end(), Before)) {
      std::sort(records.begin(), records.end(), Before);
    }
    const size_t n = records.size();
    others.resize(n);
    edges.resize(n);
    stamps.resize(n);
    lists.clear();
    size_t first = 0;
    for (size_t i = 0; i < n; ++i) {
      others[i] = records[i].other;
      edges[i] = records[i].edge;
      stamps[i] = records[i].stamp;
      if (i + 1 == n || records[i + 1].type != records[i].type) {
        const size_t count = i + 1 - first;
        lists.push_back({records[i].type,
                         {&others[first], count},
                         {&edges[first], count},
                         {&stamps[first], count}});
        first = i + 1;
      }
    }
    const uint64_t row = builder->records();
    PULSE_RETURN_IF_ERROR(builder->Add(node.node, lists));
    if (properties == nullptr) continue;
    for (size_t i = 0; i < n; ++i) {
      const cypher::Properties* of = properties(records[i]);
      if (of != nullptr) PULSE_RETURN_IF_ERROR(rows.Add(*of, row + i));
    }
  }
  return rows.Finish();
}

}  // namespace pulse::graph
