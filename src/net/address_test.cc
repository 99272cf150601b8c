#include "net/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/testing.h"

namespace pulse::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string WhyNot(const std::string& address) {
  const auto parsed = ParseAddress(address);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  const auto listening = Listen(*parsed, 1);
  EXPECT_FALSE(listening.ok());
  return std::string(listening.status().message());
}

TEST(ListenTest, UnixPathThatCannotBe_RemedyIsAboutThePath) {
  const testing_util::ScratchPath path("listen");
  std::ofstream(path.get()) << "a file, worth keeping";
  EXPECT_THAT(WhyNot("unix:" + path.get()), AllOf(HasSubstr("no socket"), Not(HasSubstr("port"))));
  EXPECT_TRUE(std::filesystem::exists(path.get()));
  std::filesystem::remove(path.get());
  EXPECT_THAT(WhyNot(absl::StrCat("unix:", path.get(), "/none/socket")),
              HasSubstr("make the directory"));
}

TEST(ListenTest, AddressOfAnotherMachine_IsSaid) {
  EXPECT_THAT(WhyNot("192.0.2.1:0"), HasSubstr("no such address"));
}

TEST(ParseBindTest, AddressesAndNames_AreTaken) {
  for (const char* bind : {"127.0.0.1", "localhost", "::", "[::1]", "0.0.0.0"}) {
    const auto address = ParseBind(bind, 7);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->port(), 7);
  }
}

TEST(ParseBindTest, StarOrNoAddress_IsRefusedWithARemedy) {
  const auto why = [](const char* bind) { return testing_util::Text(ParseBind(bind, 7).status()); };
  EXPECT_THAT(why("*"), HasSubstr("0.0.0.0"));
  EXPECT_THAT(why(""), HasSubstr("no address"));
  EXPECT_THAT(why("nonsense."),
              AllOf(HasSubstr("--bind nonsense.: "), Not(HasSubstr("HOST:PORT"))));
}

}  // namespace
}  // namespace pulse::net
