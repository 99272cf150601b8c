// Random values of all types that have a literal, and what makes them comparable to the last bit.
// For tests only.
#pragma once

#include <cmath>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "services/graph/model/point.h"
#include "services/graph/model/temporal.h"
#include "services/graph/model/value.h"
#include "services/graph/model/value_codec.h"

namespace pulse::cypher {

// Equal where type and value are the same; not where 1 is 1.0.
inline std::string ValueBytes(const Value& value) {
  std::string bytes;
  AppendValue(value, &bytes);
  return bytes;
}

inline Value RandomLiteral(std::mt19937_64& random, int depth = 0) {
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(n));
  };
  const auto text = [&] {
    static constexpr std::string_view kPieces[] = {
        "a", "'", "\"",     "\\",         "\n", "\r", "\t", "`", ";",
        ",", "ü", "\u20ac", "\U0001f600", " ",  "[",  "}",  "n", std::string_view("\0", 1)};
    std::string out;
    for (int64_t i = below(8); i > 0; --i) out += kPieces[below(std::size(kPieces))];
    return out;
  };
  const auto nanos = [&] { return static_cast<int32_t>(below(2) * below(1'000'000'000)); };
  const auto offset = [&] { return static_cast<int32_t>(below(2 * 18 * 60) - 18 * 60) * 60; };
  static constexpr std::string_view kZones[] = {"", "Europe/Berlin", "America/New_York", "UTC",
                                                "Asia/Kolkata"};
  const int64_t second = below(4'000'000'000) - 1'000'000'000;
  switch (below(depth > 3 ? 13 : 15)) {
    case 0:
      return {};
    case 1:
      return Value::Bool(below(2) == 0);
    case 2:
      return Value::Int(static_cast<int64_t>(random()) >> below(64));
    case 3:
      return Value::Float(
          std::ldexp(static_cast<double>(random()), static_cast<int>(below(2000)) - 1000));
    case 4:
      return Value::String(text());
    case 5:
      return Value::Date(below(6'000'000) - 3'000'000);
    case 6:
      return Value::LocalTime(below(kSecondsPerDay) * kNanosPerSecond + nanos());
    case 7:
      return Value::Time(below(kSecondsPerDay) * kNanosPerSecond + nanos(), offset());
    case 8:
      return Value::LocalDateTime(second, nanos());
    case 9: {
      const std::string zone(kZones[below(std::size(kZones))]);
      // Now and then an offset that the zone does not have.
      const bool fits = !zone.empty() && below(8) > 0;
      return Value::MakeDateTime(
          {second, nanos(), fits ? OffsetAt(second, *ParseZone(zone)) : offset(), zone});
    }
    case 10:
      return Value::MakeDuration({below(2000) - 1000, below(2000) - 1000, second, nanos()});
    case 11: {
      std::string bytes(static_cast<size_t>(below(8)), '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      return Value::MakeBytes(bytes);
    }
    case 12: {
      const auto crs = static_cast<Crs>(below(4));
      const auto part = [&] { return static_cast<double>(below(180'000'001) - 90'000'000) / 1e6; };
      return Value::MakePoint({crs, 2 * part(), part(), DimensionsOf(crs) > 2 ? part() : 0});
    }
    case 13: {
      ValueList list(static_cast<size_t>(below(5)));
      for (Value& item : list) item = RandomLiteral(random, depth + 1);
      return Value::List(std::move(list));
    }
    default: {
      ValueMap map;
      for (int64_t i = below(5); i > 0; --i) {
        map.emplace_back(text() + "k", RandomLiteral(random, depth + 1));
      }
      return Value::Map(std::move(map));
    }
  }
}

// What a node or relationship may have.
inline Value RandomProperty(std::mt19937_64& random) {
  while (true) {
    Value value = RandomLiteral(random);
    if (!value.is_null() && IsPropertyValue(value)) return value;
  }
}

}  // namespace pulse::cypher
