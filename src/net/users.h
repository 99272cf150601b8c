// Who may use a server, and for what. Made when the server starts, then constant; any thread.
//
// A users file is of Redis's form, one user a line, of which this much is understood:
//
//   user NAME on|off nopass|#SHA256|>PASSWORD... [~*] [+@all|+@read|+@write|-@write...]
//
// Without a category a user may do nothing but AUTH. Errors name the file, the line and the word.
// A server that understands more of Redis's words asks for any, and looks at them itself.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace pulse::net {

struct User {
  std::string name;
  bool enabled = false;
  bool no_password = false;
  std::vector<std::string> hashes;  // of passwords: SHA-256, 64 digits in lower case
  bool may_read = false;
  bool may_write = false;
  bool may_admin = false;
  std::vector<std::string> words;  // of the line, as they were given
  size_t line = 0;                 // of the file; 0: of none
};

class Users {
 public:
  static constexpr size_t kMostFileBytes = 16 << 20;

  // `default` alone, with this password; empty: without.
  static Users WithPassword(std::string_view password);
  static absl::StatusOr<Users> Load(const std::string& path, bool any_words = false);
  static absl::StatusOr<Users> Parse(std::string_view text, std::string_view path,
                                     bool any_words = false);

  // Null when the name or the password is wrong. Takes as long for the one as for the other.
  const User* Check(std::string_view name, std::string_view password) const;
  // Whom a connection is before it says so; null when it has to say.
  const User* Anonymous() const;
  // A user that anybody can be, as it is enabled and has no password; null when there is none.
  const User* WithoutPassword() const;
  const User* Find(std::string_view name) const;
  // By name.
  const std::map<std::string, User, std::less<>>& all() const { return users_; }

 private:
  std::map<std::string, User, std::less<>> users_;
};

std::string Sha256(std::string_view text);
// As users files have them: 64 digits in lower case.
bool IsSha256(std::string_view text);
// Whether a password is one of these, by their hashes. Null: of nobody, which takes as long.
bool IsPasswordOf(const std::vector<std::string>* hashes, std::string_view password);

}  // namespace pulse::net
