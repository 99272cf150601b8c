// The options of a front: which are needed together, what is wrong with each, and what a director
// gets of them.
#include "services/front/front_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pulse::front {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr OptionSpec kOne = {.name = "--one"};
constexpr OptionSpec kTwo = {.name = "--two"};
const ServiceEntry kFirst = {nullptr, {}, nullptr, &kOne};
const ServiceEntry kSecond = {nullptr, {}, nullptr, &kTwo};
const ServiceEntry* const kEntries[] = {&kEntry, &kFirst, &kSecond};

OptionValues Values(std::vector<std::pair<std::string, std::vector<std::string>>> given) {
  OptionValues values;
  for (auto& [name, list] : given) values.Set(name, std::move(list));
  return values;
}

std::string FrontsError(const OptionValues& values) {
  const absl::Status st = CheckFronts(kEntries, values);
  return std::string(st.message());
}

std::string OptionsError(const OptionValues& values) {
  const auto options = DirectorOptionsOf(values);
  return options.ok() ? "" : std::string(options.status().message());
}

TEST(FrontOptionsTest, CheckFronts_OneOrNone_IsFine) {
  EXPECT_EQ(FrontsError(Values({})), "");
  EXPECT_EQ(FrontsError(Values({{"--one", {"x"}}, {"--serve", {"1"}}, {"--match", {"y"}}})), "");
  EXPECT_EQ(FrontsError(Values({{"--one", {""}}, {"--two", {"x"}}})), "");
}

TEST(FrontOptionsTest, CheckFronts_TwoOrOptionsOfNone_NamesThem) {
  EXPECT_EQ(FrontsError(Values({{"--one", {"x"}}, {"--two", {"x"}}})),
            "--one and --two are two services; run an agent for each");
  for (const char* option : {"--serve", "--serve-host"}) {
    EXPECT_EQ(FrontsError(Values({{option, {"1"}}, {"--match", {"client=*"}}})),
              "--serve and --serve-host need --one or --two: what to serve");
  }
  EXPECT_THAT(FrontsError(Values({{"--match", {"client=*"}}})), HasSubstr("--match needs --serve"));
}

TEST(FrontOptionsTest, DirectorOptionsOf_AllGiven_TakesThem) {
  const auto options =
      DirectorOptionsOf(Values({{"--serve", {"9000", "[::1]:1", "/tmp/s", "run/s.sock", "unix:t"}},
                                {"--serve-host", {"./h"}},
                                {"--match", {"client=::1", "protocol=unix"}},
                                {"--serve-spin-us", {"7"}}}));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->listen,
              ElementsAre("127.0.0.1:9000", "[::1]:1", "unix:/tmp/s", "unix:run/s.sock", "unix:t"));
  EXPECT_EQ(options->host, "unix:./h");
  EXPECT_THAT(options->match, ElementsAre("client=::1", "protocol=unix"));
  EXPECT_EQ(options->spin_nanos, 7000);
}

TEST(FrontOptionsTest, DirectorOptionsOf_WrongOrMissing_NamesTheOption) {
  const std::vector<std::string> host = {"127.0.0.1:1"};
  EXPECT_THAT(OptionsError(Values({{"--serve-host", host}})),
              HasSubstr("needs --serve [ADDRESS:]"));
  EXPECT_THAT(OptionsError(Values({{"--serve", {"1"}}})), HasSubstr("--serve-host ADDRESS:PORT"));
  EXPECT_THAT(OptionsError(Values({{"--serve", {"1", ""}}, {"--serve-host", host}})),
              HasSubstr("--serve: expected"));
  EXPECT_THAT(OptionsError(Values({{"--serve", {"127.0.0.1:x"}}, {"--serve-host", host}})),
              HasSubstr("--serve 127.0.0.1:x: "));
  EXPECT_THAT(OptionsError(Values({{"--serve", {"0.0.0.0:1"}}, {"--serve-host", host}})),
              HasSubstr("--serve-anywhere"));
  EXPECT_EQ(OptionsError(Values(
                {{"--serve", {"0.0.0.0:1"}}, {"--serve-host", host}, {"--serve-anywhere", {}}})),
            "");
  EXPECT_THAT(OptionsError(Values({{"--serve", {"1"}}, {"--serve-host", {"nowhere"}}})),
              HasSubstr("--serve-host nowhere: "));
  EXPECT_THAT(OptionsError(Values({{"--serve", {"1"}},
                                   {"--serve-host", host},
                                   {"--match", {"client=*", "client=10.1.0.0/8"}}})),
              HasSubstr("--match client=10.1.0.0/8: "));
}

TEST(FrontOptionsTest, DirectorOptionsWithoutHost_TakesNone) {
  const auto options = DirectorOptionsWithoutHost(Values({{"--serve", {"9000"}}}));
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(options->listen, ElementsAre("127.0.0.1:9000"));
  EXPECT_EQ(options->host, "");
  EXPECT_THAT(std::string(DirectorOptionsWithoutHost(Values({})).status().message()),
              HasSubstr("--serve [ADDRESS:]PORT"));
  EXPECT_THAT(std::string(DirectorOptionsWithoutHost(
                              Values({{"--serve", {"1"}}, {"--serve-host", {"127.0.0.1:1"}}}))
                              .status()
                              .message()),
              HasSubstr("--serve-host"));
}

}  // namespace
}  // namespace pulse::front
