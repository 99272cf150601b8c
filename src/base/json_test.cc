#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/testing.h"

namespace pulse {
namespace {

TEST(JsonTest, Writer_NestedValues_ReadBackEqual) {
  JsonWriter w;
  w.Open('{').Add("n", uint64_t{18446744073709551615u}).Add("text", "a \"quoted\" \\ back");
  w.Key("list").Open('[').Value(1).Value(2).Open('{').Close('}').Close(']');
  w.Key("nothing").Null().Key("empty").Open('[').Close(']').Close('}');
  const auto j = nlohmann::json::parse(w.text());
  EXPECT_EQ(j["n"].get<uint64_t>(), 18446744073709551615u);
  EXPECT_EQ(j["text"], "a \"quoted\" \\ back");
  EXPECT_EQ(j["list"].dump(), "[1,2,{}]");
  EXPECT_TRUE(j["nothing"].is_null());
  EXPECT_TRUE(j["empty"].empty());
}

TEST(JsonTest, CleanText_ControlsAndBadUtf8_BecomeQuestionMarks) {
  EXPECT_EQ(CleanText("/data/größe €😀"), "/data/größe €😀");
  EXPECT_EQ(CleanText(absl::string_view("a\0b\n\x1b[2J\x7f", 9)), "a?b??[2J?");
  EXPECT_EQ(CleanText("\xc2\x9b!"),
            "?"
            "?!")
      << "a control sequence of eight bits";
  EXPECT_EQ(CleanText("\xe2\x80\xae!"),
            "?"
            "?"
            "?!")
      << "right to left from here on";
  EXPECT_EQ(CleanText("\xc0\xaf|\xed\xa0\x80|\xf5\x80\x80\x80|\xe2\x82"), "??|???|????|??");
}

TEST(JsonTest, Writer_RandomBytes_WritesValidJson) {
  std::mt19937_64 rng(testing_util::TestSeed());
  for (int i = 0; i < 20000; ++i) {
    std::string bytes(rng() % 24, '\0');
    for (char& c : bytes) c = static_cast<char>(rng() % 4 != 0 ? rng() : 0x80 + rng() % 0x80);
    JsonWriter w;
    w.Open('[').Value(bytes).Close(']');
    const auto j = nlohmann::json::parse(w.text(), nullptr, /*allow_exceptions=*/false);
    ASSERT_FALSE(j.is_discarded()) << w.text();
    ASSERT_EQ(j[0].get<std::string>(), CleanText(bytes));
    ASSERT_EQ(CleanText(CleanText(bytes)), CleanText(bytes));
  }
}

}  // namespace
}  // namespace pulse
