// A graph database as its users see it: snapshots to read, transactions to write, and the schema.
// The store (graph/core) implements it; sessions, servers and shells (graph/session, graph/bolt)
// use nothing else, so that tests can run them on a graph in memory.
//
// Ownership: a database outlives its snapshots and transactions. Threads: any, for the database; a
// snapshot's reads may come from several threads at once; a transaction is used by one thread at a
// time. Calls may block on the store's I/O. Snapshot isolation; section III of the DSA paper.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/model/graph.h"
#include "services/graph/model/text.h"

namespace pulse::cypher {

// Destroyed without Commit(), it is rolled back. After Commit(), whatever it returned, only the
// destructor may be called.
class DatabaseTransaction : public GraphTransaction {
 public:
  // OK: durable, and visible to every snapshot taken from now on. Aborted: another transaction that
  // committed meanwhile changed the same (the message names it); nothing is kept, and to run it
  // again is right. Others: nothing is kept.
  virtual absl::Status Commit() = 0;
};

// A constraint is an index that also refuses: `unique`, no two nodes of the label have equal values
// of all keys; `required`, each has a value of each key; `type`, what there is of the one key has
// this type (property_type.h). `of_edges`: it is about relationships, and `label` is their type;
// these are required or have a type, since nothing finds relationships by their values.
struct IndexDefinition {
  std::string name;
  std::string label;
  std::vector<std::string> keys;
  bool constraint = false;
  bool unique = false;
  bool required = false;
  bool of_edges = false;
  std::string type = {};
  bool operator==(const IndexDefinition&) const = default;

  // Whether programs that know indexes and constraints of nodes alone would not understand it.
  bool IsExtended() const { return of_edges || !type.empty(); }
  bool Refuses() const { return unique || required || !type.empty(); }
  // Whether nodes are found by it; of one that only requires values, that is nobody's business.
  bool FindsNodes() const { return unique || !constraint; }
  // Whether there may not be both: of one label and the same keys there is one that finds nodes,
  // one that only requires values, and one of their type.
  bool Excludes(const IndexDefinition& other) const {
    return label == other.label && keys == other.keys && of_edges == other.of_edges &&
           type.empty() == other.type.empty() && FindsNodes() == other.FindsNodes();
  }
  // A constraint in messages.
  std::string Described() const {
    std::string all;
    for (const std::string& key : keys) all += Concat(all.empty() ? "" : ", ", key);
    return Concat("constraint ", name, of_edges ? " on [:" : " on :", label, of_edges ? "](" : "(",
                  all, ")");
  }
};

// What a copy engine has moved for a database since it was opened. A flush writes two runs, and
// each counts as one.
struct EngineCopies {
  std::string engine;
  uint64_t flushes = 0, merges = 0;
  uint64_t bytes = 0;
};

struct DatabaseNames {
  std::vector<std::string> labels, types, keys;
};

// An index or a constraint that comes, or goes: of that one the name alone counts.
struct SchemaChange {
  bool drop = false;
  IndexDefinition index;
};

class Database {
 public:
  virtual ~Database() = default;

  // The latest committed state, or that of an earlier commit: `sequence` of AT SNAPSHOT, NotFound
  // where it is no longer, or not yet, kept.
  virtual absl::StatusOr<std::shared_ptr<const GraphView>> Snapshot(
      std::optional<uint64_t> sequence = std::nullopt) = 0;
  // Of the latest commit.
  virtual uint64_t sequence() const = 0;
  // An estimate, for planners. A store that knows it without a snapshot overrides it.
  virtual uint64_t NodeCount() {
    const auto view = Snapshot();
    return view.ok() ? (*view)->NodeCount(kNoToken) : 0;
  }
  // FailedPrecondition where the database is open for reading only.
  virtual absl::StatusOr<std::unique_ptr<DatabaseTransaction>> Begin() = 0;
  // The same, and serializable: Commit() is Aborted also where a transaction that committed
  // meanwhile, serializable or not, changed what this one has read. One that wrote nothing is never
  // refused. Unimplemented: the database has snapshot isolation only.
  virtual absl::StatusOr<std::unique_ptr<DatabaseTransaction>> BeginSerializable() {
    return absl::UnimplementedError("this database has snapshot isolation only");
  }

  // One after the other, in one commit: all of them, or with an error none. Returns when the
  // indexes serve Seek(). AlreadyExists, by name or by label and keys; NotFound; FailedPrecondition
  // where the nodes there are break a constraint (the message names two).
  virtual absl::Status ChangeSchema(std::span<const SchemaChange> changes) = 0;
  absl::Status CreateIndex(const IndexDefinition& definition) {
    const SchemaChange change{false, definition};
    return ChangeSchema({&change, 1});
  }
  absl::Status DropIndex(const std::string& name) {
    SchemaChange change{true, {}};
    change.index.name = name;
    return ChangeSchema({&change, 1});
  }
  virtual std::vector<IndexDefinition> Indexes() const = 0;

  virtual DatabaseNames Names() const = 0;

  // By name; empty where nothing was moved, or nobody knows.
  virtual std::vector<EngineCopies> Copies() const { return {}; }
};

}  // namespace pulse::cypher
