#include "examples/common/load_report.h"

#include "fmt/format.h"

namespace pulse::examples {
namespace {

double Micros(const Histogram& h, double percentile) {
  return static_cast<double>(h.ValueAtPercentile(percentile)) / 1e3;
}

}  // namespace

std::string RenderFigures(std::span<const LoadFigures> figures, double seconds) {
  std::string table = fmt::format("{:8}{:>10}{:>9}{:>9}{:>9}{:>9}\n", "", "a second", "p50 us",
                                  "p99 us", "p99.9 us", "max us");
  for (const LoadFigures& f : figures) {
    if (f.count == 0) continue;
    table += fmt::format("{:8}{:>10.0f}{:>9.0f}{:>9.0f}{:>9.0f}{:>9.0f}\n", f.name,
                         static_cast<double>(f.count) / seconds, Micros(*f.nanos, 50),
                         Micros(*f.nanos, 99), Micros(*f.nanos, 99.9),
                         static_cast<double>(f.nanos->Max()) / 1e3);
  }
  return table;
}

nlohmann::json FiguresJson(std::span<const LoadFigures> figures, double seconds) {
  nlohmann::json out;
  uint64_t all = 0;
  for (const LoadFigures& f : figures) {
    if (f.count == 0) continue;
    all += f.count;
    const std::string name = f.name;
    out[name + "_per_s"] = static_cast<double>(f.count) / seconds;
    out[name + "_p50_us"] = Micros(*f.nanos, 50);
    out[name + "_p99_us"] = Micros(*f.nanos, 99);
    out[name + "_p999_us"] = Micros(*f.nanos, 99.9);
    out[name + "_max_us"] = static_cast<double>(f.nanos->Max()) / 1e3;
  }
  out["ops"] = all;
  out["ops_per_s"] = static_cast<double>(all) / seconds;
  return out;
}

}  // namespace pulse::examples
