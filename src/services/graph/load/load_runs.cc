#include "services/graph/load/load_runs.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/errors.h"
#include "services/graph/load/load_columns.h"
#include "services/graph/load/parallel.h"
#include "services/graph/runs/record.h"

namespace pulse::graph {
namespace {

constexpr uint64_t kBlockRows = 4096;

using Order = std::vector<uint32_t>;

// The edges of `from` (empty: all, in their order) stably sorted by a key below `keys`.
Order SortedBy(const std::vector<uint32_t>& key, uint32_t keys, const Order& from) {
  std::vector<uint32_t> next(size_t{keys} + 1, 0);
  for (const uint32_t k : key) ++next[size_t{k} + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  Order to(key.size());
  if (from.empty()) {
    for (uint32_t e = 0; e < key.size(); ++e) to[next[key[e]]++] = e;
  } else {
    for (const uint32_t e : from) to[next[key[e]]++] = e;
  }
  return to;
}

// Identifiers: numbered within the source, where its number and its degree allow it. What is beyond
// comes first and is counted, so that identifiers ascend.
class EdgeIds {
 public:
  absl::Status Assign(const EdgeTable& table, const Order& out, LoadSink* sink) {
    number_.resize(out.size());
    uint64_t counted = 0;
    for (size_t begin = 0; begin < out.size();) {
      const uint32_t source = table.sources[out[begin]];
      size_t end = begin;
      for (; end < out.size() && table.sources[out[end]] == source; ++end) {
        number_[out[end]] = static_cast<uint32_t>(end - begin);
      }
      const uint64_t local = table.ids[source] <= kMaxLocalSource ? kMaxOrdinal + 1 : 0;
      if (end - begin > local) {
        beyond_[source] = {counted, static_cast<uint32_t>(end - begin - local)};
        counted += end - begin - local;
      }
      begin = end;
    }
    if (counted == 0) return absl::OkStatus();
    PULSE_ASSIGN_OR_RETURN(first_, sink->ReserveEdgeIds(counted));
    return absl::OkStatus();
  }

  EdgeId Of(const EdgeTable& table, uint32_t edge) const {
    const uint32_t source = table.sources[edge];
    uint32_t number = number_[edge];
    if (!beyond_.empty()) {
      if (const auto found = beyond_.find(source); found != beyond_.end()) {
        if (number < found->second.count) return first_ + found->second.first + number;
        number -= found->second.count;
      }
    }
    return LocalEdgeId(table.ids[source], number);
  }

 private:
  struct Beyond {
    uint64_t first;
    uint32_t count;
  };
  std::vector<uint32_t> number_;  // within the source, by edge
  absl::flat_hash_map<uint32_t, Beyond> beyond_;
  EdgeId first_ = 0;
};

// The columns of one key in all files.
class KeyRows {
 public:
  KeyRows(Token key, const EdgeTable& table) : key_(key), table_(table) {
    for (const LoadedEdges& file : table.files) {
      const cypher::Column* found = nullptr;
      for (const auto& [of, column] : file.columns) {
        if (of == key) found = &column;
      }
      columns_.push_back(found);
      if (found == nullptr) continue;
      ints_ = ints_ && found->kind == cypher::Column::Kind::kInts;
      floats_ = floats_ && found->kind == cypher::Column::Kind::kFloats;
    }
  }

  absl::Status Append(std::span<const uint32_t> edges, RunBuilder* builder) {
    const size_t n = edges.size();
    valid_.assign(n, 0);
    if (ints_) ints_rows_.resize(n);
    if (floats_) floats_rows_.resize(n);
    if (!ints_ && !floats_) values_.assign(n, Value());
    for (size_t i = 0; i < n; ++i) {
      size_t f = 0;
      while (edges[i] - table_.files[f].first >= table_.files[f].count) ++f;
      const cypher::Column* column = columns_[f];
      if (column == nullptr) continue;
      const uint32_t row = edges[i] - table_.files[f].first;
      if (ints_) {
        ints_rows_[i] = column->ints[row];
        valid_[i] = column->valid[row];
      } else if (floats_) {
        floats_rows_[i] = column->floats[row];
        valid_[i] = column->valid[row];
      } else {
        values_[i] = ValueAt(*column, row);
      }
    }
    if (ints_) return builder->AppendInts(key_, ints_rows_, valid_);
    if (floats_) return builder->AppendFloats(key_, floats_rows_, valid_);
    return builder->AppendValues(key_, values_);
  }

 private:
  const Token key_;
  const EdgeTable& table_;
  std::vector<const cypher::Column*> columns_;  // by file; nullptr: it has none
  bool ints_ = true, floats_ = true;
  std::vector<uint8_t> valid_;
  std::vector<int64_t> ints_rows_;
  std::vector<double> floats_rows_;
  std::vector<Value> values_;
};

absl::StatusOr<RunInfo> WriteRun(const EdgeTable& table, const Order& order, const EdgeIds& ids,
                                 RunOptions options, Side side, RunSink* sink) {
  options.side = side;
  PULSE_ASSIGN_OR_RETURN(const auto builder, RunBuilder::Create(options, sink));
  std::vector<KeyRows> keys;
  if (side == Side::kOut) {
    std::vector<Token> tokens;
    for (const LoadedEdges& file : table.files) {
      for (const auto& column : file.columns) tokens.push_back(column.first);
    }
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (const Token key : tokens) keys.emplace_back(key, table);
  }
  const std::vector<uint32_t>& owners = side == Side::kOut ? table.sources : table.targets;
  const std::vector<uint32_t>& others = side == Side::kOut ? table.targets : table.sources;
  std::vector<NodeId> other_ids;
  std::vector<EdgeId> edge_ids;
  std::vector<ListInput> lists;
  uint64_t rows = 0;  // whose properties were handed on
  for (size_t begin = 0; begin < order.size();) {
    const uint32_t owner = owners[order[begin]];
    size_t end = begin;
    other_ids.clear();
    edge_ids.clear();
    for (; end < order.size() && owners[order[end]] == owner; ++end) {
      other_ids.push_back(table.ids[others[order[end]]]);
      edge_ids.push_back(ids.Of(table, order[end]));
    }
    lists.clear();
    const auto type_of = [&](size_t i) { return table.types.empty() ? 0 : table.types[order[i]]; };
    for (size_t from = begin; from < end;) {
      size_t to = from + 1;
      while (to < end && type_of(to) == type_of(from)) ++to;
      lists.push_back({table.tokens[type_of(from)],
                       {&other_ids[from - begin], to - from},
                       {&edge_ids[from - begin], to - from},
                       {}});
      from = to;
    }
    PULSE_RETURN_IF_ERROR(builder->Add(table.ids[owner], lists));
    begin = end;
    while (!keys.empty() && (end - rows >= kBlockRows || (end == order.size() && rows < end))) {
      const uint64_t n = std::min<uint64_t>(kBlockRows, end - rows);
      for (KeyRows& key : keys) {
        PULSE_RETURN_IF_ERROR(key.Append({&order[rows], n}, builder.get()));
      }
      rows += n;
    }
  }
  return builder->Finish();
}

}  // namespace

absl::Status WriteRuns(const EdgeTable& table, const RunOptions& options, LoadSink* sink,
                       const std::function<void()>& tick, BuildTimes* times) {
  const int64_t begin = NowNanos();
  const auto nodes = static_cast<uint32_t>(table.ids.size());
  const auto types = static_cast<uint32_t>(table.tokens.size());
  Order out = SortedBy(table.targets, nodes, {});
  if (!table.types.empty()) out = SortedBy(table.types, types, out);
  out = SortedBy(table.sources, nodes, out);
  EdgeIds ids;
  PULSE_RETURN_IF_ERROR(ids.Assign(table, out, sink));
  times->sort_ns = NowNanos() - begin;
  PULSE_ASSIGN_OR_RETURN(RunSink * out_sink, sink->StartRun(Side::kOut));
  PULSE_ASSIGN_OR_RETURN(RunSink * in_sink, sink->StartRun(Side::kIn));
  RunInfo infos[2];
  const auto write = [&](size_t i) -> absl::Status {
    if (i == 0) {
      PULSE_ASSIGN_OR_RETURN(infos[0], WriteRun(table, out, ids, options, Side::kOut, out_sink));
      return absl::OkStatus();
    }
    Order in = table.types.empty() ? Order() : SortedBy(table.types, types, out);
    in = SortedBy(table.targets, nodes, in.empty() ? out : in);
    PULSE_ASSIGN_OR_RETURN(infos[1], WriteRun(table, in, ids, options, Side::kIn, in_sink));
    return absl::OkStatus();
  };
  PULSE_RETURN_IF_ERROR(ParallelFor(2, 2, write, tick));
  times->write_ns = NowNanos() - begin - times->sort_ns;
  return sink->AdoptRuns(infos[0], infos[1]);
}

}  // namespace pulse::graph
