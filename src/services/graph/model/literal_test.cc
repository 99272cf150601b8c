#include "services/graph/model/literal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "base/testing.h"
#include "services/graph/model/test_values.h"

namespace pulse::cypher {
namespace {

// The value that comes back; fails the test where none does.
Value BackOf(const Value& value) {
  const auto text = LiteralText(value);
  if (!text) {
    ADD_FAILURE() << "no literal";
    return {};
  }
  std::string error;
  const auto back = ParseLiteral(*text, &error);
  EXPECT_TRUE(back) << *text << ": " << error;
  return back.value_or(Value());
}

TEST(Literal, RandomValues_ReadBackAsTheyWere) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 20000; ++i) {
    const Value value = RandomLiteral(random);
    ASSERT_EQ(ValueBytes(BackOf(value)), ValueBytes(value)) << LiteralText(value).value_or("");
  }
}

TEST(Literal, EdgesOfNumbers_ReadBackAsTheyWere) {
  for (const int64_t n : {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(),
                          int64_t{0}, int64_t{-1}}) {
    EXPECT_EQ(BackOf(Value::Int(n)).as_int(), n);
  }
  for (const double d : {0.0, -0.0, HUGE_VAL, -HUGE_VAL, 5e-324, 1.7976931348623157e308}) {
    const Value back = BackOf(Value::Float(d));
    ASSERT_TRUE(back.is_float());
    EXPECT_EQ(back.as_float(), d);
    EXPECT_EQ(std::signbit(back.as_float()), std::signbit(d));
  }
  EXPECT_TRUE(std::isnan(BackOf(Value::Float(std::nan(""))).as_float()));
}

TEST(Literal, SecondOfTwoLocalTimes_KeepsItsOffset) {
  // 02:30 in Berlin came twice that night.
  for (const int32_t offset : {7200, 3600}) {
    const Value value = Value::MakeDateTime(
        {1'729'989'000 + (offset == 7200 ? 0 : 3600), 0, offset, "Europe/Berlin"});
    EXPECT_EQ(BackOf(value).as_datetime().offset, offset);
    EXPECT_EQ(BackOf(value).as_datetime().seconds, value.as_datetime().seconds);
  }
}

TEST(Literal, BytesAndPoints_AreAsDocumented) {
  EXPECT_EQ(LiteralText(Value::MakePoint({Crs::kWgs84In3d, 1, -2.5, 3})),
            "point({x: 1.0, y: -2.5, z: 3.0, crs: 'wgs-84-3d'})");
  EXPECT_EQ(LiteralText(Value::MakeBytes(std::string_view("\0\xff", 2))), "bytes('AP8=')");
}

TEST(Literal, NodesAndRelationships_HaveNone) {
  EXPECT_FALSE(LiteralText(Value::Node(1)));
  EXPECT_FALSE(LiteralText(Value::List({Value::Edge({})})));
}

TEST(Literal, WhatIsNone_IsRefusedWithItsPlace) {
  for (const char* text : {"",
                           " ",
                           "x",
                           "'a",
                           "[1",
                           "[1,]",
                           "{a 1}",
                           "{a: 1",
                           "{: 1}",
                           "1 2",
                           "--1",
                           "1.2.3",
                           "-",
                           "99999999999999999999",
                           "bytes",
                           "bytes('AP8=",
                           "bytes('AP8='",
                           "bytes('A')",
                           "bytes(1)",
                           "point",
                           "point()",
                           "point({x: 1})",
                           "point({x: 1, y: null})",
                           "point({x: 1, y: 2}",
                           "point({x: 1, y: 2, crs: 'no'})",
                           "date()",
                           "date('x')",
                           "date('2020-01-01'",
                           "datetime('2020-01-01T00Z', 1)",
                           "datetime('2020-01-01T00Z', 999999, '')",
                           "datetime('2020-01-01T00Z', 0, 'No/Where')",
                           "true false",
                           "NULLL",
                           "'\\"}) {
    std::string error;
    EXPECT_FALSE(ParseLiteral(text, &error)) << text;
    EXPECT_NE(error.find("at byte "), std::string::npos) << text;
  }
  std::string error;
  EXPECT_FALSE(ParseLiteral(std::string(100'000, '['), &error));
  EXPECT_NE(error.find("too deeply"), std::string::npos) << error;
}

TEST(Literal, RandomBytes_AreReadOrRefused) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 20000; ++i) {
    std::string text = LiteralText(RandomLiteral(random)).value_or("null");
    for (uint64_t n = 1 + random() % 3; n > 0 && !text.empty(); --n) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    std::string error;
    const auto value = ParseLiteral(text, &error);
    EXPECT_EQ(value.has_value(), error.empty()) << text;
  }
}

}  // namespace
}  // namespace pulse::cypher
