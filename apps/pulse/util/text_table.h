// Aligned plain-text tables of valid UTF-8. Not thread-safe.
#pragma once

#include <string>
#include <vector>

namespace pulse {

class TextTable {
 public:
  // The first column is set flush left, the others flush right.
  explicit TextTable(std::vector<std::string> header);

  // Missing cells are empty, surplus ones an error of the program.
  void AddRow(std::vector<std::string> cells);

  // The named column (from 0) is set flush left as well.
  void AlignLeft(size_t column);

  // Every line ends in a newline and begins with `indent` spaces.
  std::string Render(int indent = 2) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> left_;
};

}  // namespace pulse
