#include "apps/pulse/util/metrics_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "base/testing.h"

namespace pulse {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing_util::ScratchPath;
using testing_util::Text;

std::string ContentOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(MetricsFileTest, Write_OverItsOwn_ReplacesIt) {
  const ScratchPath path("metrics.prom");
  ops::PlacementNumbers numbers;
  ASSERT_TRUE(CheckMetricsFile(path.get()).ok());
  ASSERT_TRUE(WriteMetricsFile(path.get(), numbers).ok());
  EXPECT_THAT(ContentOf(path.get()), StartsWith("# HELP pulse_"));
  ops::PlacementReport report;
  report.of(ops::Side::kHost).chunks = 3;
  numbers.Add(0, report);
  ASSERT_TRUE(CheckMetricsFile(path.get()).ok());
  ASSERT_TRUE(WriteMetricsFile(path.get(), numbers).ok());
  EXPECT_THAT(ContentOf(path.get()),
              HasSubstr("pulse_placement_chunks_total{task=\"compress_isal\",side=\"host\"} 3\n"));
}

TEST(MetricsFileTest, Check_OfAnotherFile_RefusesIt) {
  const ScratchPath path("notes");
  std::ofstream(path.get()) << "notes";
  EXPECT_THAT(Text(CheckMetricsFile(path.get())), HasSubstr("has something else in it"));
  std::ofstream(path.get()) << "";
  EXPECT_TRUE(CheckMetricsFile(path.get()).ok()) << "an empty one, as mktemp makes it";
}

TEST(MetricsFileTest, NoName_WritesNothing) {
  EXPECT_TRUE(CheckMetricsFile("").ok());
  EXPECT_TRUE(WriteMetricsFile("", ops::PlacementNumbers()).ok());
}

}  // namespace
}  // namespace pulse
