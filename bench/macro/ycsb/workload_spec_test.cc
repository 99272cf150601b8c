#include "bench/macro/ycsb/workload_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

namespace pulse::bench {
namespace {

using testing::HasSubstr;

constexpr uint64_t kSpecSeed = 20260722;

std::vector<std::string> Names(const std::vector<WorkloadSpec>& specs) {
  std::vector<std::string> names;
  for (const WorkloadSpec& spec : specs) names.push_back(spec.name);
  return names;
}

// Table III of the paper, which is YCSB's: read, update, insert, scan, read-modify-write.
TEST(WorkloadSpecTest, AllWorkloads_Mixes_AreThoseOfYcsb) {
  const std::map<std::string, std::array<unsigned, 5>> expected = {
      {"load", {0, 0, 100, 0, 0}}, {"A", {50, 50, 0, 0, 0}}, {"B", {95, 5, 0, 0, 0}},
      {"C", {100, 0, 0, 0, 0}},    {"D", {95, 0, 5, 0, 0}},  {"E", {0, 0, 5, 95, 0}},
      {"F", {50, 0, 0, 0, 50}}};
  ASSERT_EQ(AllWorkloads().size(), expected.size());
  for (const WorkloadSpec& spec : AllWorkloads()) {
    const std::array<unsigned, 5> parts = {spec.read, spec.update, spec.insert, spec.scan,
                                           spec.read_modify_write};
    EXPECT_EQ(parts, expected.at(spec.name)) << spec.name;
    EXPECT_EQ(spec.distribution == Distribution::kLatest, spec.name == "D") << spec.name;
    constexpr int kPicks = 200'000;
    std::array<int, 5> picked = {};
    Random random(kSpecSeed);
    for (int i = 0; i < kPicks; ++i) ++picked[static_cast<size_t>(spec.Pick(&random))];
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_NEAR(100.0 * picked[i] / kPicks, parts[i], parts[i] % 100 == 0 ? 0 : 0.4)
          << spec.name << ", operation " << i << ", seed " << kSpecSeed;
    }
  }
}

TEST(WorkloadSpecTest, PickScanLength_ManyPicks_AreUniform) {
  constexpr int kPicks = 500'000;
  std::map<uint64_t, int> lengths;
  Random random(kSpecSeed);
  for (int i = 0; i < kPicks; ++i) ++lengths[PickScanLength(&random)];
  ASSERT_EQ(lengths.size(), 100U);
  EXPECT_EQ(lengths.begin()->first, 1U);
  EXPECT_EQ(lengths.rbegin()->first, 100U);
  double chi_square = 0;
  for (const auto& [length, count] : lengths) {
    chi_square += (count - kPicks / 100.0) * (count - kPicks / 100.0) / (kPicks / 100.0);
  }
  EXPECT_LT(chi_square, 99 + 4 * 14.07) << "seed " << kSpecSeed;
}

TEST(WorkloadSpecTest, SelectWorkloads_ByName_KeepsTheOrderOfYcsb) {
  EXPECT_EQ(Names(*SelectWorkloads({})),
            (std::vector<std::string>{"load", "A", "B", "C", "F", "D", "E"}));
  EXPECT_EQ(Names(*SelectWorkloads({"d", "LOAD", "f"})),
            (std::vector<std::string>{"load", "F", "D"}));
  const auto wrong = SelectWorkloads({"A", "G"});
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("\"G\""));
  EXPECT_THAT(std::string(wrong.status().message()), HasSubstr("load, A, B, C, F, D, E"));
}

TEST(WorkloadSpecTest, Writes_OfEachWorkload_FollowItsMix) {
  std::map<std::string, uint64_t> writes;
  for (const WorkloadSpec& spec : AllWorkloads()) writes[spec.name] = spec.Writes(1000);
  EXPECT_EQ(
      writes,
      (std::map<std::string, uint64_t>{
          {"load", 1000}, {"A", 500}, {"B", 50}, {"C", 0}, {"D", 50}, {"E", 50}, {"F", 500}}));
}

}  // namespace
}  // namespace pulse::bench
