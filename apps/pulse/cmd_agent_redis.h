// `pulse agent --serve-db`: the reads of `pulse serve`'s clients, answered by an agent in a process
// of its own, before a server that runs with --host-socket.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/pulse/agent_front.h"
#include "net/director.h"
#include "services/redis/offload_resp.h"

namespace pulse {

struct RedisFrontArgs {
  std::string db;  // the server's
  std::string cache = "64M";
  std::string max_value = "32M";  // the server's --max-value
  int loops = 1;
  uint32_t idle_seconds = 0;  // a client that asks nothing for so long is cut off; 0: never
  bool no_password = false;   // the server wants none

  bool wanted() const { return !db.empty(); }
};

// A size above 0, at most `most`. Errors name `option`.
absl::Status ReadSize(const char* option, const std::string& text, uint64_t most, uint64_t* bytes);
inline constexpr uint64_t kMostMaxValue = uint64_t{512} << 20;

void AddRedisFrontOptions(CLI::App* cmd, RedisFrontArgs* args);

// What runs; ends when it is destroyed. Open blocks until clients are accepted.
class RedisFront {
 public:
  virtual ~RedisFront() = default;
  static absl::StatusOr<std::unique_ptr<RedisFront>> Open(const RedisFrontArgs& args,
                                                          const FrontArgs& front,
                                                          const std::vector<int>& cpus);
  virtual std::string Describe() const = 0;
  virtual FrontStatus Status() const = 0;
};

// The same for an agent within the server's process.
FrontStatus RedisFrontStatus(const director::Director& director, const redis::OffloadedResp& reads);

}  // namespace pulse
