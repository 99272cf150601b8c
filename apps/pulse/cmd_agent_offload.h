// `pulse agent --offload`: remote reads of the store's files that the agent answers.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/pulse/agent_front.h"
#include "net/director.h"
#include "services/files/agent_store.h"
#include "services/offload/engine.h"

namespace pulse {

struct OffloadArgs {
  std::string program;  // the path of its shared object
  int loops = 1;
  uint64_t table_items = uint64_t{1} << 20;
  uint32_t contexts = 1024;
  bool copying = false;

  bool wanted() const { return !program.empty(); }
};

// Adds --offload and its own options. --serve and --serve-host are the command's.
void AddOffloadOptions(CLI::App* cmd, OffloadArgs* args);

// What runs: open it before the sessions, and let it go after them.
class OffloadServer {
 public:
  // `store` may be null, which is refused. Takes the store's hooks.
  static absl::StatusOr<std::unique_ptr<OffloadServer>> Open(const OffloadArgs& args,
                                                             const FrontArgs& front,
                                                             files::FileStore* store);
  // Accepts connections; after the sessions have begun.
  absl::Status Listen();
  // Ends them; before the sessions end.
  void Stop() { director_.reset(); }
  // "offload blocks on port 9000 before 127.0.0.1:9001"
  std::string Describe() const;

  // After Listen, and before Stop.
  FrontStatus Status() const;

 private:
  OffloadServer(const OffloadArgs& args, const FrontArgs& front) : args_(args), front_(front) {}

  const OffloadArgs args_;
  const FrontArgs front_;
  std::unique_ptr<offload::Engine> engine_;
  std::unique_ptr<director::Director> director_;
};

}  // namespace pulse
