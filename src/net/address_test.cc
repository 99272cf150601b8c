#include "net/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
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

// An agent's socket takes no streams, which is not to say that nobody listens.
TEST(ListenTest, UnixPathOfAnotherProgram_StaysItsOwn) {
  const testing_util::ScratchPath path("listen");
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  ASSERT_LT(path.get().size(), sizeof(name.sun_path));
  std::memcpy(name.sun_path, path.c_str(), path.get().size());
  for (const int type : {SOCK_SEQPACKET, SOCK_DGRAM}) {
    {
      const UniqueFd other(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
      ASSERT_EQ(bind(other.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
      if (type == SOCK_SEQPACKET) {
        ASSERT_EQ(listen(other.get(), 1), 0);
      }
      EXPECT_THAT(WhyNot("unix:" + path.get()), HasSubstr("another program"));
      const UniqueFd client(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
      EXPECT_EQ(connect(client.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)), 0);
    }
    std::filesystem::remove(path.get());
  }
  // What a killed server has left is taken.
  { ASSERT_TRUE(Listen(*ParseAddress("unix:" + path.get()), 1).ok()); }
  EXPECT_TRUE(std::filesystem::exists(path.get()));
  EXPECT_TRUE(Listen(*ParseAddress("unix:" + path.get()), 1).ok());
}

TEST(ListenTest, AddressOfAnotherMachine_IsRefused) {
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
