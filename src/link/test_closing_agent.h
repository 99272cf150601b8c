// An agent that ends its conversation at a step that a test chooses. For tests only.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "base/testing.h"
#include "base/unique_fd.h"
#include "channel/doorbell.h"
#include "channel/handshake.h"

namespace pulse::testing_link {

enum class EndsAt {
  kHelloUnread,     // closes the socket with the hello in it: ECONNRESET
  kHello,           // reads the hello, then closes
  kNextSend,        // answers the hello, and takes nothing more: EPIPE
  kQuestionUnread,  // closes with the first message after the hello unread: ECONNRESET
  kQuestion,        // reads it, then closes
};

class ClosingAgent {
 public:
  explicit ClosingAgent(EndsAt step) : step_(step) {
    auto listener = ListenUnix(path_.get());
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    thread_ = std::thread([this] { Serve(); });
  }
  ~ClosingAgent() {
    shutdown(listener_.get(), SHUT_RDWR);  // accept() returns
    thread_.join();
  }
  ClosingAgent(const ClosingAgent&) = delete;
  ClosingAgent& operator=(const ClosingAgent&) = delete;
  const std::string& socket() const { return path_.get(); }
  // How many hosts came.
  int conversations() const { return conversations_; }

 private:
  // One host after the other; what it keeps of the last one ends with this.
  void Serve() {
    while (true) {
      UniqueFd host(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!host.valid()) return;
      ++conversations_;
      if (!Converse(host.get())) continue;  // closes
      kept_ = std::move(host);
    }
  }
  // True: the socket stays open.
  bool Converse(int host) {
    AwaitMessage(host);
    if (step_ == EndsAt::kHelloUnread) return false;
    const auto hello = ReceiveMessage(host);
    EXPECT_TRUE(hello.ok()) << hello.status();
    if (step_ == EndsAt::kHello) return false;
    auto bell = Doorbell::CreatePair();
    EXPECT_TRUE(bell.ok()) << bell.status();
    // Before the answer: whoever has got it finds the socket deaf.
    if (step_ == EndsAt::kNextSend) shutdown(host, SHUT_RD);
    EXPECT_TRUE(
        SendMessage(host, MakeMessage(wire::MessageType::kHelloAck, {1}), {bell->ring.get()}).ok());
    if (step_ == EndsAt::kNextSend) return true;
    AwaitMessage(host);
    if (step_ == EndsAt::kQuestion) ReceiveMessage(host).IgnoreError();  // it is not answered
    return false;
  }
  static void AwaitMessage(int host) {
    pollfd readable{host, POLLIN, 0};
    while (poll(&readable, 1, -1) < 0) {
    }
  }

  const EndsAt step_;
  const testing_util::ScratchPath path_{"closing-agent.sock"};
  UniqueFd listener_, kept_;
  std::atomic<int> conversations_{0};
  std::thread thread_;
};

}  // namespace pulse::testing_link
