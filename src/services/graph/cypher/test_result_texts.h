// What a query's rows are as text: of each row all columns. For tests only.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "services/graph/cypher/engine.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {

class ResultTexts : public ResultSink {
 public:
  explicit ResultTexts(const GraphView* graph) : graph_(graph) {}
  bool OnRows(const Value* rows, size_t stride, size_t count,
              std::span<const Slot> columns) override {
    for (size_t i = 0; i < count; ++i) {
      std::string& text = texts.emplace_back();
      for (const Slot column : columns) {
        text += ValueText(rows[i * stride + static_cast<size_t>(column)], *graph_) + ", ";
      }
    }
    return true;
  }
  std::vector<std::string> texts;

 private:
  const GraphView* const graph_;
};

}  // namespace pulse::cypher
