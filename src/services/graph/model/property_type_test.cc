#include "services/graph/model/property_type.h"

#include <gtest/gtest.h>

#include <string>

namespace pulse::cypher {
namespace {

TEST(PropertyTypeTest, Names_AreReadAndShownAsNeo4jHasThem) {
  for (const char* name : {"BOOLEAN", "STRING", "INTEGER", "FLOAT", "DATE", "LOCAL TIME",
                           "ZONED TIME", "LOCAL DATETIME", "ZONED DATETIME", "DURATION", "POINT",
                           "LIST<INTEGER NOT NULL>", "LIST<ZONED DATETIME NOT NULL>"}) {
    const auto type = ParsePropertyType(name);
    ASSERT_TRUE(type.has_value()) << name;
    EXPECT_EQ(PropertyTypeText(*type), name);
  }
  EXPECT_EQ(ParsePropertyType("INT"), ParsePropertyType("INTEGER"));
  EXPECT_EQ(ParsePropertyType("ARRAY<VARCHAR NOT NULL>"),
            ParsePropertyType("LIST<STRING NOT NULL>"));
  EXPECT_EQ(ParsePropertyType("TIMESTAMP WITH TIME ZONE"), ParsePropertyType("ZONED DATETIME"));
  for (const char* none :
       {"", "integer", "NODE", "MAP", "ANY", "LIST", "LIST<INTEGER>", "LIST< NOT NULL>",
        "LIST<LIST<INTEGER NOT NULL> NOT NULL>", "LIST< NOT NULL", "INTEGER NOT NULL"}) {
    EXPECT_FALSE(ParsePropertyType(none).has_value()) << none;
  }
}

TEST(PropertyTypeTest, Values_FitTheirOwnTypeAlone) {
  const auto fits = [](const Value& value, const char* type) {
    return FitsType(value, *ParsePropertyType(type));
  };
  EXPECT_TRUE(fits(Value::Int(1), "INTEGER"));
  EXPECT_FALSE(fits(Value::Int(1), "FLOAT"));
  EXPECT_FALSE(fits(Value::Float(1), "INTEGER"));
  EXPECT_TRUE(fits(Value(), "DATE"));
  EXPECT_FALSE(fits(Value::List({Value::Int(1)}), "INTEGER"));
  EXPECT_FALSE(fits(Value::Int(1), "LIST<INTEGER NOT NULL>"));
  EXPECT_TRUE(fits(Value::List({Value::Int(1)}), "LIST<INTEGER NOT NULL>"));
  EXPECT_TRUE(fits(Value::List({}), "LIST<INTEGER NOT NULL>"));
  EXPECT_FALSE(fits(Value::List({Value::Int(1), Value::Float(2)}), "LIST<INTEGER NOT NULL>"));
  EXPECT_FALSE(fits(Value::List({Value::Int(1), Value()}), "LIST<INTEGER NOT NULL>"));
}

}  // namespace
}  // namespace pulse::cypher
