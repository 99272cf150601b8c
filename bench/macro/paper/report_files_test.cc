#include "bench/macro/paper/report_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/macro/opponent.h"
#include "bench/macro/paper/report_markdown.h"

namespace pulse::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

class ReportFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::path(testing::TempDir()) / ("report." + std::to_string(getpid()));
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string Path(const std::string& name) const { return dir_ / name; }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(Path(name)) << text;
  }
  std::string Read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(Path(name)).rdbuf();
    return text.str();
  }
  bool Exists(const std::string& name) const { return std::filesystem::exists(Path(name)); }

  static Report Some() {
    const nlohmann::json result = {
        {"experiment", "tails"},
        {"rows",
         {{{"label", "1024 B"},
           {"runs", {{{"opponent", kPulse}, {"pair", 1}, {"stall_share", 0.5}}}}}}}};
    return MakeReport({{"tails", "Tails", nullptr, result, ""}}, "pulse bench paper");
  }

  std::filesystem::path dir_;
};

TEST_F(ReportFilesTest, LoadsResultsAndSaysWhatIsNone) {
  Write("tails.json", R"({"experiment": "tails", "rows": [{"label": "A"}]})");
  Write("footprint.json", R"({"experiment": "footprint", "rows": []})");
  Write("queue.json", R"({"experiment": "tails", "rows": []})");
  Write("ycsb.json", "{\"experiment\": \"ycsb\", \"ro");
  std::vector<ReportEntry> entries = {{"tails", "", nullptr, nullptr, ""},
                                      {"queue", "", nullptr, nullptr, ""},
                                      {"ycsb", "", nullptr, nullptr, ""},
                                      {"engines", "", nullptr, nullptr, ""},
                                      {"footprint", "", nullptr, nullptr, ""}};
  LoadResults(dir_, &entries);
  EXPECT_TRUE(entries[0].result.is_object());
  EXPECT_TRUE(entries[1].result.is_null());
  EXPECT_THAT(entries[1].problem, HasSubstr("queue.json is no result of queue"));
  EXPECT_TRUE(entries[2].result.is_null());
  EXPECT_THAT(entries[2].problem, HasSubstr("ycsb.json"));
  EXPECT_TRUE(entries[3].result.is_null());
  EXPECT_EQ(entries[3].problem, "");
  EXPECT_TRUE(entries[4].result.is_null());
  EXPECT_THAT(entries[4].problem, HasSubstr("footprint.json has no rows"));
}

TEST_F(ReportFilesTest, WritesThePage) {
  ASSERT_TRUE(WriteHtml(dir_, Some()).ok());
  EXPECT_THAT(Read("report.html"), HasSubstr("</html>"));
  EXPECT_FALSE(Exists("report.html.part"));
  EXPECT_THAT(std::string(WriteHtml(Path("none"), Some()).message()), HasSubstr("report.html"));
}

TEST_F(ReportFilesTest, ReplacesWhatIsBetweenTheMarkersOnly) {
  const std::string before = "# Results\n\nBy hand.\n\n", after = "\n\n## More\n\nBy hand, too.\n";
  Write("doc.md", before + kMarkdownBegin + "\nold\n" + kMarkdownEnd + after);
  ASSERT_TRUE(CheckMarkdown(Path("doc.md")).ok());
  EXPECT_THAT(Read("doc.md"), HasSubstr("\nold\n"));  // a check changes nothing
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(WriteMarkdown(Path("doc.md"), Some()).ok());
    const std::string now = Read("doc.md");
    EXPECT_EQ(now.substr(0, before.size()), before);
    EXPECT_EQ(now.substr(now.size() - after.size()), after);
    EXPECT_THAT(now, Not(HasSubstr("\nold\n")));
    EXPECT_THAT(now, HasSubstr("doc-plots/tails-1-light.svg"));
    EXPECT_EQ(now.find(kMarkdownBegin), now.rfind(kMarkdownBegin));
  }
  EXPECT_TRUE(Exists("doc-plots/tails-1-light.svg"));
  EXPECT_TRUE(Exists("doc-plots/tails-1-dark.svg"));
}

TEST_F(ReportFilesTest, PlotsThatAreNotWrittenAnyMoreGo) {
  std::filesystem::create_directories(dir_ / "doc-plots");
  Write("doc-plots/queue-9-dark.svg", "old");
  Write("doc-plots/notes.txt", "mine");
  ASSERT_TRUE(WriteMarkdown(Path("doc.md"), Some()).ok());
  EXPECT_FALSE(Exists("doc-plots/queue-9-dark.svg"));
  EXPECT_TRUE(Exists("doc-plots/notes.txt"));
  EXPECT_THAT(Read("doc.md"), HasSubstr(kMarkdownBegin));  // a new document has its markers
}

TEST_F(ReportFilesTest, WithoutMarkersItRefusesAndLeavesTheDocument) {
  const std::string begin = kMarkdownBegin, end = kMarkdownEnd;
  for (const std::string& text :
       {std::string("by hand\n"), begin + "\n", end + "\n" + begin + "\n",
        begin + "\n" + begin + "\n" + end + "\n", "see " + begin + "\n" + end + "\n",
        begin + "\n" + end + " here\n"}) {
    Write("doc.md", text);
    for (const absl::Status& status :
         {CheckMarkdown(Path("doc.md")), WriteMarkdown(Path("doc.md"), Some())}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << text;
      EXPECT_THAT(std::string(status.message()), HasSubstr(begin));
    }
    EXPECT_EQ(Read("doc.md"), text);
  }
  EXPECT_FALSE(Exists("doc-plots"));
  EXPECT_EQ(CheckMarkdown(dir_).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace pulse::bench
