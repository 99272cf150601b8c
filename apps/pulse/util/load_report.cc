#include "apps/pulse/util/load_report.h"

#include "apps/pulse/util/text_table.h"
#include "fmt/format.h"

namespace pulse {
namespace {

double Micros(const Histogram& h, double percentile) {
  return static_cast<double>(h.ValueAtPercentile(percentile)) / 1e3;
}

}  // namespace

std::string RenderFigures(std::span<const LoadFigures> figures, double seconds) {
  TextTable table({"", "a second", "p50 us", "p99 us", "p99.9 us", "max us"});
  for (const LoadFigures& f : figures) {
    if (f.count == 0) continue;
    table.AddRow({f.name, fmt::format("{:.0f}", static_cast<double>(f.count) / seconds),
                  fmt::format("{:.0f}", Micros(*f.nanos, 50)),
                  fmt::format("{:.0f}", Micros(*f.nanos, 99)),
                  fmt::format("{:.0f}", Micros(*f.nanos, 99.9)),
                  fmt::format("{:.0f}", static_cast<double>(f.nanos->Max()) / 1e3)});
  }
  return table.Render();
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

}  // namespace pulse
