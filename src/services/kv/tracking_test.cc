// CLIENT TRACKING, PAUSE and REPLY of the in-memory store, by its sockets. The forms of replies are
// redis-server's 7.0.15.
#include "services/redis/tracking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <future>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/testing.h"
#include "services/kv/test_executor.h"
#include "services/kv/test_server.h"
#include "services/redis/commands/command_suite.h"

namespace pulse::kv {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing_util::Eventually;

std::string Invalid(const std::vector<std::string>& keys) {
  std::string text = absl::StrCat(">2\r\n$10\r\ninvalidate\r\n*", keys.size(), "\r\n");
  for (const std::string& key : keys) absl::StrAppend(&text, "$", key.size(), "\r\n", key, "\r\n");
  return text;
}
constexpr char kAllInvalid[] = ">2\r\n$10\r\ninvalidate\r\n_\r\n";

class KvTrackingTest : public KvServerTest {
 protected:
  // A client of version 3 that tracks.
  redis::BlockingClient Tracker(const std::string& options = "") {
    redis::BlockingClient client(port());
    EXPECT_THAT(client.Ask("HELLO 3"), StartsWith("%7"));
    EXPECT_EQ(client.Ask("CLIENT TRACKING ON" + (options.empty() ? "" : " " + options)), "+OK\r\n");
    return client;
  }
  // The client has been told of nothing so far.
  static void ExpectQuiet(redis::BlockingClient* client) {
    EXPECT_EQ(client->Ask("ECHO quiet"), "$5\r\nquiet\r\n");
  }
};

TEST_F(KvTrackingTest, Key_ThatWasRead_IsToldOfOnceWhenItChanges) {
  Open(2);
  redis::BlockingClient client = Tracker();
  redis::BlockingClient writer(port());
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"GET k", "SET k 1"},           {"GET k", "DEL k"},
      {"EXISTS k", "APPEND k x"},     {"STRLEN k", "EXPIRE k 99"},
      {"TTL k", "PEXPIRE k 99000"},   {"MGET other k", "SETRANGE k 1 yy"},
      {"GETRANGE k 0 1", "GETDEL k"}, {"TYPE k", "RENAME new k"},
      {"BITCOUNT k", "INCRBY k 1"}};
  for (const auto& [read, write] : changes) {
    writer.Ask("SET new 5");
    client.Ask(read);
    writer.Ask(write);
    EXPECT_EQ(client.Receive(), Invalid({"k"})) << read << ", " << write;
    writer.Ask("SET k 2");  // it has not read it again
    ExpectQuiet(&client);
  }
  writer.Ask("DEL k");
  // One that did not change anything, and another key.
  client.Ask("GET k");
  writer.Ask("DEL k");
  writer.Ask("SET k2 1");
  ExpectQuiet(&client);
}

// It cannot keep the value, as nobody would tell it of the next change.
TEST_F(KvTrackingTest, Watch_OfAKey_IsNoRead) {
  Open();
  redis::BlockingClient client = Tracker("");
  redis::BlockingClient writer(port());
  EXPECT_EQ(client.Ask("WATCH a"), "+OK\r\n");
  EXPECT_EQ(client.Ask("GET b"), "_\r\n");
  writer.Ask("MSET a 1 b 1");
  EXPECT_EQ(client.Receive(), Invalid({"b"}));
  ExpectQuiet(&client);
}

TEST_F(KvTrackingTest, TransactionWithNoloopReadsWhatItHasWritten_IsToldOfThat) {
  Open(2);
  redis::BlockingClient client = Tracker("NOLOOP");
  for (const char* command : {"MULTI", "SET k 1", "GET k", "GET other", "SET other 1"}) {
    client.Ask(command);
  }
  EXPECT_EQ(client.Ask("EXEC"), "*4\r\n+OK\r\n$1\r\n1\r\n_\r\n+OK\r\n");
  EXPECT_EQ(client.Receive(), Invalid({"k"}));
  ExpectQuiet(&client);
}

