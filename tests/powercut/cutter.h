// Cutter: cuts the power in a recorded run, opens what is left with RocksDB's own file system, and
// judges it. Where tables are in a pool, it opens with the plug-in, and the image is where the disk
// was.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "powercut/crash_image.h"
#include "powercut/workload.h"

namespace pulse::powercut {

struct Cut {
  size_t at = 0;       // operations before this position have happened
  uint64_t image = 0;  // which of the possible images
};

class Cutter {
 public:
  // Works below `scratch`, which it creates. `run` outlives it.
  Cutter(const RecordedRun* run, std::string scratch);
  ~Cutter();

  // Chooses `n` cuts: most where something was just promised, or MANIFEST, CURRENT or a directory
  // has just changed. None is in what the disk had at the start.
  std::vector<Cut> Choose(int n, uint64_t seed) const;
  // "" or what is wrong after this cut. The image stays in image_dir() until the next one.
  std::string Judge(const Cut& cut);
  // The disk after the cut, as nobody has opened it yet, in the new directory `to`.
  void Build(const Cut& cut, const std::string& to);
  std::string image_dir() const { return run_.pool ? run_.root : scratch_ + "/image"; }
  int checkpoints_judged() const { return checkpoints_judged_; }

 private:
  std::string JudgeDatabase(const Cut& cut, rocksdb::Env* env);
  std::string JudgeCheckpoints(const Cut& cut, rocksdb::Env* env);

  const RecordedRun& run_;
  const std::string scratch_;
  CrashImage images_;
  int checkpoints_judged_ = 0;
};

// A directory for files whose content is of no value: in memory where there is such a place.
std::string FastScratchDir(const std::string& name);

}  // namespace pulse::powercut
