#include "bench/macro/paper/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/macro/opponent.h"
#include "bench/macro/paper/report_html.h"
#include "bench/macro/paper/report_markdown.h"

namespace pulse::bench {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

constexpr char kEvil[] = "<script>alert('x')</script>|`*[&\"";

nlohmann::json Run(const char* opponent, int pair, double speed) {
  return {{"opponent", opponent}, {"pair", pair},        {"ops_per_s", speed},
          {"p99_us", 3.5},        {"stall_share", 0.25}, {"host_cpu_s", nullptr}};
}

nlohmann::json Result(const std::string& name, std::vector<std::string> labels) {
  nlohmann::json rows = nlohmann::json::array();
  for (const std::string& label : labels) {
    rows.push_back({{"label", label},
                    {"runs",
                     {Run(kStockDefault, 1, 100), Run(kPulse, 1, 150), Run(kStockDefault, 2, 110),
                      Run(kPulse, 2, 220)}}});
  }
  return {{"experiment", name},
          {"machine", {{"cpu", "quick"}, {"cpus", 2}, {"memory_bytes", 1 << 30}}},
          {"settings",
           {{"scale", 0.1},
            {"pairs", 2},
            {"threads", 3},
            {"tiny", false},
            {"host_cpus", "0"},
            {"agent_cpus", "1"},
            {"uri_options", ""},
            {"points",
             {{{"num", 1000}, {"value_bytes", 1024}, {"shape", {{"memtable_bytes", 67108864}}}}}}}},
          {"rows", std::move(rows)}};
}

ReportEntry Entry(const std::string& name, nlohmann::json result = nullptr) {
  const PaperValue paper = {"throughput", "Fig. 10", "",
                            1.22,         1.82,      {"ops_per_s", kPulse, kStockDefault, false}};
  return {name, "About " + name, PaperJson({"Fig. 10"}, {paper}), std::move(result), ""};
}

TEST(ReportTest, ARunExperimentHasChartsTablesAndThePaper) {
  const Report report = MakeReport({Entry("fillrandom", Result("fillrandom", {"128 B", "1024 B"}))},
                                   "pulse bench paper");
  ASSERT_THAT(report.sections, SizeIs(1));
  const ReportSection& section = report.sections.front();
  EXPECT_TRUE(section.done);
  EXPECT_THAT(section.statement, HasSubstr("Scale 0.1 of the paper's 40 GB"));
  EXPECT_THAT(section.statement, HasSubstr("2 pairs"));
  EXPECT_THAT(section.statement, HasSubstr("host on CPU 0, agent on CPU 1"));
  // Compactions were not measured, so there is no chart of them.
  ASSERT_THAT(section.charts, SizeIs(2));
  EXPECT_EQ(section.charts[0].title, "Throughput");
  EXPECT_EQ(section.charts[0].series[1].points[0].ours->median, 185);
  ASSERT_TRUE(section.charts[1].band);
  EXPECT_EQ(section.charts[1].band->most, 1.82);
  EXPECT_EQ(section.charts[1].series[0].points[1].ours->median, 1.75);
  ASSERT_THAT(section.tables, SizeIs(2));
  EXPECT_THAT(section.tables[0].header, Not(Contains("host CPU, s")));
  EXPECT_THAT(section.tables[0].rows, SizeIs(4));
  EXPECT_THAT(section.tables[1].rows,
              Contains(std::vector<std::string>{"throughput", "1.22 – 1.82", "1.75", "Fig. 10"}));
  EXPECT_THAT(report.targets.caption, HasSubstr("0 held, 0 missed, 1 not clear"));
  EXPECT_THAT(report.lead, HasSubstr("has 2 CPUs; the agent's CPU stands for the DPU"));
  EXPECT_THAT(report.targets.rows,
              Contains(std::vector<std::string>{
                  "random writes of 1 KiB, pulse, against stock on the host's CPU", "at least 1.6",
                  "1.75 (1.50 – 2.00)", "not clear: the pairs differ", "fillrandom", "2"}));
}

TEST(ReportTest, WhatHasNotRunIsNamedWithItsCommand) {
  ReportEntry broken = Entry("queue");
  broken.problem = "out/queue.json is no result of queue";
  const Report report =
      MakeReport({Entry("tails", Result("tails", {"1024 B"})), Entry("ycsb"), broken},
                 "pulse bench paper --out out");
  EXPECT_TRUE(report.sections[0].done);
  EXPECT_FALSE(report.sections[1].done);
  EXPECT_EQ(report.sections[1].command, "pulse bench paper --out out --only ycsb");
  EXPECT_THAT(report.sections[2].statement, HasSubstr("is no result of queue"));
  EXPECT_EQ(report.sections[2].command, "pulse bench paper --out out --only queue --redo");
  EXPECT_THAT(report.warnings, Contains(HasSubstr("1 of 3 experiments have run")));
  const std::string html = RenderHtml(report);
  EXPECT_THAT(html, HasSubstr("<code>pulse bench paper --out out --only ycsb</code>"));
  EXPECT_THAT(html, HasSubstr("class=\"absent\" href=\"#ycsb\""));
}

TEST(ReportTest, NothingRunAtAll) {
  const Report report = MakeReport({Entry("tails")}, "pulse bench paper");
  EXPECT_TRUE(report.machine.empty());
  EXPECT_THAT(report.lead, Not(HasSubstr("DPU")));
  for (const auto& row : report.targets.rows)
    EXPECT_THAT(row[3], HasSubstr("not measured")) << row[0];
  EXPECT_THAT(RenderHtml(report), HasSubstr("</html>"));
}

TEST(ReportTest, TinyRunsAndSeveralMachinesAreSaid) {
  nlohmann::json tiny = Result("tails", {"1024 B"}), other = Result("ycsb", {"A"});
  tiny["settings"]["tiny"] = true;
  other["machine"]["cpu"] = "slow";
  const Report report = MakeReport({Entry("tails", tiny), Entry("ycsb", other)}, "pulse");
  EXPECT_THAT(report.warnings, Contains(HasSubstr("figures mean nothing")));
  EXPECT_THAT(report.warnings, Contains(HasSubstr("more than one machine: quick, 2 CPUs")));
  EXPECT_THAT(report.sections[0].statement, HasSubstr("A tiny run"));
}

TEST(ReportTest, TheCommandHasTheFlagsThatWereUsed) {
  EXPECT_EQ(CommandFor("out", nlohmann::json::object()), "pulse bench paper --out out");
  EXPECT_EQ(CommandFor("out", {{"value_sizes", {128u, 1024u}}}),
            "pulse bench paper --out out --value-sizes 128,1024");
  EXPECT_EQ(CommandFor("out", {{"scale", 0.025},
                               {"threads", 10},
                               {"pairs", 5},
                               {"host_cpus", "0"},
                               {"agent_cpus", "1"},
                               {"seed", 1}}),
            "pulse bench paper --out out");
  EXPECT_EQ(CommandFor("out", {{"scale", 0.1},
                               {"threads", 1},
                               {"pairs", 3},
                               {"memtable_bytes", 8 << 20},
                               {"uri_options", "queue=8M&io=direct"},
                               {"agent_cpus", "2"}}),
            "pulse bench paper --out out --scale 0.1 --threads 1 --pairs 3 --memtable 8388608 "
            "--agent-cpus '2' --uri 'queue=8M&io=direct'");
  EXPECT_EQ(CommandFor("out", {{"quick", true},
                               {"scale", 0.005},
                               {"threads", 1},
                               {"pairs", 2},
                               {"memtable_bytes", 4 << 20}}),
            "pulse bench paper --out out --quick");
}

TEST(ReportTest, OtherSettingsAndVersionsAreSaid) {
  nlohmann::json one = Result("tails", {"1024 B"}), other = Result("queue", {"1024 B"});
  one["pulse_version"] = other["pulse_version"] = "1.2";
  one["revision"] = "aaa";
  other["revision"] = "bbb";
  other["settings"]["threads"] = 1;
  const Report report =
      MakeReport({Entry("tails", one), Entry("queue", other)}, "pulse", "1.2 (bbb)");
  EXPECT_THAT(report.warnings,
              Contains(HasSubstr("version of the program: 1.2 (aaa) (tails); 1.2 (bbb) (queue)")));
  EXPECT_THAT(report.warnings,
              Contains("The experiments differ in threads: 3 (tails); 1 (queue)."));
  EXPECT_THAT(report.warnings, Not(Contains(HasSubstr("differ in pairs"))));
  EXPECT_THAT(report.sections[0].notes, Contains(HasSubstr("Measured by PulseDB 1.2 (aaa)")));
  EXPECT_THAT(report.sections[1].notes, Not(Contains(HasSubstr("Measured by"))));
}

TEST(ReportTest, WhatCannotBeShownHereSaysWhatItWouldNeed) {
  nlohmann::json result = Result("tails", {"1024 B"});
  for (nlohmann::json& run : result["rows"][0]["runs"]) run["stall_share"] = 0.001;
  const Report report = MakeReport({Entry("tails", result)}, "pulse");
  EXPECT_THAT(report.targets.rows,
              Contains(Contains(HasSubstr("not shown here: stock did not stall"))));
  EXPECT_THAT(report.needs, Contains(HasSubstr("It would need a stock RocksDB that stalls")));
  EXPECT_THAT(report.needs, Contains(HasSubstr("stalled for 0.1 % of the run here")));
  EXPECT_THAT(RenderHtml(report), HasSubstr("<li>share of time stalled"));
  EXPECT_THAT(RenderMarkdown(report, "plots").text, HasSubstr("* share of time stalled"));
}

TEST(ReportTest, PlacementsThatWereNoneAreMarked) {
  nlohmann::json result = Result("dcomp-bf2", {"1024 B"});
  for (nlohmann::json& run : result["rows"][0]["runs"]) {
    if (run["opponent"] == kStockDefault) run["opponent"] = kDcomp, run["whole_compactions"] = 0;
  }
  const Report report = MakeReport({Entry("dcomp-bf2", result)}, "pulse");
  EXPECT_THAT(
      report.sections[0].notes,
      Contains(HasSubstr("1024 B, dcomp: not measured: no compaction ran whole in 2 of 2 runs")));
  EXPECT_THAT(report.targets.rows,
              Contains(Contains("not measured: dcomp: no compaction ran whole in 2 of 2 runs")));
}

// Each kind of experiment, with the rows of another and with none.
TEST(ReportTest, AnyRowsForAnyExperiment) {
  for (const char* name : {"fillrandom", "overwrite", "tails", "ycsb", "ablation", "engines",
                           "queue", "footprint", "dcomp-bf2", "shift", "emulation", "novel"}) {
    for (const auto& labels : {std::vector<std::string>{}, {"A"}, {"A", "B"}}) {
      const Report report = MakeReport({Entry(name, Result(name, labels))}, "pulse");
      EXPECT_EQ(report.sections[0].notes.empty(), !labels.empty()) << name;
      EXPECT_THAT(RenderHtml(report), HasSubstr("</html>"));
      EXPECT_THAT(RenderMarkdown(report, "plots").text, HasSubstr(name));
    }
    // No field is what it should be.
    for (nlohmann::json odd :
         {nlohmann::json::object(), nlohmann::json({{"rows", "x"}, {"settings", 3}}),
          nlohmann::json({{"rows", {1, nullptr, {{"runs", {1, 2}}}}},
                          {"machine", "none"},
                          {"settings", {{"points", {3}}, {"scale", "big"}}}})}) {
      const Report report = MakeReport({Entry(name, odd)}, "pulse");
      EXPECT_THAT(report.sections[0].charts, SizeIs(0)) << name;
      EXPECT_THAT(RenderHtml(report), HasSubstr("</html>"));
    }
  }
}

TEST(ReportTest, AllTextIsEscaped) {
  nlohmann::json result = Result("fillrandom", {kEvil, "B"});
  result["machine"]["cpu"] = kEvil;
  result["settings"]["uri_options"] = kEvil;
  result["settings"][kEvil] = kEvil;
  result["rows"][0]["runs"][0]["opponent"] = kEvil;
  ReportEntry entry = Entry("fillrandom", result);
  entry.title = kEvil;
  entry.paper["figures"] = {kEvil};
  entry.paper["differs"] = kEvil;
  entry.paper["values"][0]["what"] = kEvil;
  const Report report = MakeReport({entry, Entry("tails")}, std::string("pulse ") + kEvil);
  EXPECT_THAT(RenderHtml(report), Not(HasSubstr("<script>alert")));
  const MarkdownReport markdown = RenderMarkdown(report, "plots");
  EXPECT_THAT(markdown.text, Not(HasSubstr("<script>alert(")));
  EXPECT_THAT(markdown.text, HasSubstr("\\|\\`\\*\\[&amp;"));
  for (const auto& [name, svg] : markdown.plots)
    EXPECT_THAT(svg, Not(HasSubstr("<script"))) << name;
}

TEST(ReportTest, ThePageFetchesNothing) {
  const std::string html =
      RenderHtml(MakeReport({Entry("fillrandom", Result("fillrandom", {"A"}))}, "pulse"));
  std::string rest = html;
  const std::string name_space = "http://www.w3.org/2000/svg";
  for (size_t at; (at = rest.find(name_space)) != std::string::npos;)
    rest.erase(at, name_space.size());
  EXPECT_THAT(rest, Not(HasSubstr("://")));
  EXPECT_THAT(rest, Not(HasSubstr("src=")));
  EXPECT_THAT(rest, HasSubstr("default-src 'none'"));
}

TEST(ReportTest, MarkdownHasALightAndADarkPlotForEachChart) {
  const Report report =
      MakeReport({Entry("fillrandom", Result("fillrandom", {"128 B", "1024 B"}))}, "pulse");
  const MarkdownReport markdown = RenderMarkdown(report, "results-plots");
  ASSERT_THAT(markdown.plots, SizeIs(4));
  EXPECT_EQ(markdown.plots[0].first, "fillrandom-1-light.svg");
  EXPECT_EQ(markdown.plots[1].first, "fillrandom-1-dark.svg");
  EXPECT_THAT(markdown.text, HasSubstr("<source media=\"(prefers-color-scheme: dark)\" "
                                       "srcset=\"results-plots/fillrandom-1-dark.svg\">"));
  EXPECT_THAT(markdown.text, HasSubstr("src=\"results-plots/fillrandom-1-light.svg\""));
  EXPECT_THAT(markdown.text, HasSubstr("| 1024 B, pulse |"));
}

}  // namespace
}  // namespace pulse::bench
