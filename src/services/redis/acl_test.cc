// ACL of a running server: changes take effect on connections that there are.
#include <gmock/gmock.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/testing.h"
#include "services/redis/commands/command_suite.h"
#include "services/redis/test_server.h"

namespace pulse::redis {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class AclTest : public ServerTest {
 protected:
  // Nobody else answers reads.
  AclTest() { options_.host_socket.clear(); }
  // A client of a new user with these rules.
  BlockingClient User(BlockingClient* boss, const std::string& name, const std::string& rules) {
    EXPECT_EQ(boss->Ask(absl::StrCat("ACL SETUSER ", name, " on nopass ", rules)), "+OK\r\n");
    BlockingClient client(port());
    EXPECT_EQ(client.Ask(absl::StrCat("AUTH ", name, " any")), "+OK\r\n");
    return client;
  }
};

TEST_F(AclTest, Change_TakesEffectAtTheNextCommand_AlsoOfPipelines) {
  Open();
  BlockingClient boss(port());
  BlockingClient client = User(&boss, "u", "~* +@all");
  std::string pipeline;
  for (int i = 0; i < 20; ++i) absl::StrAppend(&pipeline, "SET a", i, " 1\r\nGET b\r\n");
  const auto ask = [&](const std::string& set, const std::string& get) {
    client.Send(pipeline);
    for (int i = 0; i < 20; ++i) {
      EXPECT_THAT(client.Receive(), StartsWith(set));
      EXPECT_THAT(client.Receive(), StartsWith(get));
    }
    // Of those that go together.
    client.Send("GET b\r\nGET b\r\nGET b\r\nSET a1 2\r\nSET a2 2\r\nSET a3 2\r\n");
    for (int i = 0; i < 6; ++i) EXPECT_THAT(client.Receive(), StartsWith(i < 3 ? get : set));
  };
  ask("+OK", "$-1");
  EXPECT_EQ(boss.Ask("ACL SETUSER u -get"), "+OK\r\n");
  ask("+OK", "-NOPERM");
  EXPECT_EQ(boss.Ask("ACL SETUSER u +get resetkeys ~b*"), "+OK\r\n");
  ask("-NOPERM", "$-1");
  EXPECT_EQ(boss.Ask("ACL SETUSER u %R~a* %W~a*"), "+OK\r\n");
  ask("+OK", "$-1");
  EXPECT_EQ(boss.Ask("ACL SETUSER u off"), "+OK\r\n");
  ask("+OK", "$-1");  // who is there stays
  EXPECT_THAT(BlockingClient(port()).Ask("AUTH u any"), StartsWith("-WRONGPASS"));
}

// Who only listens sends no command at which it would be refused.
TEST_F(AclTest, ChannelTakenAway_ItsSubscribersAlone_LoseTheirConnections) {
  Open();
  BlockingClient boss(port());
  BlockingClient hears = User(&boss, "u", "~* +@all &*");
  BlockingClient does_not = User(&boss, "u", "~* +@all &*");
  BlockingClient other = User(&boss, "v", "~* +@all &*");
  for (BlockingClient* client : {&hears, &other}) {
    EXPECT_THAT(client->Ask("SUBSCRIBE __redis__:invalidate"), StartsWith("*3"));
  }
  // As in Redis, only the channel counts.
  EXPECT_EQ(boss.Ask("ACL SETUSER u -@all +ping +subscribe"), "+OK\r\n");
  EXPECT_THAT(hears.Ask("PING"), StartsWith("*2"));
  EXPECT_EQ(boss.Ask("ACL SETUSER u resetchannels &other (&__redis__:*)"), "+OK\r\n");
  EXPECT_THAT(hears.Ask("PING"), StartsWith("*2"));
  EXPECT_EQ(boss.Ask("ACL SETUSER u clearselectors"), "+OK\r\n");
  ASSERT_THAT(boss.Ask("CLIENT LIST TYPE pubsub"), Not(HasSubstr("user=u")));
  EXPECT_EQ(hears.ReadAll(), "");
  EXPECT_EQ(does_not.Ask("PING"), "+PONG\r\n");
  EXPECT_THAT(other.Ask("PING"), StartsWith("*2"));
  // One's own, after the reply.
  EXPECT_THAT(boss.Ask("HELLO 3"), StartsWith("%7"));
  EXPECT_THAT(boss.Ask("SUBSCRIBE __redis__:invalidate"), StartsWith(">3"));
  boss.Send("ACL SETUSER default resetchannels\r\n");
  EXPECT_EQ(boss.ReadAll(), "+OK\r\n");
}

constexpr char kDenied[] =
    "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC "
    "call. This command is no longer allowed for the following reason: no permission ";

// Each command by itself, as in Redis.
TEST_F(AclTest, Exec_RulesChangedSinceMulti_RefusesDeniedCommands) {
  Open();
  BlockingClient boss(port());
  BlockingClient client = User(&boss, "u", "~* +@all");
  EXPECT_EQ(client.Ask("MULTI"), "+OK\r\n");
  EXPECT_EQ(client.Ask("SET k 1"), "+QUEUED\r\n");
  EXPECT_EQ(client.Ask("GET k"), "+QUEUED\r\n");
  EXPECT_EQ(boss.Ask("ACL SETUSER u -set"), "+OK\r\n");
  EXPECT_EQ(client.Ask("EXEC"),
            absl::StrCat("*2\r\n", kDenied, "to execute the command or subcommand\r\n$-1\r\n"));
  EXPECT_THAT(PlainReply(boss.Ask("ACL LOG")),
              HasSubstr("$6 reason $7 command $7 context $5 multi $6 object $3 set"));
  // It is no call.
  EXPECT_THAT(boss.Ask("INFO commandstats"),
              AllOf(HasSubstr("cmdstat_get:calls=1,"), Not(HasSubstr("cmdstat_set:"))));
  // At once, of what is still to be queued.
  EXPECT_EQ(client.Ask("MULTI"), "+OK\r\n");
  EXPECT_EQ(client.Ask("GET k"), "+QUEUED\r\n");
  EXPECT_EQ(boss.Ask("ACL SETUSER u resetkeys ~a"), "+OK\r\n");
  EXPECT_THAT(client.Ask("GET k"), StartsWith("-NOPERM this user"));
  EXPECT_THAT(client.Ask("EXEC"), StartsWith("-EXECABORT"));
  EXPECT_EQ(client.Ask("MULTI"), "+OK\r\n");
  EXPECT_EQ(client.Ask("GET a"), "+QUEUED\r\n");
  EXPECT_EQ(boss.Ask("ACL SETUSER u resetkeys ~k"), "+OK\r\n");
  EXPECT_EQ(client.Ask("EXEC"), absl::StrCat("*1\r\n", kDenied, "to touch the specified keys\r\n"));
  // EXEC itself, and with it the transaction.
  EXPECT_EQ(client.Ask("MULTI"), "+OK\r\n");
  EXPECT_EQ(boss.Ask("ACL SETUSER u -exec"), "+OK\r\n");
  EXPECT_EQ(client.Ask("EXEC"),
            "-EXECABORT Transaction discarded because of: NOPERM this user has no permissions to "
            "run the 'exec' command\r\n");
  EXPECT_EQ(boss.Ask("ACL SETUSER u +exec"), "+OK\r\n");
  EXPECT_THAT(client.Ask("EXEC"), StartsWith("-ERR EXEC without MULTI"));
  EXPECT_EQ(client.Ask("MULTI"), "+OK\r\n");
  EXPECT_EQ(client.Ask("GET k"), "+QUEUED\r\n");
  EXPECT_EQ(boss.Ask("ACL SETUSER u +set"), "+OK\r\n");
  EXPECT_EQ(client.Ask("EXEC"), "*1\r\n$-1\r\n");
}

TEST_F(AclTest, TransactionThatChangesItsOwnRules_IsHeldToThem) {
  Open();
  BlockingClient boss(port());
  BlockingClient client = User(&boss, "u", "~* +@all");
  for (const char* line : {"MULTI", "SET k 1", "ACL SETUSER u -set", "SET k 2", "GET k"}) {
    client.Ask(line);
  }
  EXPECT_EQ(client.Ask("EXEC"),
            absl::StrCat("*4\r\n+OK\r\n+OK\r\n", kDenied,
                         "to execute the command or subcommand\r\n$1\r\n1\r\n"));
  // Nobody may do anything.
  for (const char* line : {"MULTI", "ACL DELUSER u", "GET k"}) client.Ask(line);
  client.Send("EXEC\r\n");
  EXPECT_THAT(client.ReadAll(), StartsWith("*2\r\n:1\r\n-NOPERM"));
}

// Within an instant, so that its connections have seen nothing of it.
TEST_F(AclTest, User_DeletedAndCreatedAgain_LosesItsOldConnections) {
  Open();
  BlockingClient boss(port());
  BlockingClient idle = User(&boss, "u", "~* +@all");
  BlockingClient busy = User(&boss, "u", "~* +@all");
  BlockingClient other = User(&boss, "v", "~* +@all");
  for (const char* line : {"MULTI", "ACL DELUSER u", "ACL SETUSER u on nopass ~* +@all"}) {
    boss.Ask(line);
  }
  EXPECT_EQ(boss.Ask("EXEC"), "*2\r\n:1\r\n+OK\r\n");
  EXPECT_EQ(idle.ReadAll(), "");
  EXPECT_EQ(busy.ReadAll(), "");
  EXPECT_EQ(other.Ask("PING"), "+PONG\r\n");
  BlockingClient fresh(port());
  EXPECT_EQ(fresh.Ask("AUTH u any"), "+OK\r\n");
  EXPECT_EQ(boss.Ask("ACL SETUSER u +@all"), "+OK\r\n");
  EXPECT_EQ(fresh.Ask("PING"), "+PONG\r\n");
}

TEST_F(AclTest, Transaction_OfAnotherUser_IsNotCarriedOut) {
  Open();
  BlockingClient boss(port());
  BlockingClient low = User(&boss, "low", "~a +get +multi +exec");
  BlockingClient client(port());
  EXPECT_EQ(client.Ask("MULTI"), "+OK\r\n");
  EXPECT_EQ(client.Ask("GET secret"), "+QUEUED\r\n");
  EXPECT_EQ(client.Ask("AUTH low any"), "+OK\r\n");
  EXPECT_EQ(client.Ask("EXEC"), absl::StrCat("*1\r\n", kDenied, "to touch the specified keys\r\n"));
}

TEST_F(AclTest, SlowLog_HasNothingOfUsers) {
  Open();
  BlockingClient boss(port());
  EXPECT_EQ(boss.Ask("CONFIG SET slowlog-log-slower-than 0"), "+OK\r\n");
  EXPECT_EQ(boss.Ask("ACL SETUSER bob on >topsecret ~hidden"), "+OK\r\n");
  EXPECT_EQ(boss.Ask("ACL DELUSER bob"), ":1\r\n");
  const std::string log = PlainReply(boss.Ask("SLOWLOG GET"));
  EXPECT_THAT(log, HasSubstr("$3 ACL $7 SETUSER $10 (redacted)"));
  for (const char* word : {"bob", "topsecret", "hidden"}) EXPECT_THAT(log, Not(HasSubstr(word)));
}

TEST_F(AclTest, DefaultUser_PasswordRemoved_ServesClientsWithoutLogon) {
  options_.password = "secret";
  Open();
  BlockingClient boss(port());
  BlockingClient stranger(port());
  EXPECT_THAT(stranger.Ask("GET k"), StartsWith("-NOAUTH"));
  EXPECT_EQ(boss.Ask("AUTH secret"), "+OK\r\n");
  EXPECT_EQ(boss.Ask("ACL SETUSER default nopass"), "+OK\r\n");
  EXPECT_EQ(stranger.Ask("GET k"), "$-1\r\n");
}

TEST_F(AclTest, UserThatIsDeleted_LosesItsConnections) {
  Open();
  BlockingClient boss(port());
  BlockingClient one = User(&boss, "u", "~* +@all");
  BlockingClient other = User(&boss, "v", "~* +@all");
  // A user that is set up anew stays who it was.
  EXPECT_EQ(boss.Ask("ACL SETUSER u reset on nopass ~* &* +@all"), "+OK\r\n");
  EXPECT_EQ(boss.Ask("ACL SETUSER default reset on nopass ~* &* +@all"), "+OK\r\n");
  EXPECT_EQ(boss.Ask("PING"), "+PONG\r\n");
  EXPECT_EQ(one.Ask("PING"), "+PONG\r\n");
  BlockingClient hears(port());
  EXPECT_EQ(hears.Ask("AUTH u any"), "+OK\r\n");
  EXPECT_THAT(hears.Ask("SUBSCRIBE __redis__:invalidate"), StartsWith("*3"));
  BlockingClient idle = User(&boss, "u", "");
  EXPECT_EQ(boss.Ask("ACL DELUSER u nobody"), ":1\r\n");
  EXPECT_EQ(one.ReadAll(), "");
  EXPECT_EQ(hears.ReadAll(), "");
  EXPECT_EQ(idle.ReadAll(), "");
  EXPECT_EQ(other.Ask("GET k"), "$-1\r\n");
  EXPECT_THAT(boss.Ask("ACL DELUSER default"), HasSubstr("cannot be removed"));
  EXPECT_EQ(other.Ask("ACL DELUSER v"), ":1\r\n");
  EXPECT_EQ(other.ReadAll(), "");
  EXPECT_EQ(boss.Ask("ACL USERS"), "*1\r\n$7\r\ndefault\r\n");
}

TEST_F(AclTest, Denials_AreInTheLog) {
  Open();
  BlockingClient boss(port());
  BlockingClient client = User(&boss, "u", "~a +get +subscribe");
  EXPECT_THAT(client.Ask("GET b"), StartsWith("-NOPERM"));
  EXPECT_THAT(client.Ask("CLIENT LIST"), HasSubstr("run the 'client|list' command"));
  EXPECT_THAT(client.Ask("SUBSCRIBE c"), StartsWith("-NOPERM"));
  const std::string log = PlainReply(boss.Ask("ACL LOG"));
  EXPECT_THAT(log, HasSubstr("$6 reason $3 key $7 context $8 toplevel $6 object $1 b"));
  EXPECT_THAT(log,
              HasSubstr("$6 reason $7 command $7 context $8 toplevel $6 object $11 client|list"));
  EXPECT_THAT(log, HasSubstr("$6 reason $7 channel $7 context $8 toplevel $6 object $1 c"));
}

TEST_F(AclTest, File_IsSavedAndLoaded_AndABadOneChangesNothing) {
  const testing_util::ScratchPath users("acl-users");
  std::ofstream(users.get()) << "user default on nopass +@all\nuser u on >pw ~a +get\n";
  options_.users_file = users.get();
  Open();
  BlockingClient boss(port());
  BlockingClient u(port());
  EXPECT_EQ(u.Ask("AUTH u pw"), "+OK\r\n");
  EXPECT_EQ(u.Ask("GET a"), "$-1\r\n");
  EXPECT_THAT(u.Ask("GET b"), StartsWith("-NOPERM"));
  EXPECT_EQ(boss.Ask("ACL SETUSER v on >other +ping"), "+OK\r\n");
  EXPECT_EQ(boss.Ask("ACL SAVE"), "+OK\r\n");
  const std::string list = boss.Ask("ACL LIST");
  EXPECT_EQ(boss.Ask("ACL SETUSER w on nopass +@all"), "+OK\r\n");
  BlockingClient w(port());
  EXPECT_EQ(w.Ask("AUTH w x"), "+OK\r\n");
  EXPECT_EQ(boss.Ask("ACL LOAD"), "+OK\r\n");
  EXPECT_EQ(boss.Ask("ACL LIST"), list);
  EXPECT_EQ(w.ReadAll(), "");
  BlockingClient v(port());
  EXPECT_EQ(v.Ask("AUTH v other"), "+OK\r\n");
  EXPECT_EQ(v.Ask("PING"), "+PONG\r\n");
  EXPECT_THAT(v.Ask("ACL WHOAMI"), StartsWith("-NOPERM"));
  EXPECT_EQ(u.Ask("GET a"), "$-1\r\n");
  std::ofstream(users.get()) << "user default on nopass +@all\nuser u on +fly\n";
  EXPECT_THAT(boss.Ask("ACL LOAD"), HasSubstr("user u: "));
  EXPECT_EQ(boss.Ask("ACL LIST"), list);
  server_.reset();
  EXPECT_THAT(std::string(Server::Open(options_).status().message()), HasSubstr("user u: "));
}

TEST_F(AclTest, AgentThatAnswersReads_KnowsTheUsersOfTheStartAlone) {
  OpenWithAgent();
  BlockingClient boss(port());
  for (const char* sub : {"SETUSER x on", "DELUSER x", "LOAD", "SAVE"}) {
    EXPECT_THAT(boss.Ask(absl::StrCat("ACL ", sub)), HasSubstr("' here: the agent"));
  }
  server_.reset();
  const testing_util::ScratchPath users("agent-users");
  options_.users_file = users.get();
  for (const char* rules : {"~a +@read", "-@all +get", "+@read -mget", "-@all (~* +get)"}) {
    std::ofstream(users.get()) << "user default on nopass +@all\nuser u on >pw " << rules << "\n";
    EXPECT_THAT(std::string(Server::Open(options_, EmbeddedOffload()).status().message()),
                HasSubstr("user u may read some keys"))
        << rules;
  }
  for (const char* rules : {"+@read", "-@all +set ~x", "+@write", "-@all"}) {
    std::ofstream(users.get()) << "user default on nopass +@all\nuser u on >pw " << rules << "\n";
    OpenWithAgent();
    server_.reset();
  }
}

}  // namespace
}  // namespace pulse::redis
