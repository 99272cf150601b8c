#include "bench/macro/paper/report_chart.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "bench/macro/svg.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr double kWidth = 760;
constexpr double kMargin = 14;
constexpr double kCharacter = 6.7;  // of 12 px text, about
constexpr double kRight = 110;      // for the values behind bars
constexpr double kTitle = 44;       // height of title and unit
constexpr double kLegend = 24;
constexpr double kMarkSize = 15;  // height of a bar
constexpr double kMarkGap = 4;
constexpr double kGroupGap = 14;
constexpr double kAxis = 26;
constexpr double kLineHeight = 230;

// Text as wide as people see it: bytes that continue a character are none.
double WidthOf(const std::string& text) {
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; };
  const auto more = std::count_if(text.begin(), text.end(), continues);
  return kCharacter * static_cast<double>(static_cast<ptrdiff_t>(text.size()) - more);
}

// Of an axis: no more digits than it takes.
std::string TickText(double value) {
  return value >= 1000 ? FormatFigure(value) : fmt::format("{:g}", value);
}

std::string Words(const BarSeries& series, const std::string& group, const Spread& s) {
  std::string text = series.name.empty() ? group : group + ", " + series.name;
  text += ": " + FormatFigure(s.median);
  if (s.min != s.max) {
    text += fmt::format(" (from {} to {} over pairs)", FormatFigure(s.min), FormatFigure(s.max));
  }
  return text;
}

class Painter {
 public:
  Painter(const ReportChart& chart, const ChartTheme* theme) : chart_(chart), theme_(theme) {
    for (const BarSeries& s : chart_.series) {
      for (const ChartPoint& p : s.points) {
        if (p.ours) Take(p.ours->min), Take(p.ours->median), Take(p.ours->max);
        if (p.paper) Take(*p.paper), has_paper_ = true;
        if (p.across && std::isfinite(p.across->max)) {
          most_across_ = std::max(most_across_, p.across->max);
        }
      }
    }
    if (chart_.reference) Take(*chart_.reference);
    if (chart_.band) Take(chart_.band->most), Take(chart_.band->least);
    ticks_ = chart_.logarithmic ? PowersOfTen(least_, most_) : Ticks(most_);
  }

