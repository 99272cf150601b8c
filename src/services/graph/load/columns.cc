#include "services/graph/load/columns.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "base/errors.h"
#include "services/graph/model/literal.h"
#include "services/graph/model/point.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

using cypher::Concat;
using cypher::Value;

struct TypeName {
  absl::string_view name;
  FieldType type;
};

constexpr TypeName kTypes[] = {
    {"int", FieldType::kInt},
    {"long", FieldType::kInt},
    {"short", FieldType::kInt},
    {"byte", FieldType::kInt},
    {"integer", FieldType::kInt},
    {"float", FieldType::kFloat},
    {"double", FieldType::kFloat},
    {"boolean", FieldType::kBool},
    {"bool", FieldType::kBool},
    {"string", FieldType::kString},
    {"char", FieldType::kString},
    {"date", FieldType::kDate},
    {"localtime", FieldType::kLocalTime},
    {"time", FieldType::kTime},
    {"localdatetime", FieldType::kLocalDateTime},
    {"datetime", FieldType::kDateTime},
    {"duration", FieldType::kDuration},
    {"point", FieldType::kPoint},
    {"any", FieldType::kAny},
};

std::string Lower(absl::string_view text) {
  std::string lower(text.data(), text.size());
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return lower;
}

cypher::Type TemporalType(FieldType type) {
  switch (type) {
    case FieldType::kDate:
      return cypher::Type::kDate;
    case FieldType::kLocalTime:
      return cypher::Type::kLocalTime;
    case FieldType::kTime:
      return cypher::Type::kTime;
    case FieldType::kLocalDateTime:
      return cypher::Type::kLocalDateTime;
    case FieldType::kDateTime:
      return cypher::Type::kDateTime;
    default:
      return cypher::Type::kDuration;
  }
}

bool ParseBool(absl::string_view text, bool* value) {
  const std::string lower = Lower(text);
  *value = lower == "true";
  return lower == "true" || lower == "false";
}

bool ParsePoint(std::optional<cypher::Crs> crs, absl::string_view text, Value* value) {
  std::string error;
  const auto map = cypher::ParseLiteral(StdView(text), &error);
  if (!map || !map->is_map()) return false;
  cypher::ValueMap fields = map->as_map();
  // What the point itself says counts.
  const bool says = std::any_of(fields.begin(), fields.end(), [](const auto& field) {
    const std::string name = absl::AsciiStrToLower(field.first);
    return name == "crs" || name == "srid";
  });
  if (crs && !says) fields.emplace_back("crs", Value::String(cypher::NameOf(*crs)));
  auto point = cypher::PointFromMap(fields, &error);
  if (!point || point->is_null()) return false;
  *value = *std::move(point);
  return true;
}

// One element of a list, or the whole field.
bool ParseValue(const FileColumn& column, absl::string_view text, Value* value) {
  switch (column.type) {
    case FieldType::kBool: {
      bool b = false;
      if (!ParseBool(text, &b)) return false;
      *value = Value::Bool(b);
      return true;
    }
    case FieldType::kInt: {
      int64_t number = 0;
      if (!ParseInt(text, &number)) return false;
      *value = Value::Int(number);
      return true;
    }
    case FieldType::kFloat: {
      double number = 0;
      if (!ParseFloat(text, &number)) return false;
      *value = Value::Float(number);
      return true;
    }
    case FieldType::kInferred:
    case FieldType::kString:
      *value = Value::String(StdView(text));
      return true;
    case FieldType::kAny: {
      std::string error;
      auto parsed = cypher::ParseLiteral(StdView(text), &error);
      if (!parsed || !IsPropertyValue(*parsed)) return false;
      *value = *std::move(parsed);
      return true;
    }
    case FieldType::kPoint:
      return ParsePoint(column.crs, text, value);
    default: {
      std::string error;
      auto parsed = cypher::ParseTemporal(TemporalType(column.type), StdView(text), &error);
      if (!parsed) return false;
      *value = *std::move(parsed);
      return true;
    }
  }
}

