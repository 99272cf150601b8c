// ThreadPlacement: which processor does the I/O, and the merging, of the compaction that the
// calling thread runs. RocksDB runs a compaction (each subcompaction) on one thread, and asks its
// CompactionService there first: that decision holds for the files that the thread then writes and
// reads.
//
// `owner` tells file systems of one process apart: a thread may serve databases of several.
// Per thread; never blocks.
#pragma once

#include <memory>
#include <utility>

namespace pulse::lsm {

// Called by the outputs of a thread that compacts on the agent's CPUs, on that thread.
class RemoteThreadHooks {
 public:
  // Before each append. May block for a while, and may return the thread to the host's CPUs.
  virtual void BeforeAppend() = 0;

 protected:
  ~RemoteThreadHooks() = default;
};

class ThreadPlacement {
 public:
  // The thread compacts on the host's CPUs. Holds until the next call.
  static void SetOnHost(const void* owner, bool agent_does_io) { mine() = {owner, agent_does_io}; }
  // The thread compacts on the agent's CPUs.
  static void SetOnAgent(const void* owner, std::weak_ptr<RemoteThreadHooks> hooks) {
    mine() = {owner, true, true, std::move(hooks)};
  }
  static void Reset(const void* owner) {
    if (mine().owner == owner) mine() = State();
  }
  static bool IsOnAgent(const void* owner) {
    const State& s = mine();
    return s.on_agent && s.owner == owner;
  }
  // Null once their object is gone: RocksDB does not tell the end of every compaction.
  static std::shared_ptr<RemoteThreadHooks> Hooks() { return mine().hooks.lock(); }
  // `otherwise` for a thread of which nothing was set: one that flushes.
  static bool AgentDoesIo(const void* owner, bool otherwise) {
    const State& s = mine();
    return s.owner == owner ? s.agent_does_io : otherwise;
  }

 private:
  struct State {
    const void* owner = nullptr;
    bool agent_does_io = true;
    bool on_agent = false;
    std::weak_ptr<RemoteThreadHooks> hooks = {};
  };
  static State& mine() {
    thread_local State state;
    return state;
  }
};

}  // namespace pulse::lsm
