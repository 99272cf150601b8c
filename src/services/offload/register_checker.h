// Decides whether a history of reads and writes of one register, whose writes all have different
// values, is linearizable. For tests. After Gibbons and Korach, "Testing shared memories" (1997).
//
// The operations of a value, its write and the reads of it, take effect one after the other. Its
// zone is the time between the first end and the last begin of any of them. If the first end comes
// first (a forward zone), the register must have the value all through the zone; else (a backward
// one) the value can be there at any one instant in it. A history is linearizable just when no
// read ends before its value's write begins, no two forward zones overlap, and no backward zone
// lies within a forward one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace pulse::offload::test {

struct Operation {
  bool write = false;
  uint64_t value = 0;
  int64_t begin = 0;
  int64_t end = 0;  // never before begin
};

// "" if it is; or what is wrong.
inline std::string NotLinearizable(const std::vector<Operation>& history) {
  struct Zone {
    bool written = false;
    int64_t write_begin = 0;
    int64_t first_end = INT64_MAX;
    int64_t last_begin = INT64_MIN;
  };
  std::unordered_map<uint64_t, Zone> zones;
  for (const Operation& o : history) {
    Zone& z = zones[o.value];
    if (o.write) {
      if (z.written) return "written twice: " + std::to_string(o.value);
      z.written = true;
      z.write_begin = o.begin;
    }
    z.first_end = std::min(z.first_end, o.end);
    z.last_begin = std::max(z.last_begin, o.begin);
  }
  std::vector<Zone> forward;
  std::vector<Zone> backward;
  for (const auto& [value, z] : zones) {
    if (!z.written) return "read, but never written: " + std::to_string(value);
    if (z.first_end < z.write_begin) return "read before it was written: " + std::to_string(value);
    (z.first_end < z.last_begin ? forward : backward).push_back(z);
  }
  std::sort(forward.begin(), forward.end(),
            [](const Zone& a, const Zone& b) { return a.first_end < b.first_end; });
  for (size_t i = 1; i < forward.size(); ++i) {
    if (forward[i].first_end < forward[i - 1].last_begin) return "two values at one time";
  }
  for (const Zone& b : backward) {
    // The last forward zone that begins before it.
    const auto after =
        std::upper_bound(forward.begin(), forward.end(), b.last_begin,
                         [](int64_t at, const Zone& f) { return at <= f.first_end; });
    if (after != forward.begin() && b.first_end < std::prev(after)->last_begin) {
      return "a value within the time of another";
    }
  }
  return "";
}

}  // namespace pulse::offload::test
