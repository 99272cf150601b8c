#include "base/log.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"

namespace pulse {
namespace {

using ::testing::HasSubstr;

TEST(LogTest, LineAsJson_HasTheFields) {
  const std::string line =
      LogLineAsJson(LogLevel::kWarn, 1'700'000'000'042, "the \"host\" is lost");
  EXPECT_THAT(line, HasSubstr("\"time\":\"2023-11-14T22:13:20.042Z\""));
  EXPECT_THAT(line, HasSubstr("\"level\":\"warning\""));
  EXPECT_THAT(line, HasSubstr("\"program\":\"pulsedb\""));
  EXPECT_THAT(line, HasSubstr(absl::StrCat("\"pid\":", getpid())));
  EXPECT_THAT(line, HasSubstr("\"message\":\"the \\\"host\\\" is lost\""));
  EXPECT_EQ(line.find("\"key\""), std::string::npos);
  EXPECT_THAT(LogLineAsJson(LogLevel::kError, 0, "x", "one key"), HasSubstr("\"key\":\"one key\""));
}

TEST(LogTest, LineAsJson_StaysOneLineWhateverItSays) {
  const std::string line = LogLineAsJson(LogLevel::kInfo, 0, "a\nb\x1b[2J\xff");
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
}

// The format is read once in a process, so one that has said nothing yet says it.
TEST(LogTest, FormatOfTheEnvironment_IsTheLinesFormat) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto say = [](const char* format) {
    setenv("PULSE_LOG_FORMAT", format, 1);
    setenv("PULSE_LOG", "info", 1);
    Log(LogLevel::kDebug, "not this");
    Log(LogLevel::kInfo, "this");
    LogOnce("a key", "once");
    LogOnce("a key", "once");
    _exit(0);
  };
  EXPECT_EXIT(say("json"), testing::ExitedWithCode(0),
              "^.\"time\":\"[^\"]*\",\"level\":\"info\",.*\"message\":\"this\".\n"
              ".\"time\".*\"level\":\"warning\",.*\"key\":\"a key\",\"message\":\"once\".\n$");
  EXPECT_EXIT(say("xml"), testing::ExitedWithCode(0), "PULSE_LOG_FORMAT=xml is no format");
  EXPECT_EXIT(say("text"), testing::ExitedWithCode(0),
              "^[0-9 :.-]+ pulsedb info: this\n[0-9 :.-]+ pulsedb warning: once\n$");
}

TEST(LogTest, ProgramsOwnLines_AnyLevel_ArePrintedInTheChosenFormat) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto say = [](const char* format, const char* level) {
    setenv("PULSE_LOG_FORMAT", format, 1);
    setenv("PULSE_LOG", level, 1);
    Say("pulse kv: 1 {key}");
    Log(LogLevel::kInfo, "not this");
    Log(LogLevel::kError, "this");
    _exit(0);
  };
  EXPECT_EXIT(say("text", "error"), testing::ExitedWithCode(0),
              "^pulse kv: 1 \\{key\\}\n[0-9 :.-]+ pulsedb error: this\n$");
  EXPECT_EXIT(say("json", "{loud}"), testing::ExitedWithCode(0),
              "^.\"time\".*\"level\":\"info\",.*\"message\":\"pulse kv: 1 .key.\".\n"
              ".\"time\".*\"message\":\"PULSE_LOG=.loud. is no level.*\".\n"
              ".\"time\".*\"level\":\"error\",.*\"message\":\"this\".\n$");
}

TEST(LogTest, Target_WhileThereIsOne_GetsTheLinesOfWarningsAndAbove) {
  std::vector<std::string> lines;
  testing::internal::CaptureStderr();
  {
    const LogTarget silent(nullptr);
    const LogTarget target([&](absl::string_view line) { lines.emplace_back(line); });
    Log(LogLevel::kInfo, "info");
    Log(LogLevel::kError, "error");
    LogOnce("a key of this test", "once");
    LogOnce("a key of this test", "twice");
  }
  EXPECT_THAT(lines, testing::ElementsAre("error", "once"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace pulse
