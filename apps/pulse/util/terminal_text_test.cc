#include "apps/pulse/util/terminal_text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "apps/pulse/util/text_table.h"

namespace pulse {
namespace {

TEST(TerminalTextTest, Columns_WideAndCombiningCharacters_CountAsTerminalsShowThem) {
  EXPECT_EQ(Columns("größe"), 5u);
  EXPECT_EQ(Columns("世界"), 4u);
  EXPECT_EQ(Columns("한글 かな ＡＢ"), 14u);
  EXPECT_EQ(Columns("😀⚡☃█"), 6u);
  EXPECT_EQ(Columns("e\u0301a\u0308"), 2u);
  EXPECT_EQ(Columns(""), 0u);
}

TEST(TerminalTextTest, FirstColumns_AtAWideCharacter_CutsBeforeIt) {
  EXPECT_EQ(FirstColumns("a世界", 1), "a");
  EXPECT_EQ(FirstColumns("a世界", 2), "a");
  EXPECT_EQ(FirstColumns("a世界", 3), "a世");
  EXPECT_EQ(FirstColumns("a世界", 80), "a世界");
  EXPECT_EQ(FirstColumns("e\u0301f", 1), "e\u0301") << "what is written over it belongs to it";
  EXPECT_EQ(FirstColumns("abc", 0), "");
}

TEST(TerminalTextTest, CleanLines_OfSeveralLines_KeepsThemAndNothingThatATerminalObeys) {
  EXPECT_EQ(CleanLines("one\x1b[2J\n\n two\x07\n"), "one?[2J\n\n two?\n");
  EXPECT_EQ(CleanLines(""), "");
}

TEST(TerminalTextTest, HasTerminalSequences_WithoutATermOrADumbOne_IsFalse) {
  const char* const before = std::getenv("TERM");
  const std::string kept = before == nullptr ? "" : before;
  setenv("TERM", "xterm-256color", 1);
  EXPECT_TRUE(HasTerminalSequences());
  for (const char* term : {"dumb", ""}) {
    setenv("TERM", term, 1);
    EXPECT_FALSE(HasTerminalSequences()) << term;
  }
  unsetenv("TERM");
  EXPECT_FALSE(HasTerminalSequences());
  if (before != nullptr) setenv("TERM", kept.c_str(), 1);
}

TEST(TextTableTest, Render_CellsOfOtherAlphabets_AreAligned) {
  TextTable table({"name", "n"});
  table.AddRow({"Zoë", "1"});
  table.AddRow({"世界", "22"});
  EXPECT_EQ(table.Render(0), "name   n\nZoë    1\n世界  22\n");
}

TEST(TextTableTest, Render_OneLongCell_StandsOverAndFillsNoOtherRow) {
  const std::string longest(100'000, 'x');
  TextTable table({"a", "b"});
  table.AddRow({longest, "1"});
  for (int i = 0; i < 1000; ++i) table.AddRow({"y", "2"});
  const std::string text = table.Render(0);
  EXPECT_NE(text.find(longest + "  1\n"), std::string::npos) << "a cell was cut";
  EXPECT_LT(text.size(), longest.size() + 1001 * 300);
}

}  // namespace
}  // namespace pulse
