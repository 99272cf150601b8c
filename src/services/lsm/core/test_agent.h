// An agent process for tests: this program again, serving until it is killed.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {

class AgentProcess {
 public:
  AgentProcess();
  ~AgentProcess();

  // The agent ends with the thread that calls this.
  void Start();
  // From now on the process may not open a descriptor of this number or above.
  void LimitFiles(int n) const;
  void Stop();  // SIGSTOP
  // Stops it while `fs` uses it: on a busy machine it may just have been taken for hung. Returns
  // the failovers until then; the next is its own.
  uint64_t StopUnder(rocksdb::FileSystem* fs);
  void Continue();   // SIGCONT
  void Kill();       // SIGKILL; returns when it is gone
  void Terminate();  // SIGTERM; returns when it is gone

  std::string socket() const { return dir_ + "/agent.sock"; }
  // A FileSystem on this agent.
  std::shared_ptr<rocksdb::FileSystem> Attach(const std::string& options = "") const;

 private:
  void Wait(int signal);

  std::string dir_;
  pid_t pid_ = -1;
};

// A marked output, as compactions and flushes create them.
std::unique_ptr<rocksdb::FSWritableFile> CreateOutput(rocksdb::FileSystem* fs,
                                                      const std::string& path);
void SyncDirectory(rocksdb::FileSystem* fs, const std::string& path);
Stats StatsOf(rocksdb::FileSystem* fs);

}  // namespace pulse::lsm::test
