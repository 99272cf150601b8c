#include "base/uri_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pulse {
namespace {

using ::testing::HasSubstr;

TEST(UriTest, ParseUri_FullUri_SplitsSchemePathAndOptions) {
  const auto u = ParseUri("pulse:///run/a.sock?sync=strict&queue=32M");
  ASSERT_TRUE(u.ok());
  EXPECT_EQ(u->scheme, "pulse");
  EXPECT_EQ(u->path, "/run/a.sock");
  EXPECT_EQ(u->options.at("sync"), "strict");
  EXPECT_EQ(u->options.at("queue"), "32M");
  EXPECT_TRUE(ParseUri("pulse://")->options.empty());
  EXPECT_TRUE(ParseUri("pulse://?")->options.empty());
}

TEST(UriTest, ParseUri_NotAUri_IsRefused) {
  for (const char* bad :
       {"", "pulse", "://x", "pulse://?sync", "pulse://?=1", "pulse://?a=1&a=2"}) {
    EXPECT_FALSE(ParseUri(bad).ok()) << bad;
  }
}

TEST(UriTest, ParseBytes_UnitsOrBadText_ParsesOrRefuses) {
  EXPECT_EQ(*ParseBytes("4096"), 4096u);
  EXPECT_EQ(*ParseBytes("64k"), 65536u);
  EXPECT_EQ(*ParseBytes("1.5G"), 1536ull << 20);
  for (const char* bad : {"", "M", "-1", "1X", "nan", "inf", "1e30G", "0x10"}) {
    EXPECT_FALSE(ParseBytes(bad).ok()) << bad;
  }
}

TEST(UriTest, ParseSizeOption_OutOfRange_NamesTheOption) {
  EXPECT_EQ(*ParseSizeOption("--cache", "64k", 65536), 65536u);
  for (const char* bad : {"", "0", "65537", "1X"}) {
    const auto size = ParseSizeOption("--cache", bad, 65536);
    ASSERT_FALSE(size.ok()) << bad;
    EXPECT_EQ(size.status().message().find("--cache"), 0u) << size.status();
  }
}

TEST(OptionReaderTest, Finish_UnknownKey_NamesItAndTheKnownOnes) {
  OptionReader r(std::map<std::string, std::string>{{"sinc", "strict"}});
  int sync = 0;
  r.ReadChoice("sync", {"barrier", "strict"}, &sync);
  EXPECT_THAT(std::string(r.Finish().message()), HasSubstr("\"sinc\""));
  EXPECT_THAT(std::string(r.Finish().message()), HasSubstr("known are sync"));
}

TEST(OptionReaderTest, ReadBytes_OutOfRange_IsNamedAndLeavesDefault) {
  OptionReader r(std::map<std::string, std::string>{{"queue", "1K"}});
  uint64_t queue = 7;
  r.ReadBytes("queue", 1 << 20, 1 << 30, &queue);
  EXPECT_EQ(queue, 7u);
  EXPECT_THAT(std::string(r.Finish().message()), HasSubstr("queue=1K"));
}

TEST(OptionReaderTest, Read_EveryType_GivesTheValue) {
  OptionReader r({{"n", "3"}, {"cpus", "0-1"}, {"mode", "b"}, {"s", "x"}});
  int64_t n = 0;
  std::vector<int> cpus;
  int mode = 0;
  std::string s;
  r.ReadInt("n", 1, 5, &n);
  r.ReadCpus("cpus", &cpus);
  r.ReadChoice("mode", {"a", "b"}, &mode);
  r.ReadString("s", &s);
  EXPECT_TRUE(r.Finish().ok());
  EXPECT_EQ(n, 3);
  EXPECT_EQ(cpus.size(), 2u);
  EXPECT_EQ(mode, 1);
  EXPECT_EQ(s, "x");
}

}  // namespace
}  // namespace pulse
