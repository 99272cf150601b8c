// How `pulse top` writes numbers. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "fmt/format.h"

namespace pulse::top {

// Of a counter whose numbers come from elsewhere, and may be any: what goes back counts as nothing.
inline double Grown(uint64_t before, uint64_t now) {
  return now > before ? static_cast<double>(now - before) : 0;
}

inline std::string Percent(double share) { return fmt::format("{:.0f} %", share * 100); }
inline std::string Rate(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.1f} MB/s", bytes / 1e6)
                     : fmt::format("{:.2f} GB/s", bytes / 1e9);
}
inline std::string CountRate(double rate) {
  if (rate < 10'000) return fmt::format("{:.0f}/s", rate);
  return rate < 1e6 ? fmt::format("{:.1f} K/s", rate / 1e3) : fmt::format("{:.2f} M/s", rate / 1e6);
}
inline std::string Seconds(double s) {
  if (s == 0) return "-";
  if (s < 1e-3) return fmt::format("{:.0f} us", s * 1e6);
  return s < 1 ? fmt::format("{:.1f} ms", s * 1e3) : fmt::format("{:.1f} s", s);
}
inline std::string Mebibytes(double bytes) { return fmt::format("{:.1f}", bytes / 1048576); }
inline std::string Bytes(double bytes) {
  if (bytes < 1024) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1048576) return fmt::format("{:.0f} KiB", bytes / 1024);
  if (bytes < 1073741824) return fmt::format("{:.1f} MiB", bytes / 1048576);
  return fmt::format("{:.1f} GiB", bytes / 1073741824);
}
inline std::string Uptime(double seconds) {
  const auto s = static_cast<uint64_t>(seconds);
  if (s >= 86400) return fmt::format("{} d {:02}:{:02}", s / 86400, s / 3600 % 24, s / 60 % 60);
  return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}
inline std::string Count(uint64_t n, const char* one, const char* many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

}  // namespace pulse::top
