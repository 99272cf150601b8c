// SpliceClient: a connection that the application's signature does not match. Its bytes go to the
// host and back through pipes, without being looked at or copied into this process. One loop's.
//
// A pipe is held only while there are bytes on the way, and bounds them: a side that does not read
// stops the other. Each side's end is passed on; when one is reset, so is the other.
#pragma once

#include <cstdint>

#include "base/unique_fd.h"
#include "net/loop.h"
#include "net/poller.h"

namespace pulse::net {

class SpliceClient final : public Client {
 public:
  explicit SpliceClient(Loop* loop) : loop_(loop) {}
  ~SpliceClient() override;
  void Start(UniqueFd fd);

  void EndTurn() override;
  void Sweep(int64_t now) override;
  void Drain() override;

 private:
  // One direction.
  struct Way {
    Pipe pipe;
    size_t in_pipe = 0;
    bool readable = false;
    bool writable = false;
    bool ended = false;    // its source
    bool shut = false;     // and its target has been told
    bool starved = false;  // of descriptors for a pipe
    int64_t moved_at = 0;
  };

  void Connect();
  void Connected();
  void Ready(bool host, short events);
  // False when the connection is dead.
  bool Pump(Way* way, int from, int to);
  ssize_t Fill(Way* way, int from);
  void Die(bool reset);

  Loop* const loop_;
  UniqueFd client_;
  UniqueFd host_;
  WatchPtr watch_client_;
  WatchPtr watch_host_;
  bool connected_ = false;
  bool dead_ = false;
  int64_t connect_deadline_ = 0;
  Way to_host_;
  Way to_client_;
};

}  // namespace pulse::net
