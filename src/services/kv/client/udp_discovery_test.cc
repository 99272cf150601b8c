#include "services/kv/client/udp_discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "nlohmann/json.hpp"
#include "pulse/kv_udp_client.h"
#include "services/kv/etcd/test_http_server.h"

namespace pulse::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A reply of etcd's with these values.
std::string ReplyWith(const std::vector<std::string>& values) {
  nlohmann::json reply = {{"kvs", nlohmann::json::array()}};
  for (const std::string& v : values) reply["kvs"].push_back({{"value", absl::Base64Escape(v)}});
  return TestHttpServer::Reply(200, reply.dump());
}

TEST(UdpDiscoveryTest, Servers_BelowThePrefix_AreFound) {
  std::string asked;
  TestHttpServer etcd([&](const std::string& path, const std::string& body) {
    const auto request = nlohmann::json::parse(body);
    std::string key;
    std::string end;
    absl::Base64Unescape(request["key"].get<std::string>(), &key);
    absl::Base64Unescape(request["range_end"].get<std::string>(), &end);
    asked = path + " " + key + " " + end;
    return ReplyWith({R"({"host": "10.0.0.1", "port": 1, "udp_ports": [7000, 7001]})",
                      R"({"host": "::1", "udp_ports": [8000]})",
                      R"({"host": "10.0.0.2", "port": 1})", R"({"host": 5, "udp_ports": [1]})",
                      R"({"host": "x", "udp_ports": [-1]})", R"({"host": "x", "udp_ports": 1})",
                      R"({"host": "x", "udp_ports": [65536]})", R"({"host": "x"})", "[]", "}{"});
  });
  const auto found = FindUdpServers(etcd.url(), "/pulse/kv/", 60'000);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(*found, ElementsAre("10.0.0.1:7000", "[::1]:8000"));
  EXPECT_EQ(asked, "/v3/kv/range /pulse/kv/ /pulse/kv0");
}

TEST(UdpDiscoveryTest, Etcd_ThatKnowsNoneOrTalksNonsense_IsUnavailable) {
  for (const std::string& body :
       {std::string("{}"), std::string("[]"), std::string("}"), std::string(R"({"kvs": 1})"),
        std::string(R"({"kvs": [1, {"value": 1}, {"value": "%"}, {}]})")}) {
    TestHttpServer etcd(
        [&](const std::string&, const std::string&) { return TestHttpServer::Reply(200, body); });
    const auto found = FindUdpServers(etcd.url(), "/pulse/kv", 60'000);
    EXPECT_TRUE(absl::IsUnavailable(found.status())) << body << found.status();
  }
  TestHttpServer none([](const std::string&, const std::string&) { return ReplyWith({}); });
  const auto client = KvUdpClient::Open({.etcd = none.url()});
  EXPECT_THAT(client.status().message(), HasSubstr("--udp-port"));
  std::string gone;
  {
    TestHttpServer server([](const std::string&, const std::string&) { return ""; });
    gone = server.url();
  }
  EXPECT_TRUE(absl::IsUnavailable(KvUdpClient::Open({.etcd = gone}).status()));
}

}  // namespace
}  // namespace pulse::kv
