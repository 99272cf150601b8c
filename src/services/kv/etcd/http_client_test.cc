#include "services/kv/etcd/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <utility>

#include "services/kv/etcd/test_http_server.h"

namespace pulse::kv {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kLong = 60'000;

absl::StatusOr<std::string> PostTo(const std::string& url, int64_t timeout_ms = kLong,
                                   const std::atomic<bool>* cancel = nullptr) {
  auto client = HttpClient::Open(url);
  if (!client.ok()) return client.status();
  return (*client)->Post("/path", "body", timeout_ms, cancel);
}

TEST(HttpClientTest, Post_GoodReply_ReturnsItsBody) {
  TestHttpServer server([](const std::string& path, const std::string& body) {
    return TestHttpServer::Reply(200, absl::StrCat(path, " ", body));
  });
  auto client = HttpClient::Open(server.url() + "/");
  ASSERT_TRUE(client.ok()) << client.status();
  for (const char* body : {"a", "", "bb"}) {
    const auto reply = (*client)->Post("/path", body, kLong, nullptr);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(*reply, absl::StrCat("/path ", body));
  }
}

TEST(HttpClientTest, Post_BadReply_SaysWhatIsWrong) {
  const std::pair<std::string, const char*> replies[] = {
      {TestHttpServer::Reply(404, "no \x01such"), "status 404: no ?such"},
      {TestHttpServer::Reply(302, ""), "status 302"},
      {"", ""},
      {"SSH-2.0-OpenSSH\r\n", ""},
      {"HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\nshort", ""},
      {TestHttpServer::Reply(200, std::string(HttpClient::kMostReply + 1, 'x')), "longer than"},
  };
  for (const auto& [bytes, error] : replies) {
    TestHttpServer server([b = bytes](const std::string&, const std::string&) { return b; });
    const auto reply = PostTo(server.url());
    ASSERT_FALSE(reply.ok()) << bytes.substr(0, 50);
    EXPECT_FALSE(reply.status().message().empty());
    EXPECT_THAT(reply.status().message(), HasSubstr(error));
  }
}

TEST(HttpClientTest, Post_NobodyListens_IsUnavailable) {
  std::string url;
  {
    TestHttpServer server([](const std::string&, const std::string&) { return ""; });
    url = server.url();
  }
  EXPECT_TRUE(absl::IsUnavailable(PostTo(url).status())) << PostTo(url).status();
}

TEST(HttpClientTest, Post_NoReply_EndsByTimeoutOrCancel) {
  // It is connected to, and never accepts.
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(listener.get(), any, size) | listen(listener.get(), 1) |
                getsockname(listener.get(), any, &size),
            0);
  const std::string url = absl::StrCat("http://127.0.0.1:", ntohs(address.sin_port));
  EXPECT_TRUE(absl::IsUnavailable(PostTo(url, 50).status()));
  const std::atomic<bool> cancel{true};
  EXPECT_TRUE(absl::IsCancelled(PostTo(url, kLong, &cancel).status()));
}

TEST(HttpClientTest, Open_NoUrl_IsRefused) {
  for (const char* url : {"", "127.0.0.1:2379", "ftp://a", "http://", "http://a b", "unix:/x"}) {
    EXPECT_THAT(HttpClient::Open(url).status().message(), HasSubstr("http://127.0.0.1:2379"))
        << url;
  }
}

}  // namespace
}  // namespace pulse::kv