// Of "name:TYPE{option:value}", as Neo4j has it for points and times: takes the system of points,
// and cuts it off. There are no others.
absl::Status TakeOptions(absl::string_view* header, FileColumn* column) {
  const absl::string_view text = *header;
  const size_t brace = text.find('{');
  const size_t colon = text.rfind(':', brace);
  if (brace == absl::string_view::npos || colon == absl::string_view::npos || text.back() != '}') {
    return absl::OkStatus();
  }
  const absl::string_view type = text.substr(colon + 1, brace - colon - 1);
  const bool list = absl::EndsWith(type, "[]");
  const auto known = ParseFieldType(absl::StripSuffix(type, "[]"));
  absl::string_view option = text.substr(brace + 1, text.size() - brace - 2);
  if (known.ok() && *known == FieldType::kPoint && !list && absl::ConsumePrefix(&option, "crs:")) {
    std::string error;
    column->crs = cypher::CrsOfName(StdView(option), &error);
    if (!column->crs)
      return absl::InvalidArgumentError(Concat("column ", StdView(text), ": ", error));
    *header = text.substr(0, brace);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(Concat(
      "column ", StdView(text), ": ",
      known.ok()
          ? Concat("options of ", StdView(type), " are not supported")
          : Concat(std::string(known.status().message()), "; options in braces are not supported"),
      " but for crs of single points, as point{crs:WGS-84}; those in lists say their own"));
}

// "name:TYPE(space)" taken apart; the role where TYPE is one.
absl::Status ReadColumn(absl::string_view text, FileColumn* column, bool* neo4j) {
  PULSE_RETURN_IF_ERROR(TakeOptions(&text, column));
  const size_t colon = text.rfind(':');
  column->name = std::string(text.substr(0, colon));
  if (colon == absl::string_view::npos) return absl::OkStatus();
  std::string type(text.substr(colon + 1));
  if (const size_t open = type.find('('); open != std::string::npos) {
    if (type.back() != ')') {
      return absl::InvalidArgumentError(
          Concat("column ", StdView(text), ": nothing closes its bracket"));
    }
    column->space = type.substr(open + 1, type.size() - open - 2);
    type.resize(open);
  }
  const std::string lower = Lower(type);
  const std::pair<absl::string_view, ColumnRole> roles[] = {
      {"id", ColumnRole::kKey},        {"start_id", ColumnRole::kSource},
      {"end_id", ColumnRole::kTarget}, {"label", ColumnRole::kLabels},
      {"type", ColumnRole::kType},     {"ignore", ColumnRole::kIgnored}};
  for (const auto& [name, role] : roles) {
    if (lower != name) continue;
    column->role = role;
    if (role != ColumnRole::kKey) column->name.clear();
    *neo4j = true;
    return absl::OkStatus();
  }
  if (lower.size() > 2 && lower.compare(lower.size() - 2, 2, "[]") == 0) {
    column->list = true;
    type.resize(type.size() - 2);
  }
  auto parsed = ParseFieldType(type);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        Concat("column ", StdView(text), ": ", std::string(parsed.status().message())));
  }
  column->type = *parsed;
  *neo4j = true;
  return absl::OkStatus();
}

size_t CountRole(const FileHeader& header, ColumnRole role) {
  return static_cast<size_t>(std::count_if(header.columns.begin(), header.columns.end(),
                                           [role](const FileColumn& c) { return c.role == role; }));
}

// The first column without a role: those of plain headers are told by their place. Null: none.
FileColumn* FirstPlain(FileHeader* header) {
  const auto at = std::find_if(header->columns.begin(), header->columns.end(),
                               [](const FileColumn& c) { return c.role == ColumnRole::kProperty; });
  return at == header->columns.end() ? nullptr : &*at;
}

// Of each row one text is kept for these.
absl::Status CheckLabelsAndTypes(const FileHeader& header, bool of_nodes) {
  const size_t labels = CountRole(header, ColumnRole::kLabels);
  const size_t types = CountRole(header, ColumnRole::kType);
  if (of_nodes && types > 0) {
    return absl::InvalidArgumentError(
        "a file of nodes has a column :TYPE, which is for types of relationships");
  }
  if (!of_nodes && labels > 0) {
    return absl::InvalidArgumentError(
        "a file of relationships has a column :LABEL, which is for labels of nodes");
  }
  if (labels > 1) {
    return absl::InvalidArgumentError(
        "there are several columns :LABEL; one holds several labels with the array delimiter "
        "between them");
  }
  return types > 1 ? absl::InvalidArgumentError("there are several columns :TYPE")
                   : absl::OkStatus();
}