// Nobody is told of keys that the rules keep from them; and of what they let through in the end all
// is told.
TEST_F(KvTrackingTest, TransactionWhoseReadsAreDenied_IsNotToldOfThem) {
  Open(2);
  redis::BlockingClient boss(port());
  const auto rules = [&](const std::string& words) {
    EXPECT_EQ(boss.Ask(absl::StrCat("ACL SETUSER u ", words)), "+OK\r\n");
  };
  rules("on nopass ~* +@all");
  for (const std::string options : {"", "NOLOOP"}) {
    rules("~* +@all");
    redis::BlockingClient client = Tracker(options);
    EXPECT_EQ(client.Ask("AUTH u any"), "+OK\r\n");
    for (const char* line : {"MULTI", "GET k", "GET mine"}) client.Ask(line);
    rules("resetkeys ~mine");
    EXPECT_THAT(client.Ask("EXEC"), StartsWith("*2\r\n-NOPERM"));
    boss.Ask("SET k 1");
    ExpectQuiet(&client);
    boss.Ask("SET mine 1");
    EXPECT_EQ(client.Receive(), Invalid({"mine"}));
    // A write that was not let through takes nothing away.
    rules("~*");
    for (const char* line : {"MULTI", "SET k 2", "GET k"}) client.Ask(line);
    rules("-set");
    EXPECT_EQ(client.Ask("EXEC").substr(0, 11), "*2\r\n-NOPERM");
    ExpectQuiet(&client);
    boss.Ask("SET k 3");
    EXPECT_EQ(client.Receive(), Invalid({"k"}));
    // The right comes with the transaction itself.
    rules("resetkeys ~mine +set");
    for (const char* line : {"MULTI", "ACL SETUSER u ~k"}) client.Ask(line);
    rules("~k");
    client.Ask("GET k");
    rules("resetkeys ~mine");
    EXPECT_EQ(client.Ask("EXEC"), "*2\r\n+OK\r\n$1\r\n3\r\n");
    EXPECT_EQ(client.Receive(), Invalid({"k"}));
    boss.Ask("DEL k mine");
    ExpectQuiet(&client);
  }
}

TEST_F(KvTrackingTest, OwnWrite_IsToldOfBehindItsReplyUnlessNoloop) {
  Open();
  redis::BlockingClient client = Tracker();
  redis::BlockingClient other = Tracker("NOLOOP");
  for (redis::BlockingClient* who : {&client, &other}) who->Ask("GET k");
  EXPECT_EQ(other.Ask("SET k 1"), "+OK\r\n");
  EXPECT_EQ(client.Receive(), Invalid({"k"}));
  ExpectQuiet(&other);
  for (redis::BlockingClient* who : {&client, &other}) who->Ask("GET k");
  EXPECT_EQ(client.Ask("SET k 2"), "+OK\r\n");
  EXPECT_EQ(client.Receive(), Invalid({"k"}));
  EXPECT_EQ(other.Receive(), Invalid({"k"}));
  // In a transaction.
  for (const char* line : {"MULTI", "GET a", "SET a 1"}) client.Ask(line);
  EXPECT_EQ(client.Ask("EXEC"), "*2\r\n_\r\n+OK\r\n");
  EXPECT_EQ(client.Receive(), Invalid({"a"}));
}

// What has changed before is told all the same, of the client's own writes, too.
TEST_F(KvTrackingTest, Tracking_TurnedOnAgain_ReportsEarlierChanges) {
  Open();
  redis::BlockingClient client = Tracker();
  client.Ask("SET k 1");
  client.Send("GET k\r\nSET k 2\r\nCLIENT TRACKING ON NOLOOP\r\n");
  EXPECT_EQ(client.Receive(), "$1\r\n1\r\n");
  EXPECT_EQ(client.Receive(), "+OK\r\n");
  EXPECT_EQ(client.Receive(), "+OK\r\n");
  EXPECT_EQ(client.Receive(), Invalid({"k"}));
  client.Send("GET k\r\nSET k 3\r\nCLIENT TRACKING ON\r\n");
  EXPECT_EQ(client.Receive(), "$1\r\n2\r\n");
  EXPECT_EQ(client.Receive(), "+OK\r\n");
  EXPECT_EQ(client.Receive(), "+OK\r\n");
  ExpectQuiet(&client);  // NOLOOP, still
}

