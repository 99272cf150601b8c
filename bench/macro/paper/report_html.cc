#include "bench/macro/paper/report_html.h"

#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/macro/svg.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

// The charts' classes take their colours from these.
ChartTheme PageTheme() {
  ChartTheme theme = {"var(--ground)", "var(--text)", "var(--muted)",
                      "var(--grid)",   "var(--band)", {}};
  for (int i = 0; i < kChartColours; ++i) theme.series[i] = fmt::format("var(--c{})", i);
  return theme;
}

std::string Variables(const ChartTheme& t) {
  std::string css = fmt::format("--ground: {}; --text: {}; --muted: {}; --grid: {}; --band: {};",
                                t.ground, t.text, t.muted, t.grid, t.band);
  for (int i = 0; i < kChartColours; ++i) css += fmt::format(" --c{}: {};", i, t.series[i]);
  return css;
}

constexpr char kLightMore[] =
    "--soft: #f6f8fa; --link: #0969da; --good: #1a7f37; --bad: #b3261e; --warn: #fff8c5; "
    "--warn-edge: #d4a72c; color-scheme: light;";
constexpr char kDarkMore[] =
    "--soft: #161b22; --link: #58a6ff; --good: #3fb950; --bad: #ff7b72; --warn: #2b2308; "
    "--warn-edge: #9e6a03; color-scheme: dark;";

constexpr char kStyle[] = R"(* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0; background: var(--ground); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
header, nav, main, footer { max-width: 60rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2rem; display: flex; gap: 1rem; align-items: flex-start;
  justify-content: space-between; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0; letter-spacing: -0.01em; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0 0 .25rem; }
p, li, h1, h2 { overflow-wrap: anywhere; }
p { margin: .6rem 0; max-width: 48rem; }
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: 2px; }
button { font: inherit; font-size: .875rem; color: var(--text); background: var(--soft);
  border: 1px solid var(--grid); border-radius: 6px; padding: .3rem .7rem; cursor: pointer;
  white-space: nowrap; }
button:hover { border-color: var(--muted); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .4rem .5rem; padding: 0;
  margin: 1rem 0 0; }
nav a { display: block; border: 1px solid var(--grid); border-radius: 999px; padding: .1rem .7rem;
  font-size: .875rem; text-decoration: none; }
nav a.absent { color: var(--muted); border-style: dashed; }
section { border-top: 1px solid var(--grid); margin-top: 2.25rem; padding-top: 1.5rem; }
.figures { color: var(--muted); font-size: .875rem; margin: 0 0 .5rem; }
.warning { background: var(--warn); border-left: 4px solid var(--warn-edge); padding: .5rem .9rem;
  border-radius: 4px; }
figure { margin: 1.5rem 0; }
.scroll { overflow-x: auto; }
svg.chart { display: block; width: 100%; min-width: 34rem; max-width: 50rem; height: auto; }
.mark:hover { opacity: .75; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums;
  margin: .25rem 0 1rem; }
caption { text-align: left; font-weight: 600; padding: .5rem 0; caption-side: top; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--grid); text-align: right;
  vertical-align: top; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; white-space: normal;
  min-width: 9rem; }
thead th { color: var(--muted); font-weight: 600; border-bottom-width: 2px; }
tbody th { font-weight: 400; }
td small { display: block; color: var(--muted); font-size: .75rem; font-weight: 400; }
@media (min-width: 48rem) { th:first-child, td:first-child { white-space: nowrap; } }
#targets :is(th, td):nth-child(n+4) { text-align: left; }
td.held { color: var(--good); font-weight: 600; }
td.missed { color: var(--bad); font-weight: 600; }
td.open { color: var(--muted); }
details { font-size: .875rem; margin: .75rem 0; }
summary { cursor: pointer; color: var(--muted); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .75rem 0;
  font-size: .875rem; }
dt { color: var(--muted); }
dd { margin: 0; overflow-wrap: anywhere; }
code { font: .875em ui-monospace, SFMono-Regular, Menlo, monospace; background: var(--soft);
  border-radius: 4px; padding: .15em .35em; overflow-wrap: anywhere; }
ul.notes { padding-left: 1.2rem; font-size: .9rem; color: var(--muted); }
footer { color: var(--muted); font-size: .875rem; padding-top: 2.5rem; padding-bottom: 3rem; }
@media (max-width: 34rem) {
  header { flex-direction: column; padding-top: 1.25rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .4rem; }
}
@media print {
  nav, button { display: none; }
  header, main, footer { max-width: none; padding: 0; }
  figure, tr { break-inside: avoid; }
  h2, caption { break-after: avoid; }
  svg.chart { min-width: 0; max-width: 100%; }
  .scroll { overflow: visible; }
  table { font-size: .65rem; }
  th, td { padding: .15rem .3rem; white-space: normal; }
}
)";

// Follows the reader's setting until the button is pressed.
constexpr char kScript[] = R"js((function () {
  var root = document.documentElement, button = document.getElementById('theme');
  var dark = matchMedia('(prefers-color-scheme: dark)');
  function now() { return root.dataset.theme || (dark.matches ? 'dark' : 'light'); }
  function name() { button.textContent = now() === 'dark' ? 'Light colours' : 'Dark colours'; }
  button.addEventListener('click', function () {
    root.dataset.theme = now() === 'dark' ? 'light' : 'dark';
    name();
  });
  dark.addEventListener('change', name);
  addEventListener('beforeprint', function () {
    document.querySelectorAll('details').forEach(function (d) { d.open = true; });
  });
  button.hidden = false;
  name();
})();
)js";

class Writer {
 public:
  explicit Writer(const Report& report) : report_(report) {}

