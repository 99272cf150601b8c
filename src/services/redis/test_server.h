// A server on a scratch database, and a client that blocks. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/testing.h"
#include "base/unique_fd.h"
#include "services/redis/commands/codec.h"
#include "services/redis/offload/resp.h"
#include "services/redis/serve.h"

namespace pulse::redis {

class BlockingClient {
 public:
  explicit BlockingClient(uint16_t port) {
    fd_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    Connect(reinterpret_cast<sockaddr*>(&address), sizeof(address));
  }
  explicit BlockingClient(const std::string& path) {
    fd_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    Connect(reinterpret_cast<sockaddr*>(&address), sizeof(address));
  }

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  // One reply; empty at the end of the stream.
  std::string Receive() {
    ReplySplitter splitter;
    while (true) {
      const auto size = splitter.Next(in_);
      EXPECT_TRUE(size.ok()) << size.status();
      if (!size.ok()) return "";
      if (*size > 0) {
        std::string reply = in_.substr(0, *size);
        in_.erase(0, *size);
        return reply;
      }
      char buffer[65536];
      const ssize_t n = recv(fd_.get(), buffer, sizeof(buffer), 0);
      if (n <= 0) return "";
      in_.append(buffer, static_cast<size_t>(n));
    }
  }
  std::string Ask(const std::string& line) {
    Send(line + "\r\n");
    return Receive();
  }
  // Until there is something to receive, or the stream ends.
  void AwaitBytes() {
    char byte;
    (void)recv(fd_.get(), &byte, 1, MSG_PEEK);
  }
  // What comes until it ends so, or the stream ends: of another protocol.
  std::string ReadUntil(std::string_view end) {
    char buffer[4096];
    ssize_t n = 0;
    while (!std::string_view(in_).ends_with(end) &&
           (n = recv(fd_.get(), buffer, sizeof(buffer), 0)) > 0) {
      in_.append(buffer, static_cast<size_t>(n));
    }
    return std::exchange(in_, std::string());
  }
  // What comes until the end of the stream.
  std::string ReadAll() {
    char buffer[4096];
    ssize_t n = 0;
    while ((n = recv(fd_.get(), buffer, sizeof(buffer), 0)) > 0) {
      in_.append(buffer, static_cast<size_t>(n));
    }
    return std::exchange(in_, std::string());
  }
  // The kernel keeps little that was not received.
  void TakeLittle() {
    const int bytes = 128 << 10;
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
  }
  void ShutDown() { shutdown(fd_.get(), SHUT_WR); }
  void Close() { fd_.reset(); }

 private:
  void Connect(const sockaddr* address, socklen_t size) {
    // A reply that never comes is a failure at its line, and not the whole program's deadline.
    const timeval limit{300, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    ASSERT_EQ(connect(fd_.get(), address, size), 0) << strerror(errno);
  }
  UniqueFd fd_;
  std::string in_;
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() : db_("serve-db") {
    options_.db = db_.get();
    options_.cache_bytes = 4 << 20;
    options_.host_socket = "/tmp/pulse-resp-test-" + std::to_string(getpid()) + ".sock";
  }
  ~ServerTest() override {
    server_.reset();
    std::filesystem::remove_all(db_.get());
  }
  void Open() {
    auto server = Server::Open(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void OpenWithAgent() {
    options_.offload = true;
    auto server = Server::Open(options_, EmbeddedOffload());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  uint16_t port() const { return server_->port(); }

  testing_util::ScratchPath db_;
  ServeOptions options_;
  std::unique_ptr<Server> server_;
};

}  // namespace pulse::redis
