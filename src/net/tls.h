// TLS for a director's connections, by OpenSSL on memory BIOs: TLS 1.2 and 1.3, server side. A
// TlsContext is made when the server starts; it makes a Transport for each connection, which
// belongs to that connection's loop. Nothing here blocks but Open, which reads files. Errors name
// the file.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "net/transport.h"

namespace pulse::net {

class TlsContext {
 public:
  // PEM files. With `ca`, clients have to show a certificate that it has signed.
  static absl::StatusOr<std::unique_ptr<TlsContext>> Open(const std::string& cert,
                                                          const std::string& key,
                                                          const std::string& ca);
  virtual ~TlsContext() = default;
  virtual std::unique_ptr<Transport> NewTransport() = 0;
};

}  // namespace pulse::net
