#include "services/graph/load/load_runs.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/parallel_for.h"
#include "services/graph/load/load_columns.h"
#include "services/graph/runs/record.h"

namespace pulse::graph {
namespace {

constexpr uint64_t kBlockRows = 4096;

// A relationship where it was sorted to: the other end's row, and its number among all of the load
// or within its source. Sorting moves these along: it reads in order, and only its writes jump.
struct Placed {
  uint32_t other;
  uint32_t number;
};

// One direction: the relationships of each row of nodes, one row's behind the other's.
struct Sorted {
  std::vector<uint32_t> starts;  // by row, and the end
  std::vector<Placed> placed;
  std::vector<uint32_t> types;  // of each; empty: one for all
};

// Where the relationships of each key begin, and the end.
std::vector<uint32_t> Starts(const std::vector<uint32_t>& keys, size_t count) {
  std::vector<uint32_t> starts(count + 1, 0);
  for (const uint32_t key : keys) ++starts[size_t{key} + 1];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  return starts;
}

// Those of `from`, stably by type: whose row they are of is kept beside.
Sorted ByType(const Sorted& from, const std::vector<uint32_t>& type_of, size_t types,
              std::vector<uint32_t>* rows) {
  Sorted to;
  to.starts = Starts(type_of, types);
  to.placed.resize(from.placed.size());
  rows->resize(from.placed.size());
  std::vector<uint32_t> next = to.starts;
  for (uint32_t row = 0; row + 1 < from.starts.size(); ++row) {
    for (uint32_t i = from.starts[row]; i < from.starts[row + 1]; ++i) {
      const uint32_t at = next[type_of[i]]++;
      to.placed[at] = from.placed[i];
      (*rows)[at] = row;
    }
  }
  return to;
}

// By source, type, target.
Sorted SortOut(const EdgeTable& table) {
  const size_t nodes = table.ids.size(), edges = table.sources.size();
  Sorted by_target;
  by_target.starts = Starts(table.targets, nodes);
  by_target.placed.resize(edges);
  std::vector<uint32_t> next = by_target.starts;
  for (uint32_t e = 0; e < edges; ++e) {
    by_target.placed[next[table.targets[e]]++] = {table.sources[e], e};
  }
  Sorted out;
  out.starts = Starts(table.sources, nodes);
  out.placed.resize(edges);
  next = out.starts;
  if (table.types.empty()) {
    for (uint32_t row = 0; row < nodes; ++row) {
      for (uint32_t i = by_target.starts[row]; i < by_target.starts[row + 1]; ++i) {
        const Placed& from = by_target.placed[i];
        out.placed[next[from.other]++] = {row, from.number};
      }
    }
    return out;
  }
  std::vector<uint32_t> type_of(edges), targets;
  for (size_t i = 0; i < edges; ++i) type_of[i] = table.types[by_target.placed[i].number];
  const Sorted by_type = ByType(by_target, type_of, table.tokens.size(), &targets);
  out.types.resize(edges);
  for (uint32_t type = 0; type < table.tokens.size(); ++type) {
    for (uint32_t i = by_type.starts[type]; i < by_type.starts[type + 1]; ++i) {
      const uint32_t at = next[by_type.placed[i].other]++;
      out.placed[at] = {targets[i], by_type.placed[i].number};
      out.types[at] = type;
    }
  }
  return out;
}

// By target, type, source. Numbers are those within the source.
Sorted SortIn(const EdgeTable& table, const Sorted& out) {
  const size_t nodes = table.ids.size(), edges = table.sources.size();
  Sorted in;
  in.starts = Starts(table.targets, nodes);
  in.placed.resize(edges);
  std::vector<uint32_t> next = in.starts;
  const auto number = [&](uint32_t row, uint32_t i) { return i - out.starts[row]; };
  if (table.types.empty()) {
    for (uint32_t row = 0; row < nodes; ++row) {
      for (uint32_t i = out.starts[row]; i < out.starts[row + 1]; ++i) {
        in.placed[next[out.placed[i].other]++] = {row, number(row, i)};
      }
    }
    return in;
  }
  Sorted numbered = {out.starts, out.placed, {}};
  for (uint32_t row = 0; row < nodes; ++row) {
    for (uint32_t i = out.starts[row]; i < out.starts[row + 1]; ++i) {
      numbered.placed[i].number = number(row, i);
    }
  }
  std::vector<uint32_t> sources;
  const Sorted by_type = ByType(numbered, out.types, table.tokens.size(), &sources);
  in.types.resize(edges);
  for (uint32_t type = 0; type < table.tokens.size(); ++type) {
    for (uint32_t i = by_type.starts[type]; i < by_type.starts[type + 1]; ++i) {
      const uint32_t at = next[by_type.placed[i].other]++;
      in.placed[at] = {sources[i], by_type.placed[i].number};
      in.types[at] = type;
    }
  }
  return in;
}

// Identifiers: numbered within the source, where its number and its degree allow it. What is beyond
// comes first and is counted, so that identifiers ascend.
class EdgeIds {
 public:
  explicit EdgeIds(const std::vector<NodeId>& ids) : ids_(ids) {}

