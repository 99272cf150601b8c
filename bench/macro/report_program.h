// Runs bench/report, the Python program that makes pages and charts from the JSON files of
// benchmarks. The program is PULSE_REPORT, else what is installed (../share/pulse/report/report.py
// from this program), else the source tree that this program was built from; Python is
// PULSE_PYTHON, else Debian's. Main thread only; blocks until the program has ended.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace pulse::bench {

// FailedPrecondition when the program refuses its input, Unavailable when it cannot run here: both
// with its last line, which says the remedy.
absl::Status RunReport(const std::vector<std::string>& words);

// The chart of the result in `json_file`, as an SVG file: a benchmark is done without it, so what
// keeps the program from running is only said.
absl::Status WriteResultChart(const std::string& json_file, const std::string& svg_file);

}  // namespace pulse::bench
