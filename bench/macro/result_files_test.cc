#include "bench/macro/result_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ResultFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::path(testing::TempDir()) / ("results." + std::to_string(getpid()));
    std::filesystem::create_directories(dir_);
    file_ = dir_ / "tails.json";
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  static nlohmann::json Result() {
    return {{"experiment", "tails"},
            {"settings", {{"scale", 0.1}, {"pairs", 5}, {"points", {{{"num", 7}}}}}},
            {"machine", {{"cpu", "quick"}}},
            {"pulse_version", "1.2"},
            {"revision", "abc"},
            {"rows", {{{"label", "A"}}}}};
  }

  std::filesystem::path dir_;
  std::string file_;
};

TEST_F(ResultFilesTest, FindResult_WrittenBefore_IsTheSame) {
  EXPECT_EQ(FindResult(file_, Result()).kind, EarlierResult::Kind::kNone);
  ASSERT_TRUE(WriteResult(file_, Result()).ok());
  const EarlierResult found = FindResult(file_, Result());
  EXPECT_EQ(found.kind, EarlierResult::Kind::kSame);
  EXPECT_THAT(found.differences, IsEmpty());
  // Nothing else is left there.
  const auto files = std::filesystem::directory_iterator(dir_);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
}

TEST_F(ResultFilesTest, FindResult_OtherSettingsOrMachine_NamesDifferences) {
  ASSERT_TRUE(WriteResult(file_, Result()).ok());
  nlohmann::json now = Result();
  now["settings"]["pairs"] = 3;
  now["settings"]["seed"] = 1;
  now["settings"].erase("scale");
  now["machine"]["cpu"] = "slow";
  const EarlierResult found = FindResult(file_, now);
  EXPECT_EQ(found.kind, EarlierResult::Kind::kOther);
  EXPECT_THAT(found.differences,
              ElementsAre("pairs: 5 there, 3 now", "scale: 0.1 there, nothing now",
                          "seed: nothing there, 1 now", "cpu: \"quick\" there, \"slow\" now"));
  // Also deep inside, where it is not shown.
  now = Result();
  now["settings"]["points"][0]["num"] = 8;
  now["settings"]["points"][0]["text"] = std::string(200, 'x');
  EXPECT_EQ(FindResult(file_, now).kind, EarlierResult::Kind::kOther);
  EXPECT_THAT(FindResult(file_, now).differences, ElementsAre("points differ"));
}

TEST_F(ResultFilesTest, FindResult_OtherRevision_IsOlder) {
  ASSERT_TRUE(WriteResult(file_, Result()).ok());
  nlohmann::json now = Result();
  now["revision"] = "def-dirty";
  EarlierResult found = FindResult(file_, now);
  EXPECT_EQ(found.kind, EarlierResult::Kind::kOlder);
  EXPECT_THAT(found.differences, ElementsAre("revision: \"abc\" there, \"def-dirty\" now"));
  now["settings"]["pairs"] = 3;
  EXPECT_EQ(FindResult(file_, now).kind, EarlierResult::Kind::kOther);
  // Before there were revisions.
  nlohmann::json old = Result();
  old.erase("revision");
  ASSERT_TRUE(WriteResult(file_, old).ok());
  EXPECT_EQ(FindResult(file_, Result()).kind, EarlierResult::Kind::kOlder);
}

TEST_F(ResultFilesTest, FindResult_WithoutRows_IsNone) {
  for (const nlohmann::json& none : {nlohmann::json(), nlohmann::json::array()}) {
    nlohmann::json empty = Result();
    empty["rows"] = none;
    ASSERT_TRUE(WriteResult(file_, empty).ok());
    EXPECT_EQ(FindResult(file_, Result()).kind, EarlierResult::Kind::kNone) << none;
  }
}

