#include "apps/pulse/util/text_table.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "apps/pulse/util/terminal_text.h"

namespace pulse {
namespace {

// Beyond it, a cell stands over and its column is not as wide: otherwise one long text would fill
// all other rows with as many blanks.
constexpr size_t kWidestColumn = 200;

}  // namespace

TextTable::TextTable(std::vector<std::string> header) : left_(header.size(), false) {
  left_[0] = true;
  rows_.push_back(std::move(header));
}

void TextTable::AddRow(std::vector<std::string> cells) {
  if (cells.size() > left_.size()) std::abort();
  cells.resize(left_.size());
  rows_.push_back(std::move(cells));
}

void TextTable::AlignLeft(size_t column) { left_[column] = true; }

std::string TextTable::Render(int indent) const {
  std::vector<size_t> widths(left_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      const size_t columns = Columns(row[i]);
      widths[i] = std::max(widths[i], std::min(columns, kWidestColumn));
    }
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line(static_cast<size_t>(indent), ' ');
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - std::min(widths[i], Columns(row[i])), ' ');
      absl::StrAppend(&line, i == 0 ? "" : "  ", left_[i] ? "" : pad, row[i], left_[i] ? pad : "");
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

}  // namespace pulse
