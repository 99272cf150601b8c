#include "vdpu/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/testing.h"
#include "vdpu/core_budget.h"
#include "vdpu/dma_link.h"

namespace pulse::vdpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_util::ScratchPath;

using testing_util::Text;

constexpr char kGood[] = R"(name = "mine"
description = "a test"
[cpu]
core_speed = 0.5
cores = 2
[dma]
latency_us = 3
bandwidth_gb_s = 4.5
operation_us = 0.25
[context]
setup_ms = 10
reconfigure_ms = 5
)";

// `kGood` with one line replaced.
std::string With(const std::string& line, const std::string& by) {
  std::string text = kGood;
  const size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), by);
}

TEST(ProfileTest, Parse_EveryKey_IsRead) {
  const auto p = ParseProfile(kGood, "mine.toml");
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->name, "mine");
  EXPECT_EQ(p->description, "a test");
  EXPECT_EQ(p->core_speed, 0.5);
  EXPECT_EQ(p->cores, 2);
  EXPECT_EQ(p->dma_latency_us, 3);
  EXPECT_EQ(p->dma_bandwidth_gb_s, 4.5);
  EXPECT_EQ(p->dma_operation_us, 0.25);
  EXPECT_EQ(p->setup_ms, 10);
  EXPECT_EQ(p->reconfigure_ms, 5);
  EXPECT_EQ(p->memory_gib, 16) << "of a profile that does not say it";
  EXPECT_EQ(ParseProfile(absl::StrCat(kGood, "[memory]\nsize_gib = 1.5\n"), "x")->memory_gib, 1.5);
  EXPECT_EQ(Describe(*p), "mine (2 cores at 0.5 of a host core, DMA 3 us and 4.5 GB/s)");
}

TEST(ProfileTest, BuiltIn_Bf2AndBf3_HaveThePapersFigures) {
  const auto bf2 = LoadProfile("bf2");
  ASSERT_TRUE(bf2.ok()) << bf2.status();
  EXPECT_EQ(bf2->name, "bf2");
  EXPECT_EQ(bf2->core_speed, 0.455);
  EXPECT_EQ(bf2->cores, 8);
  EXPECT_EQ(bf2->memory_gib, 16);
  const auto bf3 = LoadProfile("bf3");
  ASSERT_TRUE(bf3.ok()) << bf3.status();
  EXPECT_EQ(bf3->name, "bf3");
  EXPECT_EQ(bf3->core_speed, 0.81);
  EXPECT_EQ(bf3->cores, 16);
  EXPECT_GE(bf3->dma_bandwidth_gb_s, bf2->dma_bandwidth_gb_s);
}

TEST(ProfileTest, BuiltIn_WrittenToAFile_LoadsTheSame) {
  const auto text = ProfileText("bf2");
  ASSERT_TRUE(text.ok());
  ScratchPath path("copy.toml");
  std::ofstream(path.get()) << *text;
  const auto p = LoadProfile(path.get());
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(Describe(*p), Describe(*LoadProfile("bf2")));
}

