// AclLog: what clients were refused, for want of a password or of a permission (ACL LOG). The same
// again within a minute is counted, and not another entry. Bounded. Thread-safe; locks are short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace pulse::redis {

class AclLog {
 public:
  static constexpr size_t kMost = 128;
  enum class Reason { kAuth, kCommand, kKey, kChannel };
  struct Entry {
    int64_t count = 1;
    Reason reason = Reason::kAuth;
    bool in_multi = false;
    std::string object;  // the command, key or channel
    std::string user;    // as the client named it
    std::string client;  // a line of CLIENT LIST: the last one
    int64_t last_ms = 0;
  };
  void Add(Reason reason, bool in_multi, std::string_view object, std::string_view user,
           std::string client, int64_t now_ms);
  // At most `count`, the newest first.
  std::vector<Entry> Newest(size_t count) const;
  void Clear();

 private:
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
};

}  // namespace pulse::redis
