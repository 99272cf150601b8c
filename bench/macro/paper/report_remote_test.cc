#include "bench/macro/paper/report_remote.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bench/macro/paper/report_files.h"
#include "bench/macro/paper/report_html.h"
#include "bench/macro/paper/report_markdown.h"

namespace pulse::bench {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// One opponent in two pairs, the second with a twentieth more.
void AddRuns(const std::string& opponent, json figures, json* part) {
  for (int pair : {1, 2}) {
    json run = figures;
    if (pair == 2) run["ops_per_s"] = run.value("ops_per_s", 0.0) * 1.05;
    run["opponent"] = opponent;
    run["pair"] = pair;
    (*part)["runs"].push_back(std::move(run));
  }
}

json Part(const char* what,
          const std::vector<std::pair<std::string, std::pair<double, double>>>& speed_and_host_us) {
  json part;
  for (const auto& [opponent, figures] : speed_and_host_us) {
    json run = {{"ops_per_s", figures.first}, {"host_us", figures.second}, {"agent_us", 7}};
    run[std::string(what) + "_p50_us"] = 400;
    run[std::string(what) + "_p99_us"] = 900;
    AddRuns(opponent, run, &part);
  }
  return part;
}

json Blocks() {
  return {{"benchmark", "blocks"},
          {"pulse_version", "1"},
          {"revision", "r"},
          {"machine", {{"cpu", "quick"}, {"cpus", 2}}},
          {"settings",
           {{"pairs", 2},
            {"warm_ups", 1},
            {"tiny", false},
            {"block", 1024},
            {"batch", 4},
            {"outstanding", 8},
            {"connections", 4},
            {"bytes", 536870912},
            {"host_cpus", "0"},
            {"agent_cpus", "1"}}},
          {"parts",
           {{"writes", Part("writes", {{"os-io_uring", {50000, 8}}, {"library", {120000, 4}}})},
            {"a new part", Part("reads", {{"offloaded", {1234, 1}}})},
            {"reads", Part("reads", {{"os-io_uring", {80000, 5.7}},
                                     {"forwarded", {40000, 10}},
                                     {"offloaded", {74000, 0.002}}})}}},
          {"ratios",
           {{{"ratio", "reads/s, offloaded / os-io_uring"},
             {"median", 0.93},
             {"min", 0.92},
             {"max", 0.94},
             {"count", 2},
             {"target", "at least 1.8"},
             {"verdict", "missed"}},
            {{"ratio", "reads/s, library / os-threads"}, {"median", 1.2}, {"count", 2}}}}};
}

ReportEntry EntryOf(const std::string& benchmark, json result) {
  for (ReportEntry& entry : RemoteEntries("out")) {
    if (entry.benchmark != benchmark) continue;
    entry.result = std::move(result);
    return entry;
  }
  ADD_FAILURE() << benchmark;
  return {};
}

const ReportTable* TableOf(const ReportSection& section, const std::string& caption) {
  for (const ReportTable& table : section.tables) {
    if (table.caption.find(caption) != std::string::npos) return &table;
  }
  return nullptr;
}

TEST(ReportRemoteTest, EveryPartHasItsTable) {
  const Report report = MakeReport({EntryOf("blocks", Blocks())}, "pulse");
  const ReportSection& section = report.sections.front();
  EXPECT_TRUE(section.done);
  EXPECT_THAT(section.statement,
              AllOf(HasSubstr("requests of 1,024 B, 4 in a message"), HasSubstr("512 MiB"),
                    HasSubstr("2 pairs after 1 warm-up; host on CPU 0, agent on CPU 1")));
  const ReportTable* reads = TableOf(section, "Reads, as fast as they go");
  ASSERT_NE(reads, nullptr);
  EXPECT_THAT(reads->header,
              ElementsAre("", "a second", "p50, µs", "p99, µs", "host CPU, µs each",
                          "agent CPU, µs each", "host CPUs in use", "agent CPUs in use"));
  ASSERT_THAT(reads->rows, SizeIs(3));
  EXPECT_EQ(reads->rows[0][0], "os-io_uring");
  EXPECT_EQ(reads->rows[0][1], "82,000 (80,000 – 84,000)");
  EXPECT_EQ(reads->rows[2][4], "0.002");
  EXPECT_EQ(reads->rows[0][6], "0.47 (0.46 – 0.48)");  // 5.7 µs, 82,000 times a second
  // Of writes the same columns; and one that nobody foresaw.
  const ReportTable* writes = TableOf(section, "Writes, as fast as they go");
  ASSERT_NE(writes, nullptr);
  EXPECT_THAT(writes->rows, Contains(Contains("900")));
  ASSERT_NE(TableOf(section, "a new part"), nullptr);
}

TEST(ReportRemoteTest, ChartsSetHostCpuAgainstThroughput) {
  const Report report = MakeReport({EntryOf("blocks", Blocks())}, "pulse");
  const std::vector<ReportChart>& charts = report.sections.front().charts;
  ASSERT_FALSE(charts.empty());
  EXPECT_EQ(charts[0].kind, ReportChart::Kind::kAgainst);
  ASSERT_THAT(charts[0].series, SizeIs(3));
  EXPECT_EQ(charts[0].series[0].name, "os-io_uring");
  EXPECT_EQ(charts[0].series[0].points[0].across->median, 82000);
  EXPECT_NEAR(charts[0].series[0].points[0].ours->median, 0.4674, 1e-9);
  EXPECT_EQ(RenderMarkdown(report, "plots").plots.size(), 2 * charts.size());
}

TEST(ReportRemoteTest, RatiosHaveTheirVerdictsInSectionAndTargets) {
  const Report report = MakeReport({EntryOf("blocks", Blocks())}, "pulse");
  const ReportTable* ratios = TableOf(report.sections.front(), "Compared over pairs");
  ASSERT_NE(ratios, nullptr);
  EXPECT_THAT(ratios->rows,
              ElementsAre(ElementsAre("reads/s, offloaded / os-io_uring", "at least 1.8",
                                      "0.93 (0.92 – 0.94)", "missed"),
                          ElementsAre("reads/s, library / os-threads", "–", "1.20", "–")));
  EXPECT_THAT(report.targets.rows,
              Contains(ElementsAre("reads/s, offloaded / os-io_uring", "at least 1.8",
                                   "0.93 (0.92 – 0.94)", "missed", "remote-blocks", "2")));
  EXPECT_THAT(report.targets.caption, HasSubstr("0 held, 1 missed"));
  EXPECT_THAT(RenderHtml(report), HasSubstr("class=\"missed\">missed"));
}

TEST(ReportRemoteTest, ThePaperStandsBesideOursWithItsPlace) {
  const Report report = MakeReport({EntryOf("blocks", Blocks())}, "pulse");
  const ReportSection& section = report.sections.front();
  const ReportTable* paper = TableOf(section, "The DDS paper's figures beside ours");
  ASSERT_NE(paper, nullptr);
  EXPECT_THAT(paper->rows, Contains(ElementsAre("reads/s, offloaded ÷ OS (730 by 390)", "1.87",
                                                "0.93", "section 8.2, Fig. 13a")));
  // Of those that did not run.
  EXPECT_THAT(paper->rows, Contains(ElementsAre(HasSubstr("without a copy"), "1.40", "not measured",
                                                "section 8.5, Fig. 20")));
  EXPECT_THAT(section.notes, Contains(AllOf(HasSubstr("no DPU"), HasSubstr("loopback"))));
}

TEST(ReportRemoteTest, TheLimitIsTheBestsAndWhoIsNearItIsNamed) {
  const Report report = MakeReport({EntryOf("blocks", Blocks())}, "pulse");
  EXPECT_THAT(report.sections.front().notes,
              Contains(AllOf(HasSubstr("reads: nobody got past 82,000 a second (os-io_uring)"),
                             HasSubstr("os-io_uring 82,000 for 5.70 µs; offloaded 75,850 for "
                                       "0.002 µs"),
                             Not(HasSubstr("forwarded")))));
  // The best alone shares nothing.
  EXPECT_THAT(
      report.sections.front().notes,
      Contains("Limit of this machine, writes: nobody got past 123,000 a second (library)."));
}

TEST(ReportRemoteTest, OtherSettingsAreNoWarningButAnotherMachineIs) {
  ReportEntry experiment = {"tails", "Tails", nullptr, Blocks(), ""};
  experiment.result["settings"]["scale"] = 0.1;
  Report report = MakeReport({experiment, EntryOf("blocks", Blocks())}, "pulse");
  EXPECT_THAT(report.warnings, IsEmpty());
  experiment.result["machine"]["cpu"] = "slow";
  report = MakeReport({experiment, EntryOf("blocks", Blocks())}, "pulse");
  EXPECT_THAT(report.warnings,
              Contains(HasSubstr("more than one machine: slow, 2 CPUs, kernel unknown, RocksDB "
                                 "unknown, unknown (tails); quick")));
}

TEST(ReportRemoteTest, DirectorAndServeHaveTheirOwn) {
  json director = {{"benchmark", "director"}};
  for (const char* opponent : {"forward-epoll", "splice-epoll"}) {
    AddRuns(opponent, {{"gbit_per_s", 6}, {"gbit_per_cpu_s", 12.5}, {"loop_share", 0.5}},
            &director["parts"]["stream"]);
    AddRuns(opponent, {{"p50_us", 20}, {"p99_us", 30}, {"messages_per_s", 1000}},
            &director["parts"]["latency"]);
  }
  json serve = {{"benchmark", "serve"}};
  for (const char* opponent : {"off", "forwarded", "on"}) {
    AddRuns(opponent, {{"ops_per_s", 1000}, {"reads_p50_us", 5}, {"host_us", 3}},
            &serve["parts"]["get"]);
  }
  const Report report =
      MakeReport({EntryOf("director", director), EntryOf("serve", serve)}, "pulse");
  const ReportTable* paper = TableOf(report.sections[0], "The DDS paper's");
  ASSERT_NE(paper, nullptr);
  EXPECT_THAT(paper->rows,
              Contains(ElementsAre(HasSubstr("spliced, epoll"), "6.40", "12.5", "section 8.5")));
  ASSERT_THAT(report.sections[0].charts, SizeIs(2));  // latency, then the streams
  EXPECT_EQ(report.sections[0].charts[1].reference, 6.4);
  paper = TableOf(report.sections[1], "The DDS paper's");
  ASSERT_NE(paper, nullptr);
  EXPECT_THAT(paper->rows, Contains(ElementsAre(HasSubstr("with DDS ÷ without"), "2.85", "1.00",
                                                "section 9.2, Fig. 22")));
  EXPECT_THAT(TableOf(report.sections[1], "GET of what")->rows, SizeIs(3));
}

// No field is what it should be.
TEST(ReportRemoteTest, AnythingAsAResult) {
  for (const json& odd :
       {json({{"parts", {{"reads", 3}}}}), json({{"parts", {{"reads", {{"runs", "x"}}}}}}),
        json({{"parts", {{"", {{"runs", {1, nullptr, json::array()}}}}}}, {"ratios", 3}}),
        json({{"parts", {{"b", {{"runs", {{{"opponent", "on"}, {"ops_per_s", "x"}}}}}}}},
              {"ratios", {1, {{"ratio", 2}}, {{"ratio", "r"}, {"median", "x"}}}},
              {"settings", 1}})}) {
    for (const char* benchmark : {"blocks", "serve", "director"}) {
      const Report report = MakeReport({EntryOf(benchmark, odd)}, "pulse");
      EXPECT_THAT(report.sections[0].charts, IsEmpty());
      EXPECT_THAT(RenderHtml(report), HasSubstr("</html>"));
    }
  }
}

TEST(ReportRemoteTest, TextIsEscaped) {
  const std::string evil = "<script>alert('x')</script>|`";
  json result = Blocks();
  result["parts"][evil] = Part("reads", {{evil, {1, 1}}});
  result["ratios"][0]["ratio"] = evil;
  result["ratios"][0]["verdict"] = evil;
  const Report report = MakeReport({EntryOf("blocks", result)}, "pulse");
  EXPECT_THAT(RenderHtml(report), Not(HasSubstr("<script>alert")));
  const MarkdownReport markdown = RenderMarkdown(report, "plots");
  EXPECT_THAT(markdown.text, Not(HasSubstr("<script>alert(")));
  for (const auto& [name, svg] : markdown.plots)
    EXPECT_THAT(svg, Not(HasSubstr("<script"))) << name;
}

TEST(ReportRemoteTest, FilesThatAreMissingOrBrokenAreNamedAndTheRestIsThere) {
  const auto dir =
      std::filesystem::path(testing::TempDir()) / ("remote." + std::to_string(getpid()));
  std::filesystem::create_directories(dir);
  std::ofstream(dir / "blocks.json") << Blocks();
  std::ofstream(dir / "serve.json") << R"({"benchmark": "serve", "parts": {"get": {"ru)";
  std::vector<ReportEntry> entries = RemoteEntries("out");
  LoadResults(dir, &entries);
  const Report report = MakeReport(entries, "pulse bench paper --out out");
  ASSERT_THAT(report.sections, SizeIs(3));
  EXPECT_TRUE(report.sections[0].done);
  EXPECT_THAT(report.sections[1].statement,
              HasSubstr("serve.json is no result of pulse bench serve"));
  EXPECT_EQ(report.sections[1].command, "pulse bench serve --json out/serve.json");
  EXPECT_EQ(report.sections[2].statement, "Not run.");
  EXPECT_EQ(report.sections[2].command, "pulse bench director --json out/director.json");
  EXPECT_THAT(report.warnings, Contains(HasSubstr("1 of 3 experiments have run")));
  // What another benchmark has left under the name, or nothing at all in it.
  for (const char* other : {R"({"benchmark": "blocks", "parts": {"a": {}}})",
                            R"({"benchmark": "serve", "parts": {}})", "[]", "", "7"}) {
    std::ofstream(dir / "serve.json") << other;
    entries = RemoteEntries("out");
    LoadResults(dir, &entries);
    EXPECT_TRUE(entries[1].result.is_null()) << other;
    EXPECT_THAT(entries[1].problem, HasSubstr("serve.json")) << other;
  }
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace pulse::bench