  std::string Render() {
    double at = kTitle;
    Legend(&at);
    if (chart_.kind == ReportChart::Kind::kLine) {
      Line(at);
    } else if (chart_.kind == ReportChart::Kind::kAgainst) {
      Against(at);
    } else {
      Rows(at);
    }
    // A file of its own has a margin of its ground.
    const double margin = theme_ != nullptr ? kMargin : 0;
    const double wide = kWidth + 2 * margin, high = height_ + 2 * margin;
    std::string out = fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="{0:.0f} {0:.0f} {1:.0f} {2:.0f}")"
        R"( role="img" aria-label="{3}">)"
        "\n",
        0 - margin, wide, high, EscapeXml(Summary()));
    if (theme_ != nullptr) {
      out += "<style>\n" + ChartStyle(*theme_, "") + "</style>\n";
      out += fmt::format(
          R"(<rect class="ground" x="{0:.0f}" y="{0:.0f}" width="{1:.0f}" height="{2:.0f}" rx="6"/>)"
          "\n",
          -margin, wide, high);
    }
    out += fmt::format(R"(<text class="head" x="0" y="16">{}</text>)"
                       R"(<text class="muted" x="0" y="34">{}</text>)"
                       "\n",
                       EscapeXml(chart_.title), EscapeXml(chart_.unit));
    return out + body_ + "</svg>\n";
  }

 private:
  template <typename... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    body_ += '\n';
  }

  void Take(double value) {
    if (!std::isfinite(value)) return;
    most_ = std::max(most_, value);
    if (value > 0) least_ = least_ > 0 ? std::min(least_, value) : value;
  }

  // From 0 at the axis' begin to 1 at its end.
  double Share(double value) const {
    if (!std::isfinite(value)) return 0;
    if (!chart_.logarithmic) return std::clamp(value / ticks_.back(), 0.0, 1.0);
    const double low = std::log10(ticks_.front()), high = std::log10(ticks_.back());
    return std::clamp((std::log10(std::max(value, ticks_.front())) - low) / (high - low), 0.0, 1.0);
  }
  double X(double value) const { return left_ + Share(value) * (kWidth - kRight - left_); }

  // All in words, for those who hear the chart.
  std::string Summary() const {
    std::string text = chart_.title + ", " + chart_.unit + ".";
    for (size_t g = 0; g < chart_.groups.size(); ++g) {
      for (const BarSeries& s : chart_.series) {
        const ChartPoint& p = s.points[g];
        text += " ";
        text += p.ours ? Words(s, chart_.groups[g], *p.ours)
                       : chart_.groups[g] + ", " + s.name + ": not measured";
        if (p.across) text += At(*p.across);
        if (p.paper) text += "; the paper: " + FormatFigure(*p.paper);
        text += ".";
      }
    }
    if (chart_.band) text += " " + chart_.band->name + ".";
    return text;
  }

  std::string At(const Spread& across) const {
    return " at " + FormatFigure(across.median) + " " + chart_.group_title;
  }

  void Legend(double* at) {
    double x = 0;
    const auto entry = [&](const std::string& text) {
      const double wide = 20 + WidthOf(text) + 18;
      if (x > 0 && x + wide > kWidth) x = 0, *at += kLegend - 4;
      const double place = x;
      x += wide;
      Add(R"(<text class="label" x="{:.0f}" y="{:.0f}">{}</text>)", place + 20, *at + 11,
          EscapeXml(text));
      return place;
    };
    const double before = *at;
    if (chart_.series.size() > 1) {
      for (const BarSeries& s : chart_.series) {
        const double y = *at;
        const double place = entry(s.name);
        Add(R"(<rect class="c{}" x="{:.0f}" y="{:.0f}" width="13" height="11" rx="2"/>)", s.colour,
            place, *at == y ? y + 1 : *at + 1);
      }
    }
    if (has_paper_) {
      const double place = entry("the paper's figure");
      Diamond(place + 7, *at + 7, "");
    }
    if (chart_.band) {
      const double place = entry(chart_.band->name);
      Add(R"(<rect class="band" x="{:.0f}" y="{:.0f}" width="13" height="11"/>)", place, *at + 1);
    }
    if (x > 0 || *at > before) *at += kLegend;
  }

  void Diamond(double x, double y, const std::string& title) {
    Add(R"(<path class="paper" d="M{0:.1f} {1:.1f}l5 -5.5l5 5.5l-5 5.5z">{2}</path>)", x - 5, y,
        title.empty() ? "" : "<title>" + EscapeXml(title) + "</title>");
  }

  void Rows(double top) {
    const bool named = chart_.series.size() == 1;
    double label = 0;
    for (const std::string& group : chart_.groups) label = std::max(label, WidthOf(group));
    left_ = std::clamp(label + 12, 40.0, 300.0);
    const double group_height = static_cast<double>(chart_.series.size()) * (kMarkSize + kMarkGap) +
                                (named ? 4 : kGroupGap);
    const double bottom = top + 4 + group_height * static_cast<double>(chart_.groups.size());
    height_ = bottom + kAxis;
    if (chart_.band) {
      const double x = X(chart_.band->least);
      Add(R"(<rect class="band" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>)",
          x, top, std::max(X(chart_.band->most) - x, 1.0), bottom - top,
          EscapeXml(chart_.band->name));
    }
    for (const double tick : ticks_) {
      Add(R"(<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}"/>)"
          R"(<text class="axis" x="{0:.1f}" y="{3:.1f}" text-anchor="middle">{4}</text>)",
          X(tick), top, bottom, bottom + 16, TickText(tick));
    }
    if (chart_.reference) {
      Add(R"(<line class="reference" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}"/>)",
          X(*chart_.reference), top, bottom);
    }
    for (size_t g = 0; g < chart_.groups.size(); ++g) {
      const double y =
          top + 4 + group_height * static_cast<double>(g) + (named ? 2 : kGroupGap / 2);
      const double inside =
          static_cast<double>(chart_.series.size()) * (kMarkSize + kMarkGap) - kMarkGap;
      Add(R"(<text class="label" x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)", left_ - 8,
          y + inside / 2 + 4, EscapeXml(chart_.groups[g]));
      for (size_t s = 0; s < chart_.series.size(); ++s) {
        Mark(chart_.series[s], g, y + static_cast<double>(s) * (kMarkSize + kMarkGap));
      }
    }
  }

  void Mark(const BarSeries& series, size_t group, double y) {
    const ChartPoint& point = series.points[group];
    const double middle = y + kMarkSize / 2;
    const int colour =
        group < chart_.group_colours.size() ? chart_.group_colours[group] : series.colour;
    double end = left_;
    if (!point.ours) {
      Add(R"(<text class="axis" x="{:.1f}" y="{:.1f}">not measured</text>)", left_ + 6, middle + 4);
      end += 90;
    } else {
      const Spread& s = *point.ours;
      Add(R"(<g class="mark" data-value="{:g}"><title>{}</title>)", s.median,
          EscapeXml(Words(series, chart_.groups[group], s)));
      if (chart_.kind == ReportChart::Kind::kBars) {
        // A nothing is still seen.
        Add(R"(<rect class="c{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}"/>)", colour,
            left_, y, std::max(X(s.median) - left_, 1.0), kMarkSize);
      }
      if (s.min != s.max) {
        Add(R"(<path class="whisker" d="M{0:.1f} {2:.1f}H{1:.1f}M{0:.1f} {3:.1f}v6M{1:.1f} {3:.1f}v6"/>)",
            X(s.min), X(s.max), middle, middle - 3);
      }
      if (chart_.kind == ReportChart::Kind::kDots) {
        Add(R"(<circle class="c{}" cx="{:.1f}" cy="{:.1f}" r="5"/>)", colour, X(s.median), middle);
      }
      Add("</g>");
      const double radius = chart_.kind == ReportChart::Kind::kDots ? 3 : 0;
      end = std::max(X(s.max), X(s.median) + radius);
    }
    std::string value = point.ours ? FormatFigure(point.ours->median) : "";
    if (point.paper) {
      const double paper = X(*point.paper);
      const std::string figure = FormatFigure(*point.paper);
      Diamond(paper, middle,
              fmt::format("the paper, {}: {}",
                          series.name.empty() ? chart_.groups[group]
                                              : chart_.groups[group] + ", " + series.name,
                          figure));
      // A value behind the paper's mark would read as its.
      if (paper + 6 > end && paper - 6 < end + 10 + WidthOf(value)) {
        end = paper + 3;
        if (!value.empty()) value += " (paper " + figure + ")";
      }
    }
    if (!value.empty()) {
      Add(R"(<text class="value" x="{:.1f}" y="{:.1f}">{}</text>)", end + 7, middle + 4, value);
    }
  }

  // ---- lines: groups from left to right

  double Column(size_t group) const {
    const double wide = kWidth - kRight - left_;
    return left_ +
           wide * (static_cast<double>(group) + 0.5) / static_cast<double>(chart_.groups.size());
  }

  template <typename Y>
  void UpAxis(const Y& y, double right) {
    for (const double tick : ticks_) {
      Add(R"(<line class="grid" x1="{0:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{2:.1f}"/>)"
          R"(<text class="axis" x="{3:.1f}" y="{4:.1f}" text-anchor="end">{5}</text>)",
          left_, right, y(tick), left_ - 6, y(tick) + 4, TickText(tick));
    }
  }

  void Line(double top) {
    top += 10;
    const double bottom = top + kLineHeight;
    height_ = bottom + kAxis + 18;
    for (const double tick : ticks_) left_ = std::max(left_, WidthOf(TickText(tick)) + 10);
    const auto y = [&](double value) { return bottom - Share(value) * kLineHeight; };
    if (chart_.band) {
      Add(R"(<rect class="band" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"><title>{}</title></rect>)",
          left_, y(chart_.band->most), kWidth - kRight - left_,
          std::max(y(chart_.band->least) - y(chart_.band->most), 1.0),
          EscapeXml(chart_.band->name));
    }
    UpAxis(y, kWidth - kRight);
    if (chart_.reference) {
      Add(R"(<line class="reference" x1="{0:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{2:.1f}"/>)", left_,
          kWidth - kRight, y(*chart_.reference));
    }
    for (size_t g = 0; g < chart_.groups.size(); ++g) {
      Add(R"(<text class="axis" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", Column(g),
          bottom + 16, EscapeXml(chart_.groups[g]));
    }
    Add(R"(<text class="axis" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)",
        (left_ + kWidth - kRight) / 2, bottom + 36, EscapeXml(chart_.group_title));
    for (const BarSeries& series : chart_.series) Stroke(series, y);
  }

  template <typename Y>
  void Stroke(const BarSeries& series, const Y& y) {
    std::string path;
    bool down = false;
    for (size_t g = 0; g < chart_.groups.size(); ++g) {
      const auto& ours = series.points[g].ours;
      if (ours)
        path += fmt::format("{}{:.1f} {:.1f}", down ? "L" : "M", Column(g), y(ours->median));
      down = ours.has_value();
    }
    if (!path.empty()) Add(R"(<path class="line l{}" d="{}"/>)", series.colour, path);
    double name_at = 0;
    for (size_t g = 0; g < chart_.groups.size(); ++g) {
      const ChartPoint& p = series.points[g];
      const double x = Column(g);
      if (p.ours) {
        const Spread& s = *p.ours;
        Add(R"(<g class="mark" data-value="{:g}"><title>{}</title>)", s.median,
            EscapeXml(Words(series, chart_.groups[g], s)));
        if (s.min != s.max) {
          Add(R"(<path class="whisker" d="M{0:.1f} {1:.1f}V{2:.1f}M{3:.1f} {1:.1f}h6M{3:.1f} {2:.1f}h6"/>)",
              x, y(s.min), y(s.max), x - 3);
        }
        Add(R"(<circle class="c{}" cx="{:.1f}" cy="{:.1f}" r="4.5"/></g>)", series.colour, x,
            y(s.median));
        if (chart_.series.size() == 1) {
          Add(R"(<text class="value" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", x,
              y(s.max) - 9, FormatFigure(s.median));
        }
        name_at = y(s.median);
      }
      if (p.paper) {
        Diamond(x, y(*p.paper),
                fmt::format("the paper, {}, {}: {}", chart_.groups[g], series.name,
                            FormatFigure(*p.paper)));
      }
    }
    if (chart_.series.size() > 1 && name_at > 0) {
      Add(R"(<text class="value" x="{:.1f}" y="{:.1f}">{}</text>)",
          Column(chart_.groups.size() - 1) + 10, name_at + 4, EscapeXml(series.name));
    }
  }

  // ---- one figure against another: each series is a mark, and named by the legend

  void Against(double top) {
    top += 10;
    const double bottom = top + kLineHeight, right = kWidth - kMargin - 26;
    height_ = bottom + kAxis + 18;
    for (const double tick : ticks_) left_ = std::max(left_, WidthOf(TickText(tick)) + 10);
    const std::vector<double> across = Ticks(most_across_);
    const auto y = [&](double value) { return bottom - Share(value) * kLineHeight; };
    const auto x = [&](double value) {
      return left_ + std::clamp(value / across.back(), 0.0, 1.0) * (right - left_);
    };
    UpAxis(y, right);
    for (const double tick : across) {
      Add(R"(<line class="grid" x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}"/>)"
          R"(<text class="axis" x="{0:.1f}" y="{3:.1f}" text-anchor="middle">{4}</text>)",
          x(tick), top, bottom, bottom + 16, TickText(tick));
    }
    Add(R"(<text class="axis" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)",
        (left_ + right) / 2, bottom + 36, EscapeXml(chart_.group_title));
    for (const BarSeries& series : chart_.series) {
      for (size_t g = 0; g < series.points.size(); ++g) {
        const ChartPoint& p = series.points[g];
        if (!p.ours || !p.across) continue;
        const Spread &up = *p.ours, &along = *p.across;
        Add(R"(<g class="mark" data-value="{:g}"><title>{}</title>)", up.median,
            EscapeXml(Words(series, chart_.groups[g], up) + At(along)));
        if (up.min != up.max || along.min != along.max) {
          Add(R"(<path class="whisker" d="M{0:.1f} {1:.1f}H{2:.1f}M{3:.1f} {4:.1f}V{5:.1f}"/>)",
              x(along.min), y(up.median), x(along.max), x(along.median), y(up.min), y(up.max));
        }
        Add(R"(<circle class="c{}" cx="{:.1f}" cy="{:.1f}" r="6"/></g>)", series.colour,
            x(along.median), y(up.median));
      }
    }
  }

  const ReportChart& chart_;
  const ChartTheme* const theme_;
  double least_ = 0;  // above 0
  double most_ = 0;
  double most_across_ = 0;
  bool has_paper_ = false;
  std::vector<double> ticks_;
  double left_ = 40;
  double height_ = 0;
  std::string body_;
};

}  // namespace

