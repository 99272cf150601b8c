// EtcdLease: keys in etcd (version 3, by its JSON gateway) that are there as long as this server
// is: bound to a lease, which has to be kept alive, and whose end takes the keys away.
//
// A step asks etcd for one thing: to grant a lease, to put the keys, to keep the lease alive; and
// now and then to put keys again that somebody has deleted. After an error the next step comes
// later and later; a lease that etcd does not know any more is replaced. Changes between registered
// and not are logged, once each.
//
// Threads: one at a time. Blocking: as `post` does. Errors: they are logged, and the step is tried
// again: what the server does for its clients does not depend on etcd.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace pulse::kv {

class EtcdLease {
 public:
  // Sends a request's body to a path of the gateway, and returns the reply's.
  using Post =
      std::function<absl::StatusOr<std::string>(std::string_view path, const std::string& body)>;
  using Entry = std::pair<std::string, std::string>;  // key and value
  // `name`: of etcd, for the log.
  EtcdLease(std::string name, std::vector<Entry> entries, int64_t ttl_seconds, Post post);

  // Milliseconds until the next one is due.
  int64_t Step();
  // Takes the keys away, if etcd can be reached.
  absl::Status Revoke();
  bool registered() const { return registered_; }

  static constexpr int64_t kFirstBackOffMs = 100;

 private:
  absl::StatusOr<nlohmann::json> Ask(std::string_view path, const nlohmann::json& request);
  absl::Status Grant();
  nlohmann::json Puts() const;
  absl::Status Put();
  absl::Status PutBack();
  absl::Status KeepAlive();

  const std::string name_;
  const std::vector<Entry> entries_;
  const int64_t asked_ttl_;
  const Post post_;
  int64_t ttl_;
  std::string lease_;  // etcd's number for it; empty: none
  bool put_ = false;
  int steps_ = 0;  // since they were put
  bool registered_ = false;
  bool told_ = false;  // whether the log has said what registered_ is
  int64_t back_off_ms_ = kFirstBackOffMs;
};

}  // namespace pulse::kv
