// Options that servers share: `pulse serve`, `pulse kv` and `pulse graph serve`.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "services/redis/serve.h"

namespace CLI {
class App;
}  // namespace CLI

namespace pulse {

struct ServerArgs {
  redis::ServeOptions options;
  std::string max_value = "32M";
  std::string cpus;
  std::string password_file;
  std::string metrics;
  bool metrics_anywhere = false;
  int port = 6379;
  bool port_given = false;
};

// --port, --bind, --socket.
void AddListenOptions(CLI::App* cmd, ServerArgs* args);
// Passwords, users, TLS.
void AddAccessOptions(CLI::App* cmd, net::AccessOptions* options, std::string* password_file);
// The password that `file` holds, unless that is empty.
absl::Status ReadPasswordFile(const std::string& file, net::AccessOptions* options);
// Limits, threads, metrics.
void AddConnectionOptions(CLI::App* cmd, ServerArgs* args);

// Turns what was given into `args->options`.
absl::Status ReadServerArgs(ServerArgs* args);

// Where clients, or their agent, come to.
std::string ListenersText(const redis::ServeOptions& options, uint16_t port);

}  // namespace pulse
