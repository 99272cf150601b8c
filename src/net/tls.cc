#include "net/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace pulse::net {
namespace {

// Before the handshake is done, a peer may send this much, and be sent this much.
constexpr size_t kMostBeforeHandshake = size_t{1} << 20;

std::string OpenSslError() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "no reason given";
  char text[256];
  ERR_error_string_n(code, text, sizeof(text));
  return text;
}

struct SslFree {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

class TlsTransport : public Transport {
 public:
  explicit TlsTransport(SSL* ssl) : ssl_(ssl) {
    from_ = BIO_new(BIO_s_mem());
    to_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, from_, to_);  // which owns them
    SSL_set_accept_state(ssl);
  }

  absl::Status FromWire(std::string_view bytes, std::string* plain, std::string* wire) override {
    absl::Status status = absl::OkStatus();
    while (!bytes.empty() && status.ok()) {
      const size_t part = std::min<size_t>(bytes.size(), 1 << 30);
      if (BIO_write(from_, bytes.data(), static_cast<int>(part)) != static_cast<int>(part)) {
        return absl::ResourceExhaustedError("TLS: no memory");
      }
      bytes.remove_prefix(part);
      status = Read(plain);
      if (!SSL_is_init_finished(ssl_.get()) && BIO_pending(from_) > int{kMostBeforeHandshake}) {
        status = absl::InvalidArgumentError("TLS: the handshake does not end");
      }
    }
    if (status.ok() && !waiting_.empty() && SSL_is_init_finished(ssl_.get())) {
      const std::string text = std::exchange(waiting_, {});
      status = Write(text);
    }
    Drain(wire);
    return status;
  }

  absl::Status ToWire(std::string_view plain, std::string* wire) override {
    if (!SSL_is_init_finished(ssl_.get())) {
      if (waiting_.size() + plain.size() > kMostBeforeHandshake) {
        return absl::ResourceExhaustedError("TLS: the handshake does not end");
      }
      waiting_.append(plain);
      return absl::OkStatus();
    }
    const absl::Status status = Write(plain);
    Drain(wire);
    return status;
  }

  bool ended() const override { return ended_; }
  bool handshaking() const override { return !SSL_is_init_finished(ssl_.get()); }
  // Beside what OpenSSL keeps for any connection, whose number has a limit of its own.
  size_t held() const override {
    return BIO_pending(from_) + BIO_pending(to_) + waiting_.capacity();
  }

  void Finish(std::string* wire) override {
    if (!SSL_is_init_finished(ssl_.get())) return;
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
    ERR_clear_error();
    Drain(wire);
  }

 private:
  absl::Status Read(std::string* plain) {
    char buffer[16384];
    while (true) {
      ERR_clear_error();
      const int n = SSL_read(ssl_.get(), buffer, sizeof(buffer));
      if (n > 0) {
        plain->append(buffer, static_cast<size_t>(n));
        continue;
      }
      const int error = SSL_get_error(ssl_.get(), n);
      if (error == SSL_ERROR_ZERO_RETURN) ended_ = true;
      if (error == SSL_ERROR_ZERO_RETURN || error == SSL_ERROR_WANT_READ) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat("TLS: ", OpenSslError()));
    }
  }

  // A memory BIO takes all that it is given.
  absl::Status Write(std::string_view plain) {
    while (!plain.empty()) {
      const size_t part = std::min<size_t>(plain.size(), 1 << 30);
      ERR_clear_error();
      const int n = SSL_write(ssl_.get(), plain.data(), static_cast<int>(part));
      if (n <= 0) return absl::InternalError(absl::StrCat("TLS: ", OpenSslError()));
      plain.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }

  void Drain(std::string* wire) {
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(to_, &bytes);
    if (size <= 0) return;
    wire->append(bytes, static_cast<size_t>(size));
    (void)BIO_reset(to_);
  }

  std::unique_ptr<SSL, SslFree> ssl_;
  BIO* from_;
  BIO* to_;
  std::string waiting_;
  bool ended_ = false;
};

class Context : public TlsContext {
 public:
  explicit Context(SSL_CTX* context) : context_(context) {}
  std::unique_ptr<Transport> NewTransport() override {
    SSL* ssl = SSL_new(context_.get());
    if (ssl == nullptr) return nullptr;
    return std::make_unique<TlsTransport>(ssl);
  }

 private:
  std::unique_ptr<SSL_CTX, SslFree> context_;
};

absl::Status FileError(const char* option, const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(option, " ", path, ": ", OpenSslError(), "; expected a file in PEM"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::Open(const std::string& cert,
                                                             const std::string& key,
                                                             const std::string& ca) {
  ERR_clear_error();
  std::unique_ptr<SSL_CTX, SslFree> context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return absl::InternalError(absl::StrCat("TLS: ", OpenSslError()));
  SSL_CTX* c = context.get();
  SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
  SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Idle connections keep no buffers.
  SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS);
  if (SSL_CTX_use_certificate_chain_file(c, cert.c_str()) != 1) {
    return FileError("--tls-cert", cert);
  }
  if (SSL_CTX_use_PrivateKey_file(c, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return FileError("--tls-key", key);
  }
  if (SSL_CTX_check_private_key(c) != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tls-key ", key, " does not belong to --tls-cert ", cert));
  }
  if (!ca.empty()) {
    if (SSL_CTX_load_verify_locations(c, ca.c_str(), nullptr) != 1) {
      return FileError("--tls-ca", ca);
    }
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    const unsigned char id[] = "pulse";
    SSL_CTX_set_session_id_context(c, id, sizeof(id) - 1);
  }
  return std::make_unique<Context>(context.release());
}

}  // namespace pulse::net
