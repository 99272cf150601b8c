// How often each kind of error was a reply: INFO errorstats. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace pulse::redis {

class ErrorStats {
 public:
  // An error as a client gets it, without its "-". Its kind is the first word.
  void Add(std::string_view error) {
    const size_t end = error.substr(0, kLongestKind).find(' ');
    const std::string_view kind = end == std::string_view::npos ? "ERR" : error.substr(0, end);
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = counts_.find(kind);
    if (it != counts_.end()) {
      ++it->second;
    } else {
      counts_.emplace(kind, 1);
    }
  }
  void Append(std::string* out) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [kind, count] : counts_) {
      absl::StrAppend(out, "errorstat_", kind, ":count=", count, "\r\n");
    }
  }
  void Reset() {
    const std::lock_guard<std::mutex> lock(mutex_);
    counts_.clear();
  }
  uint64_t total() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    uint64_t total = 0;
    for (const auto& [kind, count] : counts_) total += count;
    return total;
  }

 private:
  static constexpr size_t kLongestKind = 32;
  mutable std::mutex mutex_;
  // By kind, of which there are as many as the server's own texts have.
  std::map<std::string, uint64_t, std::less<>> counts_;
};

}  // namespace pulse::redis
