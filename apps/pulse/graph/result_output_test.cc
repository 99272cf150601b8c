#include "apps/pulse/graph/result_output.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "services/graph/model/test_memory_database.h"

namespace pulse {
namespace {

using cypher::Slot;
using cypher::Value;

// What a result prints, into memory.
class ResultOutputTest : public testing::Test {
 protected:
  ~ResultOutputTest() override {
    std::fclose(out_);
    std::free(text_);
  }
  bool Give(ResultOutput* output, const Value& value) {
    const Slot column = 0;
    return output->OnRows(*view_, &value, 1, 1, {&column, 1});
  }
  std::string Printed() {
    std::fflush(out_);
    return {text_, size_};
  }

  cypher::MemoryDatabase database_;
  const std::shared_ptr<const cypher::GraphView> view_ = database_.Snapshot(std::nullopt).value();
  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* const out_ = open_memstream(&text_, &size_);
};

TEST_F(ResultOutputTest, Table_OfLongRows_IsPrintedBeforeAThousandOfThem) {
  ResultOutput output(out_, /*json=*/false, /*writes=*/false, {"a"});
  const Value value = Value::String(std::string(100'000, 'x'));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(Give(&output, value));
  EXPECT_GT(Printed().size(), 1'000'000u);
  EXPECT_FALSE(output.Restart()) << "somebody has seen rows";
  EXPECT_EQ(output.Finish({}), 0);
  EXPECT_GT(Printed().size(), 2'000'000u);
}

TEST_F(ResultOutputTest, Table_AfterARestart_HasTheRowsOnce) {
  ResultOutput output(out_, /*json=*/false, /*writes=*/true, {"a"});
  ASSERT_TRUE(Give(&output, Value::Int(1)));
  ASSERT_TRUE(output.Restart());
  ASSERT_TRUE(Give(&output, Value::Int(2)));
  cypher::Outcome outcome;
  outcome.rows = 1;
  EXPECT_EQ(output.Finish(outcome), 0);
  EXPECT_EQ(Printed(), "a\n2\n1 row\n");
}

TEST_F(ResultOutputTest, Table_TitlesAndNotice_HaveNothingThatATerminalObeys) {
  ResultOutput output(out_, /*json=*/false, /*writes=*/false, {"a\x1b[2J\nb"});
  cypher::Outcome outcome;
  outcome.notice = "there is \x1b[2J";
  EXPECT_EQ(output.Finish(outcome), 0);
  EXPECT_EQ(Printed(), "a?[2J\\nb\n0 rows\nnothing changed: there is ?[2J\n");
}

TEST_F(ResultOutputTest, Bytes_AreBase64) {
  const Value value = Value::MakeBytes(std::string_view("\0\xff", 2));
  for (const bool json : {false, true}) {
    ResultOutput output(out_, json, /*writes=*/false, {"a"});
    ASSERT_TRUE(Give(&output, value));
    EXPECT_EQ(output.Finish({}), 0);
  }
  EXPECT_NE(Printed().find("bytes('AP8=')"), std::string::npos) << Printed();
  EXPECT_NE(Printed().find("{\"a\":\"AP8=\"}\n"), std::string::npos) << Printed();
  EXPECT_EQ(StoredJsonText(value), "\"AP8=\"");
}

TEST_F(ResultOutputTest, Points_AreObjectsInJson) {
  for (const bool json : {false, true}) {
    ResultOutput output(out_, json, /*writes=*/false, {"a"});
    ASSERT_TRUE(Give(&output, Value::MakePoint({cypher::Crs::kCartesian, 1, 2.5, 0})));
    EXPECT_EQ(output.Finish({}), 0);
  }
  EXPECT_NE(Printed().find("point({x: 1.0, y: 2.5, crs: 'cartesian'})"), std::string::npos)
      << Printed();
  EXPECT_NE(Printed().find("{\"a\":{\"srid\":7203,\"x\":1.0,\"y\":2.5}}\n"), std::string::npos)
      << Printed();
  EXPECT_EQ(StoredJsonText(Value::MakePoint({cypher::Crs::kWgs84In3d, 1, 2, 3})),
            "{\"srid\":4979,\"x\":1.0,\"y\":2.0,\"z\":3.0}");
}

TEST_F(ResultOutputTest, ReaderThatIsGone_EndsReadsButNotWrites) {
  signal(SIGPIPE, SIG_IGN);
  for (const bool json : {false, true}) {
    for (const bool writes : {false, true}) {
      int ends[2];
      ASSERT_EQ(pipe(ends), 0);
      close(ends[0]);
      std::FILE* const gone = fdopen(ends[1], "w");
      ResultOutput output(gone, json, writes, {"a"});
      const Value value = Value::String(std::string(2'000'000, 'x'));
      EXPECT_TRUE(Give(&output, value)) << "it is not known yet";
      EXPECT_EQ(Give(&output, value), writes);
      EXPECT_EQ(output.Finish({}), EPIPE);
      std::fclose(gone);
    }
  }
}

}  // namespace
}  // namespace pulse
