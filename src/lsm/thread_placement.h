// Where the I/O of the compaction that the calling thread runs is done. RocksDB runs a compaction
// (each subcompaction) on one thread, and asks its CompactionService there first: what that decides
// holds for the files that the thread then writes and reads.
//
// Per thread; never blocks.
#pragma once

namespace pulse::lsm {

class ThreadPlacement {
 public:
  // For the file system that `owner` stands for, until the next call.
  static void Set(const void* owner, bool on_agent) { mine() = {owner, on_agent, false}; }
  // The thread compacts on the agent's CPUs, and gives way to flushes there, until it is set anew.
  static void SetGivesWay(const void* owner) { mine() = {owner, true, true}; }
  static void Forget(const void* owner) {
    if (mine().owner == owner) mine() = State();
  }
  static bool GivesWay(const void* owner) {
    const State& s = mine();
    return s.gives_way && s.owner == owner;
  }
  // `otherwise` for a thread of which nothing was said.
  static bool OnAgent(const void* owner, bool otherwise) {
    const State& s = mine();
    return s.owner == owner ? s.on_agent : otherwise;
  }

 private:
  struct State {
    const void* owner = nullptr;
    bool on_agent = true;
    bool gives_way = false;
  };
  static State& mine() {
    thread_local State state;
    return state;
  }
};

}  // namespace pulse::lsm
