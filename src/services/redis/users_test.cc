#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/testing.h"
#include "services/redis/acl/acl_users.h"

namespace pulse::redis {
namespace {

using ::testing::HasSubstr;

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  for (const absl::string_view word :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ' ')) {
    words.emplace_back(word.data(), word.size());
  }
  return words;
}

bool May(const AclUser& user, std::string_view request) {
  const auto words = Words(request);
  return user.Allows(*FindCommand(words[0]), words);
}

AclUser UserOf(std::string_view words) {
  AclUser user("u");
  EXPECT_EQ(user.Apply(Words(words)), "");
  return user;
}

TEST(UsersTest, UsersFile_GrantsAsWritten) {
  const std::string hash = net::Sha256("pw");
  const auto of_file = net::Users::Parse(
      "# who\n\nuser a on #" + hash +
          " ~* +@read\nuser w on >pw +@read +@write\n"
          "user off off >pw +@all\nuser default off nopass +@all\n"
          "user writer on >pw +@write\nuser exact on >pw ~a* %R~b -@all +get +set (~c +del)\n"
          "user admin on >pw +@admin\n",
      "file", /*any_words=*/true);
  ASSERT_TRUE(of_file.ok()) << of_file.status();
  AclUsers users;
  ASSERT_TRUE(users.Begin(*of_file, "file").ok());
  const AclUsers::User a = users.Check("a", "pw");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(users.Check("a", "px"), nullptr);
  EXPECT_EQ(users.Check("off", "pw"), nullptr);
  EXPECT_EQ(users.Check("nobody", "pw"), nullptr);
  EXPECT_EQ(users.Anonymous(), nullptr);
  for (const char* request : {"get k", "ping", "multi", "client id", "info", "cluster slots"}) {
    EXPECT_TRUE(May(*a, request)) << request;
  }
  for (const char* request :
       {"set k v", "getdel k", "config get *", "client list", "acl setuser x", "flushall"}) {
    EXPECT_FALSE(May(*a, request)) << request;
  }
  EXPECT_TRUE(May(*users.Check("w", "pw"), "incr k"));
  EXPECT_TRUE(May(*users.Check("w", "pw"), "SET k v GET"));
  // What a write tells of the value is only for those who may read.
  const AclUsers::User writer = users.Check("writer", "pw");
  ASSERT_NE(writer, nullptr);
  for (const char* request :
       {"cluster slots", "set get get", "set k v nx", "del k", "append k v"}) {
    EXPECT_TRUE(May(*writer, request)) << request;
  }
  for (const char* request : {"set k v nx Get", "getdel k", "incr k", "get k", "getset k v"}) {
    EXPECT_FALSE(May(*writer, request)) << request;
  }
  const AclUsers::User exact = users.Check("exact", "pw");
  for (const char* request : {"get ab", "set ab 1", "get b", "del c"}) {
    EXPECT_TRUE(May(*exact, request)) << request;
  }
  for (const char* request : {"set b 1", "get c", "del ab", "ping", "mget ab"}) {
    EXPECT_FALSE(May(*exact, request)) << request;
  }
  const AclUsers::User admin = users.Check("admin", "pw");
  EXPECT_TRUE(May(*admin, "config set a b"));
  EXPECT_TRUE(May(*admin, "client kill id 1"));
  EXPECT_FALSE(May(*admin, "get k"));
  for (const char* bad : {"user", "nobody", "user a #12", "user a\nuser a", "",
                          "user a on >pw +@everything", "user a on >pw +get"}) {
    EXPECT_FALSE(net::Users::Parse(bad, "file").ok()) << bad;
  }
  for (const char* bad : {"user a on >pw +@everything", "user a on >pw +fly", "user a (+get"}) {
    const auto read = net::Users::Parse(bad, "file", /*any_words=*/true);
    ASSERT_TRUE(read.ok());
    EXPECT_THAT(users.Begin(*read, "file").message(), HasSubstr("user a: ")) << bad;
  }
  EXPECT_NE(users.Find("w"), nullptr);  // as before
}

