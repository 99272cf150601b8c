#include "net/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace pulse::director {
namespace {

using ::testing::HasSubstr;

bool Matches(const std::string& signature, const std::string& client, const std::string& server) {
  const auto parsed = Signature::Parse(signature);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed->Matches(*ParseAddress(client), *ParseAddress(server));
}

TEST(SignatureTest, MatchesByEachOfTheFive) {
  const std::string client = "10.1.2.3:5000";
  const std::string server = "192.168.0.1:6379";
  for (const char* yes :
       {"", "*,*,*,*,*", "tcp,*,*,*,*", "tcp,10.0.0.0/8,*,*,6379", "*,10.1.2.3,*,*,*",
        "*,10.1.2.3/32,5000,192.168.0.1,6379", "tcp,10.1.2.2/31,4999-5001,192.168.0.0/16,6000-7000",
        "*,*,*,0.0.0.0/0,*", "unix,*,*,*,*; tcp , 10.0.0.0/8 , * , * , 6379"}) {
    EXPECT_TRUE(Matches(yes, client, server)) << yes;
  }
  for (const char* no :
       {"unix,*,*,*,*", "tcp,11.0.0.0/8,*,*,*", "tcp,10.1.2.4/31,*,*,*", "tcp,*,5001,*,*",
        "tcp,*,1-4999,*,*", "tcp,*,*,192.168.0.2,*", "tcp,*,*,*,6380", "tcp,fd00::/8,*,*,*"}) {
    EXPECT_FALSE(Matches(no, client, server)) << no;
  }
}

TEST(SignatureTest, KnowsIpv6AndMappedAddressesAndUnixSockets) {
  EXPECT_TRUE(Matches("tcp,fd00::/8,*,::1,*", "[fd12::1]:1", "[::1]:2"));
  EXPECT_FALSE(Matches("tcp,fd00::/8,*,*,*", "[fe00::1]:1", "[::1]:2"));
  EXPECT_TRUE(Matches("tcp,10.0.0.0/8,*,*,*", "[::ffff:10.1.1.1]:1", "[::1]:2"));
  EXPECT_TRUE(Matches("unix,*,*,*,*", "unix:/a", "unix:/b"));
  EXPECT_FALSE(Matches("unix,*,1-2,*,*", "unix:/a", "unix:/b"));
  EXPECT_FALSE(Matches("tcp,*,*,*,*", "unix:/a", "unix:/b"));
}

TEST(SignatureTest, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"tcp,*,*,*", "has 4 parts instead of 5"},
      {"udp,*,*,*,*", "'udp' is none of the protocols"},
      {"tcp,host,*,*,*", "'host' is no IP address"},
      {"tcp,10.0.0.0/33,*,*,*", "prefix length that is not from 0 to 32"},
      {"tcp,10.1.0.0/8,*,*,*", "bits beyond its prefix length"},
      {"tcp,*,x,*,*", "'x' is no port"},
      {"tcp,*,-5,*,*", "'-5' is no port"},
      {"tcp,*,*,*,65536", "'65536' is no port"},
      {"tcp,*,9-5,*,*", "ends before it begins"},
      {"tcp,*,*,*,*;", "has 1 parts instead of 5"},
  };
  for (const auto& [text, message] : cases) {
    const auto parsed = Signature::Parse(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(message)) << text;
  }
}

TEST(AddressTest, ReadsWhatItWritesAndSaysWhatIsWrong) {
  for (const char* text : {"127.0.0.1:80", "[::1]:6379", "unix:/tmp/x"}) {
    EXPECT_EQ(ParseAddress(text)->ToString(), text);
  }
  EXPECT_TRUE(ParseAddress("127.3.0.1:1")->is_loopback());
  EXPECT_FALSE(ParseAddress("0.0.0.0:1")->is_loopback());
  for (const char* text : {"", "127.0.0.1", ":80", "127.0.0.1:x", "127.0.0.1:65536", "unix:"}) {
    const auto parsed = ParseAddress(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("write HOST:PORT")) << text;
  }
}

}  // namespace
}  // namespace pulse::director
