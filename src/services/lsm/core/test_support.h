// What the plug-in's tests share: scratch directories, seeds, an I/O back-end that can hold, delay,
// fail and shorten operations, and file systems above and below the plug-in that write one ordered
// trace together with that back-end.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/testing.h"
#include "pulse/rocksdb.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "services/lsm/core/options.h"
#include "uring/io_backend.h"

namespace pulse::lsm::test {

inline const rocksdb::IOOptions kIo;

// A directory of its own below the current one, removed at the end.
class ScratchDir {
 public:
  ScratchDir();
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

using testing_util::Eventually;
using testing_util::StaysBlocked;
using testing_util::TestSeed;

struct Event {
  enum Kind {
    kClosed,      // a marked output's Close returned OK to RocksDB
    kDurable,     // its sync_close completed
    kSyncFailed,  // ... or failed
    kMetaEnter,   // RocksDB appends to, or syncs, a MANIFEST or CURRENT (above the barrier)
    kMetaAppend,  // ... and this reached the base file system (below the barrier)
    kMetaSync,
    kMetaNames,  // ... and with it a MANIFEST's records that add files
    kDirEnter,
    kDirSync,
    kWalSync,
    kTableSync,  // of a table or blob file that the plug-in leaves to the base file system
    kDeleted,
  };
  Kind kind;
  std::string path;
  std::thread::id thread;
  std::vector<uint64_t> numbers = {};  // kMetaNames: of the files
};

// Thread-safe.
class Trace {
 public:
  void Add(Event::Kind kind, std::string path, std::vector<uint64_t> numbers = {});
  std::vector<Event> Snapshot() const;
  size_t Count(Event::Kind kind, const std::string& part = "") const;
  // MANIFEST, CURRENT and directories.
  size_t MetadataMoves() const;
  // Says what is wrong, or "": whenever metadata in `dirs` was written, every output in them that
  // had been closed before was durable, deleted or known to have failed, and those that it named
  // were durable; and so for a directory and the outputs in it, when it was synced by a thread that
  // wrote outputs.
  std::string CheckBarrier(const std::set<std::string>& dirs) const;

 private:
  mutable std::mutex mu_;
  std::vector<Event> events_;
};

// What the back-end does with a request.
struct Verdict {
  enum Action { kPass, kHold, kFail, kDelay, kShorten };
  Action action = kPass;
  int64_t value = 0;  // errno, or microseconds
};

// Steers a scripted back-end from the test's threads.
class IoScript {
 public:
  using Rule = std::function<Verdict(const IoRequest& request, const std::string& path)>;

  explicit IoScript(std::shared_ptr<Trace> trace = nullptr) : trace_(std::move(trace)) {}
  void SetRule(Rule rule);
  void Hold(IoOp op, const std::string& path_part = "");
  // Fails every operation of this kind from the nth on (from 1).
  void FailFrom(IoOp op, int nth, int err, const std::string& path_part = "");
  void Clear() { SetRule(nullptr); }
  // Lets everything go that is held, and holds nothing more.
  void Release();
  // Lets go what is held for files whose path contains `path_part`; the rule stays.
  void ReleaseHeld(const std::string& path_part);
  // Fails everything that is held; the rule stays.
  void FailHeld(int err);
  size_t held() const;
  // Waits until at least n are held; false when that takes absurdly long.
  bool WaitHeld(size_t n) const;
  std::vector<std::string> held_paths() const;

  // For Options::backend_factory. The script outlives the agent.
  IoBackendFactory factory();

 private:
  friend class ScriptedBackend;
  struct Held {
    IoRequest request;
    std::string path;
    int err = 0;  // fails with it when let go
  };
  // `releases`: as of the rule that was asked.
  Verdict Judge(const IoRequest& request, const std::string& path, uint64_t* releases);

  const std::shared_ptr<Trace> trace_;
  mutable std::mutex mu_;
  mutable std::condition_variable cv_;
  Rule rule_;
  std::deque<Held> held_;
  std::deque<Held> released_;
  uint64_t releases_ = 0;
  int wake_fd_ = -1;
};

// Below the plug-in: logs what reaches the disk of MANIFEST, CURRENT, directories and logs.
std::shared_ptr<rocksdb::FileSystem> NewBaseRecorder(std::shared_ptr<Trace> trace);
// Above the plug-in: logs when outputs are closed and when metadata writes begin.
std::shared_ptr<rocksdb::FileSystem> NewTopRecorder(std::shared_ptr<Trace> trace,
                                                    std::shared_ptr<rocksdb::FileSystem> pulse);

// The plug-in with a scripted back-end, between two recorders, and an Env of it.
struct Rig {
  Rig();
  explicit Rig(Options options);
  ~Rig();
  Stats stats() const;

  std::shared_ptr<Trace> trace = std::make_shared<Trace>();
  IoScript script{trace};
  std::shared_ptr<rocksdb::FileSystem> pulse;
  std::shared_ptr<rocksdb::FileSystem> top;
  std::unique_ptr<rocksdb::Env> env;
};

// Parses a URI; aborts the test when it is wrong.
Options MakeOptions(const std::string& uri);

// File options as RocksDB makes them for a compaction output.
rocksdb::FileOptions OutputOptions();

// `n` bytes that depend on seed and position.
std::string RandomBytes(std::mt19937_64* rng, size_t n);

// The bytes of a file, read without the plug-in (on a pool, past it).
std::string ReadRaw(const std::string& path);

}  // namespace pulse::lsm::test
