#include "services/redis/users.h"

#include <gtest/gtest.h>

#include <string>

#include "services/redis/commands.h"

namespace pulse::redis {
namespace {

TEST(UsersTest, Parse_UsersFile_GrantsAsWritten) {
  const std::string hash = Sha256("pw");
  const auto users = Users::Parse("# who\n\nuser a on #" + hash +
                                      " ~* +@read\nuser w on >pw +@read +@write\n"
                                      "user off off >pw +@all\nuser default off nopass +@all\n"
                                      "user writer on >pw +@write\n",
                                  "file");
  ASSERT_TRUE(users.ok()) << users.status();
  const User* a = users->Check("a", "pw");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(users->Check("a", "px"), nullptr);
  EXPECT_EQ(users->Check("off", "pw"), nullptr);
  EXPECT_EQ(users->Check("nobody", "pw"), nullptr);
  EXPECT_EQ(users->Anonymous(), nullptr);
  EXPECT_TRUE(a->May(*FindCommand("get")));
  EXPECT_TRUE(a->May(*FindCommand("ping")));
  EXPECT_FALSE(a->May(*FindCommand("set")));
  EXPECT_FALSE(a->May(*FindCommand("getdel")));
  EXPECT_FALSE(a->May(*FindCommand("config")));
  EXPECT_TRUE(users->Check("w", "pw")->May(*FindCommand("incr")));
  // What SET's option GET tells is only for those who may read.
  const User* writer = users->Check("writer", "pw");
  ASSERT_NE(writer, nullptr);
  const CommandInfo& set = *FindCommand("set");
  EXPECT_TRUE(writer->May(*FindCommand("cluster")));
  EXPECT_TRUE(writer->May(set, {"set", "get", "get"}));
  EXPECT_TRUE(writer->May(set, {"set", "k", "v", "nx"}));
  EXPECT_FALSE(writer->May(set, {"set", "k", "v", "nx", "Get"}));
  EXPECT_FALSE(a->May(set, {"set", "k", "v", "get"}));
  EXPECT_TRUE(users->Check("w", "pw")->May(set, {"SET", "k", "v", "GET"}));
  for (const char* bad :
       {"user", "nobody", "user a on >pw +@everything", "user a #12", "user a\nuser a", ""}) {
    EXPECT_FALSE(Users::Parse(bad, "file").ok()) << bad;
  }
}

}  // namespace
}  // namespace pulse::redis
