// Where the I/O of the compaction that the calling thread runs is done. RocksDB runs a compaction
// (each subcompaction) on one thread, and asks its CompactionService there first: what that decides
// holds for the files that the thread then writes and reads.
//
// Per thread; never blocks.
#pragma once

#include <memory>
#include <utility>

namespace pulse::lsm {

// Who had a thread compact on the agent's CPUs: called on it before each piece of output. May block
// for a while, and may have the thread go on elsewhere.
class AwayWork {
 public:
  virtual void BeforePiece() = 0;

 protected:
  ~AwayWork() = default;
};

class ThreadPlacement {
 public:
  // For the file system that `owner` stands for, until the next call.
  static void Set(const void* owner, bool on_agent) { mine() = {owner, on_agent, false, {}}; }
  // The thread compacts on the agent's CPUs, for `work`, until it is set anew.
  static void SetAway(const void* owner, std::weak_ptr<AwayWork> work) {
    mine() = {owner, true, true, std::move(work)};
  }
  static void Forget(const void* owner) {
    if (mine().owner == owner) mine() = State();
  }
  static bool IsAway(const void* owner) {
    const State& s = mine();
    return s.away && s.owner == owner;
  }
  // Null when it is gone: RocksDB does not tell the end of every compaction.
  static std::shared_ptr<AwayWork> Work() { return mine().work.lock(); }
  // `otherwise` for a thread of which nothing was said.
  static bool OnAgent(const void* owner, bool otherwise) {
    const State& s = mine();
    return s.owner == owner ? s.on_agent : otherwise;
  }

 private:
  struct State {
    const void* owner = nullptr;
    bool on_agent = true;
    bool away = false;
    std::weak_ptr<AwayWork> work;
  };
  static State& mine() {
    thread_local State state;
    return state;
  }
};

}  // namespace pulse::lsm
