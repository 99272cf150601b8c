// One line of a screen: text in styles, cut at the screen's width. Knows how many columns it has
// filled. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace pulse::top {

enum class Style { kPlain, kBold, kDim, kFetch, kMerge, kPersist, kQueue, kAlarm };

inline constexpr size_t kBarCells = 20;  // of the bars beside each other

struct Look {
  size_t width = 80;
  bool colours = false;
  bool blocks = true;  // draw with Unicode's block characters
};

class ScreenLine {
 public:
  explicit ScreenLine(const Look& look) : look_(look) {}

  // Text that is not cut anywhere must be valid UTF-8 without control characters.
  ScreenLine& Add(std::string_view text, Style style = Style::kPlain);
  // Fills up with blanks to `column`; if the line is there already, adds one.
  ScreenLine& To(size_t column);
  // The rest of the line, set flush right.
  ScreenLine& Right(std::string_view text, Style style = Style::kPlain);
  // A bar of `cells` columns between two ends, filled to `share` (0 to 1).
  ScreenLine& Bar(double share, size_t cells, Style style);
  // The values, highest = `full`, one column each.
  ScreenLine& Spark(const double* values, size_t count, double full, Style style);

  const std::string& text() const { return text_; }

 private:
  const Look look_;
  std::string text_;
  size_t columns_ = 0;
};

// `text`, or its end after a mark, in at most `columns`.
std::string Tail(std::string_view text, size_t columns);
// `text` in lines for a screen of `width` columns of which `indent` are taken; cut at blanks.
std::vector<std::string> Wrap(std::string_view text, size_t width, size_t indent);

}  // namespace pulse::top
