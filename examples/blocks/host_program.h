// `pulse blocks serve` as a whole: a director, the server, and its files. Open returns when clients
// can connect; destruction finishes what was asked for and ends the connections. The calls of one
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "examples/blocks/block_files.h"
#include "examples/blocks/server.h"
#include "net/director.h"

namespace pulse::blocks {

struct HostOptions {
  std::string listen = "127.0.0.1:0";
  int threads = 1;        // of the network
  std::string agent;      // its socket: files are in the store
  std::string directory;  // or here, by the operating system
  FilesShape shape;
  EngineKind engine = EngineKind::kUring;  // of a directory
  bool direct = true;
  bool ordered = false;  // see Server
};

class HostProgram {
 public:
  static absl::StatusOr<std::unique_ptr<HostProgram>> Open(const HostOptions& options);
  ~HostProgram();

  uint16_t port() const { return director_->port(); }
  const Server& server() const { return server_; }

 private:
  explicit HostProgram(const ServerOptions& options) : server_(options) {}

  Server server_;
  std::unique_ptr<BlockFiles> files_;
  std::unique_ptr<director::Director> director_;
};

}  // namespace pulse::blocks