TEST_F(ResultFilesTest, RowLog_InterruptedRun_GoesOnInTheSameRevision) {
  nlohmann::json identity = Result();
  identity.erase("rows");
  {
    RowLog rows(file_, identity);
    EXPECT_EQ(rows.TakeUp(false), "");
    ASSERT_TRUE(rows.Begin().ok());
  }
  {
    RowLog rows(file_, identity);
    EXPECT_THAT(rows.TakeUp(false), HasSubstr("before its first row"));
    EXPECT_TRUE(rows.rows().empty());
    ASSERT_TRUE(rows.Begin().ok());
    ASSERT_TRUE(rows.Add({{"label", "A"}, {"runs", 1}}).ok());
  }
  RowLog again(file_, identity);
  EXPECT_EQ(again.TakeUp(false), "goes on where it was interrupted; done before: A");
  EXPECT_TRUE(again.Has("A"));
  EXPECT_FALSE(again.Has("B"));
  ASSERT_TRUE(again.Add({{"label", "B"}}).ok());
  EXPECT_EQ(again.rows().size(), 2U);
  identity["revision"] = "def";
  RowLog other(file_, identity);
  EXPECT_EQ(other.TakeUp(true),
            "an interrupted run cannot go on (revision: \"abc\" there, \"def\" now): it begins "
            "again");
  EXPECT_FALSE(other.Has("A"));
  again.Forget();
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(ResultFilesTest, RowLog_UncertainRevision_GoesOnOnlyIfAsked) {
  for (const char* revision : {"unknown", "v1-3-gabc-dirty"}) {
    nlohmann::json identity = Result();
    identity.erase("rows");
    identity["revision"] = revision;
    ASSERT_TRUE(RowLog(file_, identity).Add({{"label", "A"}}).ok());
    RowLog rows(file_, identity);
    EXPECT_THAT(rows.TakeUp(false), HasSubstr("revision \"" + std::string(revision) + "\""));
    EXPECT_FALSE(rows.Has("A"));
    EXPECT_EQ(rows.TakeUp(true), "goes on where it was interrupted; done before: A");
    EXPECT_TRUE(rows.Has("A"));
    rows.Forget();
  }
}

TEST_F(ResultFilesTest, FindResult_OtherDisk_IsAnother) {
  nlohmann::json identity = Result();
  identity["storage"] = {{"source", "/dev/a"}, {"page_cache", "drop_caches"}};
  ASSERT_TRUE(WriteResult(file_, identity).ok());
  EXPECT_EQ(FindResult(file_, identity).kind, EarlierResult::Kind::kSame);
  identity["storage"]["source"] = "/dev/b";
  const EarlierResult found = FindResult(file_, identity);
  EXPECT_EQ(found.kind, EarlierResult::Kind::kOther);
  EXPECT_THAT(found.differences, ElementsAre("source: \"/dev/a\" there, \"/dev/b\" now"));
  // An earlier version did not say.
  ASSERT_TRUE(WriteResult(file_, Result()).ok());
  EXPECT_EQ(FindResult(file_, identity).kind, EarlierResult::Kind::kSame);
}

TEST_F(ResultFilesTest, RowLog_RowsOfOneRun_AreKeptTogether) {
  nlohmann::json identity = Result();
  identity.erase("rows");
  std::vector<nlohmann::json> rows(2);
  rows[0]["label"] = "all";
  rows[1]["label"] = "1";
  ASSERT_TRUE(RowLog(file_, identity).AddAll(rows).ok());
  RowLog again(file_, identity);
  EXPECT_EQ(again.TakeUp(false), "goes on where it was interrupted; done before: all, 1");
  EXPECT_EQ(again.rows().size(), 2U);
}

TEST_F(ResultFilesTest, RedoLog_InterruptedRedo_GoesOnIfItIsTheSame) {
  const nlohmann::json command = nlohmann::json::array({Result(), {{"experiment", "queue"}}});
  const std::string log = dir_ / "redo.log";
  ASSERT_TRUE(WriteResult(file_, Result()).ok());
  {
    RedoLog redo(log, command);
    EXPECT_EQ(redo.TakeUp(true), "");
    EXPECT_FALSE(redo.Begun("tails"));
    const auto said = redo.Begin("tails", file_);
    ASSERT_TRUE(said.ok()) << said.status();
    EXPECT_EQ(*said, "its earlier result is now " + file_ + ".old");
    EXPECT_FALSE(std::filesystem::exists(file_));
    EXPECT_EQ(FindResult(file_ + ".old", Result()).kind, EarlierResult::Kind::kSame);
  }
  // The second one has no revision.
  EXPECT_THAT(RedoLog(log, command).TakeUp(false), HasSubstr("another source"));
  RedoLog again(log, command);
  EXPECT_EQ(again.TakeUp(true), "an interrupted --redo goes on; begun anew before: tails");
  EXPECT_TRUE(again.Begun("tails"));
  EXPECT_FALSE(again.Begun("queue"));
  const auto nothing = again.Begin("queue", dir_ / "queue.json");
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_EQ(*nothing, "");
  // Of other settings, or of fewer experiments.
  RedoLog other(log, nlohmann::json::array({Result()}));
  EXPECT_EQ(other.TakeUp(true), "an interrupted --redo was another one: all begins anew");
  EXPECT_FALSE(other.Begun("tails"));
  again.Forget();
  EXPECT_EQ(RedoLog(log, command).TakeUp(true), "");
  for (const char* text : {"", "[]", "{\"command\": 3, \"begun\": []}"}) {
    std::ofstream(log) << text;
    EXPECT_FALSE(RedoLog(log, command).TakeUp(true).empty()) << text;
  }
}

TEST_F(ResultFilesTest, FindResult_NotAResult_IsAnother) {
  for (const char* text : {"", "{", "[]", "{\"experiment\": \"tails\"}",
                           "{\"settings\": {}, \"machine\": {}, \"rows\": 3}",
                           "{\"settings\": 1, \"machine\": {}, \"rows\": []}"}) {
    std::ofstream(file_) << text;
    EXPECT_EQ(FindResult(file_, Result()).kind, EarlierResult::Kind::kOther) << text;
  }
  nlohmann::json other = Result();
  other["experiment"] = "queue";
  ASSERT_TRUE(WriteResult(file_, other).ok());
  EXPECT_EQ(FindResult(file_, Result()).kind, EarlierResult::Kind::kOther);
}

TEST_F(ResultFilesTest, WriteResult_Fails_LeavesTheOldResult) {
  const std::string nowhere = dir_ / "none" / "tails.json";
  EXPECT_FALSE(WriteResult(nowhere, Result()).ok());
  // The partial file cannot be made where a directory has its name.
  ASSERT_TRUE(WriteResult(file_, Result()).ok());
  std::filesystem::create_directories(file_ + ".part/x");
  nlohmann::json other = Result();
  other["settings"]["pairs"] = 9;
  EXPECT_FALSE(WriteResult(file_, other).ok());
  EXPECT_EQ(FindResult(file_, Result()).kind, EarlierResult::Kind::kSame);
}

}  // namespace
}  // namespace pulse::bench
