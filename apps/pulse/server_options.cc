#include "apps/pulse/server_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/pulse/metrics/endpoint.h"
#include "apps/pulse/util/option_values.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "net/director.h"

namespace pulse {
namespace {

// The first line of a file. A password on a command line would be seen by everyone.
absl::Status ReadPassword(const std::string& path, std::string* password) {
  const UniqueFd fd = OpenFile(path, O_RDONLY);
  if (!fd.valid()) return ErrnoError(errno, "reading --requirepass", path);
  char text[4096];
  const ssize_t n = read(fd.get(), text, sizeof(text));
  if (n < 0) return ErrnoError(errno, "reading --requirepass", path);
  password->assign(text, static_cast<size_t>(n));
  password->resize(std::min(password->find_first_of("\r\n"), password->size()));
  if (password->empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--requirepass ", path, ": expected a password in its first line"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddListenOptions(CLI::App* cmd, ServerArgs* args) {
  redis::ServeOptions& options = args->options;
  cmd->add_option("--port", args->port, "TCP port; 0: one that the kernel chooses")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  cmd->add_option("--bind", options.bind,
                  "address to listen on; beyond loopback only with a password or TLS")
      ->capture_default_str();
  cmd->add_option("--socket", options.socket, "listen on this Unix socket too");
}

void AddAccessOptions(CLI::App* cmd, net::AccessOptions* access, std::string* password_file) {
  net::AccessOptions& options = *access;
  cmd->add_option("--requirepass", *password_file,
                  "file whose first line is the password of the user `default`");
  cmd->add_option("--users", options.users_file,
                  "file of users, in Redis's form: user NAME on #SHA256 +@read +@write");
  CLI::Option* const cert =
      cmd->add_option("--tls-cert", options.tls_cert, "speak TLS, with this certificate (PEM)");
  cert->needs(cmd->add_option("--tls-key", options.tls_key, "its private key (PEM)")->needs(cert));
  cmd->add_option("--tls-ca", options.tls_ca,
                  "clients must show a certificate that one of these has signed (PEM)")
      ->needs(cert);
  cmd->add_flag("--insecure", options.insecure, "listen beyond loopback without password and TLS");
}

void AddConnectionOptions(CLI::App* cmd, ServerArgs* args) {
  redis::ServeOptions& options = args->options;
  cmd->add_option("--max-value", args->max_value, "the longest argument of a request")
      ->capture_default_str();
  cmd->add_option("--max-clients", options.max_clients, "connections at a time")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  cmd->add_option("--idle-timeout", options.idle_seconds,
                  "seconds after which a client that asks nothing is cut off; 0: never")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  cmd->add_option("--threads", options.threads, "threads that serve connections")
      ->check(CLI::Range(1, net::kMostThreads))
      ->capture_default_str();
  cmd->add_option("--cpus", args->cpus,
                  "CPUs of the host's threads and what it starts, as 0,2-3 (default: all)");
  metrics::Endpoint::AddOptions(cmd, "9465", &args->metrics, &args->metrics_anywhere);
}

absl::Status ReadPasswordFile(const std::string& file, net::AccessOptions* options) {
  return file.empty() ? absl::OkStatus() : ReadPassword(file, &options->password);
}

absl::Status ReadServerArgs(ServerArgs* args) {
  redis::ServeOptions& options = args->options;
  PULSE_RETURN_IF_ERROR(ReadCpus("--cpus", args->cpus, &options.cpus));
  PULSE_ASSIGN_OR_RETURN(options.limits.max_bulk,
                         ParseSizeOption("--max-value", args->max_value, redis::kMostMaxBulk));
  PULSE_RETURN_IF_ERROR(ReadPasswordFile(args->password_file, &options));
  options.port = static_cast<uint16_t>(args->port);
  return absl::OkStatus();
}

std::string ListenersText(const redis::ServeOptions& options, uint16_t port) {
  std::vector<std::string> all;
  if (options.listen_tcp) all.push_back(absl::StrCat(options.bind, ":", port));
  for (const std::string& path : {options.socket, options.host_socket}) {
    if (!path.empty()) all.push_back(path);
  }
  return absl::StrJoin(all, " and ");
}

}  // namespace pulse
