#include "apps/pulse/top/screen_line.h"

#include <algorithm>
#include <cmath>

#include "apps/pulse/util/terminal_text.h"

namespace pulse::top {
namespace {

// By Style.
constexpr const char* kCodes[] = {"",         "\x1b[1m",  "\x1b[2m",  "\x1b[36m",
                                  "\x1b[33m", "\x1b[32m", "\x1b[34m", "\x1b[1;31m"};

constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
constexpr const char* kLevels[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr const char* kAsciiLevels[] = {" ", ".", ".", ":", ":", "|", "|", "#", "#"};

}  // namespace

std::string Tail(std::string_view text, size_t columns) {
  const size_t all = Columns(text);
  if (all <= columns) return std::string(text);
  if (columns <= 3) return std::string(FirstColumns(text, columns));
  std::string_view rest = text.substr(FirstColumns(text, all - (columns - 3)).size());
  // A wide character may lie across the cut.
  if (Columns(rest) > columns - 3) rest.remove_prefix(FirstColumns(rest, 2).size());
  return "..." + std::string(rest);
}

std::vector<std::string> Wrap(std::string_view text, size_t width, size_t indent) {
  std::vector<std::string> lines;
  const size_t columns = std::max<size_t>(20, width - std::min(width, indent));
  while (!text.empty()) {
    size_t n = std::min(columns, text.size());
    if (n < text.size()) {
      const size_t blank = text.rfind(' ', n);
      if (blank != std::string_view::npos && blank > 0) n = blank;
    }
    lines.emplace_back(text.substr(0, n));
    text.remove_prefix(std::min(text.size(), n + (n < text.size() ? 1 : 0)));
  }
  return lines;
}

ScreenLine& ScreenLine::Add(std::string_view text, Style style) {
  const std::string_view shown = FirstColumns(text, look_.width - std::min(look_.width, columns_));
  if (shown.empty()) return *this;
  const bool styled = look_.colours && style != Style::kPlain;
  if (styled) text_ += kCodes[static_cast<size_t>(style)];
  text_ += shown;
  if (styled) text_ += "\x1b[0m";
  columns_ += Columns(shown);
  return *this;
}

ScreenLine& ScreenLine::To(size_t column) {
  return Add(std::string(column > columns_ ? column - columns_ : 1, ' '));
}

ScreenLine& ScreenLine::Right(std::string_view text, Style style) {
  const size_t columns = Columns(text);
  if (columns_ + columns < look_.width) To(look_.width - columns);
  return Add(text, style);
}

ScreenLine& ScreenLine::Bar(double share, size_t cells, Style style) {
  const double full = std::clamp(share, 0.0, 1.0) * static_cast<double>(cells);
  std::string bar;
  size_t used = static_cast<size_t>(full);
  if (look_.blocks) {
    for (size_t i = 0; i < used; ++i) bar += "█";
    const auto eighths = static_cast<size_t>(std::lround((full - static_cast<double>(used)) * 8));
    if (eighths == 8) {
      bar += "█";
      ++used;
    } else if (eighths > 0) {
      bar += kEighths[eighths];
      ++used;
    } else if (used == 0 && share > 0) {
      bar += kEighths[1];  // something
      ++used;
    }
  } else {
    used = static_cast<size_t>(std::lround(full));
    bar.assign(used, '#');
  }
  Add(look_.blocks ? "▕" : "[", Style::kDim).Add(bar, style);
  return Add(std::string(cells - used, ' ')).Add(look_.blocks ? "▏" : "]", Style::kDim);
}

ScreenLine& ScreenLine::Spark(const double* values, size_t count, double full, Style style) {
  std::string spark;
  for (size_t i = 0; i < count; ++i) {
    const double share = full > 0 ? std::clamp(values[i] / full, 0.0, 1.0) : 0;
    auto level = static_cast<size_t>(std::lround(share * 8));
    if (level == 0 && values[i] > 0) level = 1;
    spark += look_.blocks ? kLevels[level] : kAsciiLevels[level];
  }
  return Add(spark, style);
}

}  // namespace pulse::top
