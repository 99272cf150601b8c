// What View tells who counts its reads (model/read_counts.h). `counts` null: nobody does.
#pragma once

#include "services/graph/model/read_counts.h"
#include "services/graph/runs/list.h"

namespace pulse::graph {

using cypher::ReadCounts;

// A node's records in a chunk; `layer` of its side, from the newest on.
inline void CountChunk(ReadCounts* counts, Side side, size_t layer, uint64_t records) {
  if (counts == nullptr || records == 0) return;
  counts->chunk_records += records;
  counts->chunks[static_cast<size_t>(side)].Add(layer);
}

// A node's records in a run; `layer` among the runs of its side.
inline void CountList(ReadCounts* counts, const NodeView& view, size_t layer) {
  if (counts == nullptr || view.count() == 0) return;
  counts->run_records += view.count();
  counts->run_bytes += view.bytes();
  counts->runs[static_cast<size_t>(view.side())].Add(layer);
}

}  // namespace pulse::graph
