#include "services/graph/model/value.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/testing.h"
#include "services/graph/model/temporal.h"

namespace pulse::cypher {
namespace {

Value L(ValueList list) { return Value::List(std::move(list)); }

TEST(Value, Equals_NullInside_IsNullUnlessDecided) {
  EXPECT_EQ(Equals(Value(), Value()), -1);
  EXPECT_EQ(Equals(L({Value::Int(1), Value()}), L({Value::Int(1), Value()})), -1);
  EXPECT_EQ(Equals(L({Value::Int(1), Value()}), L({Value::Int(2), Value()})), 0);
  EXPECT_EQ(Equals(L({Value()}), L({})), 0);
  EXPECT_EQ(Equals(Value::Map({{"a", Value()}}), Value::Map({{"a", Value::Int(1)}})), -1);
  EXPECT_EQ(Equals(Value::Map({{"a", Value()}}), Value::Map({{"b", Value()}})), 0);
}

TEST(Value, Equals_IntegerAndFloat_IsExact) {
  EXPECT_EQ(Equals(Value::Int(1), Value::Float(1.0)), 1);
  const int64_t odd = (int64_t{1} << 53) + 1;
  EXPECT_EQ(Equals(Value::Int(odd), Value::Float(static_cast<double>(odd))), 0);
  EXPECT_EQ(Compare(Value::Int(odd), Value::Float(9007199254740992.0)), 1);
  EXPECT_EQ(Compare(Value::Int(std::numeric_limits<int64_t>::max()), Value::Float(1e19)), -1);
  EXPECT_EQ(Compare(Value::Int(-1), Value::Float(-1.5)), 1);
}

TEST(Value, Compare_DifferentTypesOrNan_HasNoAnswer) {
  EXPECT_EQ(Compare(Value::Int(1), Value::String("1")), kIncomparable);
  EXPECT_EQ(Compare(Value(), Value::Int(1)), kIncomparable);
  EXPECT_EQ(Compare(Value::Float(std::nan("")), Value::Int(1)), kUnordered);
  EXPECT_EQ(Equals(Value::Float(std::nan("")), Value::Float(std::nan(""))), 0);
}

TEST(Value, Order_AllTypes_FollowsTheStandard) {
  const EdgeRef edge{1, 0, 0, 0};
  const std::vector<Value> sorted = {Value::Map({{"a", Value::String("map")}}),
                                     Value::Node(0),
                                     Value::Edge(edge),
                                     L({Value::Int(1)}),
                                     Value::MakePath({{0, 0}, {edge}}),
                                     Value::MakePoint({Crs::kWgs84, 9, 9, 0}),
                                     Value::MakePoint({Crs::kWgs84In3d, 0, 0, 0}),
                                     Value::MakePoint({Crs::kCartesian, 1, 9, 0}),
                                     Value::MakePoint({Crs::kCartesian, 2, 0, 0}),
                                     Value::Date(0),
                                     Value::String("text"),
                                     Value::Bool(false),
                                     Value::Float(1.5),
                                     Value::Float(std::nan("")),
                                     Value::MakeBytes(""),
                                     Value::MakeBytes("a\x7f"),
                                     Value::MakeBytes("a\xff"),
                                     Value()};
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (size_t j = 0; j < sorted.size(); ++j) {
      EXPECT_EQ(Order(sorted[i], sorted[j]), i < j ? -1 : i > j ? 1 : 0) << i << " " << j;
    }
  }
}

// A random value of some nesting, from few scalars, so that equal ones meet.
Value Random(std::mt19937_64& random, int depth) {
  switch (random() % (depth > 0 ? 11 : 9)) {
    case 0:
      return {};
    case 1:
      return Value::Bool(random() % 2 == 0);
    case 2:
      return Value::Int(static_cast<int64_t>(random() % 5) - 2);
    case 3:
      return Value::Float(static_cast<double>(random() % 9) / 2 - 2);
    case 4:
      return Value::String(std::string(random() % 3, 'a'));
    case 5:
      return Value::Float(random() % 2 == 0 ? std::nan("")
                                            : std::numeric_limits<double>::infinity());
    case 6:
      return Value::MakeDuration(
          {static_cast<int64_t>(random() % 2), static_cast<int64_t>(random() % 2), 0, 0});
    case 7:
      return Value::MakeBytes(std::string(random() % 3, 'a'));
    case 8: {
      const auto part = [&] { return static_cast<double>(random() % 2) * (random() % 2 ? 1 : -1); };
      return Value::MakePoint({static_cast<Crs>(random() % 4), part(), part(), 0});
    }
    case 9: {
      ValueList list;
      for (size_t n = random() % 3; n > 0; --n) list.push_back(Random(random, depth - 1));
      return L(std::move(list));
    }
    default: {
      ValueMap map;
      for (size_t n = random() % 3; n > 0; --n)
        map.emplace_back(std::string(1, static_cast<char>('a' + random() % 3)),
                         Random(random, depth - 1));
      return Value::Map(std::move(map));
    }
  }
}

TEST(Value, Order_RandomValues_IsTotalAndAgreesWithHashAndEquality) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 20000; ++i) {
    const Value a = Random(random, 2), b = Random(random, 2), c = Random(random, 2);
    EXPECT_EQ(Order(a, b), -Order(b, a));
    EXPECT_EQ(Order(a, a), 0);
    if (Order(a, b) <= 0 && Order(b, c) <= 0) {
      EXPECT_LE(Order(a, c), 0);
    }
    if (Order(a, b) == 0) {
      EXPECT_EQ(Hash(a), Hash(b));
    }
    if (Equals(a, b) == 1) {
      EXPECT_EQ(Order(a, b), 0);
    }
    const int compared = Compare(a, b);
    if (compared == -1 || compared == 1) {
      EXPECT_NE(Order(a, b), 0);
    }
  }
}

