#include "services/graph/load/csv.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/testing.h"

namespace pulse::graph {
namespace {

using testing_util::TestSeed;

TEST(Csv, ReadField_LooksNoFurther) {
  const CsvDialect dialect;
  const std::string file = "a,\"b\"\"c\",\"not closed\n";
  CsvField field;
  CsvReader plain(file, 0, file.size(), dialect);
  ASSERT_TRUE(plain.ReadField(&field));
  EXPECT_EQ(field.text, "a");
  EXPECT_EQ(plain.end_offset(), 1u);
  CsvReader quoted(file, 2, file.size(), dialect);
  ASSERT_TRUE(quoted.ReadField(&field));
  EXPECT_EQ(field.text, "b\"c");
  EXPECT_TRUE(field.quoted);
  EXPECT_EQ(quoted.end_offset(), 8u);
  CsvReader broken(file, 9, file.size(), dialect);
  EXPECT_FALSE(broken.ReadField(&field));
}

TEST(Csv, PartsOfAnyLength_HaveTheRecordsOfTheWhole) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 100; ++round) {
    const CsvDialect dialect{.delimiter = round % 2 == 0 ? ',' : '|',
                             .escape = round % 5 == 0 ? '\\' : '\0'};
    std::string file;
    std::vector<std::vector<std::string>> expected;
    for (size_t i = 1 + random() % 60; i > 0; --i) {
      std::vector<std::string>& record = expected.emplace_back();
      for (size_t f = 0; f < 3; ++f) {
        std::string text(random() % 10, 'x');
        for (char& c : text) c = "ab,|\n\r\"\\"[random() % (round % 3 == 0 ? 2 : 8)];
        const bool plain = text.find_first_of(",|\n\r\"\\") == std::string::npos && !text.empty();
        record.push_back(text);
        if (f > 0) file += dialect.delimiter;
        if (plain && random() % 2 == 0) {
          file += text;
          continue;
        }
        file += '"';
        for (const char c : text) {
          if (dialect.escape != '\0' && (c == '"' || c == '\\')) file += '\\';
          if (dialect.escape == '\0' && c == '"') file += '"';
          file += c;
        }
        file += '"';
      }
      file += random() % 2 == 0 ? "\n" : "\r\n";
      if (random() % 7 == 0) file += "\n";
    }
    std::vector<std::vector<std::string>> got;
    uint64_t begin = 0;
    for (const uint64_t end : SplitCsv(file, 0, 1 + random() % 80, dialect)) {
      CsvReader reader(file, begin, end, dialect);
      std::vector<CsvField> fields;
      while (reader.Next(&fields)) {
        ASSERT_EQ(reader.error(), nullptr);
        auto& record = got.emplace_back();
        for (const CsvField& field : fields) record.emplace_back(field.text);
      }
      begin = end;
    }
    ASSERT_EQ(begin, file.size());
    ASSERT_EQ(got, expected);
  }
}

TEST(Csv, AnyBytes_AreRecordsOrErrors) {
  std::mt19937_64 random(TestSeed());
  const CsvDialect dialect{.escape = '\\'};
  for (int round = 0; round < 2000; ++round) {
    std::string file(random() % 60, 'x');
    for (char& c : file) c = "a,\"\n\r\\\0"[random() % 7];
    CsvReader reader(file, 0, file.size(), dialect);
    std::vector<CsvField> fields;
    uint64_t before = 0;
    while (reader.Next(&fields)) {
      ASSERT_GE(reader.offset(), before);
      ASSERT_GT(reader.end_offset(), reader.offset());
      before = reader.end_offset();
    }
    ASSERT_LE(before, file.size());
  }
}

}  // namespace
}  // namespace pulse::graph