  absl::Status Reserve(const Sorted& out, LoadSink* sink) {
    uint64_t counted = 0;
    for (uint32_t row = 0; row < ids_.size(); ++row) {
      const uint64_t degree = out.starts[row + 1] - out.starts[row];
      const uint64_t local = ids_[row] <= kMaxLocalSource ? kMaxOrdinal + 1 : 0;
      if (degree <= local) continue;
      beyond_[row] = {counted, static_cast<uint32_t>(degree - local)};
      counted += degree - local;
    }
    if (counted == 0) return absl::OkStatus();
    PULSE_ASSIGN_OR_RETURN(first_, sink->ReserveEdgeIds(counted));
    return absl::OkStatus();
  }

  // Of the relationship with a number within its source.
  EdgeId Of(uint32_t source, uint32_t number) const {
    if (!beyond_.empty()) {
      if (const auto found = beyond_.find(source); found != beyond_.end()) {
        if (number < found->second.count) return first_ + found->second.first + number;
        number -= found->second.count;
      }
    }
    return LocalEdgeId(ids_[source], number);
  }

 private:
  struct Beyond {
    uint64_t first;
    uint32_t count;
  };
  const std::vector<NodeId>& ids_;
  absl::flat_hash_map<uint32_t, Beyond> beyond_;
  EdgeId first_ = 0;
};

// The columns of one key in all files.
class KeyRows {
 public:
  KeyRows(Token key, const EdgeTable& table) : key_(key), table_(table) {
    for (const LoadedEdges& file : table.files) {
      const cypher::Column* found = nullptr;
      size_t at = 0;
      for (size_t c = 0; c < file.columns.size(); ++c) {
        if (file.columns[c].first != key) continue;
        found = &file.columns[c].second;
        at = c;
      }
      columns_.push_back(found);
      column_numbers_.push_back(at);
      if (found == nullptr) continue;
      ints_ = ints_ && found->kind == cypher::Column::Kind::kInts;
      floats_ = floats_ && found->kind == cypher::Column::Kind::kFloats;
    }
  }

  absl::Status Append(std::span<const Placed> edges, RunBuilder* builder) {
    const size_t n = edges.size();
    valid_.assign(n, 0);
    if (ints_) ints_rows_.resize(n);
    if (floats_) floats_rows_.resize(n);
    if (!ints_ && !floats_) return AppendValues(edges, builder);
    for (size_t i = 0; i < n; ++i) {
      const size_t f = table_.FileOf(edges[i].number);
      const cypher::Column* column = columns_[f];
      if (column == nullptr) continue;
      const uint32_t row = edges[i].number - table_.files[f].first;
      if (ints_) {
        ints_rows_[i] = column->ints[row];
        valid_[i] = column->valid[row];
      } else {
        floats_rows_[i] = column->floats[row];
        valid_[i] = column->valid[row];
      }
    }
    if (ints_) return builder->AppendInts(key_, ints_rows_, valid_);
    return builder->AppendFloats(key_, floats_rows_, valid_);
  }

 private:
  absl::Status AppendValues(std::span<const Placed> edges, RunBuilder* builder) {
    size_t fetched = 0;
    values_.clear();
    for (const Placed& edge : edges) {
      const size_t f = table_.FileOf(edge.number);
      Value& value = values_.emplace_back();
      if (columns_[f] == nullptr) continue;
      const Value held = ValueAt(*columns_[f], edge.number - table_.files[f].first);
      PULSE_ASSIGN_OR_RETURN(value, table_.files[f].WithText(column_numbers_[f], held));
      if (value.type() == held.type()) continue;
      fetched += value.as_string().size();
      if (fetched < kFetchedTextBytes) continue;
      PULSE_RETURN_IF_ERROR(builder->AppendValues(key_, values_));
      values_.clear();
      fetched = 0;
    }
    return builder->AppendValues(key_, values_);
  }

