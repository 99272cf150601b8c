#include "net/byte_budget.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>

namespace pulse::net {
namespace {

class CountingRemote : public Remote {
 public:
  void Post(std::function<void()>) override { ++posts; }
  int posts = 0;
};

TEST(ByteBudgetTest, Line_HasOneFirst_WhoLeavesForTheNext) {
  ByteBudget budget(100);
  budget.Take(150);
  const auto one = std::make_shared<CountingRemote>();
  const auto two = std::make_shared<CountingRemote>();
  const ByteBudget::Place first = budget.Join(one);
  const ByteBudget::Place second = budget.Join(two);
  EXPECT_TRUE(budget.IsFirst(first));
  EXPECT_FALSE(budget.IsFirst(second));
  budget.Leave(first);
  EXPECT_TRUE(budget.IsFirst(second));
  EXPECT_EQ(two->posts, 1);
  EXPECT_EQ(one->posts, 0);
  budget.Leave(second);
  EXPECT_EQ(budget.waiting(), 0u);
}

TEST(ByteBudgetTest, Give_UntilThereIsRoom_WakesAllWhoWait) {
  ByteBudget budget(1000);
  budget.Take(1500);
  const auto one = std::make_shared<CountingRemote>();
  const auto two = std::make_shared<CountingRemote>();
  const ByteBudget::Place first = budget.Join(one);
  const ByteBudget::Place second = budget.Join(two);
  EXPECT_TRUE(budget.IsOver());
  budget.Give(500);
  EXPECT_FALSE(budget.IsOver());
  EXPECT_EQ(one->posts, 1);
  EXPECT_EQ(two->posts, 1);
  EXPECT_FALSE(budget.HasRoomFor(1));
  budget.Give(600);
  EXPECT_TRUE(budget.HasRoomFor(600));
  EXPECT_FALSE(budget.HasRoomFor(601));
  EXPECT_FALSE(budget.IsTight());
  EXPECT_EQ(two->posts, 2);
  budget.Leave(first);
  budget.Leave(second);
}

// Those who were woken together may all have found room, or gone; others behind them have not been.
TEST(ByteBudgetTest, Leave_WhereThereIsRoom_WakesOthers) {
  ByteBudget budget(100);
  const auto one = std::make_shared<CountingRemote>();
  const ByteBudget::Place first = budget.Join(one);
  const ByteBudget::Place second = budget.Join(std::make_shared<CountingRemote>());
  budget.Leave(second);
  EXPECT_EQ(one->posts, 1);
  const ByteBudget::Place third = budget.Join(std::make_shared<CountingRemote>());
  budget.Take(150);
  budget.Leave(third);
  EXPECT_EQ(one->posts, 1);
  budget.Leave(first);
}

TEST(BudgetShareTest, Share_OfAHolderThatGoes_IsGivenBack) {
  const auto budget = std::make_shared<ByteBudget>(100);
  {
    BudgetShare share;
    share.Set(budget, 60);
    share.Set(budget, 70);
    EXPECT_EQ(budget->held(), 70u);
    EXPECT_FALSE(share.TryAdd(budget, 31));
    EXPECT_TRUE(share.TryAdd(budget, 30));
    EXPECT_EQ(budget->held(), 100u);
  }
  EXPECT_EQ(budget->held(), 0u);
}

}  // namespace
}  // namespace pulse::net
