// The socket of a server that `pulse top` watches. One thread at a time; each call blocks until its
// deadline (NowNanos) at most, and Connect while a name is resolved. Errors name the server.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace pulse::top {

class ServerSocket {
 public:
  // `address`: "HOST:PORT", or "unix:PATH". `start`: how such a server is started, for who finds
  // none; `silent`: what is added where none answers.
  ServerSocket(std::string address, std::string start, std::string silent = "")
      : address_(std::move(address)), start_(std::move(start)), silent_(std::move(silent)) {}

  absl::Status Connect(int64_t deadline);
  absl::Status Send(std::string_view bytes, int64_t deadline) const;
  // Appends what comes, and returns how many bytes that are; 0: the server has ended the
  // connection. Unavailable: it was lost.
  absl::StatusOr<size_t> Receive(std::string* in, int64_t deadline) const;
  void Close() { fd_.reset(); }
  bool is_open() const { return fd_.valid(); }
  const std::string& address() const { return address_; }

 private:
  absl::Status Wait(short events, int64_t deadline) const;

  const std::string address_;
  const std::string start_;
  const std::string silent_;
  UniqueFd fd_;
};

}  // namespace pulse::top
