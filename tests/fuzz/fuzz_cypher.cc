// Queries that anyone may send. Whatever the text: parsing and planning end, an error has its
// place, and what can be planned runs on a small graph within its limits, without changing what its
// plan says.
#include <string>

#include "fuzz_input.h"
#include "services/graph/cypher/engine.h"
#include "services/graph/model/test_memory_graph.h"
#include "services/graph/planner/make_plan.h"
#include "services/graph/syntax/error.h"

namespace {

using pulse::cypher::MemoryGraph;
using pulse::cypher::Slot;
using pulse::cypher::Token;
using pulse::cypher::Value;

MemoryGraph SmallGraph() {
  MemoryGraph graph;
  const Token label = *graph.AddLabelName("A"), type = *graph.AddTypeName("T"),
              key = *graph.AddKeyName("x");
  uint64_t last = 0;
  for (int i = 0; i < 4; ++i) {
    const auto node = graph.CreateNode({&label, 1}, {{key, Value::Int(i)}});
    if (i > 0) FUZZ_CHECK(graph.CreateEdge(last, *node, type, {}).ok());
    last = *node;
  }
  graph.CreateIndex("A", {"x"});
  return graph;
}

class Counter : public pulse::cypher::ResultSink {
 public:
  explicit Counter(size_t columns) : columns_(columns) {}
  bool OnRows(const Value* rows, size_t stride, size_t count,
              std::span<const Slot> columns) override {
    FUZZ_CHECK(columns.size() == columns_ && count > 0);
    for (const Slot column : columns) {
      FUZZ_CHECK(column >= 0 && static_cast<size_t>(column) < stride);
      Hash(rows[column]);
    }
    return true;
  }

 private:
  const size_t columns_;
};

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using pulse::cypher::Execute;
  using pulse::cypher::ExecuteOptions;
  using pulse::cypher::InfoOf;
  using pulse::cypher::MakePlan;
  static const MemoryGraph kGraph = SmallGraph();
  const std::string query(reinterpret_cast<const char*>(data), size);
  const auto plan = MakePlan(query, kGraph, nullptr);
  if (!plan.ok()) {
    FUZZ_CHECK(InfoOf(plan.status()).phase == "compile time");
    return 0;
  }
  MemoryGraph graph = kGraph;
  ExecuteOptions options;
  options.view = &kGraph;
  if ((*plan)->writes) options.transaction = &graph;
  options.limits.memory_bytes = 8 << 20;
  options.limits.result_rows = 2000;
  // A clock that counts its readings: the same input takes the same way.
  int64_t now = 0;
  options.monotonic_nanos = [&now] { return ++now; };
  options.wall_nanos = [] { return int64_t{1'700'000'000'000'000'000}; };
  options.limits.nanos = 25;
  options.random_seed = 1;
  Counter counter((*plan)->columns.size());
  const absl::Status status = Execute(**plan, options, &counter, nullptr);
  FUZZ_CHECK(status.ok() || !status.message().empty());
  return 0;
}
