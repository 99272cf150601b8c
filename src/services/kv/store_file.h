// StoreFile: the file in memory (tmpfs) that a store's partitions lie in, so that a server which
// was ended, or killed, goes on with its keys when it starts again. DPU-KV paper, section 4.1,
// leaves the store in the host's process; there a crash costs all of it.
//
// Its first page tells what it is of: another version, number of partitions, way to divide keys
// among them, or size of memory is refused, as nothing would be where it is looked for. A lock
// keeps a second server out. The file has mode 0600 and belongs to the server's user.
//
// Ownership: the object owns the descriptor, the lock and the mapping of the first page; the file
// stays. Threads: Open and Finish for one; next_cas() for any. Blocking: system calls at Open.
// Errors say what is wrong with which file, and the remedy.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "services/kv/core/memory.h"
#include "services/redis/commands/cluster.h"

namespace pulse::kv {

class StoreFile {
 public:
  // `memory_bytes` of all partitions. `slots`: keys belong to a partition by their slot, of which
  // the process has these, as in cluster mode; null: by their hash. Sets the hash's seed to the
  // file's, so it is to be called before any key is hashed; one store of a process can have a file
  // of other seed.
  static absl::StatusOr<std::unique_ptr<StoreFile>> Open(const std::string& path,
                                                         uint64_t memory_bytes, int partitions,
                                                         const redis::SlotRange* slots);
  ~StoreFile();
  StoreFile(const StoreFile&) = delete;
  StoreFile& operator=(const StoreFile&) = delete;

  // Of partition `number`.
  MemoryFile place(int number) const;
  // Whether there was a store in it.
  bool existed() const { return existed_; }
  // All partitions are made: from now on there is a store in it.
  void Finish();
  // The last version that an item got.
  std::atomic<uint64_t>& last_cas() { return header_->last_cas; }

 private:
  struct Header {
    uint64_t magic;  // another one until the rest is there
    uint64_t version;
    uint64_t layout;  // sizes of what lies in it
    uint64_t memory_bytes;
    uint64_t partitions;
    uint64_t
        by_slot;  // 0: by hash; else 1, the first slot << 16, and how many follow the last << 32
    uint64_t hash_seed;
    std::atomic<uint64_t> last_cas;
  };
  StoreFile(UniqueFd fd, const std::string& path) : fd_(std::move(fd)), path_(path) {}
  absl::Status CheckPlace();
  absl::Status Lock();
  absl::Status Map(const Header& mine);
  void RemoveUnused(bool is_new);

  const UniqueFd fd_;
  const std::string path_;
  uint64_t partition_bytes_ = 0;  // of the file
  bool existed_ = false;
  Header* header_ = nullptr;
};

}  // namespace pulse::kv
