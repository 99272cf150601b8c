// PlacementContext: what the files of one FileSystem and the CompactionPlacers of its databases
// share.
//
// Ownership: part of the FileSystem's FileContext, which outlives its placers. Thread-safe as its
// members; nothing here blocks but a call of a CloseListener.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "services/lsm/core/host_session.h"
#include "services/lsm/core/thread_placement.h"
#include "services/lsm/placement/compression_threads.h"
#include "services/lsm/placement/flush_priority.h"
#include "services/lsm/placement/task_slots.h"

namespace pulse::lsm {

struct PlacementContext {
  // Whether the agent does the I/O of the compaction or flush that the calling thread runs.
  bool AgentDoesIo() const {
    return ThreadPlacement::AgentDoesIo(this, agent_does_io.load(std::memory_order_relaxed));
  }
  // Before each append of an output, on its writer's thread.
  void BeforeAppend() const {
    if (!ThreadPlacement::IsOnAgent(this)) [[likely]]
      return;
    if (const auto hooks = ThreadPlacement::Hooks()) hooks->BeforeAppend();
  }

  std::shared_ptr<HostSession> session;
  bool in_pool = false;  // tables are in a pool, whose metadata this process alone may change
  // Whether PlaceCompactions was called, without which RocksDB does not ask where to compact.
  std::atomic<bool> placed{false};
  std::atomic<bool> compresses{false};  // some family was prepared for compression=agent
  // Of a thread of which nothing was set: one that flushes.
  std::atomic<bool> agent_does_io{true};
  // Whole compactions by moved threads, of all databases.
  TaskSlots task_slots;
  std::unique_ptr<CompressionThreads> compression;  // null: compression=host
  FlushPriority flush_priority;

  // Called when the database in `dir` is closed. Returns whether the listener knew it; if none did,
  // each is called once more with `unknown_to_all`.
  using CloseListener = std::function<bool(const std::string& dir, bool unknown_to_all)>;
  void AddCloseListener(const void* who, CloseListener listener) {
    std::lock_guard lock(close_mu_);
    close_listeners_[who] = std::move(listener);
  }
  // Waits for calls under way.
  void RemoveCloseListener(const void* who) {
    std::lock_guard lock(close_mu_);
    close_listeners_.erase(who);
  }
  void NotifyClosed(const std::string& dir) {
    std::lock_guard lock(close_mu_);  // so that none of them goes meanwhile
    bool known = false;
    for (const auto& [who, listener] : close_listeners_) known |= listener(dir, false);
    if (known) return;
    for (const auto& [who, listener] : close_listeners_) listener(dir, true);
  }

 private:
  std::mutex close_mu_;
  std::map<const void*, CloseListener> close_listeners_;
};

}  // namespace pulse::lsm