const ChartTheme& LightTheme() {
  static const auto* const theme = new ChartTheme{
      "#ffffff", "#1f2328",   "#59636e",
      "#d8dee4", "#0072b226", {"#6e7781", "#0072b2", "#b87503", "#00875f", "#c8500a", "#a34f8d"}};
  return *theme;
}

const ChartTheme& DarkTheme() {
  static const auto* const theme = new ChartTheme{
      "#0d1117", "#f0f6fc",   "#9198a1",
      "#2a313c", "#56b4e933", {"#8b949e", "#56b4e9", "#e0a030", "#2fc49a", "#f5804a", "#d98fc3"}};
  return *theme;
}

std::string ChartStyle(const ChartTheme& t, const std::string& scope) {
  std::string css = "svg.chart { font: 12px system-ui, sans-serif; }\n";
  const auto rule = [&](const std::string& name, const std::string& what) {
    css += fmt::format("{}.{} {{ {} }}\n", scope, name, what);
  };
  rule("ground", "fill: " + t.ground + ";");
  rule("head", "fill: " + t.text + "; font-size: 15px; font-weight: 600;");
  rule("label", "fill: " + t.text + ";");
  // The edge keeps figures apart from the lines that they lie on.
  rule("value", "fill: " + t.text + "; stroke: " + t.ground +
                    "; stroke-width: 3px; paint-order: stroke; stroke-linejoin: round; "
                    "font-size: 11.5px; font-variant-numeric: tabular-nums;");
  css += fmt::format("{}text.muted {{ fill: {}; }}\n", scope, t.muted);
  rule("axis", "fill: " + t.muted + "; font-size: 11px; font-variant-numeric: tabular-nums;");
  rule("grid", "stroke: " + t.grid + "; stroke-width: 1;");
  rule("reference", "stroke: " + t.text + "; stroke-width: 1.5; stroke-dasharray: 4 3;");
  rule("whisker", "stroke: " + t.text + "; stroke-width: 1.2; fill: none;");
  rule("band", "fill: " + t.band + ";");
  rule("paper", "fill: " + t.ground + "; stroke: " + t.text + "; stroke-width: 1.5;");
  rule("line", "fill: none; stroke-width: 2; stroke-linejoin: round;");
  for (int i = 0; i < kChartColours; ++i) {
    rule(fmt::format("c{}", i), "fill: " + t.series[i] + ";");
    rule(fmt::format("l{}", i), "stroke: " + t.series[i] + ";");
  }
  return css;
}

std::string RenderReportChart(const ReportChart& chart, const ChartTheme* theme) {
  return Painter(chart, theme).Render();
}

std::string FormatFigure(double value) {
  if (!std::isfinite(value)) return "–";
  const double size = std::fabs(value);
  if (size >= 999.5) {
    std::string digits = fmt::format("{:.0f}", size);
    for (auto at = static_cast<ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
      digits.insert(static_cast<size_t>(at), ",");
    }
    return (value < 0 ? "-" : "") + digits;
  }
  if (size == 0) return "0";
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  if (size >= 0.1) return fmt::format("{:.2f}", value);
  return fmt::format("{:.2g}", value);
}

std::string FormatSpread(const Spread& s) {
  if (FormatFigure(s.min) == FormatFigure(s.max)) return FormatFigure(s.median);
  return fmt::format("{} ({} – {})", FormatFigure(s.median), FormatFigure(s.min),
                     FormatFigure(s.max));
}

}  // namespace pulse::bench