TEST(UsersTest, UsersFile_CapitalsAndSelectors_GrantAsWritten) {
  const auto of_file = net::Users::Parse(
      "user w on nopass +@WRITE\nuser last on nopass +@write +@read -@READ\n"
      "user s on nopass +get (+set ~b)\nuser inner on nopass +@read (~b +@write )\n"
      "user gone on >pw ResetPass\nuser default on NOPASS ALLKEYS AllCommands\n",
      "file", /*any_words=*/true);
  ASSERT_TRUE(of_file.ok()) << of_file.status();
  EXPECT_NE(of_file->WithoutPassword(), nullptr);
  AclUsers users;
  ASSERT_TRUE(users.Begin(*of_file, "file").ok());
  for (const char* name : {"w", "last"}) {
    EXPECT_TRUE(May(*users.Find(name), "set k v")) << name;
    EXPECT_FALSE(May(*users.Find(name), "getset k v")) << name;
  }
  // What a selector names are not the user's own keys: of those it has all.
  EXPECT_TRUE(May(*users.Find("s"), "get a"));
  EXPECT_FALSE(May(*users.Find("s"), "set a 1"));
  EXPECT_TRUE(May(*users.Find("inner"), "get a"));
  EXPECT_FALSE(May(*users.Find("inner"), "set a 1"));
  EXPECT_EQ(users.Check("gone", "pw"), nullptr);
  EXPECT_TRUE(users.anonymous_has_all_data());
}

TEST(UsersTest, Save_WhatCouldNotBeReadAgain_IsRefusedAndKeepsTheFile) {
  const testing_util::ScratchPath path("users");
  std::ofstream(path.get()) << "user default on nopass +@all\n";
  AclUsers users;
  ASSERT_TRUE(users.Begin(*net::Users::Load(path.get(), true), path.get()).ok());
  EXPECT_THAT(users.Set("", {"on"}), HasSubstr("empty"));
  ASSERT_EQ(users.Set("x", {"(~foo) +get)"}), "");
  const absl::Status saved = users.Save();
  EXPECT_THAT(std::string(saved.message()), HasSubstr("nothing is saved"));
  EXPECT_TRUE(users.Load().ok());
  EXPECT_EQ(users.Find("x"), nullptr);
  // As many patterns as a user may have, each of a KiB.
  std::vector<std::string> texts;
  for (int i = 0; i < 1024; ++i) texts.push_back(absl::StrCat("~", i, std::string(1100, 'p')));
  ASSERT_EQ(users.Set("many", {texts.begin(), texts.end()}), "");
  ASSERT_TRUE(users.Save().ok());
  EXPECT_TRUE(users.Load().ok());
}

TEST(UsersTest, Save_BesideLeftoverOrThroughALink_KeepsModeAndLink) {
  const testing_util::ScratchPath path("users"), link("users-link"), target("users-target");
  std::ofstream(path.get()) << "user default on nopass +@all\n";
  ASSERT_EQ(chmod(path.get().c_str(), 0600), 0);
  ASSERT_EQ(symlink(path.get().c_str(), link.get().c_str()), 0);
  const std::string fresh = path.get() + ".new";
  AclUsers users;
  ASSERT_TRUE(users.Begin(*net::Users::Load(link.get(), true), link.get()).ok());
  const auto check = [&] {
    EXPECT_TRUE(users.Save().ok());
    struct stat st {};
    ASSERT_EQ(lstat(path.get().c_str(), &st), 0);
    EXPECT_EQ(st.st_mode, S_IFREG | 0600u);
    ASSERT_EQ(lstat(link.get().c_str(), &st), 0);
    EXPECT_TRUE(S_ISLNK(st.st_mode));
    EXPECT_NE(lstat(fresh.c_str(), &st), 0);
  };
  check();
  std::ofstream(fresh) << "left";  // by a crash, for all to read
  check();
  ASSERT_EQ(symlink(target.get().c_str(), fresh.c_str()), 0);
  check();
  struct stat st {};
  EXPECT_NE(stat(target.get().c_str(), &st), 0);
}

