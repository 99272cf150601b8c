#include "net/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace pulse::net {
namespace {

using ::testing::HasSubstr;

bool Matches(const std::vector<std::string>& rules, const std::string& client,
             const std::string& server) {
  const auto parsed = Signature::Parse(rules);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() && parsed->Matches(*ParseAddress(client), *ParseAddress(server));
}

TEST(SignatureTest, Matches_EachOfTheFiveKeys_Decides) {
  const std::string client = "10.1.2.3:5000";
  const std::string server = "192.168.0.1:6379";
  EXPECT_TRUE(Matches({}, client, server));
  for (const char* yes :
       {"client=*", "protocol=tcp", "protocol=*,client=*,client-port=*,server=*,server-port=*",
        "protocol=tcp,client=10.0.0.0/8,server-port=6379", "client=10.1.2.3",
        "client=10.1.2.3/32,client-port=5000,server=192.168.0.1,server-port=6379",
        "client=10.1.2.2/31,client-port=4999-5001,server=192.168.0.0/16,server-port=6000-7000",
        "server=0.0.0.0/0", " client = 10.0.0.0/8 , server-port = 6379 "}) {
    EXPECT_TRUE(Matches({yes}, client, server)) << yes;
    EXPECT_TRUE(Matches({"protocol=unix", yes}, client, server)) << yes;
  }
  for (const char* no :
       {"protocol=unix", "client=11.0.0.0/8", "client=10.1.2.4/31", "client-port=5001",
        "client-port=1-4999", "server=192.168.0.2", "server-port=6380", "client=fd00::/8",
        "client=10.0.0.0/8,server-port=6380", "client=11.0.0.0/8,server-port=6379"}) {
    EXPECT_FALSE(Matches({no}, client, server)) << no;
    EXPECT_FALSE(Matches({"protocol=unix", no}, client, server)) << no;
  }
}

TEST(SignatureTest, Matches_Ipv6MappedAndUnix_ByTheirFamily) {
  EXPECT_TRUE(Matches({"client=fd00::/8,server=::1"}, "[fd12::1]:1", "[::1]:2"));
  EXPECT_FALSE(Matches({"client=fd00::/8"}, "[fe00::1]:1", "[::1]:2"));
  EXPECT_TRUE(Matches({"client=10.0.0.0/8"}, "[::ffff:10.1.1.1]:1", "[::1]:2"));
  EXPECT_TRUE(Matches({"protocol=unix"}, "unix:/a", "unix:/b"));
  EXPECT_FALSE(Matches({"client-port=1-2"}, "unix:/a", "unix:/b"));
  EXPECT_FALSE(Matches({"server=127.0.0.1"}, "unix:/a", "unix:/b"));
  EXPECT_FALSE(Matches({"protocol=tcp"}, "unix:/a", "unix:/b"));
}

TEST(SignatureTest, Parse_MalformedRule_SaysWhatIsWrongAndWhatIsExpected) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "'' is no KEY=VALUE"},
      {"10.0.0.0/8", "'10.0.0.0/8' is no KEY=VALUE"},
      {"client=*,", "'' is no KEY=VALUE"},
      {"port=80", "'port' is no key of a rule"},
      {"client=*,client=*", "'client' is given twice"},
      {"protocol=udp", "'udp' is none of the protocols"},
      {"client=host", "'host' is no IP address"},
      {"client=", "'' is no IP address"},
      {"client=10.0.0.0/33", "prefix length that is not from 0 to 32"},
      {"client=10.0.0.0/", "prefix length that is not from 0 to 32"},
      {"server=fd00::/129", "prefix length that is not from 0 to 128"},
      {"client=10.1.0.0/8", "bits beyond its prefix length"},
      {"client-port=x", "'x' is no port"},
      {"client-port=-5", "'-5' is no port"},
      {"server-port=65536", "'65536' is no port"},
      {"client-port=9-5", "ends before it begins"},
      {"protocol=unix,client-port=1-2", "never matches"},
      {"protocol=unix,server=::1", "never matches"},
  };
  for (const auto& [text, message] : cases) {
    for (const auto& rules : {std::vector<std::string>{text}, {"client=*", text}}) {
      const auto parsed = Signature::Parse(rules);
      ASSERT_FALSE(parsed.ok()) << text;
      EXPECT_THAT(std::string(parsed.status().message()),
                  AllOf(HasSubstr(message), HasSubstr("expected KEY=VALUE")))
          << text;
    }
  }
}

TEST(AddressTest, Parse_GoodOrMalformedText_RoundTripsOrSaysWhatToWrite) {
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
}  // namespace pulse::net
