// Who reaches a server, as options say it: passwords, users, TLS, and that nobody listens beyond
// loopback without either by accident. Thread-safe; OpenAccess reads files.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "net/address.h"
#include "net/tls.h"
#include "net/users.h"

namespace pulse::net {

struct AccessOptions {
  std::string password;         // of the user `default`; empty: none is needed
  std::string users_file;       // ACL style; empty: `default` alone
  bool any_user_words = false;  // of the file: see Users
  bool insecure = false;        // listen beyond loopback without password or TLS
  std::string tls_cert;
  std::string tls_key;
  std::string tls_ca;                  // clients must show a certificate that it signed
  std::string port_option = "--port";  // by which the port was given, for messages
};

struct Access {
  Users users;
  std::unique_ptr<TlsContext> tls;  // null: plain
};

// InvalidArgument names the option.
absl::StatusOr<Access> OpenAccess(const AccessOptions& options);

// Whether a server with this access may listen on `address`, which --bind `bind` has given: not
// beyond loopback for strangers, unless that is asked for, and not on a port that somebody has.
absl::Status CheckListen(const AccessOptions& options, const Access& access,
                         const std::string& bind, const Address& address);

}  // namespace pulse::net
