// What the loads share: a connection to a server of Redis's protocol that blocks, the time that
// histories are recorded with, and the replies that they understand.
//
// Threads: an object belongs to one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "services/redis/commands/codec.h"

namespace pulse::linear {

// A connection that blocks; an answer that takes a minute counts as lost.
class RedisConnection {
 public:
  bool Open(uint16_t port);  // false: nobody listens there
  bool is_open() const { return fd_.valid(); }
  void Close();
  bool Send(std::string_view bytes);
  // One reply; empty, and closed, when there is none any more.
  std::string Receive();
  std::string Ask(const std::vector<std::string_view>& words);
  bool timed_out() const { return timed_out_; }

 private:
  UniqueFd fd_;
  std::string in_;
  redis::ReplySplitter splitter_;
  bool timed_out_ = false;
};

// Nanoseconds of what servers measure expiry with.
int64_t WallNanos();
bool StartsWith(std::string_view text, std::string_view with);
// A scalar at the beginning of `bytes`, which it is removed from. False: it is none.
bool TakeScalar(std::string_view* bytes, std::optional<std::string>* value);

}  // namespace pulse::linear
