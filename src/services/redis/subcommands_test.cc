// What the server says of commands and subcommands, in the words of redis-server 7.0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "services/redis/commands/command_suite.h"
#include "services/redis/test_server.h"

namespace pulse::redis {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class SubcommandsTest : public ServerTest {
 protected:
  // Nobody else answers reads.
  SubcommandsTest() { options_.host_socket.clear(); }
};

// One name, many times, would make a reply of any size.
TEST_F(SubcommandsTest, CommandInfo_OfMoreNamesThanThereAre_IsRefused) {
  Open();
  BlockingClient client(port());
  std::string few;
  for (int i = 0; i < 150; ++i) few += " get";
  std::string many;
  for (int i = 0; i < 300; ++i) many += " get";
  for (const std::string sub : {"info", "docs"}) {
    EXPECT_THAT(client.Ask("command " + sub + many), StartsWith("-ERR more than "));
    EXPECT_THAT(client.Ask("command " + sub + few), StartsWith("*"));
  }
}

TEST_F(SubcommandsTest, Acl_WrongArguments_ReturnsAnError) {
  Open();
  BlockingClient client(port());
  EXPECT_EQ(client.Ask("ACL CAT a b"),
            "-ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.\r\n");
  EXPECT_EQ(client.Ask("ACL genpass 1 2"),
            "-ERR unknown subcommand or wrong number of arguments for 'genpass'. Try ACL "
            "HELP.\r\n");
  EXPECT_EQ(client.Ask("ACL SETUSER u +config|get|appendonly"),
            "-ERR Error in ACL SETUSER modifier '+config|get|appendonly': Allowing first-arg of a "
            "subcommand is not supported\r\n");
  EXPECT_THAT(client.Ask("ACL SETUSER u -config|get|appendonly"), HasSubstr("Unknown command"));
  EXPECT_THAT(client.Ask("ACL SETUSER u +config|got|appendonly"), HasSubstr("Unknown command"));
}

TEST_F(SubcommandsTest, Help_OfEachCommandThatHasSome_NamesThem) {
  Open();
  BlockingClient client(port());
  for (const std::string name :
       {"ACL", "CLIENT", "COMMAND", "CONFIG", "LATENCY", "MEMORY", "OBJECT", "SLOWLOG"}) {
    const std::string help = client.Ask(name + " HELP");
    EXPECT_THAT(help, StartsWith("*"));
    EXPECT_THAT(help, HasSubstr("\r\n+" + name +
                                " <subcommand> [<arg> [value] [opt] ...]. "
                                "Subcommands are:\r\n+"));
    EXPECT_THAT(help, EndsWith("\r\n+HELP\r\n+    Prints this help.\r\n"));
    std::string lower = name;
    for (char& c : lower) c = static_cast<char>(tolower(c));
    const std::string error = "-ERR wrong number of arguments for '" + lower + "|help' command\r\n";
    EXPECT_EQ(client.Ask(name + " help x"), error);
    EXPECT_EQ(client.Ask("MULTI"), "+OK\r\n");
    EXPECT_EQ(client.Ask(name + " HELP"), "+QUEUED\r\n");
    EXPECT_EQ(client.Ask("EXEC"), "*1\r\n" + help);
  }
  EXPECT_THAT(client.Ask("OBJECT HELP"), HasSubstr("\r\n+ENCODING <key>\r\n+    "));
}

TEST_F(SubcommandsTest, CommandList_HasSubcommands_AlsoOfPatternsAndCategories) {
  Open();
  BlockingClient client(port());
  const std::string all = PlainReply(client.Ask("COMMAND LIST"));
  for (const char* name : {" client ", " client|list ", " config|get ", " cluster|info "}) {
    EXPECT_THAT(all, HasSubstr(name));
  }
  EXPECT_THAT(all, Not(HasSubstr("pulse.")));
  EXPECT_EQ(PlainReply(client.Ask("COMMAND LIST FILTERBY PATTERN Memory|*s")),
            "*2 $19 memory|malloc-stats $12 memory|stats");
  EXPECT_EQ(PlainReply(client.Ask("COMMAND LIST FILTERBY PATTERN config|g*")), "*1 $10 config|get");
  EXPECT_THAT(PlainReply(client.Ask("COMMAND LIST FILTERBY ACLCAT keyspace")),
              HasSubstr(" object|freq "));
}

TEST_F(SubcommandsTest, CommandInfoAndDocs_OfASubcommand_AreAnswered) {
  Open();
  BlockingClient client(port());
  EXPECT_EQ(PlainReply(client.Ask("COMMAND INFO Memory|Usage config|get client|nosuch get|x |")),
            "*5 "
            "*10 $12 memory|usage :-3 *1 +readonly :2 :2 :1 *2 +@read +@slow *0 *0 *0 "
            "*10 $10 config|get :-3 *1 +admin :0 :0 :0 *3 +@admin +@slow +@dangerous *0 *0 *0 "
            "$-1 $-1 $-1");
  EXPECT_EQ(PlainReply(client.Ask("COMMAND DOCS config|get config|nosuch")),
            "*2 $10 config|get *4 $7 summary $9 Settings. $5 group $6 server");
  // Those of a command are within it.
  EXPECT_THAT(PlainReply(client.Ask("COMMAND INFO memory")), HasSubstr("*10 $12 memory|stats :2 "));
  EXPECT_THAT(PlainReply(client.Ask("COMMAND DOCS memory")),
              HasSubstr("$11 subcommands *12 $13 memory|doctor *4 $7 summary"));
  EXPECT_THAT(client.Ask("COMMAND INFO watch"), Not(HasSubstr("readonly")));
}

}  // namespace
}  // namespace pulse::redis
