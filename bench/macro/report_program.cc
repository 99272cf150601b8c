#include "bench/macro/report_program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/errors.h"
#include "base/sibling_program.h"
#include "base/unique_fd.h"
#include "bench/macro/program_process.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr int kWrongInput = 2;  // of report.py
constexpr char kRemedy[] =
    "install python3, python3-matplotlib and python3-jinja2 (apt-get install), or name others with "
    "PULSE_PYTHON and PULSE_REPORT";

std::string Named(const char* variable, const std::string& usual) {
  const char* const value = std::getenv(variable);
  return value == nullptr || *value == '\0' ? usual : value;
}

std::string ReportProgram() {
  const std::string installed = SiblingProgram("../share/pulsedb/report/report.py");
  std::error_code ec;
  return Named("PULSE_REPORT",
               std::filesystem::exists(installed, ec) ? installed : PULSE_REPORT_SOURCE);
}

std::string ReadAll(int fd) {
  std::string text;
  char piece[4096];
  for (;;) {
    const ssize_t got = read(fd, piece, sizeof(piece));
    if (got > 0) text.append(piece, static_cast<size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR)) return text;
  }
}

std::string LastLine(const std::string& said) {
  absl::string_view text(said);
  while (absl::ConsumeSuffix(&text, "\n")) {
  }
  const size_t line = text.rfind('\n');
  if (line != absl::string_view::npos) text.remove_prefix(line + 1);
  absl::ConsumePrefix(&text, "report: ");
  return std::string(text);
}

}  // namespace

absl::Status RunReport(const std::vector<std::string>& words) {
  const std::string python = Named("PULSE_PYTHON", "/usr/bin/python3");
  const std::string program = ReportProgram();
  std::error_code ec;
  if (!std::filesystem::exists(program, ec)) {
    return absl::UnavailableError(absl::StrCat(
        "the program that makes reports is not at ", program,
        "; build from a source tree, or name bench/report/report.py with PULSE_REPORT"));
  }
  std::vector<std::string> all = {python, program};
  all.insert(all.end(), words.begin(), words.end());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoError(errno, "making a pipe for", program);
  const UniqueFd reads(ends[0]);
  UniqueFd writes(ends[1]);
  const auto started = Spawn(python, std::move(all), {}, {{writes.get(), STDERR_FILENO}});
  if (!started.ok()) return started.status();
  const pid_t pid = *started;
  writes.reset();
  const std::string said = ReadAll(reads.get());
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    fmt::print(stderr, "{}", said);  // what it says of single files
    return absl::OkStatus();
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kWrongInput) {
    return absl::FailedPreconditionError(LastLine(said));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoProgram) {
    return absl::UnavailableError(
        absl::StrCat("Python (", python, ") could not be started; ", kRemedy));
  }
  const std::string why = said.empty() ? fmt::format("wait status {}", status) : LastLine(said);
  return absl::UnavailableError(absl::StrCat("the program that makes reports failed: ", why));
}

absl::Status WriteResultChart(const std::string& json_file, const std::string& svg_file) {
  const absl::Status drawn = RunReport({json_file, "--svg", svg_file});
  if (absl::IsUnavailable(drawn)) {
    fmt::print(stderr, "no chart: {}; all figures are in {}\n", std::string(drawn.message()),
               json_file);
    return absl::OkStatus();
  }
  if (drawn.ok()) fmt::print("SVG: {}\n", svg_file);
  return drawn;
}

}  // namespace pulse::bench
