#include "bench/macro/paper/figures.h"

#include <gtest/gtest.h>

namespace pulse::bench {
namespace {

TEST(FiguresTest, PaperJson_RangeAndSingle_HaveWhatTheReportReads) {
  const PaperValue range = {"speed", "Fig. 1", "", 1.2, 1.8, {"speed", "pulse", "stock", false}};
  const PaperValue single = {"stalls", "Table 2", "A", 19, 19, {"stall", "stock", "pulse", true}};
  const nlohmann::json expected = {
      {"figures", {"Fig. 1", "Table 2"}},
      {"differs", "nothing"},
      {"values",
       {{{"what", "speed"},
         {"where", "Fig. 1"},
         {"least", 1.2},
         {"most", 1.8},
         {"ours", {{"metric", "speed"}, {"of", "pulse"}, {"over", "stock"}}}},
        {{"what", "stalls"},
         {"where", "Table 2"},
         {"row", "A"},
         {"value", 19.0},
         {"ours", {{"metric", "stall"}, {"of", "stock"}, {"over", "pulse"}, {"points", true}}}}}}};
  EXPECT_EQ(PaperJson({"Fig. 1", "Table 2"}, {range, single}, "nothing"), expected);
}

}  // namespace
}  // namespace pulse::bench
