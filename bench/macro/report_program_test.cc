#include "bench/macro/report_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace pulse::bench {
namespace {

using testing::HasSubstr;

// A program of our own stands for report.py, and the shell for Python.
class ReportProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    file_ = testing::TempDir() + "report_program_" + std::to_string(getpid());
    setenv("PULSE_PYTHON", "/bin/sh", 1);
    setenv("PULSE_REPORT", file_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("PULSE_PYTHON");
    unsetenv("PULSE_REPORT");
    std::filesystem::remove(file_);
  }
  void Program(const std::string& text) const { std::ofstream(file_) << text; }

  std::string file_;
};

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST_F(ReportProgramTest, RunReport_ProgramThatSucceeds_GetsItsWords) {
  Program("test \"$1 $2\" = 'one two three' || exit 5\n");
  EXPECT_TRUE(RunReport({"one two", "three"}).ok());
  EXPECT_FALSE(RunReport({"one", "three"}).ok());
}

TEST_F(ReportProgramTest, RunReport_ProgramThatRefuses_IsFailedPreconditionWithItsLastLine) {
  Program("echo first >&2; echo 'report: x.json is no JSON; remove it' >&2; exit 2\n");
  const absl::Status status = RunReport({});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Message(status), "x.json is no JSON; remove it");
}

TEST_F(ReportProgramTest, RunReport_PackageMissing_IsUnavailableWithTheRemedy) {
  Program("echo 'report: no matplotlib; install python3-matplotlib' >&2; exit 3\n");
  const absl::Status status = RunReport({});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), HasSubstr("install python3-matplotlib"));
}

TEST_F(ReportProgramTest, RunReport_NoPythonOrProgram_IsUnavailableWithTheRemedy) {
  Program("exit 0\n");
  setenv("PULSE_PYTHON", "/nonexistent/python3", 1);
  absl::Status status = RunReport({});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), HasSubstr("PULSE_PYTHON"));
  setenv("PULSE_PYTHON", "/bin/sh", 1);
  std::filesystem::remove(file_);
  status = RunReport({});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(status), HasSubstr("PULSE_REPORT"));
}

TEST_F(ReportProgramTest, RunReport_MuchOnStandardError_DoesNotHang) {
  Program("i=0; while test $i -lt 20000; do echo line $i >&2; i=$((i+1)); done; exit 2\n");
  EXPECT_EQ(Message(RunReport({})), "line 19999");
}

TEST_F(ReportProgramTest, WriteResultChart_PackageMissing_IsNoError) {
  Program("exit 3\n");
  EXPECT_TRUE(WriteResultChart("soak.json", "soak.svg").ok());
  Program("echo refused >&2; exit 2\n");
  EXPECT_FALSE(WriteResultChart("soak.json", "soak.svg").ok());
}

}  // namespace
}  // namespace pulse::bench