TEST(Value, Bytes_AndTheTextOfTheSame_AreDifferentValues) {
  const Value bytes = Value::MakeBytes(std::string_view("a\0\xff", 3));
  EXPECT_EQ(bytes.as_bytes(), std::string("a\0\xff", 3));
  EXPECT_EQ(Equals(bytes, Value::MakeBytes(bytes.as_bytes())), 1);
  EXPECT_EQ(Hash(bytes), Hash(Value::MakeBytes(bytes.as_bytes())));
  EXPECT_EQ(Equals(bytes, Value::String(bytes.as_bytes())), 0);
  EXPECT_EQ(Compare(bytes, Value::String("b")), kIncomparable);
  EXPECT_EQ(Compare(bytes, Value::MakeBytes("b")), -1);
  EXPECT_TRUE(IsPropertyValue(bytes));
  EXPECT_GT(Value::MakeBytes(std::string(1000, 'x')).Bytes(), 1000u);
}

TEST(Value, Map_SameKeyTwice_KeepsTheLast) {
  const Value map = Value::Map({{"b", Value::Int(1)}, {"a", Value::Int(2)}, {"b", Value::Int(3)}});
  ASSERT_EQ(map.as_map().size(), 2u);
  EXPECT_EQ(map.Find("b")->as_int(), 3);
  EXPECT_EQ(map.Find("c"), nullptr);
  EXPECT_EQ(L({L({map})}).depth(), 3);
}

TEST(Value, FloatText_AnyFloat_ReadsBack) {
  EXPECT_EQ(FloatText(1), "1.0");
  EXPECT_EQ(FloatText(-0.5), "-0.5");
  EXPECT_EQ(FloatText(100000), "100000.0");
  EXPECT_EQ(FloatText(9999999.5), "9999999.5");
  EXPECT_EQ(FloatText(1e7), "1.0E7");
  EXPECT_EQ(FloatText(-123456789.25), "-1.2345678925E8");
  EXPECT_EQ(FloatText(0.001), "0.001");
  EXPECT_EQ(FloatText(0.00012), "1.2E-4");
  EXPECT_EQ(FloatText(-0.0), "-0.0");
  EXPECT_EQ(FloatText(1e21), "1.0E21");
  EXPECT_EQ(FloatText(1.5e-9), "1.5E-9");
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 10000; ++i) {
    const double d = std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                                static_cast<int>(random() % 400) - 200);
    EXPECT_EQ(std::strtod(FloatText(d).c_str(), nullptr), d);
  }
}