TEST(UsersTest, Rules_AllowAsRedisDoes) {
  struct Case {
    const char* rules;
    std::vector<const char*> allowed;
    std::vector<const char*> denied;
  };
  const Case cases[] = {
      {"+@all ~*", {"get k", "flushall", "acl list"}, {"subscribe x"}},
      {"+@all ~* &x", {"subscribe x"}, {"subscribe x y"}},
      {"+@all", {"ping", "dbsize"}, {"get k", "exists k"}},
      {"+get ~a* %R~b* %W~c*", {"get a", "get b1", "auth x"}, {"get c", "set a 1", "ping"}},
      {"+@all ~a %W~b %R~c",
       {"exists a b c", "rename a b", "copy c b", "bitop and b a c", "set b 1",
        "bitfield c get u8 0", "setrange b 0 x", "lcs a c", "bitop not b c"},
       {"exists a d", "rename b a", "copy b c", "bitop and c a", "set b 1 get",
        "bitfield c set u8 0 1", "setbit b 1 1", "lcs a b", "touch d"}},
      {"~* +@all -@dangerous -set", {"get a", "append a b"}, {"set a b", "keys *", "config get a"}},
      {"~* +client|id +config|get",
       {"client id", "config get x"},
       {"client list", "config set a b"}},
      {"~* +client -client|kill", {"client list", "client info"}, {"client kill id 3"}},
      {"~* +get (~x +set) (~y +del)", {"get a", "set x 1", "del y"}, {"set y 1", "del x"}},
      {"~a resetkeys ~b +get", {"get b"}, {"get a"}},
      {"+get allkeys nocommands +strlen", {"strlen a"}, {"get a"}},
      {"%rw~a %W~b %R~b +getdel", {"getdel a", "getdel b"}, {"getdel c"}},
  };
  for (const Case& c : cases) {
    const AclUser user = UserOf(c.rules);
    for (const char* request : c.allowed)
      EXPECT_TRUE(May(user, request)) << c.rules << ": " << request;
    for (const char* request : c.denied)
      EXPECT_FALSE(May(user, request)) << c.rules << ": " << request;
  }
}

TEST(UsersTest, UserMadeAgain_HasAnotherId) {
  const testing_util::ScratchPath path("users-ids");
  const char* of_file = "user default on nopass +@all\nuser a on nopass +@all\n";
  std::ofstream(path.get()) << of_file;
  const auto read = net::Users::Parse(of_file, path.get(), /*any_words=*/true);
  ASSERT_TRUE(read.ok());
  AclUsers users;
  ASSERT_TRUE(users.Begin(*read, path.get()).ok());
  const uint64_t first = users.Find("a")->id();
  EXPECT_NE(first, users.Find("default")->id());
  ASSERT_EQ(users.Set("a", Words("off")), "");
  ASSERT_EQ(users.Set("b", Words("on")), "");
  EXPECT_EQ(users.Find("a")->id(), first);
  ASSERT_TRUE(users.Delete("a"));
  ASSERT_EQ(users.Set("a", Words("on")), "");
  const uint64_t second = users.Find("a")->id();
  EXPECT_NE(second, first);
  EXPECT_NE(second, users.Find("b")->id());
  // Who is in the file again stays.
  ASSERT_TRUE(users.Load().ok());
  EXPECT_EQ(users.Find("a")->id(), second);
  EXPECT_EQ(users.Find("b"), nullptr);
}

