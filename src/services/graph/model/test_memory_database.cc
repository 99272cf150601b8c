#include "services/graph/model/test_memory_database.h"

#include <algorithm>
#include <set>

#include "services/graph/model/text.h"

namespace pulse::cypher {

class MemoryDatabase::Transaction : public MemoryGraph {
 public:
  Transaction(MemoryDatabase* database, const MemoryGraph& graph)
      : MemoryGraph(graph), database_(database) {}
  ~Transaction() override {
    const std::lock_guard<std::mutex> lock(database_->mutex_);
    database_->writing_ = false;
    --database_->open_;
    database_->writer_gone_.notify_one();
  }
  absl::Status Commit() override {
    const std::lock_guard<std::mutex> lock(database_->mutex_);
    if (database_->aborts_ > 0) {
      --database_->aborts_;
      return absl::AbortedError("another transaction changed property 1 of node 0");
    }
    if (auto status = CheckConstraints(database_->indexes_, *this); !status.ok()) return status;
    database_->Publish(std::make_shared<MemoryGraph>(*this));
    return absl::OkStatus();
  }

 private:
  MemoryDatabase* const database_;
};

MemoryDatabase::MemoryDatabase() { Publish(std::make_shared<MemoryGraph>()); }

void MemoryDatabase::Publish(std::shared_ptr<MemoryGraph> graph) {
  states_.emplace_back(++sequence_, std::move(graph));
  if (states_.size() > kKept) states_.pop_front();
}

absl::StatusOr<std::shared_ptr<const GraphView>> MemoryDatabase::Snapshot(
    std::optional<uint64_t> sequence) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!sequence) return states_.back().second;
  for (const auto& [at, graph] : states_) {
    if (at == *sequence) return graph;
  }
  return absl::NotFoundError(Concat("the state of commit ", *sequence, " is not kept"));
}

uint64_t MemoryDatabase::sequence() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return sequence_;
}

std::unique_lock<std::mutex> MemoryDatabase::LockAsWriter() {
  std::unique_lock<std::mutex> lock(mutex_);
  writer_gone_.wait(lock, [this] { return !writing_; });
  return lock;
}

absl::StatusOr<std::unique_ptr<DatabaseTransaction>> MemoryDatabase::Begin() {
  const auto lock = LockAsWriter();
  writing_ = true;
  ++open_;
  return std::make_unique<Transaction>(this, *states_.back().second);
}

absl::Status MemoryDatabase::ChangeSchema(std::span<const SchemaChange> changes) {
  const auto lock = LockAsWriter();
  auto graph = std::make_shared<MemoryGraph>(*states_.back().second);
  auto indexes = indexes_;
  for (const SchemaChange& change : changes) {
    const IndexDefinition& definition = change.index;
    if (change.drop) {
      const auto it = std::find_if(indexes.begin(), indexes.end(), [&](const auto& index) {
        return index.name == definition.name;
      });
      if (it == indexes.end()) {
        return absl::NotFoundError(Concat("there is no index ", definition.name));
      }
      if (it->FindsNodes()) graph->DropIndex(it->label, it->keys);
      indexes.erase(it);
      continue;
    }
    for (const IndexDefinition& other : indexes) {
      if (other.name == definition.name || other.Excludes(definition)) {
        return absl::AlreadyExistsError(Concat("there is an index ", other.name));
      }
    }
    if (auto status = CheckConstraints({definition}, *states_.back().second); !status.ok()) {
      return status;
    }
    if (definition.FindsNodes()) graph->CreateIndex(definition.label, definition.keys);
    indexes.push_back(definition);
  }
  indexes_ = std::move(indexes);
  Publish(std::move(graph));
  return absl::OkStatus();
}

std::vector<IndexDefinition> MemoryDatabase::Indexes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return indexes_;
}

DatabaseNames MemoryDatabase::Names() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return states_.back().second->Names();
}

void MemoryDatabase::AbortCommits(int count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  aborts_ = count;
}

int MemoryDatabase::open_transactions() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return open_;
}

absl::Status MemoryDatabase::CheckConstraints(const std::vector<IndexDefinition>& definitions,
                                              const MemoryGraph& graph) {
  for (const IndexDefinition& definition : definitions) {
    const auto label = graph.FindLabel(definition.label);
    if (!definition.constraint || definition.of_edges || !label) continue;
    std::set<std::string> seen;
    for (const auto& [id, node] : graph.nodes()) {
      if (std::find(node.labels.begin(), node.labels.end(), *label) == node.labels.end()) continue;
      std::string tuple;
      bool whole = true;
      for (const std::string& name : definition.keys) {
        const auto key = graph.FindKey(name);
        const auto value = key ? node.properties.find(*key) : node.properties.end();
        whole = whole && value != node.properties.end();
        if (whole) tuple += ValueText(value->second, graph) + "|";
      }
      const std::string where = Concat("node ", id, " with label ", definition.label);
      if (definition.required && !whole) {
        return absl::FailedPreconditionError(
            Concat(where, " must have the property ", definition.keys[0]));
      }
      if (definition.unique && whole && !seen.insert(tuple).second) {
        return absl::AlreadyExistsError(
            Concat(where, " and property ", definition.keys[0], ": the value exists already"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace pulse::cypher
