#include "redis_connection.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>

#include <cerrno>
#include <cstdlib>

namespace pulse::linear {

bool RedisConnection::Open(uint16_t port) {
  Close();
  fd_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval limit = {60, 0};
  setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  if (connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) fd_.reset();
  return fd_.valid();
}

void RedisConnection::Close() {
  fd_.reset();
  in_.clear();
  splitter_ = redis::ReplySplitter();
}

bool RedisConnection::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::string RedisConnection::Receive() {
  while (true) {
    const auto size = splitter_.Next(in_);
    if (size.ok() && *size > 0) {
      std::string reply = in_.substr(0, *size);
      in_.erase(0, *size);
      return reply;
    }
    char bytes[16384];
    const ssize_t n = size.ok() ? recv(fd_.get(), bytes, sizeof(bytes), 0) : 0;
    if (n <= 0) {
      timed_out_ = timed_out_ || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
      Close();
      return "";
    }
    in_.append(bytes, static_cast<size_t>(n));
  }
}

std::string RedisConnection::Ask(const std::vector<std::string_view>& words) {
  std::string bytes;
  redis::AppendRequest(words, &bytes);
  return Send(bytes) ? Receive() : "";
}

int64_t WallNanos() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

bool StartsWith(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

bool TakeScalar(std::string_view* bytes, std::optional<std::string>* value) {
  const size_t line = bytes->find("\r\n");
  if (line == bytes->npos || line == 0) return false;
  const char type = bytes->front();
  const std::string text(bytes->substr(1, line - 1));
  bytes->remove_prefix(line + 2);
  value->reset();
  if (type == '_' || (type == '$' && text == "-1")) return true;
  if (type == ':' || type == '+') {
    *value = text;
    return true;
  }
  const size_t size = strtoull(text.c_str(), nullptr, 10);
  if (type != '$' || bytes->size() < size + 2) return false;
  *value = std::string(bytes->substr(0, size));
  bytes->remove_prefix(size + 2);
  return true;
}

}  // namespace pulse::linear
