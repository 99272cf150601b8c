#include "services/graph/load/constraints.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/errors.h"
#include "services/graph/load/load_columns.h"
#include "services/graph/model/literal.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;
using cypher::Value;

constexpr size_t kNoColumn = ~size_t{0};

// A value that no equality holds for is equal to none.
bool IsComparable(const Value& value) {
  return !value.is_null() && !(value.is_float() && std::isnan(value.as_float()));
}

std::string Described(const cypher::IndexDefinition& constraint, const std::vector<Value>& values) {
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    text += Concat(i == 0 ? "" : ", ", constraint.keys[i], " = ",
                   cypher::ShortText(cypher::LiteralText(values[i]).value_or("a value")));
  }
  return text;
}

}  // namespace

size_t LoadConstraints::HashOf::operator()(const Values& values) const {
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;
  uint64_t hash = 0;
  for (const Value& value : values) hash = hash * kOdd + cypher::Hash(value);
  return hash;
}

bool LoadConstraints::EqualTo::operator()(const Values& a, const Values& b) const {
  for (size_t i = 0; i < a.size(); ++i) {
    if (cypher::Equals(a[i], b[i]) != 1) return false;
  }
  return true;
}

LoadConstraints::LoadConstraints(LoadSink* sink, char array_delimiter, LoadMemory* memory)
    : sink_(*sink), array_delimiter_(array_delimiter), memory_(*memory) {
  for (cypher::IndexDefinition& definition : sink->Constraints()) {
    all_.push_back(std::make_unique<Constraint>());
    all_.back()->type = cypher::ParsePropertyType(definition.type);
    all_.back()->definition = std::move(definition);
  }
}

void LoadConstraints::StartEdges(const std::string& type, ParsedFile* file) {
  Start(*file, type, true);
  if (concerned()) file->KeepOffsets();
}

void LoadConstraints::Start(const ParsedFile& file, const std::string& label, bool of_edges) {
  const ColumnRole names_label = of_edges ? ColumnRole::kType : ColumnRole::kLabels;
  file_ = &file;
  concerned_.clear();
  const std::vector<std::string>& names = file.property_names();
  for (const auto& constraint : all_) {
    if (constraint->definition.of_edges != of_edges) continue;
    constraint->of_all = constraint->definition.label == label;
    if (!constraint->of_all && file.ColumnWith(names_label) == nullptr) continue;
    constraint->columns.clear();
    bool unique = constraint->definition.unique;
    for (const std::string& key : constraint->definition.keys) {
      const auto at = std::find(names.begin(), names.end(), key);
      unique &= at != names.end();
      constraint->columns.push_back(at == names.end() ? kNoColumn
                                                      : static_cast<size_t>(at - names.begin()));
    }
    // Nodes without one of the keys differ from all others.
    if (unique || constraint->definition.required || constraint->type)
      concerned_.push_back(constraint.get());
  }
}

bool LoadConstraints::HasLabel(const Constraint& constraint, const FilePart& part,
                               size_t row) const {
  const bool of_edges = constraint.definition.of_edges;
  if (part.texts.empty() || (constraint.of_all && !of_edges)) return constraint.of_all;
  std::string_view rest = part.dictionary.texts()[part.texts[row]];
  // A relationship has one type: its own, or that of the file.
  if (of_edges) return rest.empty() ? constraint.of_all : rest == constraint.definition.label;
  while (true) {
    const size_t end = rest.find(array_delimiter_);
    if (rest.substr(0, end) == constraint.definition.label) return true;
    if (end == std::string_view::npos) return false;
    rest.remove_prefix(end + 1);
  }
}

absl::StatusOr<Value> LoadConstraints::ValueOf(const FilePart& part, size_t column,
                                               size_t row) const {
  if (column == kNoColumn) return Value();
  Value value = ValueAt(part.columns[column], row);
  // A long text is in the file still.
  if (part.left[column] != 0 && value.is_int()) return file_->LeftText(value);
  return value;
}

absl::StatusOr<std::string> LoadConstraints::CheckOne(const FilePart& part, size_t row,
                                                      Constraint* constraint) {
  const cypher::IndexDefinition& definition = constraint->definition;
  constraint->checked = false;
  constraint->values.clear();
  if (!HasLabel(*constraint, part, row)) return std::string();
  bool comparable = true;
  for (size_t i = 0; i < definition.keys.size(); ++i) {
    PULSE_ASSIGN_OR_RETURN(Value value, ValueOf(part, constraint->columns[i], row));
    if (definition.required && value.is_null()) {
      return Concat(definition.Described(), ": there is no ", definition.keys[i]);
    }
    if (constraint->type && !cypher::FitsType(value, *constraint->type)) {
      return Concat(definition.Described(), ": ", Described(definition, {value}), " is no ",
                    definition.type);
    }
    comparable &= IsComparable(value);
    constraint->values.push_back(std::move(value));
  }
  if (!definition.unique || !comparable) return std::string();
  if (constraint->loaded.contains(constraint->values)) {
    return Concat(definition.Described(), ": an earlier line has ",
                  Described(definition, constraint->values), " already");
  }
  PULSE_ASSIGN_OR_RETURN(const bool there, sink_.HasNode(definition, constraint->values));
  if (there) {
    return Concat(definition.Described(), ": a node of the database has ",
                  Described(definition, constraint->values), " already");
  }
  constraint->checked = true;
  return std::string();
}

absl::StatusOr<std::string> LoadConstraints::Check(const FilePart& part, size_t row) {
  for (Constraint* constraint : concerned_) {
    PULSE_ASSIGN_OR_RETURN(std::string why, CheckOne(part, row, constraint));
    if (!why.empty()) return why;
  }
  return std::string();
}

absl::Status LoadConstraints::DropEdges(bool all, FilePart* part, std::vector<BadLine>* bad) {
  if (!concerned()) return absl::OkStatus();
  // An earlier part has the line that ends the load.
  if (!all && !bad->empty() && bad->front().offset < part->begin) return absl::OkStatus();
  std::vector<uint8_t> keep(part->rows, 1);
  const uint64_t rows = part->rows;
  for (size_t row = 0; row < rows; ++row) {
    PULSE_ASSIGN_OR_RETURN(std::string why, Check(*part, row));
    if (why.empty()) continue;
    keep[row] = 0;
    --part->rows;
    bad->push_back({part->offsets[row], BadLine::Kind::kConstraint, std::move(why)});
    PULSE_RETURN_IF_ERROR(memory_.Take(MemoryOf(bad->back())));
    if (!all) return absl::OkStatus();
  }
  const uint64_t freed = part->offsets.capacity() * sizeof(part->offsets[0]);
  std::vector<uint64_t>().swap(part->offsets);
  part->memory -= std::min(part->memory, freed);
  memory_.Give(freed);
  if (part->rows == rows) return absl::OkStatus();
  for (cypher::Column& column : part->columns) KeepRows(keep, &column);
  KeepRows(keep, &part->texts);
  KeepRows(keep, &part->sources);
  KeepRows(keep, &part->targets);
  return absl::OkStatus();
}

absl::Status LoadConstraints::Keep() {
  for (Constraint* constraint : concerned_) {
    if (!std::exchange(constraint->checked, false)) continue;
    // A table of hashes has about twice as many places as entries just after it has grown.
    uint64_t bytes = 2 * (sizeof(Values) + 1);
    for (const Value& value : constraint->values) bytes += MemoryOf(value);
    PULSE_RETURN_IF_ERROR(memory_.Take(bytes));
    constraint->loaded.insert(std::move(constraint->values));
  }
  return absl::OkStatus();
}

}  // namespace pulse::graph
