// Result: the rows of a statement as Python has them. Needs the GIL, but for the table, which the
// Arrow streams of it share.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <memory>

#include "python/native/convert.h"

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
  // Takes at most so many of the next rows: they are from `first` on. Other threads go on behind
  // them while these are made, which may let go of the GIL.
  size_t Take(size_t most, size_t* first) {
    const size_t count = std::min(most, left());
    *first = next_;
    next_ += count;
    return count;
  }
  // Undoes Take(), where nobody has taken more since.
  void GiveBack(size_t first, size_t count) {
    if (next_ == first + count) next_ = first;
  }
  NameCache* names() { return &names_; }

 private:
  std::shared_ptr<const graph::ResultTable> table_;
  size_t next_ = 0;
  NameCache names_;
};

void BindResult(nanobind::module_& module);

}  // namespace pulse::python