TEST(UsersTest, Set_ThatMakesNoSense_ChangesNothing) {
  AclUsers users;
  EXPECT_EQ(users.Set("u", Words("on >pw +get ~a")), "");
  const std::string before = users.Find("u")->Describe();
  const uint64_t version = users.version();
  const std::string many(20'000, '(');
  for (const char* words :
       {"+set +nosuch", "off foo", "+set #12", "~x %Z~a", "<other", "+set (+get", "+set (foo)",
        "+client|nosuch", "+@nosuch", "+", "-", "+get|", "%~a", "allkeys ~b", "&* &b", "()x"}) {
    EXPECT_NE(users.Set("u", Words(words)), "") << words;
  }
  EXPECT_NE(users.Set("u", {many}), "");
  EXPECT_NE(users.Set("a b", {}), "");
  EXPECT_NE(users.Set(std::string(300, 'u'), {}), "");
  // What one user has is bounded.
  std::vector<std::string> texts;
  std::vector<std::string_view> patterns;
  for (int i = 0; i < 2000; ++i) texts.push_back(absl::StrCat("~k", i));
  for (const std::string& text : texts) patterns.push_back(text);
  EXPECT_THAT(users.Set("u", patterns), HasSubstr("too many"));
  EXPECT_EQ(users.Find("u")->Describe(), before);
  EXPECT_EQ(users.version(), version);
  EXPECT_EQ(users.Find("a b"), nullptr);
}

// What is saved has the same meaning when it is loaded, whatever the rules.
TEST(UsersTest, RandomRules_SavedAndLoaded_AllowTheSame) {
  std::mt19937_64 random(testing_util::TestSeed());
  const testing_util::ScratchPath path("users");
  const char* const kRules[] = {"on",
                                "off",
                                "nopass",
                                ">a",
                                ">b",
                                "resetpass",
                                "allkeys",
                                "resetkeys",
                                "~a*",
                                "~b",
                                "%R~c*",
                                "%W~c*",
                                "%W~d",
                                "%RW~e",
                                "&*",
                                "&x",
                                "resetchannels",
                                "+@all",
                                "-@all",
                                "+@read",
                                "+@write",
                                "-@write",
                                "-@dangerous",
                                "+@string",
                                "+get",
                                "-get",
                                "+set",
                                "+client",
                                "-client|kill",
                                "+client|id",
                                "-client",
                                "+@connection",
                                "(~f +get)",
                                "(%R~* -@all +@all -set)",
                                "clearselectors",
                                "reset",
                                "+mget",
                                "+acl|whoami"};
  const char* const kRequests[] = {
      "get a1",       "get c1",     "set b 1",  "set c 1",   "set c 1 get",
      "getdel e",     "del a d",    "mget a b", "client id", "client kill id 1",
      "config get x", "ping",       "flushall", "get f",     "rename a d",
      "subscribe x",  "acl whoami", "acl list", "strlen c",  "append d x"};
  for (int round = 0; round < 200; ++round) {
    net::Users empty = net::Users::WithPassword("");
    AclUsers users;
    ASSERT_TRUE(users.Begin(empty, path.get()).ok());
    for (const char* name : {"u", "v"}) {
      std::vector<std::string_view> words;
      for (size_t i = random() % 8; i > 0; --i)
        words.emplace_back(kRules[random() % std::size(kRules)]);
      // Not all go together; then nothing has changed.
      users.Set(name, {});
      users.Set(name, words);
    }
    ASSERT_TRUE(users.Save().ok());
    const std::vector<AclUsers::User> saved = users.List();
    ASSERT_TRUE(users.Load().ok());
    const std::vector<AclUsers::User> loaded = users.List();
    ASSERT_EQ(saved.size(), loaded.size());
    for (size_t i = 0; i < saved.size(); ++i) {
      const std::string text = saved[i]->Describe();
      EXPECT_EQ(loaded[i]->enabled(), saved[i]->enabled());
      EXPECT_EQ(loaded[i]->no_password(), saved[i]->no_password());
      EXPECT_EQ(loaded[i]->may_get_all(), saved[i]->may_get_all());
      EXPECT_EQ(loaded[i]->has_all_data(), saved[i]->has_all_data());
      for (const char* request : kRequests) {
        EXPECT_EQ(May(*loaded[i], request), May(*saved[i], request)) << text << ": " << request;
      }
    }
  }
}

}  // namespace
}  // namespace pulse::redis
