// Places of values against the order that `<` has.
#include "services/graph/nodes/value_order.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/testing.h"
#include "services/graph/model/test_values.h"

namespace pulse::graph {
namespace {

using cypher::Bound;
using cypher::Compare;
using cypher::Value;
using cypher::ValueBytes;

std::vector<Value> RandomValues(std::mt19937_64& random) {
  std::vector<Value> values = {Value(),
                               Value::Float(0.0 / 0.0),
                               Value::Float(-0.0),
                               Value::Int(0),
                               Value::Float(-1.0 / 0.0),
                               Value::Float(1.0 / 0.0),
                               Value::Int(INT64_MIN),
                               Value::Int(INT64_MAX),
                               Value::Int((int64_t{1} << 53) + 1),
                               Value::Float(9007199254740992.0),
                               Value::String(""),
                               Value::String("\xff\xff\xff")};
  for (int i = 0; i < 120; ++i) values.push_back(cypher::RandomLiteral(random));
  for (int i = 0; i < 30; ++i) {
    values.push_back(Value::Int(static_cast<int64_t>(random() % 9) - 4));
    values.push_back(Value::Float(static_cast<double>(random() % 90) / 10 - 4));
    std::string text(12 + random() % 8, 'a');
    text[random() % text.size()] = static_cast<char>(random());
    values.push_back(Value::String(text));
  }
  return values;
}

bool IsIn(const OrderRange& range, const Value& value) {
  const auto place = PlaceOf(value);
  return place && range.first <= *place && *place <= range.last;
}

TEST(ValueOrderTest, RandomValues_PlacesAreInTheirOrder) {
  std::mt19937_64 random(testing_util::TestSeed());
  const std::vector<Value> values = RandomValues(random);
  for (const Value& a : values) {
    const auto place = PlaceOf(a);
    for (const Value& b : values) {
      const auto other = PlaceOf(b);
      if (place && other && Compare(a, b) == -1) {
        EXPECT_LE(*place, *other) << ValueBytes(a) << " " << ValueBytes(b);
      }
    }
  }
}

TEST(ValueOrderTest, RandomBounds_NoValueWithinThemIsOutOfTheRange) {
  std::mt19937_64 random(testing_util::TestSeed());
  const std::vector<Value> values = RandomValues(random);
  size_t within = 0, beyond = 0;
  for (const Value& bound : values) {
    const Bound least{Bound::Kind::kAtLeast, bound}, most{Bound::Kind::kAtMost, bound};
    const auto from = RangeOf({&least, 1}), to = RangeOf({&most, 1});
    ASSERT_EQ(from.has_value(), to.has_value());
    if (!from) continue;
    const Bound prefix{Bound::Kind::kBeginsWith, bound};
    const auto begins = bound.is_string() ? RangeOf({&prefix, 1}) : std::nullopt;
    for (const Value& value : values) {
      const int c = Compare(value, bound);
      if (c == 0 || c == 1) {
        EXPECT_TRUE(IsIn(*from, value)) << ValueBytes(value);
      }
      if (c == 0 || c == -1) {
        EXPECT_TRUE(IsIn(*to, value)) << ValueBytes(value);
      }
      if (begins && value.is_string() && value.as_string().starts_with(bound.as_string())) {
        EXPECT_TRUE(IsIn(*begins, value)) << value.as_string() << " " << bound.as_string();
      }
      (IsIn(*from, value) ? within : beyond) += 1;
    }
  }
  EXPECT_GT(within, 100u);
  EXPECT_GT(beyond, 100u);
}

TEST(ValueOrderTest, BoundsOfTwoKinds_HaveNoRange) {
  const Bound bounds[] = {{Bound::Kind::kAtLeast, Value::Int(1)},
                          {Bound::Kind::kAtMost, Value::String("z")}};
  EXPECT_TRUE(RangeOf(bounds)->empty());
  const Bound null{Bound::Kind::kAtLeast, Value()};
  EXPECT_TRUE(RangeOf({&null, 1})->empty());
  const Bound list{Bound::Kind::kAtLeast, Value::List({})};
  EXPECT_FALSE(RangeOf({&list, 1}).has_value());
}

}  // namespace
}  // namespace pulse::graph
