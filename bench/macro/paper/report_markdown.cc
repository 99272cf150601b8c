#include "bench/macro/paper/report_markdown.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "bench/macro/svg.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

// For a paragraph and for a cell. Everything here is words of programs and of JSON files: it has no
// mark-up of its own.
std::string Plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\n':
      case '\r':
        out += ' ';
        break;
      case '|':
      case '\\':
      case '`':
      case '*':
      case '_':
      case '[':
      case ']':
      case '#':
      case '~':
        out += '\\';
        [[fallthrough]];
      default:
        out += c;
    }
  }
  return out;
}

class MarkdownWriter {
 public:
  MarkdownWriter(const Report& report, const std::string& folder)
      : report_(report), folder_(folder) {}

  MarkdownReport Render() {
    for (const std::string& warning : report_.warnings) Add("> {}\n\n", Plain(warning));
    Add("{}\n\n", Plain(report_.lead));
    if (!report_.machine.empty()) {
      std::string line;
      for (const auto& [key, value] : report_.machine) {
        absl::StrAppend(&line, line.empty() ? "" : "; ", key, ": ", value);
      }
      Add("Machine: {}.\n\n", Plain(line));
    }
    Add("### Asked and got\n\n");
    Table(report_.targets);
    for (const std::string& need : report_.needs) Add("* {}\n", Plain(need));
    if (!report_.needs.empty()) Add("\n");
    for (const ReportSection& section : report_.sections) Section(section);
    return std::move(result_);
  }

 private:
  template <typename... Args>
  void Add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(result_.text), format, std::forward<Args>(args)...);
  }

  void Table(const ReportTable& table) {
    Add("{}:\n\n|", Plain(table.caption));
    for (const std::string& name : table.header) Add(" {} |", Plain(name));
    Add("\n|");
    for (size_t i = 0; i < table.header.size(); ++i) Add("{}", i == 0 ? "---|" : "---:|");
    Add("\n");
    for (const auto& row : table.rows) {
      Add("|");
      for (const std::string& cell : row) Add(" {} |", Plain(cell));
      Add("\n");
    }
    Add("\n");
  }

  void Plot(const ReportSection& section, size_t number) {
    const ReportChart& chart = section.charts[number];
    const auto file = [&](const char* theme) {
      return fmt::format("{}-{}-{}.svg", section.name, number + 1, theme);
    };
    result_.plots.emplace_back(file("light"), RenderReportChart(chart, &LightTheme()));
    result_.plots.emplace_back(file("dark"), RenderReportChart(chart, &DarkTheme()));
    const std::string folder = EscapeXml(folder_);
    Add("<picture>\n  <source media=\"(prefers-color-scheme: dark)\" srcset=\"{0}/{1}\">\n"
        "  <img alt=\"{2}\" src=\"{0}/{3}\" width=\"760\">\n</picture>\n\n",
        folder, file("dark"), EscapeXml(chart.title + ", " + chart.unit), file("light"));
  }

  void Section(const ReportSection& section) {
    Add("### {}\n\n", Plain(section.title));
    Add("`{}`{}\n\n{}\n\n", section.name,
        section.figures.empty() ? "" : ", in the paper " + Plain(section.figures),
        Plain(section.statement));
    if (!section.command.empty()) Add("To run it: <code>{}</code>\n\n", Plain(section.command));
    for (size_t i = 0; i < section.charts.size(); ++i) Plot(section, i);
    for (const ReportTable& table : section.tables) Table(table);
    for (const std::string& note : section.notes) Add("* {}\n", Plain(note));
    if (!section.notes.empty()) Add("\n");
  }

  const Report& report_;
  const std::string folder_;
  MarkdownReport result_;
};

// Where `marker` stands alone on its line; npos when it does not, or not just once.
size_t FindLine(const std::string& document, const std::string& marker) {
  const size_t at = document.find(marker);
  if (at == std::string::npos || document.find(marker, at + 1) != std::string::npos) {
    return std::string::npos;
  }
  const size_t end = at + marker.size();
  const bool begins = at == 0 || document[at - 1] == '\n';
  const bool ends = end == document.size() || document[end] == '\n' || document[end] == '\r';
  return begins && ends ? at : std::string::npos;
}

}  // namespace

MarkdownReport RenderMarkdown(const Report& report, const std::string& folder) {
  return MarkdownWriter(report, folder).Render();
}

absl::StatusOr<std::string> ReplaceBetweenMarkers(const std::string& document,
                                                  const std::string& text,
                                                  const std::string& name) {
  const size_t begin = FindLine(document, kMarkdownBegin);
  const size_t end = FindLine(document, kMarkdownEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    return absl::FailedPreconditionError(absl::StrCat(
        name,
        " does not say where the results go: give it, once each and on lines of their own, \"",
        kMarkdownBegin, "\" and below it \"", kMarkdownEnd,
        "\"; what is between them is replaced, the rest stays"));
  }
  return absl::StrCat(document.substr(0, begin), kMarkdownBegin, "\n\n", text,
                      document.substr(end));
}

}  // namespace pulse::bench
