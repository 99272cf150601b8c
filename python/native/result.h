// Result: the rows of a statement as Python has them. Needs the GIL, but for the table, which the
// Arrow streams of it share.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "convert.h"

namespace pulse::python {

class Result {
 public:
  explicit Result(graph::ResultTable table)
      : table_(std::make_shared<const graph::ResultTable>(std::move(table))) {}

  const graph::ResultTable& table() const { return *table_; }
  const std::shared_ptr<const graph::ResultTable>& shared() const { return table_; }
  // The next row; null without an exception at the end.
  PyObject* Next() {
    return next_ < table_->rows() ? RowToPython(*table_, next_++, &names_) : nullptr;
  }
  size_t left() const { return table_->rows() - next_; }
  NameCache* names() { return &names_; }

 private:
  std::shared_ptr<const graph::ResultTable> table_;
  size_t next_ = 0;
  NameCache names_;
};

void BindResult(nanobind::module_& module);

}  // namespace pulse::python