TEST_F(KvTrackingTest, Flush_OfAllKeys_IsToldOfToAll) {
  Open(2);
  redis::BlockingClient client = Tracker();
  redis::BlockingClient broadcast = Tracker("BCAST PREFIX a");
  redis::BlockingClient writer(port());
  client.Ask("GET k");
  EXPECT_EQ(writer.Ask("FLUSHALL"), "+OK\r\n");
  EXPECT_EQ(client.Receive(), kAllInvalid);
  EXPECT_EQ(broadcast.Receive(), kAllInvalid);
  EXPECT_THAT(writer.Ask("INFO stats"), HasSubstr("tracking_total_keys:0\r\n"));
}

TEST_F(KvTrackingTest, Broadcast_OfPrefixes_TellsOfTheirKeysAlone) {
  Open(2);
  redis::BlockingClient client = Tracker("BCAST PREFIX a PREFIX b:");
  redis::BlockingClient all = Tracker("BCAST NOLOOP");
  redis::BlockingClient writer(port());
  for (const char* key : {"a", "ab", "b", "b:1", "c"}) {
    writer.Ask(absl::StrCat("SET ", key, " 1"));
    if (key[0] == 'a' || std::string(key) == "b:1") {
      EXPECT_EQ(client.Receive(), Invalid({key}));
    }
    EXPECT_EQ(all.Receive(), Invalid({key}));
  }
  all.Ask("SET own 1");
  ExpectQuiet(&all);
  ExpectQuiet(&client);
  EXPECT_EQ(client.Ask("CLIENT TRACKING ON BCAST PREFIX z"), "+OK\r\n");
  EXPECT_THAT(redis::PlainReply(client.Ask("CLIENT TRACKINGINFO")),
              HasSubstr("prefixes *3 $1 a $2 b: $1 z"));
  EXPECT_THAT(writer.Ask("INFO stats"), HasSubstr("tracking_total_prefixes:4\r\n"));
}

