#include "net/access.h"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"

namespace pulse::net {
namespace {

// Listeners share their port with SO_REUSEPORT, so that two servers would too, and each get some
// of the connections.
absl::Status CheckPortIsFree(const Address& address, const std::string& option) {
  const UniqueFd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (!fd.valid()) return ErrnoError(errno, "opening a socket for", address.ToString());
  // As connections that have just ended still hold it.
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) == 0) {
    return absl::OkStatus();
  }
  const std::string remedy =
      errno == EADDRINUSE
          ? absl::StrCat("another program has this port; stop it, or choose another with ", option)
      : errno == EADDRNOTAVAIL ? "this machine has no such address; choose another with --bind"
      : errno == EACCES        ? absl::StrCat("choose a port from 1024 on, with ", option)
                               : "";
  return ErrnoError(errno, "listening on", address.ToString(), remedy);
}

}  // namespace

absl::StatusOr<Access> OpenAccess(const AccessOptions& options) {
  Access access;
  if (options.users_file.empty()) {
    access.users = Users::WithPassword(options.password);
  } else {
    if (!options.password.empty()) {
      return absl::InvalidArgumentError(
          "--requirepass and --users exclude each other: give the password of default in the "
          "users file");
    }
    PULSE_ASSIGN_OR_RETURN(access.users, Users::Load(options.users_file, options.any_user_words));
  }
  if (options.tls_cert.empty() != options.tls_key.empty() ||
      (options.tls_cert.empty() && !options.tls_ca.empty())) {
    return absl::InvalidArgumentError("TLS needs both --tls-cert and --tls-key");
  }
  if (!options.tls_cert.empty()) {
    PULSE_ASSIGN_OR_RETURN(access.tls,
                           TlsContext::Open(options.tls_cert, options.tls_key, options.tls_ca));
  }
  return access;
}

absl::Status CheckListen(const AccessOptions& options, const Access& access,
                         const std::string& bind, const Address& address) {
  const User* open = access.tls == nullptr ? access.users.WithoutPassword() : nullptr;
  if (!address.is_loopback() && open != nullptr && !options.insecure) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--bind ", bind,
        " is reached by other machines, and whoever reaches it may do all that user ", open->name,
        " may, who needs no password: give passwords by --requirepass or --users, or --tls-cert "
        "and --tls-key, or say --insecure"));
  }
  return address.port() == 0 ? absl::OkStatus() : CheckPortIsFree(address, options.port_option);
}

}  // namespace pulse::net
