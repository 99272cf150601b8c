#include "services/graph/exchange/column_type.h"

#include <algorithm>

#include "services/graph/model/literal.h"

namespace pulse::graph {
namespace {

using cypher::Type;
using cypher::Value;

// kAny for what is no scalar, or for one without an ISO text.
FieldType TypeOf(const Value& value) {
  switch (value.type()) {
    case Type::kBool:
      return FieldType::kBool;
    case Type::kInt:
      return FieldType::kInt;
    case Type::kFloat:
      return FieldType::kFloat;
    case Type::kString:
      return FieldType::kString;
    case Type::kDate:
      return cypher::ExactTemporalText(value) ? FieldType::kDate : FieldType::kAny;
    case Type::kLocalTime:
      return cypher::ExactTemporalText(value) ? FieldType::kLocalTime : FieldType::kAny;
    case Type::kTime:
      return cypher::ExactTemporalText(value) ? FieldType::kTime : FieldType::kAny;
    case Type::kLocalDateTime:
      return cypher::ExactTemporalText(value) ? FieldType::kLocalDateTime : FieldType::kAny;
    case Type::kDateTime:
      return cypher::ExactTemporalText(value) ? FieldType::kDateTime : FieldType::kAny;
    case Type::kDuration:
      return cypher::ExactTemporalText(value) ? FieldType::kDuration : FieldType::kAny;
    default:
      return FieldType::kAny;
  }
}

std::string_view NameOf(FieldType type) {
  switch (type) {
    case FieldType::kBool:
      return "boolean";
    case FieldType::kInt:
      return "int";
    case FieldType::kFloat:
      return "float";
    case FieldType::kInferred:
    case FieldType::kString:
      return "string";
    case FieldType::kDate:
      return "date";
    case FieldType::kLocalTime:
      return "localtime";
    case FieldType::kTime:
      return "time";
    case FieldType::kLocalDateTime:
      return "localdatetime";
    case FieldType::kDateTime:
      return "datetime";
    case FieldType::kDuration:
      return "duration";
    case FieldType::kPoint:
    case FieldType::kAny:
      break;
  }
  return "any";
}

std::string ScalarText(const Value& value) {
  switch (value.type()) {
    case Type::kBool:
      return value.as_bool() ? "true" : "false";
    case Type::kInt:
      return std::to_string(value.as_int());
    case Type::kFloat:
      return cypher::FloatText(value.as_float());
    case Type::kString:
      return value.as_string();
    default:
      return cypher::ExactTemporalText(value).value_or("");
  }
}

}  // namespace

void AppendQuotedField(std::string_view text, std::string* out) {
  out->reserve(out->size() + text.size() + 2 +
               static_cast<size_t>(std::count(text.begin(), text.end(), '"')));
  *out += '"';
  for (const char c : text) {
    if (c == '"') *out += '"';
    *out += c;
  }
  *out += '"';
}

// A list of one empty text would read back as one of nothing.
bool ColumnType::FitsList(const Value& value) const {
  const cypher::ValueList& list = value.as_list();
  if (list.size() == 1 && list[0].is_string() && list[0].as_string().empty()) return false;
  for (const Value& item : list) {
    if (item.is_string() && item.as_string().find(delimiter_) != std::string::npos) return false;
    if (TypeOf(item) == FieldType::kAny || TypeOf(item) != TypeOf(list[0])) return false;
  }
  return true;
}

void ColumnType::Add(const Value& value) {
  if (value.is_null() || type_ == FieldType::kAny) return;
  FieldType type = FieldType::kAny;
  if (!value.is_list()) {
    type = TypeOf(value);
    if (empty_list_ || (list_ && type_ != FieldType::kInferred)) type = FieldType::kAny;
  } else if (type_ != FieldType::kInferred && !list_) {
    type = FieldType::kAny;
  } else if (value.as_list().empty()) {
    empty_list_ = list_ = true;
    return;
  } else if (FitsList(value)) {
    list_ = true;
    type = TypeOf(value.as_list()[0]);
  }
  if (type_ == FieldType::kInferred) type_ = type;
  if (type_ != type) type_ = FieldType::kAny;
  if (type_ == FieldType::kAny) list_ = false;
}

std::string ColumnType::Name() const { return std::string(NameOf(type_)) + (list_ ? "[]" : ""); }

bool ColumnType::Append(const Value& value, std::string* out) const {
  if (value.is_null()) return true;
  if (type_ == FieldType::kAny) {
    const auto literal = cypher::LiteralText(value);
    if (!literal) return false;
    AppendQuotedField(*literal, out);
  } else if (list_) {
    std::string text;
    for (size_t i = 0; i < value.as_list().size(); ++i) {
      if (i > 0) text += delimiter_;
      text += ScalarText(value.as_list()[i]);
    }
    AppendQuotedField(text, out);
  } else if (value.is_string()) {
    AppendQuotedField(value.as_string(), out);
  } else if (type_ == FieldType::kDateTime) {
    AppendQuotedField(ScalarText(value), out);
  } else {
    *out += ScalarText(value);
  }
  return true;
}

}  // namespace pulse::graph
