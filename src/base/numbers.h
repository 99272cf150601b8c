// Numbers that a service shows to people and to machines that watch: what they are called in the
// status (JSON) and in Prometheus, and their units. A service declares them once, as constants; the
// status, `pulse top` and the metrics iterate over what they are given.
//
// Plain data. Strings are constants.
#pragma once

#include <cstdint>
#include <vector>

namespace pulse {

enum class Unit : uint8_t { kCount, kBytes, kNanos };
enum class NumberKind : uint8_t { kCounter, kGauge };

struct NumberSpec {
  const char* name;  // in the status
  Unit unit = Unit::kCount;
  NumberKind kind = NumberKind::kCounter;
  const char* metric =
      nullptr;  // in Prometheus, in seconds where the unit is time; null: not there
  const char* help = nullptr;
  const char* label = nullptr;  // where several numbers are one metric: which of them this is
  const char* label_value = nullptr;
  const char* second_label = nullptr;
  const char* second_value = nullptr;
};

struct Number {
  const NumberSpec* spec;
  uint64_t value;
};

// Numbers under one name in the status, such as "tasks".
struct NumberGroup {
  const char* name;
  std::vector<Number> numbers;
};

}  // namespace pulse
