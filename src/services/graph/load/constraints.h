// LoadConstraints: the constraints of the graph that a load goes into, checked for each line. A
// line that breaks one cannot be loaded, as one with a key that is there already: it is named by
// file and line, or goes to the reject file, before anything is written.
//
// One thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/load/memory.h"
#include "services/graph/load/parsed_file.h"
#include "services/graph/load/sink.h"
#include "services/graph/model/property_type.h"

namespace pulse::graph {

class LoadConstraints {
 public:
  // Sink and memory outlive it.
  LoadConstraints(LoadSink* sink, char array_delimiter, LoadMemory* memory);

  // Which of them the lines of a file can break: those of a label that its nodes may have. `label`:
  // of all of its nodes; may be empty. The file outlives the next call.
  void StartFile(const ParsedFile& file, const std::string& label) { Start(file, label, false); }
  // The same of relationships and their type, before the file is parsed.
  void StartEdges(const std::string& type, ParsedFile* file);
  // Whether there is one that the file's lines can break.
  bool concerned() const { return !concerned_.empty(); }
  // Why the row breaks a constraint; empty: it does not.
  absl::StatusOr<std::string> Check(const FilePart& part, size_t row);
  // Takes out those of a part's relationships that break one; but for `all`, no more than finds the
  // first, which ends the load.
  absl::Status DropEdges(bool all, FilePart* part, std::vector<BadLine>* bad);
  // The row that was checked last is loaded: no later one may have its values.
  absl::Status Keep();

 private:
  using Values = std::vector<cypher::Value>;
  struct HashOf {
    size_t operator()(const Values& values) const;
  };
  struct EqualTo {
    bool operator()(const Values& a, const Values& b) const;
  };
  struct Constraint {
    cypher::IndexDefinition definition;
    std::optional<cypher::PropertyType> type;
    absl::flat_hash_set<Values, HashOf, EqualTo> loaded;  // of a unique one
    std::vector<size_t> columns;  // of the file, for each key; kNoColumn: the file has none
    bool of_all = false;          // all nodes of the file have the label; or the type, unless named
    bool checked = false;         // the row has `values`, which no other node has
    Values values;
  };

  void Start(const ParsedFile& file, const std::string& label, bool of_edges);
  bool HasLabel(const Constraint& constraint, const FilePart& part, size_t row) const;
  absl::StatusOr<cypher::Value> ValueOf(const FilePart& part, size_t column, size_t row) const;
  absl::StatusOr<std::string> CheckOne(const FilePart& part, size_t row, Constraint* constraint);

  LoadSink& sink_;
  const char array_delimiter_;
  LoadMemory& memory_;
  std::vector<std::unique_ptr<Constraint>> all_;
  std::vector<Constraint*> concerned_;
  const ParsedFile* file_ = nullptr;
};

}  // namespace pulse::graph
