// A database in memory on MemoryGraph, for tests of sessions and servers. Each transaction has a
// copy of the graph, and commits by exchanging it: one writer at a time, others wait in Begin. For
// tests only.
//
// Threads: as Database says. A transaction may end on another thread than it began on.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "services/graph/model/database.h"
#include "services/graph/model/test_memory_graph.h"

namespace pulse::cypher {

class MemoryDatabase : public Database {
 public:
  // How many earlier states Snapshot finds.
  static constexpr size_t kKept = 16;

  MemoryDatabase();
  ~MemoryDatabase() override = default;

  absl::StatusOr<std::shared_ptr<const GraphView>> Snapshot(
      std::optional<uint64_t> sequence) override;
  uint64_t sequence() const override;
  absl::StatusOr<std::unique_ptr<DatabaseTransaction>> Begin() override;
  absl::Status ChangeSchema(std::span<const SchemaChange> changes) override;
  std::vector<IndexDefinition> Indexes() const override;
  DatabaseNames Names() const override;

  // The next commits fail as if another transaction had changed the same.
  void AbortCommits(int count);
  // Transactions that have begun, and have not ended.
  int open_transactions() const;

 private:
  class Transaction;
  // Null: it breaks no constraint.
  static absl::Status CheckConstraints(const std::vector<IndexDefinition>& definitions,
                                       const MemoryGraph& graph);
  std::unique_lock<std::mutex> LockAsWriter();
  void Publish(std::shared_ptr<MemoryGraph> graph);

  mutable std::mutex mutex_;
  std::condition_variable writer_gone_;
  bool writing_ = false;
  int open_ = 0;
  int aborts_ = 0;
  uint64_t sequence_ = 0;
  std::deque<std::pair<uint64_t, std::shared_ptr<MemoryGraph>>> states_;  // the last is current
  std::vector<IndexDefinition> indexes_;
};

}  // namespace pulse::cypher