TEST_F(KvTrackingTest, Key_ThatExpiresOrIsEvicted_IsToldOf) {
  Open();
  redis::BlockingClient client = Tracker();
  redis::BlockingClient writer(port());
  writer.Ask("SET k 1 PX 3000");  // which a busy machine must be quicker than
  writer.Ask("SET kept 1 EX 1000");
  client.Send("MGET k kept\r\n");
  client.Receive();
  EXPECT_EQ(client.Receive(), Invalid({"k"}));
  ExpectQuiet(&client);
  // Another expiry takes the place of the first.
  client.Ask("GET kept");
  writer.Ask("PEXPIRE kept 20");
  EXPECT_EQ(client.Receive(), Invalid({"kept"}));
  ASSERT_EQ(writer.Ask("CONFIG SET maxmemory-policy allkeys-random"), "+OK\r\n");
  writer.Ask("SET victim 1");
  client.Ask("GET victim");
  const std::string value(60'000, 'v');
  for (int i = 0; writer.Ask("EXISTS victim") != ":0\r\n"; ++i) {
    ASSERT_LT(i, 1'000'000);
    ASSERT_EQ(writer.Ask(absl::StrCat("SET fill", i, " ", value)), "+OK\r\n");
  }
  EXPECT_EQ(client.Receive(), Invalid({"victim"}));
}

TEST_F(KvTrackingTest, Broadcast_TurnedOnAgainWithoutPrefix_AddsAllKeys) {
  Open();
  redis::BlockingClient client = Tracker("BCAST PREFIX a");
  EXPECT_EQ(client.Ask("CLIENT TRACKING ON BCAST"), "+OK\r\n");
  EXPECT_EQ(client.Ask("CLIENT TRACKING ON BCAST"), "+OK\r\n");
  EXPECT_THAT(redis::PlainReply(client.Ask("CLIENT TRACKINGINFO")),
              HasSubstr("$8 prefixes *2 $0  $1 a"));
  redis::BlockingClient writer(port());
  writer.Ask("SET other 1");
  EXPECT_EQ(client.Receive(), Invalid({"other"}));
  writer.Ask("SET ax 1");  // once for each prefix
  EXPECT_EQ(client.Receive(), Invalid({"ax"}));
  EXPECT_EQ(client.Receive(), Invalid({"ax"}));
  EXPECT_EQ(client.Ask("CLIENT TRACKING ON BCAST PREFIX c"),
            "-ERR Prefix 'c' overlaps with an existing prefix ''. Prefixes for a single client "
            "must not overlap.\r\n");
  ExpectQuiet(&client);
}

// As in Redis, of what it has written itself, too.
TEST_F(KvTrackingTest, Broadcast_KeyThatExpires_IsToldOfWhenTheStoreNotices) {
  Open(2);
  redis::BlockingClient client = Tracker("BCAST PREFIX k");
  redis::BlockingClient own = Tracker("BCAST NOLOOP");
  own.Ask("SET k 1 PX 3000");  // the two events are told of together when they are waiting together
  EXPECT_EQ(client.Receive(), Invalid({"k"}));
  for (redis::BlockingClient* who : {&client, &own}) EXPECT_EQ(who->Receive(), Invalid({"k"}));
  own.Ask("SET other 1 PX 50");
  EXPECT_EQ(own.Receive(), Invalid({"other"}));
  ExpectQuiet(&client);
  ExpectQuiet(&own);
}

TEST_F(KvTrackingTest, Optin_OnlyReadsBehindCaching_AreTold) {
  Open();
  redis::BlockingClient client = Tracker("OPTIN");
  redis::BlockingClient writer(port());
  client.Ask("GET a");
  EXPECT_EQ(client.Ask("CLIENT CACHING YES"), "+OK\r\n");
  EXPECT_THAT(redis::PlainReply(client.Ask("CLIENT TRACKINGINFO")),
              HasSubstr("~3 $2 on $5 optin $11 caching-yes"));
  client.Ask("GET b");
  client.Ask("GET c");  // not any more
  EXPECT_EQ(client.Ask("CLIENT CACHING YES"), "+OK\r\n");
  for (const char* line : {"MULTI", "GET d", "GET e", "EXEC"}) client.Ask(line);
  client.Ask("GET f");
  for (const char* key : {"a", "b", "c", "d", "e", "f"}) {
    writer.Ask(absl::StrCat("SET ", key, " 1"));
    if (std::string("bde").find(key) != std::string::npos) {
      EXPECT_EQ(client.Receive(), Invalid({key}));
    }
    ExpectQuiet(&client);
  }
  redis::BlockingClient out = Tracker("OPTOUT");
  EXPECT_EQ(out.Ask("CLIENT CACHING NO"), "+OK\r\n");
  out.Ask("GET a");
  out.Ask("GET b");
  writer.Ask("MSET a 1 b 1");
  EXPECT_EQ(out.Receive(), Invalid({"b"}));
  ExpectQuiet(&out);
}

// Told at once, of what may have changed since it was read.
TEST_F(KvTrackingTest, TransactionThatBeginsToTrack_IsToldOfWhatItHasRead) {
  Open(2);
  redis::BlockingClient opt_in = Tracker("OPTIN");
  for (const char* line : {"MULTI", "GET before", "CLIENT CACHING YES", "GET k"}) opt_in.Ask(line);
  EXPECT_EQ(opt_in.Ask("EXEC"), "*3\r\n_\r\n+OK\r\n_\r\n");
  EXPECT_EQ(opt_in.Receive(), Invalid({"k"}));
  ExpectQuiet(&opt_in);
  redis::BlockingClient fresh(port());
  EXPECT_THAT(fresh.Ask("HELLO 3"), StartsWith("%"));
  for (const char* line : {"MULTI", "GET before", "CLIENT TRACKING ON", "GET k"}) fresh.Ask(line);
  EXPECT_EQ(fresh.Ask("EXEC"), "*3\r\n_\r\n+OK\r\n_\r\n");
  EXPECT_EQ(fresh.Receive(), Invalid({"k"}));
  ExpectQuiet(&fresh);
  // One that ends meanwhile takes what was remembered with it.
  opt_in.Ask("CLIENT TRACKING OFF");
  for (const char* line : {"MULTI", "CLIENT TRACKING OFF", "CLIENT TRACKING ON", "GET k"}) {
    fresh.Ask(line);
  }
  EXPECT_EQ(fresh.Ask("EXEC"), "*3\r\n+OK\r\n+OK\r\n_\r\n");
  EXPECT_EQ(fresh.Receive(), Invalid({"k"}));
  ExpectQuiet(&fresh);
}

TEST_F(KvTrackingTest, Options_ThatDoNotGoTogether_AreRefusedAsRedisDoes) {
  Open();
  redis::BlockingClient client(port());
  const auto error = [&](const std::string& line) { return client.Ask("CLIENT " + line); };
  EXPECT_THAT(error("TRACKING"),
              StartsWith("-ERR wrong number of arguments for 'client|tracking'"));
  EXPECT_EQ(error("TRACKING x"), "-ERR syntax error\r\n");
  EXPECT_EQ(error("TRACKING ON FOO"), "-ERR syntax error\r\n");
  EXPECT_EQ(error("TRACKING ON PREFIX"), "-ERR syntax error\r\n");
  EXPECT_EQ(error("TRACKING ON OPTIN OPTOUT"),
            "-ERR You can't specify both OPTIN mode and OPTOUT mode\r\n");
  EXPECT_EQ(error("TRACKING ON PREFIX a"),
            "-ERR PREFIX option requires BCAST mode to be enabled\r\n");
  EXPECT_EQ(error("TRACKING ON BCAST PREFIX a PREFIX ab"),
            "-ERR Prefix 'a' overlaps with another provided prefix 'ab'. Prefixes for a single "
            "client must not overlap.\r\n");
  EXPECT_EQ(error("TRACKING ON BCAST OPTIN"),
            "-ERR OPTIN and OPTOUT are not compatible with BCAST\r\n");
  EXPECT_EQ(error("TRACKING ON REDIRECT 999"),
            "-ERR The client ID you want redirect to does not exist\r\n");
  EXPECT_THAT(client.Ask("SUBSCRIBE other"), StartsWith("-ERR publish/subscribe is not served"));
  EXPECT_THAT(error("CACHING yes"), StartsWith("-ERR CLIENT CACHING can be called only when"));
  EXPECT_EQ(error("GETREDIR"), ":-1\r\n");
  EXPECT_EQ(error("TRACKING ON"), "+OK\r\n");
  for (const char* word : {"YES", "NO"}) {
    EXPECT_EQ(
        error(absl::StrCat("CACHING ", word)),
        absl::StrCat("-ERR CLIENT CACHING ", word, " is only valid when tracking is enabled in ",
                     word[0] == 'Y' ? "OPTIN" : "OPTOUT", " mode.\r\n"));
  }
  EXPECT_EQ(error("TRACKING ON OPTIN"), "+OK\r\n");
  EXPECT_EQ(error("GETREDIR"), ":0\r\n");
  EXPECT_EQ(error("CACHING no"),
            "-ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.\r\n");
  EXPECT_EQ(error("CACHING x"), "-ERR syntax error\r\n");
  EXPECT_THAT(error("TRACKING ON BCAST"), StartsWith("-ERR You can't switch BCAST mode on/off"));
  EXPECT_THAT(error("INFO"), HasSubstr(" flags=t "));
  EXPECT_EQ(error("TRACKING OFF"), "+OK\r\n");
  EXPECT_EQ(error("TRACKING ON BCAST PREFIX a"), "+OK\r\n");
  EXPECT_EQ(error("TRACKING ON BCAST PREFIX ab"),
            "-ERR Prefix 'ab' overlaps with an existing prefix 'a'. Prefixes for a single client "
            "must not overlap.\r\n");
  std::string many = "TRACKING ON BCAST";
  for (int i = 0; i < 300; ++i) absl::StrAppend(&many, " PREFIX p", i, ":");
  EXPECT_THAT(error(many), StartsWith("-ERR more than 256 prefixes"));
  EXPECT_EQ(client.Ask("RESET"), "+RESET\r\n");
  EXPECT_EQ(redis::PlainReply(error("TRACKINGINFO")),
            "*6 $5 flags *1 $3 off $8 redirect :-1 $8 prefixes *0");
}

TEST_F(KvTrackingTest, Clients_ThatEnd_AreForgotten) {
  Open();
  redis::BlockingClient writer(port());
  {
    redis::BlockingClient client = Tracker();
    client.Ask("GET k");
    redis::BlockingClient broadcast = Tracker("BCAST");
    EXPECT_THAT(writer.Ask("INFO clients"), HasSubstr("tracking_clients:2\r\n"));
  }
  EXPECT_TRUE(Eventually([&] {
    return writer.Ask("INFO clients").find("tracking_clients:0\r\n") != std::string::npos;
  }));
  EXPECT_EQ(writer.Ask("SET k 1"), "+OK\r\n");
  EXPECT_THAT(writer.Ask("INFO stats"), HasSubstr("tracking_total_keys:0\r\n"));
}

TEST_F(KvTrackingTest, Client_ThatTakesNothing_IsToldOfAllAtLast) {
  Open();
  redis::BlockingClient client = Tracker("BCAST");
  redis::BlockingClient writer(port());
  const std::string key(30'000, 'k');
  std::string requests;
  for (int i = 0; i < 100; ++i) absl::StrAppend(&requests, "SET ", key, i, " 1\r\n");
  for (int round = 0; round < 20; ++round) {
    writer.Send(requests);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(writer.Receive(), "+OK\r\n");
  }
  // 60 MB of names: the rest is one message.
  size_t received = 0;
  std::string message;
  while ((message = client.Receive()) != kAllInvalid) {
    ASSERT_THAT(message, StartsWith(">2\r\n$10\r\ninvalidate\r\n"));
    received += message.size();
  }
  EXPECT_LT(received, size_t{40} << 20);
}

// A client that keeps what it reads until it is told never keeps an old value for good.
TEST_F(KvTrackingTest, Cache_ThatListens_HasWhatTheServerHasInAnyDesign) {
  Open(2);
  std::mt19937_64 random(testing_util::TestSeed());
  for (const char* design : {"cpu", "lat", "sav", "dual", "cpu"}) {
    redis::BlockingClient client = Tracker();
    std::atomic<bool> done{false};
    std::thread writes([&, seed = random()] {
      std::mt19937_64 draw(seed);
      redis::BlockingClient writer(port());
      for (int i = 0; i < 3000; ++i) {
        const std::string key = absl::StrCat("k", draw() % 8);
        std::string pipeline = absl::StrCat("SET ", key, " ", i, "\r\nINCR ", key, "\r\n");
        writer.Send(pipeline);
        writer.Receive();
        writer.Receive();
      }
      done = true;
    });
    ASSERT_TRUE(designs_->Set(design).ok());
    std::map<std::string, std::string> cache;
    const auto drop = [&](const std::string& message) {
      for (int k = 0; k < 8; ++k) {
        const std::string key = absl::StrCat("k", k);
        if (message.find("\r\n" + key + "\r\n") != std::string::npos) cache.erase(key);
      }
    };
    const auto fill = [&](int times) {
      for (int i = 0; i < times; ++i) {
        const std::string key = absl::StrCat("k", random() % 8);
        if (cache.count(key) > 0) continue;
        client.Send("GET " + key + "\r\n");
        std::string reply;
        while ((reply = client.Receive()).starts_with('>')) drop(reply);
        cache[key] = reply;
      }
    };
    while (!done) fill(50);
    writes.join();
    // All that there is to be told comes before the reply to a last request of another
    // connection's.
    std::string reply;
    redis::BlockingClient reader(port());
    EXPECT_TRUE(Eventually([&] {
      client.Send("PING\r\n");
      while ((reply = client.Receive()).starts_with('>')) drop(reply);
      for (const auto& [key, value] : cache) {
        if (reader.Ask("GET " + key) != value) return false;
      }
      return true;
    })) << design;
  }
}

TEST_F(KvTrackingTest, Pause_OfWritesOrAll_HoldsThemUntilItEnds) {
  Open(2);
  redis::BlockingClient admin(port());
  redis::BlockingClient writer(port());
  redis::BlockingClient reader(port());
  for (const char* design : {"cpu", "lat"}) {
    ASSERT_TRUE(designs_->Set(design).ok());
    ASSERT_EQ(admin.Ask("SET k 1"), "+OK\r\n");
    ASSERT_EQ(admin.Ask("CLIENT PAUSE 1000000 WRITE"), "+OK\r\n");
    writer.Send("GET k\r\nSET k 2\r\nGET k\r\n");
    EXPECT_EQ(writer.Receive(), "$1\r\n1\r\n");
    auto waits = std::async(std::launch::async, [&] { return writer.Receive(); });
    EXPECT_EQ(reader.Ask("GET k"), "$1\r\n1\r\n");
    EXPECT_EQ(reader.Ask("MULTI"), "+OK\r\n");
    EXPECT_EQ(reader.Ask("SET k 3"), "+QUEUED\r\n");
    reader.Send("EXEC\r\n");
    auto transaction = std::async(std::launch::async, [&] { return reader.Receive(); });
    EXPECT_TRUE(testing_util::StaysBlocked(waits));
    EXPECT_TRUE(testing_util::StaysBlocked(transaction));
    EXPECT_EQ(admin.Ask("GET k"), "$1\r\n1\r\n");
    EXPECT_EQ(admin.Ask("CLIENT UNPAUSE"), "+OK\r\n");
    EXPECT_EQ(waits.get(), "+OK\r\n");
    EXPECT_EQ(transaction.get(), "*1\r\n+OK\r\n");
    EXPECT_THAT(writer.Receive(), StartsWith("$1\r\n"));

    ASSERT_EQ(admin.Ask("CLIENT PAUSE 1000000"), "+OK\r\n");
    ASSERT_EQ(admin.Ask("CLIENT PAUSE 1 WRITE"), "+OK\r\n");  // stays as strict and as long
    reader.Send("PING\r\n");
    auto ping = std::async(std::launch::async, [&] { return reader.Receive(); });
    EXPECT_TRUE(testing_util::StaysBlocked(ping));
    EXPECT_EQ(admin.Ask("CLIENT UNPAUSE"), "+OK\r\n");
    EXPECT_EQ(ping.get(), "+PONG\r\n");
  }
  // One that ends by itself, with a client that does not wait for it.
  ASSERT_EQ(admin.Ask("CLIENT PAUSE 100 ALL"), "+OK\r\n");
  redis::BlockingClient gone(port());
  gone.Send("PING\r\n");
  gone.Close();
  EXPECT_EQ(reader.Ask("PING"), "+PONG\r\n");
  EXPECT_EQ(admin.Ask("CLIENT PAUSE x"), "-ERR timeout is not an integer or out of range\r\n");
  EXPECT_EQ(admin.Ask("CLIENT PAUSE -1"), "-ERR timeout is negative\r\n");
  EXPECT_EQ(admin.Ask("CLIENT PAUSE 1 FOO"), "-ERR CLIENT PAUSE mode must be WRITE or ALL\r\n");
  // The server ends all the same.
  ASSERT_EQ(admin.Ask("CLIENT PAUSE 9223372036854775807 ALL"), "+OK\r\n");
  reader.Send("PING\r\n");
}

TEST_F(KvTrackingTest, Reply_OffAndSkip_LeavesRepliesOut) {
  Open();
  redis::BlockingClient client(port());
  client.Send(
      "CLIENT REPLY SKIP\r\nSET a 1\r\nGET a\r\nCLIENT REPLY OFF\r\nGET a\r\nGET a\r\nNOSUCH\r\n"
      "CLIENT REPLY SKIP\r\nINCR a\r\nCLIENT REPLY ON\r\nGET a\r\nGET a\r\n"
      "CLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nGET a\r\nPING\r\nCLIENT REPLY SKIP\r\n"
      "CLIENT REPLY ON\r\nCLIENT REPLY x\r\n");
  for (const char* reply : {"$1\r\n1\r\n", "+OK\r\n", "$1\r\n2\r\n", "$1\r\n2\r\n", "+PONG\r\n",
                            "+OK\r\n", "-ERR syntax error\r\n"}) {
    ASSERT_EQ(client.Receive(), reply);
  }
}

TEST_F(KvTrackingTest, ReportsOfMemoryAndLatency_HaveTheFormOfRedis) {
  Open(2);
  redis::BlockingClient client(port());
  ASSERT_EQ(client.Ask("SET k 1"), "+OK\r\n");
  EXPECT_THAT(redis::PlainReply(client.Ask("MEMORY STATS")),
              testing::AllOf(HasSubstr("$14 peak.allocated :"), HasSubstr("$13 dataset.bytes :"),
                             HasSubstr("$9 maxmemory :")));
  EXPECT_EQ(client.Ask("MEMORY PURGE"), "+OK\r\n");
  EXPECT_THAT(client.Ask("MEMORY DOCTOR"), HasSubstr("item_bytes:"));
  EXPECT_THAT(client.Ask("MEMORY MALLOC-STATS"), StartsWith("$"));
  EXPECT_THAT(client.Ask("OBJECT IDLETIME k"), HasSubstr("idle time"));
  EXPECT_THAT(client.Ask("INFO memory"), HasSubstr("used_memory_peak_human:"));
  for (const char* line : {"MULTI", "MEMORY STATS", "MEMORY PURGE", "MEMORY USAGE k"}) {
    client.Ask(line);
  }
  EXPECT_THAT(
      redis::PlainReply(client.Ask("EXEC")),
      testing::AllOf(StartsWith("*3 *"), HasSubstr("$13 dataset.bytes :"), HasSubstr(" +OK :")));
  EXPECT_EQ(client.Ask("LATENCY LATEST"), "*0\r\n");
  EXPECT_EQ(client.Ask("LATENCY HISTORY command"), "*0\r\n");
  EXPECT_EQ(client.Ask("LATENCY RESET"), ":0\r\n");
  EXPECT_EQ(client.Ask("LATENCY GRAPH x"), "-ERR No samples available for event 'x'\r\n");
  EXPECT_THAT(client.Ask("LATENCY DOCTOR"), HasSubstr("SLOWLOG"));
  EXPECT_THAT(client.Ask("LATENCY FOO"), StartsWith("-ERR unknown subcommand 'FOO'"));
}

TEST_F(KvTrackingTest, AclLog_HasWhatWasDenied) {
  Open();
  redis::BlockingClient client(port());
  EXPECT_EQ(client.Ask("ACL LOG"), "*0\r\n");
  for (int i = 0; i < 3; ++i) client.Ask("AUTH nobody secret");
  EXPECT_THAT(redis::PlainReply(client.Ask("ACL LOG")),
              testing::AllOf(StartsWith("*1 *14 $5 count :3 $6 reason $4 auth $7 context $8 "
                                        "toplevel $6 object $4 AUTH $8 username $6 nobody "
                                        "$11 age-seconds "),
                             HasSubstr("client-info"), testing::Not(HasSubstr("secret"))));
  for (int i = 0; i < 200; ++i) client.Ask(absl::StrCat("AUTH nobody", i, " x"));
  EXPECT_THAT(client.Ask("ACL LOG 1000"), StartsWith("*128\r\n"));
  EXPECT_THAT(client.Ask("ACL LOG"), StartsWith("*10\r\n"));
  EXPECT_EQ(client.Ask("ACL LOG -1"), "*0\r\n");
  EXPECT_THAT(client.Ask("ACL LOG x"), StartsWith("-ERR value is not an integer"));
  EXPECT_EQ(client.Ask("ACL LOG RESET"), "+OK\r\n");
  EXPECT_EQ(client.Ask("ACL LOG"), "*0\r\n");
}

}  // namespace
}  // namespace pulse::kv
