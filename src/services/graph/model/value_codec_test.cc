#include "services/graph/model/value_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/testing.h"
#include "services/graph/model/point.h"

namespace pulse::cypher {
namespace {

Value RandomValue(std::mt19937_64& random, int depth) {
  const auto number = [&] { return static_cast<int64_t>(random() >> (1 + random() % 63)); };
  const auto text = [&] { return std::string(random() % 20, static_cast<char>(random())); };
  const auto nanos = [&] { return static_cast<int32_t>(random() % 1'000'000'000); };
  const auto offset = [&] { return static_cast<int32_t>(random() % 64'801) - 32'400; };
  switch (random() % (depth > 3 ? 13 : 15)) {
    case 0:
      return {};
    case 1:
      return Value::Bool(random() % 2 == 0);
    case 2:
      return Value::Int(random() % 2 == 0 ? number() : -number());
    case 3:
      return Value::Float(std::ldexp(static_cast<double>(number()), -30));
    case 4:
      return Value::String(text());
    case 5:
      return Value::Date(number() % 1'000'000);
    case 6:
      return Value::LocalTime(number() % 86'400'000'000'000);
    case 7:
      return Value::Time(number() % 86'400'000'000'000, offset());
    case 8:
      return Value::LocalDateTime(-number(), nanos());
    case 9:
      return Value::MakeDateTime({number(), nanos(), offset(), random() % 2 == 0 ? "" : text()});
    case 10:
      return Value::MakeDuration({-number(), number(), number(), nanos()});
    case 11:
      return Value::MakeBytes(text());
    case 12: {
      const Crs crs = static_cast<Crs>(random() % 4);
      const auto part = [&] { return static_cast<double>(number() % 90'000) / 1000; };
      return Value::MakePoint({crs, part(), -part(), DimensionsOf(crs) > 2 ? part() : 0});
    }
    case 13: {
      ValueList list(random() % 6);
      for (Value& v : list) v = RandomValue(random, depth + 1);
      return Value::List(std::move(list));
    }
    default: {
      ValueMap map;
      for (uint64_t i = random() % 6; i > 0; --i)
        map.emplace_back(text(), RandomValue(random, depth + 1));
      return Value::Map(std::move(map));
    }
  }
}

std::string Bytes(const Value& value) {
  std::string bytes;
  AppendValue(value, &bytes);
  return bytes;
}

TEST(ValueCodec, RandomValues_EncodedAndDecoded_AreEqual) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 5000; ++i) {
    const Value value = RandomValue(random, 0);
    const std::string bytes = Bytes(value) + "rest";
    std::string_view in = bytes;
    Value back;
    ASSERT_TRUE(ReadValue(&in, &back));
    EXPECT_EQ(in, "rest");
    EXPECT_EQ(back.type(), value.type());
    EXPECT_EQ(Order(back, value), 0);
    EXPECT_EQ(Bytes(back), Bytes(value));
    std::string_view skip = bytes;
    ASSERT_TRUE(SkipValue(&skip));
    EXPECT_EQ(skip, "rest");
  }
}

TEST(ValueCodec, EdgesOfNumbers_EncodedAndDecoded_AreEqual) {
  using Limits = std::numeric_limits<int64_t>;
  for (const int64_t n :
       {int64_t{0}, int64_t{-1}, int64_t{207}, int64_t{208}, Limits::min(), Limits::max()}) {
    const std::string bytes = Bytes(Value::Int(n));
    std::string_view in = bytes;
    int64_t back;
    ASSERT_TRUE(ReadInt(&in, &back));
    EXPECT_EQ(back, n);
    EXPECT_TRUE(in.empty());
    EXPECT_EQ(bytes.size() == 1, n >= 0 && n < 208) << n;
  }
  for (const double d : {0.0, -0.0, std::nan(""), HUGE_VAL, 5e-324}) {
    const std::string bytes = Bytes(Value::Float(d));
    std::string_view in = bytes;
    Value back;
    ASSERT_TRUE(ReadValue(&in, &back));
    EXPECT_EQ(std::isnan(d), std::isnan(back.as_float()));
    if (!std::isnan(d)) {
      EXPECT_EQ(std::signbit(d), std::signbit(back.as_float()));
      EXPECT_EQ(d, back.as_float());
    }
    std::string_view other = bytes;
    int64_t ignored;
    EXPECT_FALSE(ReadInt(&other, &ignored));
    EXPECT_EQ(other, bytes);
  }
}

TEST(ValueCodec, PointsThatAreNone_AreRefused) {
  const std::string good = Bytes(Value::MakePoint({Crs::kWgs84, 1, 2, 0}));
  ASSERT_EQ(good.size(), 2 + 2 * sizeof(double));
  EXPECT_EQ(good.substr(0, 2), std::string("\x0f\x02"));
  const auto reads = [](std::string_view in) {
    Value value;
    return ReadValue(&in, &value);
  };
  EXPECT_TRUE(reads(good));
  EXPECT_FALSE(reads(std::string("\x0f\x04") + good.substr(2) + "12345678"));  // no such system
  for (const double bad : {std::nan(""), HUGE_VAL, 90.5}) {
    std::string bytes = good;
    std::memcpy(&bytes[2 + sizeof(double)], &bad, sizeof(bad));
    EXPECT_FALSE(reads(bytes)) << bad;
  }
}

// A database has these bytes: they stay what they are.
TEST(ValueCodec, TagsOfTypes_StayTheSame) {
  EXPECT_EQ(Bytes(Value::MakeDuration({1, 2, 3, 4})), "\x0d\x02\x04\x06\x08");
  EXPECT_EQ(Bytes(Value::MakeBytes("ab")),
            "\x0e\x02"
            "ab");
}

TEST(ValueCodec, CutAnywhere_IsRefused) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 500; ++i) {
    const std::string bytes = Bytes(RandomValue(random, 0));
    for (size_t cut = 0; cut < bytes.size(); ++cut) {
      std::string_view in(bytes.data(), cut);
      Value value;
      EXPECT_FALSE(ReadValue(&in, &value));
      std::string_view skip(bytes.data(), cut);
      EXPECT_FALSE(SkipValue(&skip));
    }
  }
}

TEST(ValueCodec, RandomBytes_NeverReadPastTheEnd) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(random() % 40, '\0');
    for (char& c : bytes) c = static_cast<char>(random() % (random() % 2 == 0 ? 16 : 256));
    std::string_view in = bytes;
    Value value;
    if (!ReadValue(&in, &value)) continue;
    // What was read is a value that can be written, and stays the same.
    const std::string again = Bytes(value);
    std::string_view second = again;
    Value back;
    ASSERT_TRUE(ReadValue(&second, &back));
    EXPECT_EQ(Order(value, back), 0);
  }
}

TEST(ValueCodec, FindKey_AmongRandomEntries_FindsEachAndNoOther) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int round = 0; round < 500; ++round) {
    std::string bytes;
    std::vector<std::pair<uint64_t, Value>> entries;
    uint64_t key = random() % 3;
    for (uint64_t i = random() % 8; i > 0; --i) {
      entries.emplace_back(key, RandomValue(random, 0));
      AppendVarint(key, &bytes);
      AppendValue(entries.back().second, &bytes);
      key += 1 + (random() >> (random() % 64)) % 100'000;
    }
    for (const auto& [at, value] : entries) {
      std::string_view found = FindKey(bytes, at);
      Value read;
      ASSERT_TRUE(ReadValue(&found, &read));
      EXPECT_EQ(Bytes(read), Bytes(value));
      const bool next = std::any_of(entries.begin(), entries.end(),
                                    [other = at + 1](const auto& e) { return e.first == other; });
      EXPECT_EQ(FindKey(bytes, at + 1).empty(), !next);
    }
    EXPECT_TRUE(FindKey(bytes, key).empty());
  }
}

