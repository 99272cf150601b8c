// The report on disk: read from the result files of --out, written as report.html and into a
// Markdown document. Thread-compatible; blocks on disk.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "bench/macro/paper/report.h"

namespace pulse::bench {

// Reads OUT/NAME.json into each entry, OUT/BENCHMARK.json into those of remote storage. A file that
// is no result leaves its `problem` instead.
void LoadResults(const std::string& out, std::vector<ReportEntry>* entries);

// Writes OUT/report.html, whole or not at all.
absl::Status WriteHtml(const std::string& out, const Report& report);

// FailedPrecondition unless WriteMarkdown() could write into `file`: before hours of measuring.
absl::Status CheckMarkdown(const std::string& file);

// Writes the report between the markers of `file`, which is made when it is missing, and the plots
// into the folder FILE-plots beside it (results-plots for results.md), of which plots that are not
// written any more are removed.
absl::Status WriteMarkdown(const std::string& file, const Report& report);

}  // namespace pulse::bench
