// Statements that were parsed and planned, by their text; the least recently used go. Plans of a
// graph that has grown or shrunk to a multiple since are made anew, as they chose by counts.
// Thread-safe; critical sections are short.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "services/graph/cypher/plan.h"
#include "services/graph/session/statement.h"

namespace pulse::cypher {

// A statement, ready to be run any number of times. Constant.
struct Statement {
  std::string text;
  // One of these two.
  std::shared_ptr<const Plan> plan;
  std::optional<SchemaCommand> schema;
  std::optional<uint64_t> snapshot;

  bool writes() const { return schema ? !is_export() : plan->writes; }
  bool is_export() const { return schema && schema->exchange == SchemaCommand::Exchange::kExport; }
  bool is_exchange() const { return schema && schema->exchange != SchemaCommand::Exchange::kNone; }
  bool explain() const { return plan != nullptr && plan->explain; }
  const std::vector<std::string>& columns() const;
  // "r", "w", "rw" or "s", as drivers are told.
  std::string_view type() const;
};

class PlanCache {
 public:
  // Of statements, and of their texts.
  PlanCache(size_t entries, size_t bytes) : most_entries_(entries), most_bytes_(bytes) {}

  // `nodes`: of the graph now.
  std::shared_ptr<const Statement> Find(std::string_view text, uint64_t nodes);
  void Put(std::shared_ptr<const Statement> statement, uint64_t nodes);
  void Clear();
  size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<const Statement> statement;
    uint64_t nodes = 0;
  };
  void Erase(std::list<Entry>::iterator entry);

  const size_t most_entries_, most_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the first was used last
  std::unordered_map<std::string_view, std::list<Entry>::iterator> by_text_;
  size_t bytes_ = 0;
};

}  // namespace pulse::cypher
