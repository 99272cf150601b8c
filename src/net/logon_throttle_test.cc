#include "net/logon_throttle.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace pulse::net {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class LogonThrottleTest : public testing::Test {
 protected:
  static Users TwoUsers() {
    auto users = Users::Parse("user ann on >right +@all\nuser bob on >own +@read\n", "users");
    EXPECT_TRUE(users.ok()) << users.status();
    return *std::move(users);
  }
  // "in", "wrong" or "wait".
  std::string Try(std::string_view peer, std::string_view name, std::string_view password) {
    const auto user = throttle_.Check(users_, peer, name, password);
    if (!user.ok()) {
      EXPECT_EQ(user.status().code(), absl::StatusCode::kResourceExhausted);
      message_ = std::string(user.status().message());
      return "wait";
    }
    return *user != nullptr ? "in" : "wrong";
  }
  // Until a try has to wait.
  void Guess(std::string_view peer, std::string_view name) {
    for (int i = 0; i < 5; ++i) ASSERT_EQ(Try(peer, name, "guess"), "wrong") << i;
    ASSERT_EQ(Try(peer, name, "guess"), "wait");
  }

  Users users_ = TwoUsers();
  int64_t now_ = 7 * kSecond;
  LogonThrottle throttle_{LogonThrottleOptions(), [this] { return now_; }};
  std::string message_;
};

TEST_F(LogonThrottleTest, WrongPasswords_AfterTheFreeOnes_WaitLongerEachTime) {
  Guess("127.0.0.1:5000", "ann");
  for (const int64_t seconds : {1, 2, 4, 8, 8, 8}) {
    EXPECT_EQ(Try("127.0.0.1:5001", "ann", "right"), "wait");
    EXPECT_EQ(message_, absl::StrCat("too many wrong passwords from this address; try again in ",
                                     seconds, " s"));
    now_ += seconds * kSecond - 1;
    EXPECT_EQ(Try("127.0.0.1:5002", "ann", "guess"), "wait");  // refused unseen: no failure
    now_ += 1;
    EXPECT_EQ(Try("127.0.0.1:5003", "ann", "guess"), "wrong");
  }
}

TEST_F(LogonThrottleTest, RightPassword_AfterTheWait_EndsItAndIsForgotten) {
  Guess("10.0.0.1:1", "ann");
  now_ += kSecond;
  EXPECT_EQ(Try("10.0.0.1:2", "ann", "right"), "in");
  EXPECT_EQ(throttle_.size(), 0u);
  Guess("10.0.0.1:3", "ann");
}

TEST_F(LogonThrottleTest, OtherAddresses_AreNotDelayed) {
  Guess("127.0.0.1:1", "ann");
  for (const char* peer : {"127.0.0.2:1", "10.0.0.1", "[::1]:9", "[2001:db8::1]:9", "a client"}) {
    EXPECT_EQ(Try(peer, "ann", "right"), "in") << peer;
  }
}

// Bob's own password does not let him guess Ann's.
TEST_F(LogonThrottleTest, RightPasswordOfAnother_DoesNotEndTheWait) {
  Guess("10.0.0.1:1", "ann");
  Try("10.0.0.1:1", "bob", "own");
  EXPECT_EQ(Try("10.0.0.1:1", "ann", "guess"), "wait");
}

// Nor do a wrong and a right one, by a name that shares Ann's place.
TEST_F(LogonThrottleTest, RightPasswordOfAnother_InTheSamePlace_DoesNotEndTheWait) {
  std::string text = "user ann on >right +@all\n";
  for (int i = 0; i < 200; ++i) absl::StrAppend(&text, "user own", i, " on >own +@read\n");
  users_ = *Users::Parse(text, "users");
  Guess("10.0.0.1:1", "ann");
  std::string beside;
  for (int i = 0; i < 200 && beside.empty(); ++i) {
    const std::string name = absl::StrCat("own", i);
    if (Try("10.0.0.1:1", name, "own") == "wait") beside = name;
  }
  ASSERT_NE(beside, "");
  now_ += 300 * kSecond;
  int guesses = 0;
  for (int i = 0; i < 100; ++i) {
    guesses += Try("10.0.0.1:1", "ann", "guess") == "wrong";
    Try("10.0.0.1:1", beside, "not my own");
    Try("10.0.0.1:1", beside, "own");
  }
  EXPECT_LE(guesses, 5);
}

TEST_F(LogonThrottleTest, ManyNames_OfOneAddress_HaveAFewWaitsAlone) {
  int tries = 0;
  for (int i = 0; i < 1000; ++i) {
    if (Try("10.0.0.1:1", absl::StrCat("user", i), "guess") == "wrong") ++tries;
  }
  EXPECT_LE(tries, 8 * 5);
  EXPECT_GE(tries, 5);
  EXPECT_EQ(throttle_.size(), 1u);
}

TEST_F(LogonThrottleTest, Addresses_OneSubscriberAndOneHost_AreOne) {
  Guess("[2001:db8:1:2:3:4:5:6]:1", "ann");
  EXPECT_EQ(Try("[2001:db8:1:2::9]:80", "ann", "right"), "wait");
  EXPECT_EQ(Try("2001:db8:1:2::9", "ann", "right"), "wait");  // without a port
  EXPECT_EQ(Try("[2001:db8:1:3::9]:80", "ann", "right"), "in");
  Guess("10.0.0.1:1", "ann");
  EXPECT_EQ(Try("[::ffff:10.0.0.1]:5", "ann", "right"), "wait");
  EXPECT_EQ(Try("[::ffff:10.0.0.2]:5", "ann", "right"), "in");
}

TEST_F(LogonThrottleTest, OldFailures_AreForgotten) {
  Guess("10.0.0.1:1", "ann");
  now_ += 300 * kSecond;
  Guess("10.0.0.1:1", "ann");
}

TEST_F(LogonThrottleTest, Table_ManyAddresses_StaysBoundedAndKeepsTheLatest) {
  for (int i = 0; i < 5000; ++i) {
    ++now_;
    Try(absl::StrCat("10.", i >> 16, ".", (i >> 8) & 255, ".", i & 255, ":1"), "ann", "guess");
  }
  EXPECT_EQ(throttle_.size(), 1024u);
  Guess("10.9.9.9:1", "ann");
  for (int i = 0; i < 1000; ++i) {
    ++now_;
    Try(absl::StrCat("11.0.", i >> 8, ".", i & 255, ":1"), "ann", "guess");
  }
  EXPECT_EQ(Try("10.9.9.9:1", "ann", "right"), "wait");
  // One that succeeds takes no place.
  EXPECT_EQ(Try("12.0.0.1:1", "ann", "right"), "in");
  EXPECT_EQ(throttle_.size(), 1024u);
  now_ += 300 * kSecond;
  Try("12.0.0.1:1", "ann", "guess");
  EXPECT_EQ(throttle_.size(), 1u);
}

TEST_F(LogonThrottleTest, ManyThreadsAtOnce_HaveNoMoreFreeTries) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        const auto user = throttle_.Check(users_, "10.0.0.1:1", "ann", "guess");
        if (user.ok() && *user == nullptr) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 5);
}

}  // namespace
}  // namespace pulse::net
