#include "bench/macro/soak_chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "bench/macro/svg.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr double kSoakWidth = 960;
constexpr double kLeft = 64;
constexpr double kSoakRight = 16;
constexpr double kTop = 64;
constexpr double kPanel = 110;  // the height of a panel's plot
constexpr double kGap = 44;     // above each, for its title
constexpr double kBottom = 40;

// Plain rules, no variables: not only browsers show such files.
constexpr char kSoakStyle[] = R"(<style>
  svg { font: 12px system-ui, sans-serif; }
  text { fill: #1f2328; }
  .ground { fill: #ffffff; }
  .head { font-size: 15px; font-weight: 600; }
  .name { font-weight: 600; }
  .axis { fill: #59636e; font-size: 11px; }
  .grid { stroke: #d1d9e0; stroke-width: 1; }
  .line { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
  .line.one { stroke: #0969da; } .line.two { stroke: #bc4c00; }
  .line.three { stroke: #1a7f37; } .line.four { stroke: #8250df; }
  text.one { fill: #0969da; } text.two { fill: #bc4c00; }
  text.three { fill: #1a7f37; } text.four { fill: #8250df; }
  .gone { fill: #cf222e; fill-opacity: 0.16; } .held { fill: #9a6700; fill-opacity: 0.16; }
  .edge { stroke: #cf222e; stroke-width: 1; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .ground { fill: #0d1117; }
    .axis { fill: #9198a1; }
    .grid { stroke: #30363d; }
    .line.one { stroke: #58a6ff; } .line.two { stroke: #f0883e; }
    .line.three { stroke: #3fb950; } .line.four { stroke: #bc8cff; }
    text.one { fill: #58a6ff; } text.two { fill: #f0883e; }
    text.three { fill: #3fb950; } text.four { fill: #bc8cff; }
    .gone { fill: #ff7b72; } .held { fill: #d29922; }
    .edge { stroke: #ff7b72; }
  }
</style>
)";

double MostOf(const ChartPanel& panel) {
  double most = 0;
  for (const ChartSeries& s : panel.series) {
    for (const auto& [at, value] : s.points) {
      if (std::isfinite(value)) most = std::max(most, value);
    }
  }
  return most;
}

// What a panel's axis goes through.
struct Scale {
  explicit Scale(const ChartPanel& panel) {
    if (!panel.logarithmic) {
      to = RoundUp(MostOf(panel));
      for (const double share : {0.0, 0.5, 1.0}) grid.push_back(share * to);
      return;
    }
    logarithmic = true;
    from = std::numeric_limits<double>::infinity();
    for (const ChartSeries& s : panel.series) {
      for (const auto& [at, value] : s.points) {
        if (std::isfinite(value) && value > 0) from = std::min(from, value);
      }
    }
    if (!std::isfinite(from)) from = 1;
    from = std::pow(10.0, std::floor(std::log10(from)));
    to = std::pow(10.0, std::ceil(std::log10(std::max(MostOf(panel), from * 10))));
    for (double v = from; v <= to * 1.001; v *= 10) grid.push_back(v);
  }
  double Share(double value) const {
    if (!logarithmic) return std::clamp(value / to, 0.0, 1.0);
    const double low = std::log10(from);
    return std::clamp((std::log10(std::max(value, from)) - low) / (std::log10(to) - low), 0.0, 1.0);
  }

  bool logarithmic = false;
  double from = 0;
  double to = 1;
  std::vector<double> grid;
};

class SoakWriter {
 public:
  explicit SoakWriter(const Chart& chart)
      : chart_(chart),
        seconds_(chart.categories.empty()
                     ? std::max(chart.seconds, 1e-3)
                     : std::max(1.0, static_cast<double>(chart.categories.size()) - 1)) {}

  std::string Render() {
    const double height = Top(chart_.panels.size()) - kGap + kBottom;
    Add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" role="img">)"
        "\n<title>{}</title>\n",
        kSoakWidth, height, EscapeXml(chart_.title));
    out_ += kSoakStyle;
    Add(R"(<rect class="ground" width="{}" height="{}"/>)"
        "\n",
        kSoakWidth, height);
    Add(R"(<text class="head" x="{}" y="22">{}</text>)"
        "\n",
        kLeft, EscapeXml(chart_.title));
    if (chart_.categories.empty()) Legend();
    for (size_t i = 0; i < chart_.panels.size(); ++i) Panel(chart_.panels[i], Top(i));
    if (chart_.categories.empty()) {
      TimeAxis(height - kBottom);
    } else {
      CategoryAxis(height - kBottom);
    }
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  static double Top(size_t panel) {
    return kTop + kGap + static_cast<double>(panel) * (kPanel + kGap);
  }
  double X(double second) const {
    return kLeft + std::clamp(second / seconds_, 0.0, 1.0) * (kSoakWidth - kLeft - kSoakRight);
  }

  void Legend() {
    Add(R"(<rect class="gone" x="{0}" y="38" width="14" height="12"/>)"
        R"(<line class="edge" x1="{0}" x2="{0}" y1="38" y2="50"/>)"
        R"(<text class="axis" x="{1}" y="48">agent killed or ended, until the next is started</text>)"
        "\n",
        kLeft, kLeft + 20);
    Add(R"(<rect class="held" x="{}" y="38" width="14" height="12"/>)"
        R"(<text class="axis" x="{}" y="48">agent stopped or slowed</text>)"
        "\n",
        kLeft + 310, kLeft + 330);
  }

  void Panel(const ChartPanel& panel, double top) {
    const Scale scale(panel);
    const double bottom = top + kPanel;
    Add(R"(<text class="name" x="{}" y="{}">{}</text>)"
        "\n",
        kLeft, top - 8, EscapeXml(panel.title));
    Marks(top);
    for (const double value : scale.grid) {
      const double y = bottom - scale.Share(value) * kPanel;
      Add(R"(<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>)"
          R"(<text class="axis" x="{}" y="{}" text-anchor="end">{:g}</text>)"
          "\n",
          kLeft, kSoakWidth - kSoakRight, y, y, kLeft - 6, y + 4, value);
    }
    double name_at = kSoakWidth - kSoakRight;
    for (size_t i = panel.series.size(); i-- > 0;) {
      static constexpr const char* kColours[] = {"one", "two", "three", "four"};
      const char* colour = kColours[std::min<size_t>(i, 3)];
      if (panel.series.size() > 1) {
        Add(R"(<text class="{}" x="{:.0f}" y="{}" text-anchor="end">{}</text>)"
            "\n",
            colour, name_at, top - 8, EscapeXml(panel.series[i].name));
        name_at -= 90;
      }
      Line(panel.series[i], colour, bottom, scale);
    }
  }

  void Marks(double top) {
    for (const ChartMark& m : chart_.marks) {
      const double x = X(m.begin);
      Add(R"(<rect class="{}" x="{:.1f}" y="{}" width="{:.1f}" height="{}"><title>{}</title></rect>)"
          "\n",
          m.strong ? "gone" : "held", x, top, std::max(X(m.end) - x, 0.5), kPanel,
          EscapeXml(fmt::format("{}, {:.1f} s to {:.1f} s", m.name, m.begin, m.end)));
      if (!m.strong) continue;
      Add(R"(<line class="edge" x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}"/>)"
          "\n",
          x, top, top + kPanel);
    }
  }

  void Line(const ChartSeries& series, const char* colour, double bottom, const Scale& scale) {
    std::string path;
    bool pen_down = false;
    for (const auto& [at, value] : series.points) {
      if (!std::isfinite(value)) {
        pen_down = false;
        continue;
      }
      fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", pen_down ? "L" : "M", X(at),
                     bottom - scale.Share(value) * kPanel);
      pen_down = true;
    }
    if (path.empty()) return;
    Add(R"(<path class="line {}" d="{}"/>)"
        "\n",
        colour, path);
  }

  void CategoryAxis(double bottom) {
    for (size_t i = 0; i < chart_.categories.size(); ++i) {
      Add(R"(<text class="axis" x="{:.1f}" y="{}" text-anchor="middle">{}</text>)"
          "\n",
          X(static_cast<double>(i)), bottom + 16, EscapeXml(chart_.categories[i]));
    }
    Add(R"(<text class="axis" x="{}" y="{}" text-anchor="end">{}</text>)"
        "\n",
        kSoakWidth - kSoakRight, bottom + 32, EscapeXml(chart_.axis));
  }

  void TimeAxis(double bottom) {
    const bool minutes = seconds_ >= 180;
    const double unit = minutes ? 60 : 1;
    const double step = RoundUp(seconds_ / unit / 10) * unit;
    for (double t = 0; t <= seconds_ * (1 + 1e-9); t += step) {
      Add(R"(<text class="axis" x="{:.1f}" y="{}" text-anchor="middle">{:g}</text>)"
          "\n",
          X(t), bottom + 16, t / unit);
    }
    Add(R"(<text class="axis" x="{}" y="{}" text-anchor="end">{}</text>)"
        "\n",
        kSoakWidth - kSoakRight, bottom + 32, minutes ? "minutes" : "seconds");
  }

  const Chart& chart_;
  const double seconds_;
  std::string out_;
};

}  // namespace

std::string RenderChart(const Chart& chart) { return SoakWriter(chart).Render(); }

}  // namespace pulse::bench
