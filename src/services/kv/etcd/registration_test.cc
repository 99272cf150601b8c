#include "services/kv/etcd/registration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/strings/escaping.h"
#include "base/testing.h"
#include "nlohmann/json.hpp"
#include "services/kv/etcd/test_http_server.h"

namespace pulse::kv {
namespace {

using ::testing::HasSubstr;
using testing_util::Eventually;

class EtcdRegistrationTest : public testing::Test {
 protected:
  EtcdRegistrationTest() { cluster_.Listen({7000, 7001}); }
  std::string Answer(const std::string& path, const std::string& body) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++asked_[path];
    if (away_) return "";
    if (path == "/v3/kv/txn") {
      const nlohmann::json request = nlohmann::json::parse(body);
      for (const auto& put : request["success"]) {
        std::string key;
        std::string value;
        absl::Base64Unescape(put["requestPut"]["key"].get<std::string>(), &key);
        absl::Base64Unescape(put["requestPut"]["value"].get<std::string>(), &value);
        keys_[key] = nlohmann::json::parse(value);
      }
      return TestHttpServer::Reply(200, R"({"succeeded":true})");
    }
    if (path == "/v3/lease/revoke") keys_.clear();
    return TestHttpServer::Reply(200, path == "/v3/lease/keepalive"
                                          ? R"({"result":{"ID":"7","TTL":"1"}})"
                                          : R"({"ID":"7","TTL":"1"})");
  }
  int asked(const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return asked_[path];
  }
  size_t keys() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return keys_.size();
  }
  void set_away(bool away) {
    const std::lock_guard<std::mutex> lock(mutex_);
    away_ = away;
  }
  void Open() {
    EtcdOptions options;
    options.url = server_.url();
    options.prefix = "/test";
    options.ttl_seconds = 1;
    options.protocols = {"redis"};
    auto registration = EtcdRegistration::Open(options, cluster_);
    ASSERT_TRUE(registration.ok()) << registration.status();
    registration_ = *std::move(registration);
  }

  redis::Cluster cluster_{true, 2, "host"};
  std::mutex mutex_;
  bool away_ = false;
  std::map<std::string, int> asked_;
  std::map<std::string, nlohmann::json> keys_;
  TestHttpServer server_{
      [this](const std::string& path, const std::string& body) { return Answer(path, body); }};
  std::unique_ptr<EtcdRegistration> registration_;
};

TEST_F(EtcdRegistrationTest, Endpoints_WhileItLives_AreKeysOfEtcd) {
  Open();
  ASSERT_TRUE(Eventually([&] { return asked("/v3/lease/keepalive") >= 2; }));
  ASSERT_EQ(keys(), 2u);
  const nlohmann::json& second = keys_["/test/" + cluster_.nodes()[1].id];
  EXPECT_EQ(second, nlohmann::json({{"id", cluster_.nodes()[1].id},
                                    {"host", "host"},
                                    {"port", 7001},
                                    {"first_slot", 8192},
                                    {"last_slot", 16383},
                                    {"cluster", true},
                                    {"protocols", {"redis"}},
                                    {"tls", false}}));
  registration_.reset();
  EXPECT_EQ(asked("/v3/lease/revoke"), 1);
  EXPECT_EQ(keys(), 0u);
}

TEST_F(EtcdRegistrationTest, Etcd_AwayAtTheStart_IsTriedAgain) {
  set_away(true);
  Open();
  ASSERT_TRUE(Eventually([&] { return asked("/v3/lease/grant") >= 3; }));
  EXPECT_EQ(keys(), 0u);
  set_away(false);
  EXPECT_TRUE(Eventually([&] { return keys() == 2; }));
  // One that is away when the server ends does not hold it up.
  set_away(true);
  registration_.reset();
  EXPECT_EQ(asked("/v3/lease/revoke"), 1);
}

TEST_F(EtcdRegistrationTest, EndpointForDatagrams_HasItsPortsAndProtocol) {
  redis::Cluster one(false, 1, "host");
  one.Listen({7000});
  EtcdOptions options;
  options.url = server_.url();
  options.prefix = "/test";
  options.protocols = {"redis", "udp"};
  options.udp_ports = {8000, 8001};
  auto registration = EtcdRegistration::Open(options, one);
  ASSERT_TRUE(registration.ok()) << registration.status();
  ASSERT_TRUE(Eventually([&] { return keys() == 1; }));
  const std::lock_guard<std::mutex> lock(mutex_);
  const nlohmann::json& value = keys_["/test/" + one.nodes()[0].id];
  EXPECT_EQ(value["udp_ports"], nlohmann::json({8000, 8001}));
  EXPECT_EQ(value["protocols"], nlohmann::json({"redis", "udp"}));
}

TEST_F(EtcdRegistrationTest, Open_NoUrl_IsRefused) {
  EtcdOptions options;
  options.url = "localhost";
  EXPECT_THAT(EtcdRegistration::Open(options, cluster_).status().message(), HasSubstr("http://"));
}

}  // namespace
}  // namespace pulse::kv
