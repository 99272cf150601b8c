// The report on the experiments of the paper: what the result files say, in sections of text,
// charts and tables that report_html and report_markdown write out. Plain computation.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/macro/paper/report_chart.h"
#include "bench/macro/paper/targets.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {

// What there is of one experiment.
struct ReportEntry {
  std::string name;
  std::string title;
  nlohmann::json paper;   // Experiment::paper()
  nlohmann::json result;  // null: not run
  std::string problem;    // why there is none, where a file is in its place
  bool optional = false;  // it runs only when it is named
  // Of remote storage (report_remote.h): the benchmark that leaves the result, and its command.
  std::string benchmark = {};
  std::string command = {};
};

struct ReportTable {
  std::string caption;
  std::vector<std::string> header;  // the first column is words, the others are figures
  std::vector<std::vector<std::string>> rows;
};

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct ReportSection {
  std::string name;
  std::string title;
  std::string figures;  // "Fig. 10, Fig. 12"
  bool done = false;
  std::string statement;  // what was measured and how it was scaled; or why it was not
  std::string command;    // that runs it, where it is not done
  std::vector<ReportChart> charts;
  std::vector<ReportTable> tables;
  std::vector<std::string> notes;
  Pairs settings;
};

struct Report {
  std::string title;
  std::vector<std::string> warnings;
  std::string lead;  // a paragraph on how to read it
  Pairs machine;
  ReportTable targets;
  std::vector<std::string> needs;  // what it would take to show what could not be shown here
  std::vector<ReportSection> sections;
};

// `command` is how this set of results is made: "pulse bench paper --out DIR". `program` is who
// writes the report (ProgramOf); results of another one are marked. Empty: unknown.
Report MakeReport(const std::vector<ReportEntry>& entries, const std::string& command,
                  const std::string& program = "");

// The command that makes results with these settings into `out`.
std::string CommandFor(const std::string& out, const nlohmann::json& settings);

// "0.1.0 (9a6bd33)": version and source revision of the program that has made `result`.
std::string ProgramOf(const nlohmann::json& result);

// The section of one experiment that has run; tables and charts of what is there. (report_sections)
void FillSection(const ReportEntry& entry, ReportSection* section);

}  // namespace pulse::bench
