// A load of memcached's text protocol for bench/rivals/kv/tcp_rivals.py: CONNECTIONS connections of
// one thread, each with PIPELINE requests under way, GETs or SETs of keys that it has stored
// before. Both servers that are compared get the same bytes.
//
//   memcached_load PORT get|set CONNECTIONS PIPELINE KEYS VALUE_BYTES SECONDS
//
// Prints JSON: requests a second, and the share of a CPU that this program took, so that it is seen
// where the client is the limit. Replies of other bytes than expected end it with an error.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace pulse::rivals {
namespace {

struct Load {
  int port = 0;
  bool sets = false;
  int connections = 1;
  int pipeline = 1;
  int keys = 1;
  int value_bytes = 1;
  double seconds = 1;
};

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "memcached_load: %s\n", what.c_str());
  std::exit(1);
}

std::string KeyOf(int number) { return absl::StrFormat("key:%012d", number); }

std::string SetOf(int number, const std::string& value) {
  return absl::StrFormat("set %s 0 0 %d\r\n%s\r\n", KeyOf(number), value.size(), value);
}

// What each reply is, but for the key: all have one length.
std::string ReplyOf(const Load& load, const std::string& value) {
  if (load.sets) return "STORED\r\n";
  return absl::StrFormat("VALUE %s 0 %d\r\n%s\r\nEND\r\n", KeyOf(0), value.size(), value);
}

class Connection {
 public:
  explicit Connection(int port) {
    fd_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      Fail(absl::StrFormat("connecting to port %d: %s", port, std::strerror(errno)));
    }
    const int on = 1;
    setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  int fd() const { return fd_.get(); }
  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) Fail(absl::StrFormat("sending: %s", std::strerror(errno)));
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  // Takes what has arrived; how many replies are whole by now.
  size_t Receive(const std::string& reply, char* buffer, size_t size) {
    const ssize_t n = recv(fd_.get(), buffer, size, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return 0;
    if (n <= 0) Fail("the server has closed a connection");
    // The first byte of each reply tells whether it is one.
    const auto got = static_cast<size_t>(n);
    for (size_t at = (reply.size() - within_) % reply.size(); at < got; at += reply.size()) {
      if (buffer[at] != reply[0]) {
        Fail(absl::StrFormat("unexpected reply: %s",
                             std::string(buffer + at, std::min<size_t>(got - at, 60))));
      }
    }
    const size_t whole = (within_ + got) / reply.size();
    within_ = (within_ + got) % reply.size();
    return whole;
  }

  size_t open = 0;  // requests of the pipeline that are not answered

 private:
  UniqueFd fd_;
  size_t within_ = 0;  // bytes of a reply that is not whole
};

// Stores all keys, by one connection.
void Fill(const Load& load, const std::string& value, std::vector<char>* buffer) {
  Connection connection(load.port);
  const std::string stored = "STORED\r\n";
  constexpr int kTogether = 256;
  for (int first = 0; first < load.keys; first += kTogether) {
    std::string bytes;
    const int count = std::min(kTogether, load.keys - first);
    for (int i = first; i < first + count; ++i) bytes += SetOf(i, value);
    connection.Send(bytes);
    for (size_t left = static_cast<size_t>(count); left > 0;) {
      left -= connection.Receive(stored, buffer->data(), buffer->size());
    }
  }
}

class Requests {
 public:
  Requests(const Load& load, const std::string& value) : load_(load) {
    constexpr int kDrawn = 4096;
    std::mt19937 random(1);
    for (int i = 0; i < kDrawn; ++i) {
      const int number = static_cast<int>(random() % static_cast<unsigned>(load.keys));
      drawn_.push_back(load.sets ? SetOf(number, value)
                                 : absl::StrFormat("get %s\r\n", KeyOf(number)));
    }
  }
  // Of one pipeline.
  const std::string& Next() {
    bytes_.clear();
    for (int i = 0; i < load_.pipeline; ++i) bytes_ += drawn_[next_++ % drawn_.size()];
    return bytes_;
  }

 private:
  const Load load_;
  std::vector<std::string> drawn_;
  size_t next_ = 0;
  std::string bytes_;
};

void Run(const Load& load) {
  const std::string value(static_cast<size_t>(load.value_bytes), 'v');
  const std::string reply = ReplyOf(load, value);
  std::vector<char> buffer(size_t{1} << 18);
  Fill(load, value, &buffer);
  Requests requests(load, value);
  const UniqueFd set(epoll_create1(EPOLL_CLOEXEC));
  std::vector<std::unique_ptr<Connection>> connections;
  for (int i = 0; i < load.connections; ++i) {
    connections.push_back(std::make_unique<Connection>(load.port));
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = connections.back().get();
    if (epoll_ctl(set.get(), EPOLL_CTL_ADD, connections.back()->fd(), &event) != 0) {
      Fail(absl::StrFormat("watching a connection: %s", std::strerror(errno)));
    }
  }
  const int64_t cpu = ThreadCpuNanos();
  const int64_t begin = NowNanos();
  const int64_t until = begin + static_cast<int64_t>(load.seconds * 1e9);
  for (auto& connection : connections) {
    connection->Send(requests.Next());
    connection->open = static_cast<size_t>(load.pipeline);
  }
  uint64_t answered = 0;
  std::array<epoll_event, 128> events;
  while (NowNanos() < until) {
    const int n = epoll_wait(set.get(), events.data(), static_cast<int>(events.size()), 100);
    for (int i = 0; i < n; ++i) {
      auto* connection = static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr);
      const size_t whole = connection->Receive(reply, buffer.data(), buffer.size());
      if (whole > connection->open) Fail("more replies than requests");
      answered += whole;
      connection->open -= whole;
      if (connection->open > 0) continue;
      connection->Send(requests.Next());
      connection->open = static_cast<size_t>(load.pipeline);
    }
  }
  const auto wall = static_cast<double>(NowNanos() - begin);
  std::printf("{\"requests_per_s\": %.0f, \"client_cpu_share\": %.3f}\n",
              static_cast<double>(answered) * 1e9 / wall,
              static_cast<double>(ThreadCpuNanos() - cpu) / wall);
}

}  // namespace
}  // namespace pulse::rivals

int main(int argc, char** argv) {
  pulse::rivals::Load load;
  const auto number = [&](int i, int* to, int least) {
    return absl::SimpleAtoi(argv[i], to) && *to >= least;
  };
  if (argc != 8 || !number(1, &load.port, 1) || !number(3, &load.connections, 1) ||
      !number(4, &load.pipeline, 1) || !number(5, &load.keys, 1) ||
      !number(6, &load.value_bytes, 1) || !absl::SimpleAtod(argv[7], &load.seconds) ||
      (std::strcmp(argv[2], "get") != 0 && std::strcmp(argv[2], "set") != 0)) {
    std::fprintf(
        stderr,
        "usage: memcached_load PORT get|set CONNECTIONS PIPELINE KEYS VALUE_BYTES SECONDS\n");
    return 2;
  }
  load.sets = std::strcmp(argv[2], "set") == 0;
  pulse::rivals::Run(load);
  return 0;
}
