// SimDisk: a disk beneath the C library. While it runs, every file system call of this process on a
// path below its root is carried out on real files and recorded in an OpLog, in one linear order; a
// sync is recorded and never carried out. Faults can be injected at any call.
//
// The calls reach it through this program's own definitions of open, write, fsync and so on
// (interpose.cc), which librocksdb.so and the plug-in are bound to: both sides of the embedded
// agent with engine=threads are covered. What bypasses the C library is not seen: io_uring
// (recorded by RecordingBackend instead), memory-mapped writes, and other processes.
//
// What it assumes of its users: absolute paths without "..", no renames of non-empty directories
// across directories, writes through descriptors opened while it runs.
//
// One per process. Thread-safe: every call holds the disk's lock while the real call runs, so that
// the log's order is the files' order; syncs and delays sleep outside of it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "powercut/faults.h"
#include "powercut/op_log.h"

namespace pulse::powercut {

struct SimDiskOptions {
  // Syncs of tables and blobs take up to so long, of half of them; others at most a tenth. Wide
  // windows find what depends on their order.
  int max_sync_micros = 0;
  uint64_t seed = 0;
  // A disk that lies: syncs of these files succeed and make nothing durable. For tests of the
  // tests.
  bool lie[kFileClasses] = {};
  // Keeps the log. Without it only faults are injected.
  bool record = true;
};

// How often each call was made on each kind of file.
struct CallCount {
  std::array<std::array<int, kFileClasses>, kCalls> n{};
  int& at(Call c, FileClass f) { return n[static_cast<int>(c)][static_cast<int>(f)]; }
  int at(Call c, FileClass f) const { return n[static_cast<int>(c)][static_cast<int>(f)]; }
};

class SimDisk {
 public:
  static SimDisk& Get();
  // For the interposed functions: whether there is anything to do at all.
  static bool active() { return active_.load(std::memory_order_acquire); }

  // Starts with the tree below `root`, an absolute path of a directory, as durable content.
  void Start(const std::string& root, const SimDiskOptions& options);
  // Ends, with all files of the disk closed, and returns the log.
  OpLog Stop();
  // Number of operations so far: what happens from now on has this index or a higher one.
  size_t position();

  // Replaces the fault; kNone for none. The counting of calls starts anew.
  void SetFault(const Fault& fault);
  // Ends the fault, and leaves the counts.
  void ClearFault();
  // How often the fault has struck; in which thread first, and on which files.
  int fault_hits();
  std::string fault_thread();
  std::set<std::string> fault_files();
  CallCount counts();

  // The calls. Each sets errno as the C library does.
  int Open(const char* path, int flags, mode_t mode);
  int Close(int fd);
  ssize_t Read(int fd, void* data, size_t n, off_t offset);         // offset -1: read()
  ssize_t Write(int fd, const void* data, size_t n, off_t offset);  // offset -1: write()
  int Fallocate(int fd, int mode, off_t offset, off_t length);
  int Ftruncate(int fd, off_t length);
  int Truncate(const char* path, off_t length);
  int Sync(int fd);
  int SyncFileRange(int fd, off_t offset, off_t length, unsigned flags);
  int Rename(const char* from, const char* to);
  int Link(const char* from, const char* to);
  int Unlink(const char* path, bool directory);
  int Mkdir(const char* path, mode_t mode);
  int FcntlDuplicate(int fd, int command, int lowest);
  int Dup3(int fd, int to, int flags);
  // The descriptor is about to be closed past the interposed functions.
  void Forget(int fd);
  // True for a descriptor of this disk.
  static bool Tracks(int fd) { return NodeOf(fd) >= 0; }

  // For I/O that bypasses the C library.
  void RecordWrite(int fd, const char* data, size_t n, uint64_t offset);
  void RecordTruncate(int fd, uint64_t length);
  void RecordAllocate(int fd, uint64_t length);
  // A sync in two steps; the first returns a ticket for the second, which may come after the close.
  struct SyncTicket {
    NodeId node = 0;
    uint64_t begin = 0;
    bool counts = false;
  };
  SyncTicket BeginSync(int fd);
  void EndSync(const SyncTicket& ticket);

 private:
  struct Node {
    bool is_dir = false;
    FileClass file_class = FileClass::kOther;
    std::string path;  // where it was created, for messages
    std::map<std::string, NodeId> entries;
  };
  struct Place {
    NodeId dir;
    std::string name;
    int64_t node;  // -1: nothing there
  };
  struct Verdict {
    Effect effect = Effect::kNone;
    int err = 0;
  };

  static constexpr int kMaxDescriptors = 1 << 16;
  static int64_t NodeOf(int fd) {
    return fd < 0 || fd >= kMaxDescriptors
               ? -1
               : int64_t{table_[fd].load(std::memory_order_acquire)} - 1;
  }
  static void SetNode(int fd, int64_t node);

  bool Locate(const char* path, Place* place);
  NodeId NewNode(bool is_dir, const std::string& path, const std::string& name);
  void Adopt(const std::string& path, NodeId dir);
  Op& Add(OpKind kind);
  // Counts the call and says what becomes of it.
  void RecordSize(OpKind kind, int fd, uint64_t length);
  Verdict Judge(Call call, FileClass file_class, const std::string& path);
  // How much of a transfer of `n` bytes is to be done.
  size_t Shortened(const Verdict& verdict, const void* data, size_t n, off_t offset);
  static void SleepIfDelayed(const Verdict& verdict);

  static std::atomic<bool> active_;
  static std::atomic<uint32_t> table_[kMaxDescriptors];  // node + 1

  std::mutex mu_;
  std::string root_;  // with a slash at its end
  SimDiskOptions options_;
  std::mt19937_64 rng_;
  std::vector<Node> nodes_;
  OpLog log_;
  Op unrecorded_{};
  Fault fault_;
  int fault_hits_ = 0;
  std::string fault_thread_;
  std::set<std::string> fault_files_;
  CallCount counts_;
};

}  // namespace pulse::powercut
