#include "services/graph/session/csv_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/testing.h"
#include "services/graph/model/test_memory_database.h"
#include "services/graph/model/text.h"
#include "services/graph/session/service.h"
#include "services/graph/session/test_row_texts.h"

namespace pulse::cypher {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using std::string_literals::operator""s;

class CsvFilesTest : public testing::Test {
 protected:
  CsvFilesTest() : directory_("csv") { std::filesystem::create_directories(directory_.get()); }
  ~CsvFilesTest() override { std::filesystem::remove_all(directory_.get()); }

  std::string Write(const std::string& name, std::string_view text) {
    const std::string path = directory_.get() + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  // Records as "a|b", a null as "~"; the error behind them.
  std::vector<std::string> Read(std::string_view where, char separator = ',') {
    std::vector<std::string> texts;
    auto records = OpenCsvFile({.path = directory_.get()}, where, separator);
    if (!records.ok()) return {"error: " + testing_util::Text(records.status())};
    std::vector<CsvRecords::Field> fields;
    while (true) {
      const auto more = (*records)->Next(&fields);
      if (!more.ok()) texts.push_back("error: " + testing_util::Text(more.status()));
      if (!more.ok() || !*more) return texts;
      std::string text;
      for (size_t i = 0; i < fields.size(); ++i) {
        text += Concat(i == 0 ? "" : "|", fields[i].null ? "~" : fields[i].text);
      }
      texts.push_back(text);
      last_line_ = (*records)->line();
    }
  }

  testing_util::ScratchPath directory_;
  uint64_t last_line_ = 0;
};

TEST_F(CsvFilesTest, Records_QuotesAndEmptyFields_AsWritten) {
  Write("a.csv", "\xEF\xBB\xBFname,age\r\n\"Ann, \"\"A\"\"\",\n\n\"\",\"two\nlines\"\nx,y");
  EXPECT_THAT(Read("file:///a.csv"), ElementsAre("name|age", "Ann, \"A\"|~", "|two\nlines", "x|y"));
  EXPECT_EQ(last_line_, 6u);
  Write("empty.csv", "");
  EXPECT_THAT(Read("empty.csv"), ElementsAre());
  Write("b c.csv", "1;2\n");
  EXPECT_THAT(Read("file:///b%20c.csv", ';'), ElementsAre("1|2"));
}

TEST_F(CsvFilesTest, BrokenRecords_AreNamedByLine) {
  Write("a.csv", "a,b\n1,\"2\"x\n");
  EXPECT_THAT(Read("a.csv").back(), HasSubstr("a.csv, line 2: there is something behind"));
  Write("b.csv", "a,b\n\n1,\"2\n3\n");
  EXPECT_THAT(Read("b.csv").back(), HasSubstr("b.csv, line 3: nothing closes a quote"));
}

// Records lie across the pieces that are read, at any place; some are longer than a piece.
TEST_F(CsvFilesTest, TextThatIsNotUtf8_IsNamedByLineAndColumn) {
  Write("a.csv", "name,age\nRen\xC3\xA9,4\nRen\xE9,5\n");
  EXPECT_THAT(Read("a.csv"),
              ElementsAre("name|age", "Ren\xC3\xA9|4",
                          HasSubstr("error: a.csv, line 3, column 1: byte 4 of the text, 0xe9, is "
                                    "not UTF-8: write what `iconv")));
}

TEST_F(CsvFilesTest, LargeFiles_ComeWholeByPieces) {
  std::mt19937_64 random(testing_util::TestSeed());
  std::string file;
  std::vector<std::string> expected;
  while (file.size() < (5u << 20)) {
    std::string value;
    const size_t size = random() % 50 == 0 ? random() % (2u << 20) : random() % 2000;
    for (size_t i = 0; i < size; ++i) value += "ab\"\n\r,"[random() % 40 == 0 ? random() % 6 : 0];
    std::string quoted;
    for (const char c : value) quoted += c == '"' ? "\"\""s : std::string(1, c);
    file += Concat(expected.size(), ",\"", quoted, "\"", random() % 2 == 0 ? "\n" : "\r\n");
    expected.push_back(Concat(expected.size(), "|", value));
  }
  Write("large.csv", file);
  EXPECT_EQ(Read("large.csv"), expected);
}

TEST_F(CsvFilesTest, RecordWithoutEnd_MemoryBounded) {
  Write("a.csv", "a,\"" + std::string(kMostRecordBytes + 1, 'x'));
  EXPECT_THAT(Read("a.csv").back(), HasSubstr("line 1: a record of more than 64 MiB"));
}

TEST_F(CsvFilesTest, FilesOutside_AreRefused) {
  const std::string outside = std::filesystem::absolute(directory_.get() + "-outside.csv");
  std::ofstream(outside) << "secret\n";
  Write("in.csv", "1\n");
  std::filesystem::create_symlink(outside, directory_.get() + "/link.csv");
  std::filesystem::create_symlink("in.csv", directory_.get() + "/inner.csv");
  std::filesystem::create_directory(directory_.get() + "/sub");
  ASSERT_EQ(mkfifo((directory_.get() + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(Read("inner.csv"), ElementsAre("1"));
  const std::string name = std::filesystem::path(outside).filename();
  for (const std::string& where : {"../" + name, "file:///../" + name, "sub/../../" + name,
                                   "link.csv"s, "file:///%2e%2e/" + name}) {
    EXPECT_THAT(Read(where).back(), HasSubstr("outside the directory of --import")) << where;
  }
  // Absolute paths are below the directory, too.
  EXPECT_THAT(Read(outside).back(), HasSubstr("No such file"));
  EXPECT_THAT(Read("sub").back(), HasSubstr("not a file"));
  EXPECT_THAT(Read("pipe").back(), HasSubstr("not a file"));
  EXPECT_THAT(Read("none.csv").back(), HasSubstr("No such file"));
  EXPECT_THAT(Read("http://127.0.0.1/a.csv").back(), HasSubstr("only files can be loaded"));
  EXPECT_THAT(Read("file://host/a.csv").back(), HasSubstr("three slashes"));
  EXPECT_THAT(Read("").back(), HasSubstr("wants the name of a file"));
  EXPECT_EQ(OpenCsvFile({}, "in.csv", ',').status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(OpenCsvFile({.path = {}, .everywhere = true}, outside, ',').ok());
  EXPECT_TRUE(OpenCsvFile({.path = {}, .everywhere = true}, "file://" + outside, ',').ok());
  std::filesystem::remove(outside);
}

// Statements.
class LoadCsvTest : public CsvFilesTest {
 protected:
  std::vector<std::string> Rows(std::string_view text) {
    RowTexts sink;
    const auto statement = service_.Prepare(text);
    if (!statement.ok()) return {testing_util::Text(statement.status())};
    const ValueMap none;
    RunOptions options;
    options.parameters = &none;
    Outcome outcome;
    const absl::Status status = service_.Run(**statement, {}, options, &sink, &outcome);
    if (!status.ok()) return {testing_util::Text(status)};
    return sink.rows();
  }
  ServiceOptions Options() {
    ServiceOptions options;
    options.imports.path = directory_.get();
    return options;
  }
  MemoryDatabase database_;
  GraphService service_{&database_, Options()};
};

TEST_F(LoadCsvTest, WithHeaders_RowsAreMaps) {
  Write("p.csv", "id,name,city\n1,Ann,\n2,Bob,Ulm\n3,\"\"\n");
  EXPECT_THAT(Rows("LOAD CSV WITH HEADERS FROM 'file:///p.csv' AS row "
                   "RETURN toInteger(row.id), row.name, row.city, row.none"),
              ElementsAre("1, 'Ann', null, null", "2, 'Bob', 'Ulm', null", "3, '', null, null"));
  EXPECT_THAT(Rows("LOAD CSV WITH HEADERS FROM 'p.csv' AS row CREATE (:P {id: toInteger(row.id)})"),
              ElementsAre());
  EXPECT_THAT(Rows("LOAD CSV WITH HEADERS FROM 'p.csv' AS row MATCH (p:P {id: toInteger(row.id)}) "
                   "SET p.name = row.name WITH p MATCH (q:P) RETURN count(q.name), count(*)"),
              ElementsAre("9, 9"));
}

TEST_F(LoadCsvTest, WithoutHeaders_RowsAreLists) {
  Write("a.csv", "a;\n;\"b\"\n");
  EXPECT_THAT(Rows("UNWIND ['a.csv', 'a.csv'] AS f LOAD CSV FROM f AS l FIELDTERMINATOR ';' "
                   "RETURN l, size(l)"),
              ElementsAre("['a', null], 2", "[null, 'b'], 2", "['a', null], 2", "[null, 'b'], 2"));
  EXPECT_THAT(Rows("LOAD CSV FROM 'a.csv' AS l FIELDTERMINATOR ';' RETURN l[0] LIMIT 1"),
              ElementsAre("'a'"));
}

// In quotes, as Neo4j: a backslash before a quote or another one goes, any other stays.
TEST_F(LoadCsvTest, Backslashes_EscapeQuotesAndThemselves) {
  Write("a.csv", "\"x\\\"y\",\"c:\\\\temp\",\"c:\\dir\",a\\b\n");
  EXPECT_THAT(Rows("LOAD CSV FROM 'a.csv' AS l UNWIND l AS f RETURN f"),
              ElementsAre("'x\"y'", "'c:\\\\temp'", "'c:\\\\dir'", "'a\\\\b'"));
}

TEST_F(LoadCsvTest, CompressedFile_IsRefusedByName) {
  Write("a.csv", "\x1f\x8b\x08 and so on\n");
  EXPECT_THAT(Rows("LOAD CSV FROM 'a.csv' AS r RETURN r").back(),
              HasSubstr("a.csv: it is compressed by gzip"));
}

TEST_F(LoadCsvTest, Mistakes_AreNamed) {
  Write("a.csv", "a,a\n1,2\n");
  Write("b.csv", "a,b\n1,2,3\n");
  const auto error = [&](std::string_view text) { return Rows(text).back(); };
  EXPECT_THAT(error("LOAD CSV WITH HEADERS FROM 'a.csv' AS r RETURN r"),
              HasSubstr("a.csv, line 1: the header a comes twice"));
  EXPECT_THAT(error("LOAD CSV WITH HEADERS FROM 'b.csv' AS r RETURN r"),
              HasSubstr("line 2: there are 3 fields, and 2 headers"));
  EXPECT_THAT(error("LOAD CSV FROM 'c.csv' AS r RETURN r"), HasSubstr("No such file"));
  EXPECT_THAT(error("LOAD CSV FROM 1 AS r RETURN r"), HasSubstr("wants a text that names a file"));
  EXPECT_THAT(error("LOAD CSV FROM 'a.csv' AS r FIELDTERMINATOR ';;' RETURN r"),
              HasSubstr("one character"));
  EXPECT_THAT(error("LOAD CSV WITH FROM 'a.csv' AS r RETURN r"), HasSubstr("HEADERS"));
  EXPECT_THAT(error("MATCH (r) LOAD CSV FROM 'a.csv' AS r RETURN r"), HasSubstr("already defined"));
  EXPECT_THAT(error("LOAD CSV FROM 'a.csv' AS r"), HasSubstr("must end with RETURN"));
  EXPECT_THAT(error("CREATE (n) LOAD CSV FROM 'a.csv' AS r RETURN r"),
              HasSubstr("WITH must stand"));
  GraphService without(&database_, ServiceOptions());
  RowTexts sink;
  const auto statement = without.Prepare("LOAD CSV FROM 'a.csv' AS r RETURN r");
  ASSERT_TRUE(statement.ok());
  Outcome outcome;
  const ValueMap none;
  RunOptions options;
  options.parameters = &none;
  EXPECT_THAT(testing_util::Text(without.Run(**statement, {}, options, &sink, &outcome)),
              HasSubstr("without --import"));
}

}  // namespace
}  // namespace pulse::cypher
