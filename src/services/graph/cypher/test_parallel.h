// Queries run by one thread and by several, for tests. What runs them says what it is to find.
#pragma once

#include <functional>
#include <string>

#include "services/graph/cypher/engine.h"
#include "services/graph/model/text.h"
#include "services/graph/planner/make_plan.h"

namespace pulse::cypher {

// Every row, in its order.
class AllRows : public ResultSink {
 public:
  explicit AllRows(const GraphView* graph) : graph_(graph) {}
  bool OnRows(const Value* rows, size_t stride, size_t count,
              std::span<const Slot> columns) override {
    for (size_t i = 0; i < count; ++i) {
      for (const Slot column : columns) {
        text += ValueText(rows[i * stride + static_cast<size_t>(column)], *graph_) + ", ";
      }
      text += "\n";
    }
    if (on_rows) on_rows();
    return true;
  }
  std::string text;
  std::function<void()> on_rows;

 private:
  const GraphView* const graph_;
};

// Several threads whatever the graph's size.
inline ParallelOptions Threads(int threads, size_t morsel) {
  ParallelOptions options;
  options.threads = threads;
  options.from_nodes = 1;
  options.from_nanos = 0;
  options.morsel_nodes = morsel;
  return options;
}

// The rows, and the error if there is one.
inline std::string TextOf(const Plan& plan, const GraphView& view, const ExecuteOptions& given,
                          const std::function<void()>& on_rows = {}) {
  ExecuteOptions options = given;
  options.view = &view;
  AllRows sink(&view);
  sink.on_rows = on_rows;
  const absl::Status status = Execute(plan, options, &sink, nullptr);
  return status.ok() ? sink.text : sink.text + status.ToString();
}
inline std::string TextOf(const std::string& query, const GraphView& view,
                          const ExecuteOptions& given, const std::function<void()>& on_rows = {}) {
  const auto plan = MakePlan(query, view, nullptr, {.statistics_from = 1});
  if (!plan.ok()) return Concat("no plan: ", plan.status().ToString());
  return TextOf(**plan, view, given, on_rows);
}

}  // namespace pulse::cypher
