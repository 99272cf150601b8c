// Remote storage in the report: what `pulse bench blocks`, `serve` and `director` have left in the
// same directory (--json DIR/blocks.json), with the DDS paper's figures beside ours (its sections 8
// and 9). Their JSON has parts, each with the opponents' spreads and every run; whatever parts
// there are get a table. Plain computation.
#pragma once

#include <string>
#include <vector>

#include "bench/macro/paper/report.h"

namespace pulse::bench {

// One for each benchmark, without a result; `out` is where the files are looked for.
std::vector<ReportEntry> RemoteEntries(const std::string& out);

// Whether `json` is what entry.benchmark leaves.
bool IsRemoteResult(const ReportEntry& entry, const nlohmann::json& json);

// Charts, tables and notes; returns the statement.
std::string FillRemoteSection(const ReportEntry& entry, ReportSection* section);

// The ratios that have a target, as rows of Report::targets.
std::vector<std::vector<std::string>> RemoteTargets(const ReportEntry& entry);

}  // namespace pulse::bench