TEST(ValueCodec, FindKey_CutOrDamagedEntries_StaysWithinThem) {
  std::mt19937_64 random(testing_util::TestSeed());
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (uint64_t key = 0; key < 1 + random() % 5; ++key) {
      AppendVarint(key, &bytes);
      AppendValue(RandomValue(random, 0), &bytes);
    }
    for (uint64_t i = random() % 3; i > 0; --i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    // In a buffer of its own size, so that a sanitizer sees what is read behind it.
    const std::vector<char> cut(bytes.begin(),
                                bytes.begin() + static_cast<long>(random() % (bytes.size() + 1)));
    const std::string_view entries(cut.data(), cut.size());
    for (uint64_t key = 0; key < 6; ++key) {
      const std::string_view found = FindKey(entries, key);
      if (found.empty()) continue;
      EXPECT_GE(found.data(), entries.data());
      EXPECT_EQ(found.data() + found.size(), entries.data() + entries.size());
    }
  }
}

TEST(ValueCodec, ListsDeeperThanValuesMayBe_AreRefused) {
  std::string bytes;
  for (int i = 0; i < 1'000'000; ++i) bytes += "\x06\x01";
  std::string_view in = bytes;
  Value value;
  EXPECT_FALSE(ReadValue(&in, &value));
  in = bytes;
  EXPECT_FALSE(SkipValue(&in));
}

TEST(ValueCodec, ListThatClaimsMoreThanThereIs_IsRefusedBeforeMemoryIsTaken) {
  std::string bytes = "\x06";
  AppendVarint(uint64_t{1} << 60, &bytes);
  std::string_view in = bytes;
  Value value;
  EXPECT_FALSE(ReadValue(&in, &value));
}

TEST(ValueCodec, NodesAndPaths_AreNotStorable) {
  EXPECT_FALSE(IsStorable(Value::Node(1)));
  EXPECT_FALSE(IsStorable(Value::List({Value::Int(1), Value::Edge({1, 2, 3, 4})})));
  EXPECT_FALSE(IsStorable(Value::Map({{"a", Value::Node(1)}})));
  EXPECT_TRUE(IsStorable(Value::List({Value::Int(1), Value()})));
}

}  // namespace
}  // namespace pulse::cypher
