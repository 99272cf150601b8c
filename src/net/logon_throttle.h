// LogonThrottle: slows the guessing of passwords. From one address and for one name some wrong
// passwords are free; after that each makes the next try wait, for a second first and twice as long
// each time, up to a limit. A try that comes too early is refused unseen, whatever its password: so
// an answer tells nothing, no thread and no connection waits, and parallel connections win nothing.
// Other addresses are not delayed, nor are other names, but for those few that share a place in an
// address's table. Loopback is an address as any other. A right password ends the wait for its
// name.
//
// An address of IPv6 counts by its first 64 bits, which one subscriber has. The table is bounded:
// where it is full, the address that failed the longest ago is forgotten.
//
// Thread-safe. One check after the other, each as long as the hash of a password takes: so tries at
// once on many connections are counted one by one.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "net/users.h"

namespace pulse::net {

struct LogonThrottleOptions {
  uint32_t free_tries = 5;
  int64_t first_wait_nanos = 1'000'000'000;
  int64_t longest_wait_nanos = 8'000'000'000;
  int64_t forget_nanos = 300'000'000'000;  // after the last failure
  size_t addresses = 1024;                 // of which failures are remembered
};

class LogonThrottle {
 public:
  using Clock = std::function<int64_t()>;  // monotonic, in nanoseconds

  LogonThrottle();  // the machine's clock
  explicit LogonThrottle(const LogonThrottleOptions& options, Clock clock);

  // Users::Check for a client at `peer`: an address, with or without a port. ResourceExhausted:
  // after too many wrong passwords, before the wait is over; the message says how long it is.
  // Null: the name or the password is wrong.
  absl::StatusOr<const User*> Check(const Users& users, std::string_view peer,
                                    std::string_view name, std::string_view password);
  // Addresses that are remembered.
  size_t size() const;

 private:
  // Of the names that share a place.
  struct Place {
    uint32_t failures = 0;
    int64_t last_failure = 0, until = 0;
    size_t name = 0;     // which failed last, by its hash
    bool mixed = false;  // others have failed here, too
  };
  static constexpr size_t kPlaces = 8;
  struct Entry {
    std::array<Place, kPlaces> places;
    int64_t last_failure = 0;
  };

  static std::string KeyOf(std::string_view peer);
  int64_t WaitAfter(uint32_t failures) const;
  void MakeRoom(int64_t now);
  void Failed(const std::string& key, size_t name, int64_t now);

  const LogonThrottleOptions options_;
  const Clock clock_;
  const std::string seed_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace pulse::net