TEST(ProfileTest, None_WrittenToAFile_SlowsNothingDown) {
  const auto text = ProfileText("none");
  ASSERT_TRUE(text.ok()) << text.status();
  ScratchPath path("none.toml");
  std::ofstream(path.get()) << *text;
  const auto p = LoadProfile(path.get());
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->name, "none");
  EXPECT_EQ(SleepOwed(1'000'000'000, 0, p->core_speed), 0);
  EXPECT_EQ(DmaLink(*p).Alone(100), 0) << "nanoseconds";
  EXPECT_EQ(p->setup_ms, 0);
  EXPECT_EQ(p->reconfigure_ms, 0);
  EXPECT_EQ(Shortfall(*p, 1), "") << "nobody expects so many cores";
  EXPECT_TRUE(absl::IsNotFound(LoadProfile("none").status())) << "no profile to load";
}

TEST(ProfileTest, Load_UnknownName_ListsThoseKnown) {
  for (const absl::Status& st :
       {LoadProfile("bf4").status(), ProfileText("bf4").status(), LoadProfile("").status()}) {
    EXPECT_TRUE(absl::IsNotFound(st)) << st;
    EXPECT_THAT(Text(st), HasSubstr("known are bf2, bf3, none"));
  }
}

TEST(ProfileTest, Load_FileThatIsNotThere_ErrorNamesIt) {
  const absl::Status st = LoadProfile("/nowhere/dpu.toml").status();
  EXPECT_TRUE(absl::IsNotFound(st)) << st;
  EXPECT_THAT(Text(st), HasSubstr("/nowhere/dpu.toml"));
  EXPECT_FALSE(LoadProfile("/tmp/").ok());
}

TEST(ProfileTest, Load_HugeFile_IsRefused) {
  ScratchPath path("huge.toml");
  std::ofstream(path.get()) << kGood << "#" << std::string(100'000, 'x');
  EXPECT_THAT(Text(LoadProfile(path.get()).status()), HasSubstr("bytes"));
}

TEST(ProfileTest, Parse_WrongText_NamesFileLineAndWhatIsExpected) {
  struct Case {
    std::string text;
    std::string where;
    std::string what;
  };
  const Case cases[] = {
      {With("cores = 2", "cores = 2\nturbo = true"), "x.toml:6:", "unknown key \"cpu.turbo\""},
      {With("cores = 2", "cores = 2\nturbo = true"), "x.toml:6:", "known in this table are"},
      {std::string(kGood) + "[gpu]\n", "x.toml:13:", "unknown key \"gpu\""},
      {With("cores = 2", "cores = 2.5"), "x.toml:5:", "whole number from 1 to 1024"},
      {With("cores = 2", "cores = 0"), "x.toml:5:", "0 is out of range"},
      {With("cores = 2", "cores = 5000"), "x.toml:5:", "5000 is out of range"},
      {With("core_speed = 0.5", "core_speed = 1.5"), "x.toml:4:", "1.5 is out of range"},
      {With("core_speed = 0.5", "core_speed = 0"), "x.toml:4:", "from 0.01 to 1"},
      {With("core_speed = 0.5", "core_speed = nan"), "x.toml:4:", "out of range"},
      {With("core_speed = 0.5", "core_speed = \"fast\""), "x.toml:4:", "expected a number"},
      {With("latency_us = 3", "latency_us = -1"), "x.toml:7:", "out of range"},
      {With("bandwidth_gb_s = 4.5", "bandwidth_gb_s = 0"), "x.toml:8:", "out of range"},
      {With("bandwidth_gb_s = 4.5", "bandwidth_gb_s = inf"), "x.toml:8:", "out of range"},
      {With("setup_ms = 10", "setup_ms = 1e9"), "x.toml:11:", "out of range"},
      {With("name = \"mine\"", "name = 7"), "x.toml:1:", "text in quotes"},
      {With("cores = 2\n", ""), "x.toml:3:", "\"cpu.cores\" is missing"},
      {With("operation_us = 0.25\n", ""), "x.toml:6:", "--print-profile bf2"},
      {With("[context]\nsetup_ms = 10\nreconfigure_ms = 5\n", ""),
       "x.toml:1:", "\"context\" is missing"},
      {With("[cpu]\ncore_speed = 0.5\ncores = 2\n", "cpu = 3\n"), "x.toml:3:", "a line [cpu]"},
      {With("cores = 2", "cores = 2\ncores = 3"), "x.toml:6:", ""},
      {With("[dma]", "[dma"), "x.toml:6:", ""},
      {"", "x.toml:1:", "\"name\" is missing"},
      {std::string("name = \"\xff\"\n"), "x.toml:1:", ""},
  };
  for (const Case& c : cases) {
    const absl::Status st = ParseProfile(c.text, "x.toml").status();
    EXPECT_TRUE(absl::IsInvalidArgument(st)) << c.text << st;
    EXPECT_THAT(Text(st), AllOf(HasSubstr(c.where), HasSubstr(c.what))) << c.text;
  }
}

constexpr char kEngine[] = R"([engine.regex]
rate_gb_s = 1.5
latency_us = 20
setup_ms = 3
reconfigure_ms = 4
largest_buffer_mib = 2
depth = 7
)";
constexpr char kQueries[] = R"([engine.regex.query_rate_gb_s]
Q1 = 8
Q2 = 2
Q3 = 2.5
Q4 = 26
)";

