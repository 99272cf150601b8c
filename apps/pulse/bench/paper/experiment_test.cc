#include "bench/paper/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pulse::bench {
namespace {

using testing::HasSubstr;

// Needs so many bytes of each at scale 1.
class Fake : public Experiment {
 public:
  Fake(std::string name, double disk, double memory)
      : Experiment(std::move(name), "", {}), disk_(disk), memory_(memory) {}
  Needs NeedsAt(const Size& size) const override {
    return {static_cast<uint64_t>(disk_ * size.scale),
            static_cast<uint64_t>(memory_ * size.scale) + 100};
  }
  nlohmann::json Settings(const Size&) const override { return {}; }
  int Steps(const Session&, const Size&) const override { return 0; }
  absl::StatusOr<nlohmann::json> Run(Session*, const Size&) const override {
    return nlohmann::json();
  }

 private:
  const double disk_;
  const double memory_;
};

Experiments Two() {
  Experiments all;
  all.push_back(std::make_unique<Fake>("disk", 1e9, 1e6));
  all.push_back(std::make_unique<Fake>("memory", 1e6, 1e9));
  return all;
}

TEST(ExperimentTest, SelectsByName) {
  const Experiments all = Two();
  EXPECT_EQ(SelectExperiments(all, {})->size(), 2U);
  const auto one = SelectExperiments(all, {"memory"});
  ASSERT_EQ(one->size(), 1U);
  EXPECT_EQ(one->front()->name(), "memory");
  const auto wrong = SelectExperiments(all, {"disk", "tape"});
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wrong.status().message()),
              HasSubstr("\"tape\"; choose from disk, memory"));
}

TEST(ExperimentTest, TheNeediestDecides) {
  const Experiments all = Two();
  const auto both = *SelectExperiments(all, {});
  const Needs needs = MostOf(both, {.scale = 0.5});
  EXPECT_EQ(needs.disk, 500'000'000U);
  EXPECT_EQ(needs.memory, 500'000'100U);
}

TEST(ExperimentTest, TheLargestScaleFitsAndTheNextDoesNot) {
  const Experiments all = Two();
  const auto both = *SelectExperiments(all, {});
  const Needs plenty = {UINT64_MAX, UINT64_MAX};
  EXPECT_EQ(LargestScale(both, plenty, {}), 1);
  EXPECT_NEAR(LargestScale(both, {375'000'000, UINT64_MAX}, {}), 0.37, 1e-9);
  EXPECT_NEAR(LargestScale(both, {UINT64_MAX, 56'900'000}, {}), 0.056, 1e-9);
  // What the one needs little of is no limit for the other.
  const auto disk = *SelectExperiments(all, {"disk"});
  EXPECT_EQ(LargestScale(disk, {1'000'000'000, 1'000'100}, {}), 1);
  EXPECT_EQ(LargestScale(both, {UINT64_MAX, 99}, {}), 0);
  EXPECT_EQ(LargestScale(both, {0, UINT64_MAX}, {}), 0);
}

}  // namespace
}  // namespace pulse::bench