absl::Status AssignRoles(FileHeader* header, bool of_nodes) {
  const size_t keys = CountRole(*header, ColumnRole::kKey);
  const size_t sources = CountRole(*header, ColumnRole::kSource);
  const size_t targets = CountRole(*header, ColumnRole::kTarget);
  if (of_nodes) {
    if (sources + targets > 0) {
      return absl::InvalidArgumentError(
          "a file of nodes has :START_ID or :END_ID: it is one of relationships");
    }
    if (keys > 1) return absl::InvalidArgumentError("there are several columns :ID");
    if (keys == 0) {
      FileColumn* const key = FirstPlain(header);
      if (key == nullptr) {
        return absl::InvalidArgumentError("there is no column with the keys of the nodes");
      }
      key->role = ColumnRole::kKey;
    }
    return absl::OkStatus();
  }
  if (keys > 0) {
    return absl::InvalidArgumentError("a file of relationships has :ID: it is one of nodes");
  }
  if (sources > 1 || targets > 1) {
    return absl::InvalidArgumentError("there are several columns :START_ID or :END_ID");
  }
  if (sources != targets) {
    return absl::InvalidArgumentError("there is only one of :START_ID and :END_ID");
  }
  if (sources > 0) return absl::OkStatus();
  for (const ColumnRole role : {ColumnRole::kSource, ColumnRole::kTarget}) {
    FileColumn* const end = FirstPlain(header);
    if (end == nullptr) {
      return absl::InvalidArgumentError(
          "a file of relationships needs two columns: the keys of source and target");
    }
    end->role = role;
    end->name.clear();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FieldType> ParseFieldType(absl::string_view name) {
  const std::string lower = Lower(name);
  std::string all;
  for (const TypeName& type : kTypes) {
    if (lower == type.name) return type.type;
    all += all.empty() ? "" : ", ";
    all += std::string(type.name);
  }
  return absl::InvalidArgumentError(Concat("there is no type ", StdView(name), "; there are: ", all,
                                           ", and lists of them with []"));
}

absl::StatusOr<FileHeader> ReadHeader(absl::string_view file, bool of_nodes,
                                      const CsvDialect& dialect,
                                      const std::map<std::string, std::string>& types) {
  uint64_t begin = 0;
  if (file.substr(0, 3) == "\xef\xbb\xbf") begin = 3;
  CsvReader reader(file, begin, file.size(), dialect);
  std::vector<CsvField> fields;
  if (!reader.Next(&fields)) {
    return absl::InvalidArgumentError("the file is empty; its first line names its columns");
  }
  if (reader.error() != nullptr) {
    return absl::InvalidArgumentError(Concat("the header: ", reader.error()));
  }
  if (std::string why = NotUtf8(reader.text(), fields, {}); !why.empty()) {
    return absl::InvalidArgumentError(Concat("the header: ", why));
  }
  if (fields.size() > kMostColumns) {
    return absl::InvalidArgumentError(
        Concat("the header has ", fields.size(), " columns, at most ", kMostColumns, " are read"));
  }
  FileHeader header;
  header.end = reader.end_offset();
  for (const CsvField& field : fields) {
    FileColumn& column = header.columns.emplace_back();
    if (absl::Status st = ReadColumn(field.text, &column, &header.neo4j); !st.ok()) return st;
    header.names.push_back(column.name);
    if (const auto given = types.find(column.name); given != types.end() && !column.name.empty()) {
      absl::string_view name = given->second;
      column.list = absl::ConsumeSuffix(&name, "[]");
      auto type = ParseFieldType(name);
      if (!type.ok()) return type.status();
      column.type = *type;
    }
  }
  if (absl::Status st = AssignRoles(&header, of_nodes); !st.ok()) return st;
  if (absl::Status st = CheckLabelsAndTypes(header, of_nodes); !st.ok()) return st;
  for (size_t i = 0; i < header.columns.size(); ++i) {
    const FileColumn& column = header.columns[i];
    if (column.role == ColumnRole::kProperty && column.name.empty()) {
      return absl::InvalidArgumentError(Concat("column ", i + 1, " has no name"));
    }
    for (size_t k = 0; k < i; ++k) {
      if (!column.name.empty() && header.columns[k].name == column.name) {
        return absl::InvalidArgumentError(Concat("two columns are called ", column.name));
      }
    }
  }
  return header;
}

bool IsNullField(const CsvField& field, const CsvDialect& dialect) {
  return !field.quoted && (field.text.empty() || field.text == dialect.null_text);
}

bool ParseInt(absl::string_view text, int64_t* value) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && at == end;
}

bool ParseFloat(absl::string_view text, double* value) {
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && at == end;
}

bool IsRoundedByDouble(absl::string_view text) {
  const absl::string_view digits = text.substr(!text.empty() && text[0] == '-' ? 1 : 0);
  if (digits.empty() || digits.find_first_not_of("0123456789") != absl::string_view::npos) {
    return false;
  }
  int64_t number = 0;
  if (!ParseInt(text, &number)) return true;
  // Doubles have 53 bits: all integers up to 2^53, and above it those that end with enough zeros.
  const uint64_t magnitude =
      number < 0 ? uint64_t{0} - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  return magnitude != 0 &&
         static_cast<int>(std::bit_width(magnitude)) - std::countr_zero(magnitude) > 53;
}

bool MustBeText(const CsvField& field, FieldType type) {
  if (field.quoted) return true;
  if (type == FieldType::kBool) return false;
  const absl::string_view text = field.text;
  // A number that begins with 0 is rather a code, of which the zero is a part.
  const size_t digits = !text.empty() && text[0] == '-' ? 1 : 0;
  if (text.size() > digits + 1 && text[digits] == '0' && text[digits + 1] >= '0' &&
      text[digits + 1] <= '9') {
    return true;
  }
  return type == FieldType::kFloat &&
         text.find_first_of("0123456789") == absl::string_view::npos;  // "nan", "inf": names
}

void InferredType::Add(const CsvField& field, const CsvDialect& dialect) {
  if (type_ == FieldType::kString || IsNullField(field, dialect)) return;
  if (field.quoted) return Widen(FieldType::kString);
  int64_t number = 0;
  double real = 0;
  bool b = false;
  const absl::string_view text = field.text;
  FieldType type = FieldType::kString;
  if (!MustBeText(field, FieldType::kInt) && ParseInt(text, &number)) {
    type = FieldType::kInt;
    rounded_ |= IsRoundedByDouble(text);
  } else if (!MustBeText(field, FieldType::kFloat) && ParseFloat(text, &real)) {
    // An integer of more than 64 bits: what it identifies would be another thing.
    if (!IsRoundedByDouble(text)) type = FieldType::kFloat;
  } else if (ParseBool(text, &b)) {
    type = FieldType::kBool;
  }
  Widen(type);
}

void InferredType::Widen(FieldType type) {
  if (type_ == type || type == FieldType::kInferred) return;
  if (type_ == FieldType::kInferred) {
    type_ = type;
    return;
  }
  const auto numeric = [](FieldType t) { return t == FieldType::kInt || t == FieldType::kFloat; };
  type_ = numeric(type_) && numeric(type) ? FieldType::kFloat : FieldType::kString;
}

void StartColumn(const FileColumn& column, cypher::Column* out) {
  *out = {};
  out->kind = column.list                        ? cypher::Column::Kind::kValues
              : column.type == FieldType::kInt   ? cypher::Column::Kind::kInts
              : column.type == FieldType::kFloat ? cypher::Column::Kind::kFloats
                                                 : cypher::Column::Kind::kValues;
}

bool AppendField(const FileColumn& column, const CsvField& field, const CsvDialect& dialect,
                 cypher::Column* out) {
  const bool null = IsNullField(field, dialect);
  switch (out->kind) {
    case cypher::Column::Kind::kInts: {
      int64_t number = 0;
      if (!null && !ParseInt(field.text, &number)) return false;
      out->ints.push_back(number);
      out->valid.push_back(null ? 0 : 1);
      return true;
    }
    case cypher::Column::Kind::kFloats: {
      double number = 0;
      if (!null && !ParseFloat(field.text, &number)) return false;
      out->floats.push_back(number);
      out->valid.push_back(null ? 0 : 1);
      return true;
    }
    default:
      break;
  }
  Value value;
  if (!null && column.list) {
    cypher::ValueList list;
    absl::string_view rest = field.text;
    while (!field.text.empty()) {
      const size_t end = rest.find(dialect.array_delimiter);
      if (!ParseValue(column, rest.substr(0, end), &list.emplace_back())) return false;
      if (end == absl::string_view::npos) break;
      rest.remove_prefix(end + 1);
    }
    value = Value::List(std::move(list));
    if (!IsPropertyValue(value)) return false;  // lists and nulls within it, of any[]
  } else if (!null && !ParseValue(column, field.text, &value)) {
    return false;
  }
  out->values.push_back(std::move(value));
  return true;
}

absl::string_view FieldTypeText(const FileColumn& column) {
  if (column.list) return "a list of its type, with no lists and nulls within";
  switch (column.type) {
    case FieldType::kBool:
      return "true or false";
    case FieldType::kInt:
      return "an integer";
    case FieldType::kFloat:
      return "a number";
    case FieldType::kDate:
      return "a date";
    case FieldType::kLocalTime:
      return "a local time";
    case FieldType::kTime:
      return "a time";
    case FieldType::kLocalDateTime:
      return "a local date-time";
    case FieldType::kDateTime:
      return "a date-time";
    case FieldType::kDuration:
      return "a duration";
    case FieldType::kPoint:
      return "a point, as {x: 1, y: 2}";
    case FieldType::kAny:
      return "a literal of Cypher";
    default:
      return "a text";
  }
}

}  // namespace pulse::graph
