// Heartbeat: whether the agent still shows signs of life, for all lanes of one link.
//
// Whoever waits for the agent looks once a beat, a quarter of the limit: the agent is pinged, and
// answers from its loop even while its device is slow. After four beats without an answer it counts
// as silent. Beats are counted rather than time: a machine that was suspended gives it its chance.
//
// Silence lasts until every request that was given up has been answered after all (Revive): what an
// agent was asked to write, it may still write when it goes on.
//
// Ownership: does not own the library, which must outlive it. Threads: any. Never blocks.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "absl/status/status.h"
#include "pulse/files.h"

namespace pulse::nbd {

class Heartbeat {
 public:
  // `limit` 0: an agent may be silent for as long as it likes.
  Heartbeat(files::Library* library, std::chrono::milliseconds limit);
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // How long to wait for a completion before the next Look(); kForever without a limit.
  int64_t beat_us() const { return beat_us_; }
  // Something has been outstanding for a while, and nothing came.
  void Look();
  bool silent() const { return silent_; }
  // Whether requests may be given up: false when the agent is not silent any more. Counts.
  bool GiveUp();
  uint64_t given_up() const { return given_up_; }
  // Nothing is outstanding, as far as requests were given up before given_up() was `seen`.
  void Revive(uint64_t seen);

  absl::Status Error() const;

 private:
  files::Library* const library_;
  const std::chrono::milliseconds limit_;
  const int64_t beat_us_;

  std::mutex mu_;
  int64_t looked_ = 0;     // nanoseconds
  uint64_t progress_ = 0;  // of the agent, then
  int missed_ = 0;
  std::atomic<bool> silent_{false};
  std::atomic<uint64_t> given_up_{0};
};

}  // namespace pulse::nbd
