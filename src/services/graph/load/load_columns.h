// Columns of values as bulk load keeps them: appended to, cut, joined. Internal; one thread.
#pragma once

#include <utility>

#include "services/graph/model/graph.h"

namespace pulse::graph {

inline size_t RowsOf(const cypher::Column& column) {
  switch (column.kind) {
    case cypher::Column::Kind::kInts:
      return column.ints.size();
    case cypher::Column::Kind::kFloats:
      return column.floats.size();
    default:
      return column.values.size();
  }
}

inline cypher::Value ValueAt(const cypher::Column& column, size_t row) {
  switch (column.kind) {
    case cypher::Column::Kind::kInts:
      return column.valid[row] != 0 ? cypher::Value::Int(column.ints[row]) : cypher::Value();
    case cypher::Column::Kind::kFloats:
      return column.valid[row] != 0 ? cypher::Value::Float(column.floats[row]) : cypher::Value();
    default:
      return column.values[row];
  }
}

// Rows from `rows` on go.
inline void CutColumn(cypher::Column* column, size_t rows) {
  if (column->ints.size() > rows) column->ints.resize(rows);
  if (column->floats.size() > rows) column->floats.resize(rows);
  if (column->valid.size() > rows) column->valid.resize(rows);
  if (column->values.size() > rows) column->values.resize(rows);
}

// Only rows with keep[row] != 0 stay.
template <typename T>
void KeepRows(const std::vector<uint8_t>& keep, std::vector<T>* rows) {
  if (rows->empty()) return;
  size_t to = 0;
  for (size_t i = 0; i < keep.size(); ++i) {
    if (keep[i] == 0) continue;
    if (to != i) (*rows)[to] = std::move((*rows)[i]);
    ++to;
  }
  rows->resize(to);
}
inline void KeepRows(const std::vector<uint8_t>& keep, cypher::Column* column) {
  KeepRows(keep, &column->ints);
  KeepRows(keep, &column->floats);
  KeepRows(keep, &column->valid);
  KeepRows(keep, &column->values);
}

template <typename T>
void MoveRows(std::vector<T>* from, std::vector<T>* to) {
  if (to->empty()) {
    to->swap(*from);
  } else {
    to->insert(to->end(), std::make_move_iterator(from->begin()),
               std::make_move_iterator(from->end()));
  }
  from->clear();
  from->shrink_to_fit();
}
// Of one kind.
inline void MoveRows(cypher::Column* from, cypher::Column* to) {
  to->kind = from->kind;
  MoveRows(&from->ints, &to->ints);
  MoveRows(&from->floats, &to->floats);
  MoveRows(&from->valid, &to->valid);
  MoveRows(&from->values, &to->values);
}

}  // namespace pulse::graph
