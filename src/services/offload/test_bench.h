// For the tests of offloaded reads: an agent with a store and a director, the host program behind
// it, and a blocking client.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/address.h"
#include "net/director.h"
#include "services/files/test_agent.h"
#include "services/offload/engine.h"
#include "services/offload/test_protocol.h"

namespace pulse::offload::test {

// A blocking connection.
class Wire {
 public:
  explicit Wire(UniqueFd fd) : fd_(std::move(fd)) {}
  explicit Wire(uint16_t port);
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // The next message that `split` finds; empty at the end.
  std::string Take(int64_t (*split)(void*, const char*, size_t)) {
    while (true) {
      const int64_t size = split(nullptr, in_.data(), in_.size());
      if (size < 0) return "";
      if (size > 0) {
        std::string message = in_.substr(0, static_cast<size_t>(size));
        in_.erase(0, static_cast<size_t>(size));
        return message;
      }
      char more[1 << 16];
      const ssize_t n = recv(fd_.get(), more, sizeof(more), 0);
      if (n <= 0) return "";
      in_.append(more, static_cast<size_t>(n));
    }
  }
  int fd() const { return fd_.get(); }
  void EndBoth() { shutdown(fd_.get(), SHUT_RDWR); }

 private:
  UniqueFd fd_;
  std::string in_;
};

struct Answer {
  ReplyHeader header{};
  std::string data;
  bool ended = false;
};

inline std::string MessageOf(const std::vector<Request>& requests) {
  const Message m{static_cast<uint32_t>(sizeof(Message) + requests.size() * sizeof(Request)),
                  static_cast<uint32_t>(requests.size())};
  std::string bytes(reinterpret_cast<const char*>(&m), sizeof(m));
  bytes.append(reinterpret_cast<const char*>(requests.data()), requests.size() * sizeof(Request));
  return bytes;
}

class TestClient : public Wire {
 public:
  using Wire::Wire;
  bool Ask(const std::vector<Request>& requests) { return Send(MessageOf(requests)); }
  Answer Next() {
    Answer a;
    const std::string message = Take(&SplitReply);
    if (message.empty()) {
      a.ended = true;
      return a;
    }
    std::memcpy(&a.header, message.data(), sizeof(a.header));
    a.data = message.substr(sizeof(a.header));
    return a;
  }
  Answer Do(const Request& request) {
    if (!Ask({request})) return {{}, "", true};
    return Next();
  }
};

// The host program: carries out what it is sent on "d/f", through the file library, each
// connection in order.
class TestHost {
 public:
  explicit TestHost(files::Library* library);
  ~TestHost();
  uint16_t port() const { return port_; }
  // Requests are taken but wait while it is true.
  std::atomic<bool> held{false};
  std::atomic<uint64_t> requests{0};
  std::atomic<uint64_t> messages{0};

 private:
  void Serve(Wire* wire);
  void Carry(files::Client* client, files::File file, Wire* wire, const Request& r);

  files::Library* const library_;
  uint16_t port_ = 0;
  UniqueFd listener_;
  std::atomic<bool> stop_{false};
  std::mutex mu_;
  std::vector<std::unique_ptr<Wire>> wires_;
  std::vector<std::thread> threads_;
  std::thread accepting_;
};

inline std::string Stamped(uint64_t stamp, size_t size) {
  std::string data(size, '\0');
  for (size_t i = 0; i + 8 <= size; i += 8) std::memcpy(data.data() + i, &stamp, 8);
  return data;
}

// Everything together. A file "d/f" of `file_bytes`, synced, each 4 KiB block stamped 1000 + its
// number.
class Setting {
 public:
  struct Options {
    const Program* program = nullptr;
    bool copying = false;
    bool host = true;
    uint32_t contexts = 64;
    uint64_t file_bytes = uint64_t{1} << 20;
    uint32_t buffers = 64;
    files::FileHooks* hooks = nullptr;  // in place of the engine's
    IoBackendFactory backend = {};      // of the file service
  };
  explicit Setting(const Options& options);
  ~Setting();
  TestClient NewClient() { return TestClient(director->port()); }
  Request ReadOf(uint64_t id, uint64_t offset, uint32_t size) const {
    return {id, file_id, offset, size, Op::kRead};
  }
  uint64_t Count(EngineStats::Counter c) const { return engine->stats()[c]; }

  files::TestAgent agent;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<files::Library> library;
  std::unique_ptr<files::Client> files;
  files::File file{};
  uint64_t file_id = 0;
  std::unique_ptr<TestHost> host;
  std::unique_ptr<net::Director> director;
};

}  // namespace pulse::offload::test