  std::string Render() {
    Head();
    Add("<main id=\"top\">\n");
    for (const std::string& warning : report_.warnings) {
      Add("<p class=\"warning\">{}</p>\n", EscapeXml(warning));
    }
    Add("<p>{}</p>\n", EscapeXml(report_.lead));
    Definitions(report_.machine);
    Add("<section id=\"targets\" aria-labelledby=\"h-targets\">\n<h2 id=\"h-targets\">Asked and "
        "got</h2>\n");
    Table(report_.targets);
    Notes(report_.needs);
    Add("</section>\n");
    for (const ReportSection& section : report_.sections) Section(section);
    Add("</main>\n<footer>Written by <code>pulse bench paper</code> from the JSON files beside it, "
        "which have every single run.</footer>\n");
    Add("<script>\n{}</script>\n</body>\n</html>\n", kScript);
    return std::move(out_);
  }

 private:
  template <typename... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void Head() {
    const std::string light = Variables(LightTheme()) + " " + kLightMore;
    const std::string dark = Variables(DarkTheme()) + " " + kDarkMore;
    // The policy keeps the promise that nothing is fetched.
    Add("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n",
        EscapeXml(report_.title));
    Add(":root {{ {} }}\n", light);
    Add("@media (prefers-color-scheme: dark) {{ :root:not([data-theme=\"light\"]) {{ {} }} }}\n",
        dark);
    Add(":root[data-theme=\"dark\"] {{ {} }}\n", dark);
    Add("@media print {{ :root, :root:not([data-theme=\"light\"]) {{ {} }} }}\n", light);
    out_ += kStyle;
    out_ += ChartStyle(PageTheme(), ".chart ");
    Add("</style>\n</head>\n<body>\n<header>\n<h1>{}</h1>\n"
        "<button id=\"theme\" type=\"button\" hidden></button>\n</header>\n",
        EscapeXml(report_.title));
    Add("<nav aria-label=\"Experiments\">\n<ul>\n<li><a href=\"#targets\">Asked and "
        "got</a></li>\n");
    for (const ReportSection& section : report_.sections) {
      Add("<li><a{} href=\"#{}\">{}</a></li>\n", section.done ? "" : " class=\"absent\"",
          EscapeXml(section.name), EscapeXml(section.name));
    }
    Add("</ul>\n</nav>\n");
  }

  void Definitions(const Pairs& pairs) {
    if (pairs.empty()) return;
    Add("<dl>\n");
    for (const auto& [key, value] : pairs) {
      Add("<dt>{}</dt><dd>{}</dd>\n", EscapeXml(key), EscapeXml(value));
    }
    Add("</dl>\n");
  }

  static const char* ClassOf(const std::string& cell) {
    if (cell == VerdictName(Verdict::kHeld)) return " class=\"held\"";
    if (cell == VerdictName(Verdict::kMissed)) return " class=\"missed\"";
    for (const Verdict open :
         {Verdict::kNotClear, Verdict::kNotMeasured, Verdict::kNotApplicable}) {
      if (absl::StartsWith(cell, VerdictName(open))) return " class=\"open\"";
    }
    return "";
  }

  // A spread goes below its median.
  static std::string Cell(const std::string& cell) {
    const size_t at = cell.find(" (");
    if (at == std::string::npos || !absl::EndsWith(cell, ")")) return EscapeXml(cell);
    return absl::StrCat(EscapeXml(cell.substr(0, at)), " <small>", EscapeXml(cell.substr(at + 1)),
                        "</small>");
  }

  void Table(const ReportTable& table) {
    Add("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\n<table>\n"
        "<caption>{0}</caption>\n<thead><tr>",
        EscapeXml(table.caption));
    for (const std::string& name : table.header) Add("<th scope=\"col\">{}</th>", EscapeXml(name));
    Add("</tr></thead>\n<tbody>\n");
    for (const auto& row : table.rows) {
      Add("<tr>");
      for (size_t i = 0; i < row.size(); ++i) {
        if (i == 0) {
          Add("<th scope=\"row\">{}</th>", EscapeXml(row[i]));
        } else {
          Add("<td{}>{}</td>", ClassOf(row[i]), Cell(row[i]));
        }
      }
      Add("</tr>\n");
    }
    Add("</tbody>\n</table>\n</div>\n");
  }

  void Notes(const std::vector<std::string>& notes) {
    if (notes.empty()) return;
    Add("<ul class=\"notes\">\n");
    for (const std::string& note : notes) Add("<li>{}</li>\n", EscapeXml(note));
    Add("</ul>\n");
  }

  void Section(const ReportSection& section) {
    const std::string name = EscapeXml(section.name);
    Add("<section id=\"{0}\" aria-labelledby=\"h-{0}\">\n<h2 id=\"h-{0}\">{1}</h2>\n"
        "<p class=\"figures\">{0}{2}</p>\n",
        name, EscapeXml(section.title),
        section.figures.empty() ? "" : ", in the paper " + EscapeXml(section.figures));
    Add("<p>{}</p>\n", EscapeXml(section.statement));
    if (!section.command.empty()) {
      Add("<p>To run it: <code>{}</code></p>\n", EscapeXml(section.command));
    }
    for (const ReportChart& chart : section.charts) {
      Add("<figure class=\"scroll\" tabindex=\"0\">\n{}</figure>\n",
          RenderReportChart(chart, nullptr));
    }
    for (const ReportTable& table : section.tables) Table(table);
    Notes(section.notes);
    if (!section.settings.empty()) {
      Add("<details><summary>Machine and settings</summary>\n");
      Definitions(section.settings);
      Add("</details>\n");
    }
    Add("<p><a href=\"#top\">To the top</a></p>\n</section>\n");
  }

  const Report& report_;
  std::string out_;
};

}  // namespace

std::string RenderHtml(const Report& report) { return Writer(report).Render(); }

}  // namespace pulse::bench
