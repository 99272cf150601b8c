// LinkKeeper: keeps the lanes of an agent attached to `pulse kv --agent-socket`: connects, shakes
// hands, watches the sockets, and tries again when the store has ended, for as long as it lives.
//
// Threads: one of its own, which blocks; Add before Start. Lanes are told on their loops' threads.
// Errors are lines in the log, one at each change.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/wake_event.h"
#include "net/application.h"
#include "services/kv/agent/agent_lane.h"

namespace pulse::kv {

// Attaches one lane to the store at `path`; blocks for at most `timeout_ms`.
absl::StatusOr<std::shared_ptr<LaneLink>> AttachLane(const std::string& path, int timeout_ms);

class LinkKeeper {
 public:
  explicit LinkKeeper(std::string path) : path_(std::move(path)) {}
  ~LinkKeeper() { Stop(); }
  // The lane may end: then what is posted to it is dropped.
  void Add(AgentLane* lane);
  // Tries to attach each lane once before it returns, so that clients who come now are served if
  // the store is there.
  absl::Status Start();
  void Stop();

 private:
  struct Kept {
    AgentLane* lane;
    std::shared_ptr<net::Remote> loop;
    std::shared_ptr<LaneLink> link;  // null: not attached
    int64_t try_at = 0;
    int64_t wait = 0;  // nanoseconds
  };
  void Run();
  void TryAttach(Kept* kept);

  const std::string path_;
  std::vector<Kept> kept_;
  WakeEvent stop_;
  bool told_away_ = false;
  std::thread thread_;
};

}  // namespace pulse::kv
