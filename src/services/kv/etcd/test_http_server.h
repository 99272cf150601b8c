// A server that answers each request by a function, byte for byte, and closes. For tests only.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/unique_fd.h"

namespace pulse::kv {

class TestHttpServer {
 public:
  // `answer(path, body)`: all bytes of the reply.
  using Answer = std::function<std::string(const std::string& path, const std::string& body)>;
  explicit TestHttpServer(Answer answer) : answer_(std::move(answer)) {
    listener_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    PULSE_CHECK(bind(listener_.get(), any, size) == 0 && listen(listener_.get(), 16) == 0 &&
                getsockname(listener_.get(), any, &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Run(); });
  }
  ~TestHttpServer() {
    shutdown(listener_.get(), SHUT_RDWR);  // ends accept
    thread_.join();
  }
  std::string url() const { return absl::StrCat("http://127.0.0.1:", port_); }

  static std::string Reply(int status, std::string_view body) {
    return absl::StrCat("HTTP/1.1 ", status,
                        " X\r\nConnection: close\r\nContent-Length: ", body.size(), "\r\n\r\n",
                        std::string(body));
  }

 private:
  void Run() {
    while (true) {
      const UniqueFd fd(accept(listener_.get(), nullptr, nullptr));
      if (!fd.valid()) return;
      std::string request;
      char buffer[4096];
      size_t head = std::string::npos;
      size_t length = 0;
      while (head == std::string::npos || request.size() < head + 4 + length) {
        const ssize_t n = recv(fd.get(), buffer, sizeof(buffer), 0);
        if (n <= 0) break;
        request.append(buffer, static_cast<size_t>(n));
        head = request.find("\r\n\r\n");
        const size_t at = request.find("Content-Length: ");
        if (at < head) length = strtoul(request.c_str() + at + 16, nullptr, 10);
      }
      if (head == std::string::npos) continue;
      const size_t path = request.find(' ') + 1;
      const std::string reply =
          answer_(request.substr(path, request.find(' ', path) - path), request.substr(head + 4));
      for (size_t sent = 0; sent < reply.size();) {
        const ssize_t n = send(fd.get(), reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += static_cast<size_t>(n);
      }
    }
  }

  const Answer answer_;
  UniqueFd listener_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace pulse::kv
