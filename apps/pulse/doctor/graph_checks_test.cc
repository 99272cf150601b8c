#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "apps/pulse/doctor/check.h"
#include "base/testing.h"
#include "mover/dsa_copy_engine.h"
#include "services/graph/core/manifest.h"

namespace pulse::doctor {
namespace {

using ::testing::HasSubstr;
using testing_util::ScratchPath;

class GraphChecksTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(dir_.get()); }
  void TearDown() override { std::filesystem::remove_all(dir_.get()); }
  void Put(const std::string& bytes) {
    std::ofstream(dir_.get() + "/" + graph::kManifestFile) << bytes;
  }
  Check Look() const { return CheckGraph(dir_.get()).back(); }
  const ScratchPath dir_{"graph"};
};

TEST_F(GraphChecksTest, Directory_WithoutDatabase_IsFit) {
  const Checks checks = CheckGraph(dir_.get());
  EXPECT_EQ(checks.front().name, "graph: directory");
  EXPECT_EQ(checks.front().verdict, Verdict::kOk);
  EXPECT_EQ(checks.back().verdict, Verdict::kOk);
  EXPECT_THAT(checks.back().found, HasSubstr("has none yet"));
}

TEST_F(GraphChecksTest, Directory_InOneThatIsMissing_FailsAndNamesIt) {
  EXPECT_EQ(CheckGraph(dir_.get() + "/new/").front().verdict, Verdict::kOk);
  const Check check = CheckGraph(dir_.get() + "/missing/new").front();
  EXPECT_EQ(check.verdict, Verdict::kFail);
  EXPECT_THAT(check.remedy, HasSubstr("mkdir -p"));
  EXPECT_THAT(check.remedy, HasSubstr("/missing"));
}

TEST_F(GraphChecksTest, Database_Sound_IsNamedWithItsRuns) {
  graph::Manifest manifest;
  manifest.runs.emplace_back().file = "run-1";
  Put(manifest.Encode());
  EXPECT_EQ(Look().verdict, Verdict::kOk);
  EXPECT_THAT(Look().found, HasSubstr("format 2, 1 runs"));
}

TEST_F(GraphChecksTest, Database_Damaged_FailsAndNamesSalvage) {
  std::string bytes = graph::Manifest().Encode();
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x55);
  Put(bytes);
  EXPECT_EQ(Look().verdict, Verdict::kFail);
  EXPECT_THAT(Look().remedy, HasSubstr("pulse graph salvage"));
}

TEST_F(GraphChecksTest, Dsa_NoDevice_IsNoShortcoming) {
  const std::string nothing = dir_.get() + "/nothing";
  const Check check = CheckDsa({nothing, nothing});
  EXPECT_EQ(check.verdict, Verdict::kOk);
  EXPECT_THAT(check.found, HasSubstr("not needed"));
}

TEST_F(GraphChecksTest, Dsa_QueueThatCannotBeUsed_IsWarnedOfWithTheReason) {
  const std::string devices = dir_.get() + "/dsa";
  std::filesystem::create_directory(devices);
  std::ofstream(devices + "/wq0.0") << "no device";
  const Check check = CheckDsa({devices, dir_.get() + "/nothing"});
  EXPECT_EQ(check.verdict, Verdict::kWarn);
  EXPECT_THAT(check.found, HasSubstr("wq0.0"));
  EXPECT_THAT(check.remedy, HasSubstr("accel-config"));
}

}  // namespace
}  // namespace pulse::doctor