TEST(ProfileTest, Engine_EveryKeyIsRead) {
  const auto p = ParseProfile(std::string(kGood) + kEngine, "mine.toml");
  ASSERT_TRUE(p.ok()) << p.status();
  const AcceleratorProfile* engine = p->EngineFor("regex");
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->rate_gb_s, 1.5);
  EXPECT_EQ(engine->latency_us, 20);
  EXPECT_EQ(engine->setup_ms, 3);
  EXPECT_EQ(engine->reconfigure_ms, 4);
  EXPECT_EQ(engine->largest_buffer_mib, 2);
  EXPECT_EQ(engine->depth, 7);
  EXPECT_TRUE(engine->query_rate_gb_s.empty());
  EXPECT_EQ(p->EngineFor("decompress-lz4"), nullptr);
  const auto queries = ParseProfile(std::string(kGood) + kEngine + kQueries, "mine.toml");
  ASSERT_TRUE(queries.ok()) << queries.status();
  const std::map<std::string, double> rates = {{"Q1", 8}, {"Q2", 2}, {"Q3", 2.5}, {"Q4", 26}};
  EXPECT_EQ(queries->EngineFor("regex")->query_rate_gb_s, rates);
}

TEST(ProfileTest, Engine_OperationThatTheCardLacks_IsAbsent) {
  const Profile bf2 = *LoadProfile("bf2");
  const Profile bf3 = *LoadProfile("bf3");
  EXPECT_NE(bf2.EngineFor("compress-deflate"), nullptr);
  EXPECT_NE(bf2.EngineFor("decompress-deflate"), nullptr);
  EXPECT_EQ(bf2.EngineFor("decompress-lz4"), nullptr);
  EXPECT_EQ(bf3.EngineFor("compress-deflate"), nullptr);
  EXPECT_NE(bf3.EngineFor("decompress-deflate"), nullptr);
  EXPECT_NE(bf3.EngineFor("decompress-lz4"), nullptr);
  EXPECT_EQ(bf2.EngineFor("decompress-deflate")->largest_buffer_mib, 128);
  EXPECT_EQ(bf3.EngineFor("decompress-deflate")->largest_buffer_mib, 2);
}

TEST(ProfileTest, Engine_RefusalsNameLineAndKey) {
  const std::string good = std::string(kGood) + kEngine;
  const auto with = [&](const std::string& line, const std::string& by) {
    std::string text = good;
    const size_t at = text.find(line);
    EXPECT_NE(at, std::string::npos) << line;
    return text.replace(at, line.size(), by);
  };
  const std::pair<std::string, std::string> cases[] = {
      {with("[engine.regex]", "[engine.sort]"), "unknown key \"engine.sort\""},
      {with("rate_gb_s = 1.5", "rate_gb_s = 0"), "\"engine.regex.rate_gb_s\""},
      {with("depth = 7", "depth = 0"), "0 is out of range"},
      {with("depth = 7", "depth = 7\nwidth = 1"), "unknown key \"engine.regex.width\""},
      {with("latency_us = 20\n", ""), "\"engine.regex.latency_us\" is missing"},
      {good + "[engine.regex.query_rate_gb_s]\nQ1 = 1\n",
       "\"engine.regex.query_rate_gb_s.Q2\" is missing"},
      {good + kQueries + "Q5 = 1\n", "unknown key \"engine.regex.query_rate_gb_s.Q5\""},
      {with("[engine.regex]", "[engine.decompress-lz4]") + "query_rate_gb_s = 1\n",
       "unknown key \"engine.decompress-lz4.query_rate_gb_s\""},
      {std::string("engine = 3\n") + kGood, "a line [engine]"},
      {std::string(kGood) + "[engine]\nregex = 3\n", "a line [engine.regex]"},
  };
  for (const auto& [text, what] : cases) {
    const absl::Status st = ParseProfile(text, "x.toml").status();
    EXPECT_TRUE(absl::IsInvalidArgument(st)) << text << st;
    EXPECT_THAT(Text(st), AllOf(HasSubstr("x.toml:"), HasSubstr(what))) << text;
  }
}

TEST(ProfileTest, Shortfall_TooFewHostCpus_IsReportedOnlyThen) {
  Profile p = *ParseProfile(kGood, "mine.toml");
  EXPECT_EQ(Shortfall(p, 1), "") << "two cores of half the speed fit on one CPU";
  p.cores = 8;
  EXPECT_EQ(Shortfall(p, 4), "");
  EXPECT_THAT(Shortfall(p, 2), AllOf(HasSubstr("8 cores"), HasSubstr("4 host CPUs"),
                                     HasSubstr("may use 2"), HasSubstr("more than 4 are busy")));
  p.core_speed = 0.81;
  EXPECT_THAT(Shortfall(p, 1), HasSubstr("more than 1 is busy"));
}

}  // namespace
}  // namespace pulse::vdpu
