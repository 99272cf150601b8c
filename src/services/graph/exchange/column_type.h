// What type a property's column of an export gets, and its values as fields. Pure; one thread.
#pragma once

#include <string>

#include "services/graph/load/columns.h"
#include "services/graph/model/value.h"

namespace pulse::graph {

// Learns from each value of a property; null is none.
class ColumnType {
 public:
  explicit ColumnType(char array_delimiter) : delimiter_(array_delimiter) {}

  void Add(const cypher::Value& value);
  bool is_set() const { return type_ != FieldType::kInferred || empty_list_; }
  // As a header has it: "int", "string[]", "any".
  std::string Name() const;
  // The field, in quotes where it needs them; nothing for null. False: no text has this value.
  bool Append(const cypher::Value& value, std::string* out) const;

 private:
  bool FitsList(const cypher::Value& list) const;

  const char delimiter_;
  FieldType type_ = FieldType::kInferred;
  bool list_ = false;
  bool empty_list_ = false;  // one was there, which is a list of any type
};

void AppendQuotedField(std::string_view text, std::string* out);

}  // namespace pulse::graph
