#include "bench/macro/paper/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pulse::bench {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

nlohmann::json OneRun(const char* opponent, int pair, const nlohmann::json& speed) {
  return {{"opponent", opponent}, {"pair", pair}, {"speed", speed}};
}

FigureRow Row(nlohmann::json runs) {
  return FigureRow({{"label", "1024 B"}, {"runs", std::move(runs)}});
}

TEST(FiguresTest, MediansAndRatiosOverPairs) {
  const FigureRow row =
      Row({OneRun("stock", 1, 10), OneRun("pulse", 1, 20), OneRun("stock", 2, 20),
           OneRun("pulse", 2, 30), OneRun("stock", 3, 30), OneRun("pulse", 3, 90)});
  EXPECT_EQ(row.label(), "1024 B");
  EXPECT_THAT(row.opponents(), ElementsAre("stock", "pulse"));
  const auto speed = row.Of({"speed", "stock", "", false});
  ASSERT_TRUE(speed);
  EXPECT_EQ(speed->median, 20);
  EXPECT_EQ(speed->min, 10);
  EXPECT_EQ(speed->max, 30);
  const auto ratio = row.Of({"speed", "pulse", "stock", false});
  ASSERT_TRUE(ratio);
  EXPECT_EQ(ratio->median, 2);
  EXPECT_EQ(ratio->min, 1.5);
  EXPECT_EQ(ratio->max, 3);
  const auto points = row.Of({"speed", "pulse", "stock", true});
  ASSERT_TRUE(points);
  EXPECT_EQ(points->median, 1000);
}

// A figure that one run lacks must not shift those of the other rounds against each other.
TEST(FiguresTest, PairsStayTogetherWhereARunHasNoFigure) {
  const FigureRow row =
      Row({OneRun("stock", 1, nullptr), OneRun("pulse", 1, 20), OneRun("stock", 2, 20),
           OneRun("pulse", 2, 30), OneRun("pulse", 3, 50)});
  const Quantity quantity = {"speed", "pulse", "stock", false};
  EXPECT_EQ(row.Count(quantity), 1U);
  EXPECT_EQ(row.Of(quantity)->median, 1.5);
}

TEST(FiguresTest, WhatIsMissingIsAbsentAndZeroIsAFigure) {
  const FigureRow row =
      Row({OneRun("stock", 1, 0), OneRun("pulse", 1, 5), {{"opponent", 7}}, nullptr});
  EXPECT_EQ(row.Of({"speed", "stock", "", false})->median, 0);
  EXPECT_EQ(row.Of({"speed", "stock", "pulse", false})->median, 0);
  EXPECT_FALSE(row.Of({"speed", "pulse", "stock", false}));  // not infinite
  EXPECT_FALSE(row.Of({"speed", "nobody", "", false}));
  EXPECT_FALSE(row.Of({"speed", "pulse", "nobody", false}));
  EXPECT_FALSE(row.Of({"weight", "pulse", "", false}));
  EXPECT_THAT(RowsOf(nullptr), IsEmpty());
  EXPECT_THAT(RowsOf({{"rows", 3}}), IsEmpty());
  EXPECT_THAT(RowsOf({{"rows", {1, "x", nullptr}}}), testing::SizeIs(3));
  EXPECT_THAT(FigureRow(nullptr).opponents(), IsEmpty());
}

TEST(FiguresTest, WhatIsLeftToCompactIsPaidFor) {
  const auto run = [](const char* opponent, double ops, double wall, const nlohmann::json& settle) {
    return nlohmann::json{{"opponent", opponent},
                          {"pair", 1},
                          {"ops_per_s", ops},
                          {"wall_s", wall},
                          {"settle_s", settle}};
  };
  const FigureRow row =
      Row({run("soon", 100, 10, 0), run("late", 200, 5, 15), run("unknown", 200, 5, nullptr)});
  EXPECT_EQ(row.Of({kPaidFor, "soon", "", false})->median, 100);
  EXPECT_EQ(row.Of({kPaidFor, "late", "", false})->median, 50);
  EXPECT_EQ(row.Of({kPaidFor, "late", "soon", false})->median, 0.5);
  EXPECT_FALSE(row.Of({kPaidFor, "unknown", "", false}));
  // By that, another one is the best.
  EXPECT_EQ(row.Against({"ops_per_s", "unknown", "soon|late", false}), "late");
  EXPECT_EQ(row.Against({kPaidFor, "unknown", "soon|late", false}), "soon");
}

TEST(FiguresTest, ThePapersValuesSurviveJson) {
  const PaperValue range = {"speed", "Fig. 1", "", 1.2, 1.8, {"speed", "pulse", "stock", false}};
  const PaperValue single = {"stalls", "Table 2", "A", 19, 19, {"stall", "stock", "pulse", true}};
  const auto values = PaperValues(PaperJson({"Fig. 1", "Table 2"}, {range, single}, "nothing"));
  ASSERT_THAT(values, testing::SizeIs(2));
  EXPECT_TRUE(values[0].IsRange());
  EXPECT_EQ(values[0].most, 1.8);
  EXPECT_EQ(values[0].ours, range.ours);
  EXPECT_FALSE(values[1].IsRange());
  EXPECT_EQ(values[1].row, "A");
  EXPECT_EQ(values[1].ours, single.ours);
  EXPECT_EQ(FindPaperValue(values, range.ours, "any"), &values[0]);
  EXPECT_EQ(FindPaperValue(values, single.ours, "A"), &values[1]);
  EXPECT_EQ(FindPaperValue(values, single.ours, "B"), nullptr);
  // Of an older or broken form.
  EXPECT_THAT(PaperValues({{"values", {{{"what", "x"}, {"by_row", {{"A", 1}}}}, 3, nullptr}}}),
              IsEmpty());
}

}  // namespace
}  // namespace pulse::bench
