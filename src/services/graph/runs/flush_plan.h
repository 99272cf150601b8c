// Flushing chunks without a sort: chains are walked in the order of their nodes into a copy plan,
// and when it was carried out the records lie in CSR order. Section III-A of the DSA paper,
// Figure 2.
//
// Pure; any thread; nothing blocks. The chunks are full or otherwise not written to meanwhile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "services/graph/model/graph.h"
#include "services/graph/runs/chunk.h"
#include "services/graph/runs/copy_plan.h"
#include "services/graph/runs/run_builder.h"

namespace pulse::graph {

struct SortedNode {
  NodeId node = 0;
  uint64_t first = 0;  // of its records, in the sorted list
  uint64_t count = 0;
};

struct FlushPlan {
  std::vector<SortedNode> nodes;  // ascending
  uint64_t records = 0;
  CopyPlan copies;
};

// The plan that writes all records of `chunks`, from the oldest chunk to the newest and of one
// side, to `destination`, which has room for the sum of their sizes. A node's records lie in the
// order in which they were appended. Takes time by the records.
FlushPlan PlanFlush(std::span<const Chunk> chunks, Record* destination);

// The properties of versions, for runs of side kOut.
class PropertySource {
 public:
  virtual ~PropertySource() = default;
  // All that a version has; null for none. They live until the next call.
  virtual const cypher::Properties* Find(const Record& record) = 0;
  // Find() will soon be asked for these: brings what it reads into the cache.
  virtual void Prefetch(std::span<const Record> /*records*/) {}
};

// Encodes a sorted list, whose copies are done, into a builder: each node's own records are put
// into the order of a run (type, other end, identifier, newest first). `properties` null: there are
// none. The caller finishes the builder.
absl::Status AddSorted(const FlushPlan& plan, const Record* sorted, PropertySource* properties,
                       RunBuilder* builder);

}  // namespace pulse::graph