  const Token key_;
  const EdgeTable& table_;
  std::vector<const cypher::Column*> columns_;  // by file; nullptr: it has none
  std::vector<size_t> column_numbers_;          // within the file's
  bool ints_ = true, floats_ = true;
  std::vector<uint8_t> valid_;
  std::vector<int64_t> ints_rows_;
  std::vector<double> floats_rows_;
  std::vector<Value> values_;
};

absl::StatusOr<RunInfo> WriteRun(const EdgeTable& table, const Sorted& sorted, const EdgeIds& ids,
                                 RunOptions options, const std::atomic<bool>& stopped, Side side,
                                 RunSink* sink) {
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
  std::vector<NodeId> others;
  std::vector<EdgeId> edges;
  std::vector<ListInput> lists;
  uint64_t rows = 0;  // whose properties were handed on
  const auto type_of = [&](size_t i) { return sorted.types.empty() ? 0 : sorted.types[i]; };
  for (uint32_t row = 0; row < table.ids.size(); ++row) {
    const size_t begin = sorted.starts[row], end = sorted.starts[row + 1];
    if (begin == end) continue;
    if (stopped.load(std::memory_order_relaxed)) return LoadInterrupted();
    others.resize(end - begin);
    edges.resize(end - begin);
    for (size_t i = begin; i < end; ++i) {
      const Placed& placed = sorted.placed[i];
      others[i - begin] = table.ids[placed.other];
      edges[i - begin] = side == Side::kOut ? ids.Of(row, static_cast<uint32_t>(i - begin))
                                            : ids.Of(placed.other, placed.number);
    }
    lists.clear();
    for (size_t from = begin; from < end;) {
      size_t to = from + 1;
      while (to < end && type_of(to) == type_of(from)) ++to;
      lists.push_back({table.tokens[type_of(from)],
                       {&others[from - begin], to - from},
                       {&edges[from - begin], to - from},
                       {}});
      from = to;
    }
    PULSE_RETURN_IF_ERROR(builder->Add(table.ids[row], lists));
    while (!keys.empty() &&
           (end - rows >= kBlockRows || (end == sorted.placed.size() && rows < end))) {
      const uint64_t n = std::min<uint64_t>(kBlockRows, end - rows);
      for (KeyRows& key : keys) {
        PULSE_RETURN_IF_ERROR(key.Append({&sorted.placed[rows], n}, builder.get()));
      }
      rows += n;
    }
  }
  return builder->Finish();
}

}  // namespace

absl::Status WriteRuns(const EdgeTable& table, const RunOptions& options, LoadSink* sink,
                       const std::atomic<bool>& stopped, const std::function<void()>& tick,
                       BuildTimes* times) {
  const int64_t begin = NowNanos();
  const Sorted out = SortOut(table);
  EdgeIds ids(table.ids);
  PULSE_RETURN_IF_ERROR(ids.Reserve(out, sink));
  times->sort_ns = NowNanos() - begin;
  PULSE_ASSIGN_OR_RETURN(RunSink * out_sink, sink->StartRun(Side::kOut));
  PULSE_ASSIGN_OR_RETURN(RunSink * in_sink, sink->StartRun(Side::kIn));
  RunInfo infos[2];
  const auto write = [&](size_t i) -> absl::Status {
    if (i == 0) {
      PULSE_ASSIGN_OR_RETURN(infos[0],
                             WriteRun(table, out, ids, options, stopped, Side::kOut, out_sink));
    } else {
      PULSE_ASSIGN_OR_RETURN(
          infos[1], WriteRun(table, SortIn(table, out), ids, options, stopped, Side::kIn, in_sink));
    }
    return absl::OkStatus();
  };
  PULSE_RETURN_IF_ERROR(ParallelFor(2, 2, write, tick));
  times->write_ns = NowNanos() - begin - times->sort_ns;
  return sink->AdoptRuns(infos[0], infos[1]);
}

}  // namespace pulse::graph
