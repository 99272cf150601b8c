#include "services/graph/runs/flush_plan.h"

#include <algorithm>
#include <cstring>

#include "base/errors.h"

namespace pulse::graph {
namespace {

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
      bytes_ += value.Bytes();
      if (rows.values.size() >= 4096) PULSE_RETURN_IF_ERROR(HandOn(&rows));
    }
    // All keys at once, so that none is far ahead of one that ends its segment early.
    return bytes_ >= kHandOnBytes ? Finish() : absl::OkStatus();
  }
  absl::Status Finish() {
    bytes_ = 0;
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

  static constexpr size_t kHandOnBytes = size_t{1} << 20;
  RunBuilder* const builder_;
  std::vector<Rows> keys_;
  size_t bytes_ = 0;  // since all were handed on
};

}  // namespace

FlushPlan PlanFlush(std::span<const Chunk> chunks, Record* destination) {
  FlushPlan plan;
  // Each chunk's nodes, and how far the walk has come: a chunk is asked for the nodes that it has.
  std::vector<std::vector<NodeId>> nodes(chunks.size());
  std::vector<size_t> next(chunks.size());
  for (size_t i = 0; i < chunks.size(); ++i) chunks[i].Nodes(&nodes[i]);
  std::vector<uint32_t> chain;
  while (true) {
    NodeId node = ~NodeId{0};
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (next[i] < nodes[i].size()) node = std::min(node, nodes[i][next[i]]);
    }
    if (node == ~NodeId{0}) break;
    SortedNode sorted{node, plan.records, 0};
    for (size_t i = 0; i < chunks.size(); ++i) {
      if (next[i] == nodes[i].size() || nodes[i][next[i]] != node) continue;
      ++next[i];
      const Chunk& chunk = chunks[i];
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
