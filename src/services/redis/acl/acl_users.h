// AclUsers: who may use a server, which ACL changes while it runs.
//
// What a user may do is looked up once; whoever keeps it asks `version` whether anything has
// changed since. Thread-safe; critical sections are short, but Load and Save read and write the
// file.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "net/users.h"
#include "services/redis/acl/acl_user.h"

namespace pulse::redis {

class AclUsers {
 public:
  using User = std::shared_ptr<const AclUser>;

  // `default`, who may do all.
  AclUsers();
  // `path`: of the file that these come from; empty: there is none.
  absl::Status Begin(const net::Users& users, std::string_view path);
  // From now on nothing changes; who tries is told why.
  void Freeze(std::string_view why) { frozen_ = why; }
  const std::string& frozen() const { return frozen_; }

  // Raised before a change can be seen.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // Null when there is none.
  User Find(std::string_view name) const;
  // Null when the name or the password is wrong. Takes as long for the one as for the other.
  User Check(std::string_view name, std::string_view password) const;
  // Whom a connection is before it says so; null when it has to say.
  User Anonymous() const;
  // Whether whoever comes may read and write all keys.
  bool anonymous_has_all_data() const {
    return anonymous_has_all_data_.load(std::memory_order_relaxed);
  }
  std::vector<User> List() const;  // by name

  // ACL SETUSER; the user need not exist. Empty, or what is wrong; then nothing has changed.
  std::string Set(std::string_view name, const std::vector<std::string_view>& words);
  // False: there is none.
  bool Delete(std::string_view name);
  bool has_file() const { return !path_.empty(); }
  absl::Status Load();
  absl::Status Save() const;

 private:
  using Map = std::map<std::string, User, std::less<>>;
  static absl::StatusOr<Map> Read(const net::Users& users, absl::string_view path);
  absl::Status CheckText(const std::string& text) const;
  // With the lock.
  void Replace(Map map);
  void Changed();
  User FindLocked(std::string_view name) const;

  std::string frozen_;  // before it is shared
  std::string path_;    // likewise
  mutable std::mutex mutex_;
  mutable std::mutex file_mutex_;
  Map users_;
  uint64_t last_id_ = 0;
  std::atomic<uint64_t> version_{1};
  std::atomic<bool> anonymous_has_all_data_{true};
};

}  // namespace pulse::redis
