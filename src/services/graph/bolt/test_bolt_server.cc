// bolt_test_server [--port N] [--users FILE] [--cert FILE --key FILE] [--stalled MS]: serves a
// graph in memory to Neo4j's drivers, for their tests. Prints its port. Ends at the end of its
// input.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "services/graph/bolt/server.h"
#include "services/graph/model/test_memory_database.h"

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  pulse::bolt::BoltOptions options;
  options.port = 0;
  int aborts = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--port") options.port = static_cast<uint16_t>(atoi(value));
    if (name == "--users") options.users_file = value;
    if (name == "--cert") options.tls_cert = value;
    if (name == "--key") options.tls_key = value;
    if (name == "--stalled") options.limits.stalled = std::chrono::milliseconds(atoi(value));
    if (name == "--aborts") aborts = atoi(value);
  }
  pulse::cypher::MemoryDatabase database;
  database.AbortCommits(aborts);
  pulse::cypher::GraphService service(&database, pulse::cypher::ServiceOptions());
  auto server = pulse::bolt::BoltServer::Open(&service, options);
  if (!server.ok()) {
    std::fprintf(stderr, "%s\n", server.status().ToString().c_str());
    return 1;
  }
  std::printf("%d\n", (*server)->port());
  std::fflush(stdout);
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  (*server)->Stop();
  return 0;
}
