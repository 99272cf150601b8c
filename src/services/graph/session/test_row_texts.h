// A sink of tests: rows as texts.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "services/graph/model/text.h"
#include "services/graph/session/service.h"

namespace pulse::cypher {

class RowTexts : public RowSink {
 public:
  explicit RowTexts(std::string separator = ", ") : separator_(std::move(separator)) {}
  bool OnRows(const GraphView& view, const Value* rows, size_t stride, size_t count,
              std::span<const Slot> columns) override {
    for (size_t i = 0; i < count; ++i) {
      std::string row;
      for (const Slot column : columns) {
        row += Concat(row.empty() ? "" : separator_,
                      ValueText(rows[i * stride + static_cast<size_t>(column)], view));
      }
      rows_.push_back(row);
    }
    return !stops;
  }
  bool Restart() override {
    ++restarts;
    rows_.clear();
    return may_restart;
  }
  const std::vector<std::string>& rows() const { return rows_; }
  // Each on a line of its own.
  std::string Lines() const {
    std::string lines;
    for (const std::string& row : rows_) lines += row + "\n";
    return lines;
  }

  bool stops = false, may_restart = true;
  int restarts = 0;

 private:
  std::string separator_;
  std::vector<std::string> rows_;
};

}  // namespace pulse::cypher
