// Values of pulse/graph.h: parameters and columns of a program into values of the engine, and rows
// of a result as the program reads them. Pure; a RowView is for one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pulse/graph.h"
#include "services/graph/library/result_table.h"

namespace pulse::graph {

// InvalidArgument where a type is none, a pointer is missing, text is not UTF-8, it nests too
// deeply, or a date or time is out of range; the message names what holds it: `what`.
absl::StatusOr<Value> ValueFromC(const pulse_graph_value& value, const std::string& what);
absl::StatusOr<cypher::ValueMap> ParametersFromC(const pulse_graph_entry* entries, size_t count);
absl::StatusOr<cypher::Column> ColumnFromC(const pulse_graph_column& column, uint64_t rows);

// A row as an array of C values; what they point to is in the view until the next row, or in the
// table.
class RowView {
 public:
  const pulse_graph_value* Show(const ResultTable& table, size_t row);

 private:
  // Of plain structs, which need no destructor.
  template <typename T>
  T* Make(size_t count) {
    return count == 0 ? nullptr : new (Allocate(count * sizeof(T))) T[count];
  }
  void* Allocate(size_t bytes);
  void Fill(const Value& value, pulse_graph_value* out);
  void FillNode(cypher::NodeId id, pulse_graph_node* out);
  void FillEdge(const cypher::EdgeRef& edge, pulse_graph_relationship* out);
  const pulse_graph_entry* Entries(const cypher::Properties& properties);

  const EntityRecords* entities_ = nullptr;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;  // the last is being filled
  size_t used_ = 0, size_ = 0;                        // of the last
};

}  // namespace pulse::graph