TEST(Temporal, Calendar_EveryDayOfLongTimes_RoundTrips) {
  for (int64_t day = -800000; day < 800000; day += 1) {
    const Civil c = CivilFromDays(day);
    ASSERT_EQ(DaysFromCivil(c.year, c.month, c.day), day);
    int64_t year = 0;
    int week = 0;
    IsoWeek(day, &year, &week);
    ASSERT_EQ(DaysFromIsoWeek(year, week, WeekDay(day)), day);
    ASSERT_LE(c.day, DaysInMonth(c.year, c.month));
  }
}

TEST(Temporal, Parse_WhatWasWritten_IsTheSame) {
  std::string error;
  for (const auto& [type, text] : std::vector<std::pair<Type, std::string>>{
           {Type::kDate, "2015-07-21"},
           {Type::kDate, "-0001-01-01"},
           {Type::kDate, "+12345-01-01"},
           {Type::kLocalTime, "21:40:32.142"},
           {Type::kTime, "21:40:32.142+01:00"},
           {Type::kTime, "12:34:56-02:05:07"},
           {Type::kLocalDateTime, "2015-07-21T21:40"},
           {Type::kDateTime, "2015-07-21T21:40:32.000000001Z"},
           {Type::kDateTime, "2015-07-21T21:40:32.142+02:00[Europe/Stockholm]"},
           {Type::kDuration, "P12Y5M14DT16H13M10S"},
           {Type::kDuration, "PT-0.001S"},
           {Type::kDuration, "PT0S"}}) {
    const auto value = ParseTemporal(type, text, &error);
    ASSERT_TRUE(value.has_value()) << text << ": " << error;
    EXPECT_EQ(TemporalText(*value), text);
  }
}

TEST(Temporal, Parse_Malformed_SaysSo) {
  for (const auto& [type, text] : std::vector<std::pair<Type, std::string>>{
           {Type::kDate, ""},
           {Type::kDate, "2015-13-01"},
           {Type::kDate, "2015-02-29"},
           {Type::kDate, "2015-W54"},
           {Type::kDate, "2015-366"},
           {Type::kDate, "20150721x"},
           {Type::kLocalTime, "24:00"},
           {Type::kLocalTime, "12:60"},
           {Type::kTime, "12:00+19:00"},
           {Type::kTime, "12:00[Europe/Stockholm"},
           {Type::kDateTime, "2015-07-21T"},
           {Type::kDateTime, "2015-07-21T12:00[Mars/Base]"},
           {Type::kDateTime, "2015-07-21T12:00[../../etc/passwd]"},
           {Type::kDuration, "P"},
           {Type::kDuration, "PT"},
           {Type::kDuration, "P1H"},
           {Type::kDuration, "P99999999999999999999Y"}}) {
    std::string error;
    EXPECT_FALSE(ParseTemporal(type, text, &error).has_value()) << text;
    EXPECT_FALSE(error.empty()) << text;
  }
}

// Its signs stand where those of P2012-02-02T14:37 do.
TEST(Temporal, Parse_NegativeParts_AreNoDate) {
  std::string error;
  const auto value = ParseTemporal(Type::kDuration, "P-6DT-7H-12M", &error);
  ASSERT_TRUE(value.has_value()) << error;
  EXPECT_EQ(TemporalText(*value), "P-6DT-7H-12M");
}

TEST(Temporal, Parse_RandomBytes_NeverFailsOtherwise) {
  std::mt19937_64 random(testing_util::TestSeed());
  static constexpr std::string_view kAlphabet = "0123456789-+:.TWPYMDHSZ[]/E ";
  for (int i = 0; i < 100000; ++i) {
    std::string text;
    for (size_t n = random() % 24; n > 0; --n) text += kAlphabet[random() % kAlphabet.size()];
    const auto type =
        static_cast<Type>(static_cast<int>(Type::kDate) + static_cast<int>(random() % 6));
    std::string error;
    const auto value = ParseTemporal(type, text, &error);
    if (!value) continue;
    // What is read is written, and read again as the same.
    const auto again = ParseTemporal(type, TemporalText(*value), &error);
    ASSERT_TRUE(again.has_value()) << text << " -> " << TemporalText(*value);
    EXPECT_EQ(Order(*value, *again), 0) << text;
  }
}

}  // namespace
}  // namespace pulse::cypher
