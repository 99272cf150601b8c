#include "services/graph/model/property_type.h"

#include <algorithm>
#include <iterator>

#include "services/graph/model/text.h"

namespace pulse::cypher {
namespace {

struct PropertyTypeName {
  std::string_view name;
  Type type;
};
// Of each type, the name that is shown stands first.
constexpr PropertyTypeName kPropertyTypes[] = {
    {"BOOLEAN", Type::kBool},
    {"STRING", Type::kString},
    {"INTEGER", Type::kInt},
    {"FLOAT", Type::kFloat},
    {"DATE", Type::kDate},
    {"LOCAL TIME", Type::kLocalTime},
    {"ZONED TIME", Type::kTime},
    {"LOCAL DATETIME", Type::kLocalDateTime},
    {"ZONED DATETIME", Type::kDateTime},
    {"DURATION", Type::kDuration},
    {"POINT", Type::kPoint},
    {"BOOL", Type::kBool},
    {"VARCHAR", Type::kString},
    {"INT", Type::kInt},
    {"SIGNED INTEGER", Type::kInt},
    {"TIME WITHOUT TIME ZONE", Type::kLocalTime},
    {"TIME WITH TIME ZONE", Type::kTime},
    {"TIMESTAMP WITHOUT TIME ZONE", Type::kLocalDateTime},
    {"TIMESTAMP WITH TIME ZONE", Type::kDateTime},
};

}  // namespace

std::optional<PropertyType> ParsePropertyType(std::string_view text) {
  PropertyType type;
  for (const std::string_view list : {"LIST<", "ARRAY<"}) {
    constexpr std::string_view kEnd = " NOT NULL>";
    if (text.size() < list.size() + kEnd.size()) continue;
    if (!text.starts_with(list) || !text.ends_with(kEnd)) continue;
    type.list = true;
    text = text.substr(list.size(), text.size() - list.size() - kEnd.size());
    break;
  }
  const auto* const known =
      std::find_if(std::begin(kPropertyTypes), std::end(kPropertyTypes),
                   [text](const PropertyTypeName& one) { return one.name == text; });
  if (known == std::end(kPropertyTypes)) return std::nullopt;
  type.type = known->type;
  return type;
}

std::string PropertyTypeText(const PropertyType& type) {
  const auto* const shown =
      std::find_if(std::begin(kPropertyTypes), std::end(kPropertyTypes),
                   [&type](const PropertyTypeName& one) { return one.type == type.type; });
  if (!type.list) return std::string(shown->name);
  return Concat("LIST<", shown->name, " NOT NULL>");
}

bool FitsType(const Value& value, const PropertyType& type) {
  if (value.is_null()) return true;
  if (!type.list) return value.type() == type.type;
  return value.is_list() &&
         std::all_of(value.as_list().begin(), value.as_list().end(),
                     [&type](const Value& element) { return element.type() == type.type; });
}

}  // namespace pulse::cypher
