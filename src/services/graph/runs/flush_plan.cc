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

// A chunk's nodes in order with their newest records, and how far a walk over them has come.
struct Walk {
  explicit Walk(const Chunk& from) : chunk(from) {
    chunk.Nodes(&nodes);
    heads.reserve(nodes.size());
    for (const NodeId node : nodes) heads.push_back(chunk.Head(node));
  }
  // ~0: at the end.
  NodeId node() const { return next < nodes.size() ? nodes[next] : ~NodeId{0}; }
  // The newest record of node(), behind which the walk goes on.
  uint32_t Next() {
    // They lie anywhere in the chunk.
    if (next + kAhead < nodes.size()) chunk.PrefetchRecord(heads[next + kAhead]);
    return heads[next++];
  }

  static constexpr size_t kAhead = 8;
  const Chunk& chunk;
  std::vector<NodeId> nodes;
  std::vector<uint32_t> heads;
  size_t next = 0;
};

}  // namespace

FlushPlan PlanFlush(std::span<const Chunk> chunks, Record* destination) {
  FlushPlan plan;
  std::vector<Walk> walks;
  for (const Chunk& chunk : chunks) walks.emplace_back(chunk);
  std::vector<uint32_t> chain;
  while (true) {
    NodeId node = ~NodeId{0};
    for (const Walk& walk : walks) node = std::min(node, walk.node());
    if (node == ~NodeId{0}) break;
    SortedNode sorted{node, plan.records, 0};
    for (Walk& walk : walks) {
      if (walk.node() != node) continue;
      chain.clear();
      // Numbers descend along a chain: one that does not is broken, and walked no further.
      uint32_t before = walk.chunk.size();
      for (uint32_t at = walk.Next(); at < before; at = walk.chunk.record(at).previous) {
        chain.push_back(at);
        before = at;
      }
      for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
        plan.copies.Add(&walk.chunk.record(*it), destination + plan.records, sizeof(Record));
        ++plan.records;
      }
    }
    sorted.count = plan.records - sorted.first;
    plan.nodes.push_back(sorted);
  }
  return plan;
}

absl::Status AddSorted(const FlushPlan& plan, const Record* sorted, PropertySource* properties,
                       RunBuilder* builder) {
  constexpr uint64_t kPrefetch = 32;
  uint64_t prefetched = 0;
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
    // Those of the next nodes; of one with many records, as they are asked for.
    prefetched = std::max(prefetched, node.first);
    while (n <= kPrefetch && prefetched < std::min(plan.records, node.first + n + kPrefetch)) {
      const uint64_t count = std::min(kPrefetch, plan.records - prefetched);
      properties->Prefetch({sorted + prefetched, count});
      prefetched += count;
    }
    for (size_t i = 0; i < n; ++i) {
      if (n > kPrefetch && i % kPrefetch == 0) {
        properties->Prefetch(std::span(records).subspan(i, std::min(kPrefetch, n - i)));
      }
      const cypher::Properties* of = properties->Find(records[i]);
      if (of != nullptr) PULSE_RETURN_IF_ERROR(rows.Add(*of, row + i));
    }
  }
  return rows.Finish();
}

}  // namespace pulse::graph
