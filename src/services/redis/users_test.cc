#include <gtest/gtest.h>

#include <string>

#include "services/redis/permissions.h"

namespace pulse::redis {
namespace {

TEST(UsersTest, Parse_UsersFile_GrantsAsWritten) {
  const std::string hash = net::Sha256("pw");
  const auto users = net::Users::Parse("# who\n\nuser a on #" + hash +
                                           " ~* +@read\nuser w on >pw +@read +@write\n"
                                           "user off off >pw +@all\nuser default off nopass +@all\n"
                                           "user writer on >pw +@write\n",
                                       "file");
  ASSERT_TRUE(users.ok()) << users.status();
  const net::User* a = users->Check("a", "pw");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(users->Check("a", "px"), nullptr);
  EXPECT_EQ(users->Check("off", "pw"), nullptr);
  EXPECT_EQ(users->Check("nobody", "pw"), nullptr);
  EXPECT_EQ(users->Anonymous(), nullptr);
  EXPECT_TRUE(May(*a, *FindCommand("get")));
  EXPECT_TRUE(May(*a, *FindCommand("ping")));
  EXPECT_FALSE(May(*a, *FindCommand("set")));
  EXPECT_FALSE(May(*a, *FindCommand("getdel")));
  EXPECT_FALSE(May(*a, *FindCommand("config")));
  EXPECT_TRUE(May(*users->Check("w", "pw"), *FindCommand("incr")));
  // What SET's option GET tells is only for those who may read.
  const net::User* writer = users->Check("writer", "pw");
  ASSERT_NE(writer, nullptr);
  const CommandInfo& set = *FindCommand("set");
  EXPECT_TRUE(May(*writer, *FindCommand("cluster")));
  EXPECT_TRUE(May(*writer, set, {"set", "get", "get"}));
  EXPECT_TRUE(May(*writer, set, {"set", "k", "v", "nx"}));
  EXPECT_FALSE(May(*writer, set, {"set", "k", "v", "nx", "Get"}));
  EXPECT_FALSE(May(*a, set, {"set", "k", "v", "get"}));
  EXPECT_TRUE(May(*users->Check("w", "pw"), set, {"SET", "k", "v", "GET"}));
  for (const char* bad :
       {"user", "nobody", "user a on >pw +@everything", "user a #12", "user a\nuser a", ""}) {
    EXPECT_FALSE(net::Users::Parse(bad, "file").ok()) << bad;
  }
}

}  // namespace
}  // namespace pulse::redis
