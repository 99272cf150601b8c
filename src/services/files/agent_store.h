// FileStore: the segment store as all file sessions of an agent share it: which files are open,
// what is written and not yet entered into the store, and the threads for what would block.
// DDS 4.3.
//
// Threads. All of it belongs to the one worker that serves file sessions, but for two threads of
// its own: "pulse-fs-change" carries out changes, those of one session in the order in which they
// were asked for, the sessions in turn; and "pulse-fs-sync" flushes the device. Neither touches an
// OpenFile; results come back through `post` of the session that asked (Session::Config), which
// waits for them before it ends. Nothing called on the worker blocks on I/O.
//
// Lengths. What a write adds to a file counts as valid here when it is on the device, and in the
// store only once a flush of the device has followed (Settle). So a commit, whoever causes it,
// never makes a length durable whose bytes are not, and no cut brings up bytes of another file.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/compute_pool.h"
#include "agent/service.h"
#include "base/unique_fd.h"
#include "services/files/hooks.h"
#include "services/files/wire.h"
#include "store/store.h"

namespace pulse::files {

// The result of a write whose session ended before its gap was filled, and of those of other
// sessions that would lie behind: these can be done anew.
inline constexpr int64_t kGivenUp = std::numeric_limits<int64_t>::min();

// Something that waits for its turn on a file, or for its write to count.
class FileUser {
 public:
  virtual ~FileUser() = default;
  virtual void OnAdmitted() = 0;
  // The write is done, with 0, -errno or kGivenUp.
  virtual void OnWritten(int64_t result) = 0;
};

// All I/O is of whole blocks, past the page cache where the device can: a direct write that meets a
// dirty page makes the next flush of the whole device fail, so there are never any. Only a write
// that stays before the last block is of the device's own, smaller blocks (FileStore::WriteUnit):
// it need not read what is around it. Writes that share a block wait for each other; a write beyond
// the end takes in the gap before it.
enum class Access { kRead, kWrite, kSettle, kReserve, kExclusive };

class OpenFile {
 public:
  // True: go on. False: OnAdmitted is called when it may. Who was admitted calls Leave once; a
  // write, of [offset, end), LeaveWrite or EndWrite.
  bool Enter(Access access, FileUser* user, uint64_t offset = 0, uint64_t end = 0);
  void Leave(Access access);
  void LeaveWrite(FileUser* user);

  // A write that must wait for segments keeps its place before whoever comes after BeginPrepare:
  // until EnterPrepared, which is Enter for a write, or CancelPrepare nobody is exclusive.
  void BeginPrepare() { ++preparing_; }
  bool EnterPrepared(FileUser* user, uint64_t offset, uint64_t end);
  void CancelPrepare();

  // A write that was admitted, and has segments: what it takes of the bytes that no write before it
  // has. Bytes from `old_end` to its offset are to be zeroed.
  struct Claim {
    uint64_t old_end = 0;
    uint64_t number = 0;  // 0: it adds nothing
  };
  Claim BeginWrite(uint64_t end);
  // Its I/O is done; leaves and, now or later, calls OnWritten: not before all bytes below its end
  // are there. When a write that adds bytes fails, those behind it fail too.
  void EndWrite(const Claim& claim, uint64_t end, int64_t error, FileUser* user);

  // The pieces of the device under [offset, offset + length), which lies in `allocated`.
  void Map(uint64_t offset, uint64_t length, std::vector<store::Extent>* out) const;

  store::FileId id() const { return pin_.file(); }
  uint64_t size() const { return size_; }
  uint64_t valid() const { return valid_; }
  uint64_t allocated() const { return allocated_; }
  // A write that adds bytes has failed, and others are still under way: none is admitted before
  // they have come to an end.
  bool failing() const { return failure_ != 0; }
  bool changing() const { return exclusive_ || exclusive_waiting_ > 0; }

 private:
  friend class FileStore;
  struct Parked {
    Access access;
    FileUser* user;
    uint64_t offset;
    uint64_t end;
  };
  struct Blocks {
    uint64_t begin;
    uint64_t end;
    FileUser* user;
  };
  struct PendingClaim {
    uint64_t begin;
    uint64_t end;
    bool done;
  };
  struct Waiting {
    uint64_t end;
    FileUser* user;
  };

  bool MayEnter(const Parked& p) const;
  Blocks BlocksOf(const Parked& p) const;
  void Admit(const Parked& p);
  void RemoveWrite(FileUser* user);
  void Unpark();
  void Advance();

  store::FilePin pin_;
  uint64_t size_ = 0;
  uint64_t valid_ = 0;      // bytes that are on the device
  uint64_t settled_ = 0;    // of them, entered into the store
  uint64_t claimed_ = 0;    // bytes that are there or being written
  uint64_t allocated_ = 0;  // bytes of the segments in extents_
  std::vector<store::Extent> extents_;
  std::vector<uint64_t> starts_;  // of each extent, in the file
  uint32_t users_ = 0;            // handles and requests
  uint32_t reads_ = 0;
  uint32_t settling_ = 0;
  uint32_t preparing_ = 0;
  uint32_t exclusive_waiting_ = 0;
  bool exclusive_ = false;
  int64_t failure_ = 0;  // of a write that added bytes, while others are under way
  bool unparking_ = false;
  std::vector<Blocks> writes_;  // under way
  std::deque<Parked> parked_;
  std::deque<PendingClaim> claims_;
  uint64_t first_claim_ = 1;
  std::vector<Waiting> waiting_;
  class FileStore* store_ = nullptr;
};

// One that shares nothing with `status`, for another thread: Abseil's own counting of references is
// not visible to ThreadSanitizer.
inline absl::Status CopyOf(const absl::Status& status) {
  return absl::Status(status.code(), status.message());
}

class FileStore {
 public:
  // Opens and locks the store at `path`, which must exist.
  static absl::StatusOr<std::unique_ptr<FileStore>> Open(const std::string& path);
  // On a store that is open; for tests, also on a simulated device.
  static absl::StatusOr<std::unique_ptr<FileStore>> On(std::shared_ptr<store::Store> store);
  // After the workers have gone. Makes everything durable.
  ~FileStore();

  // Makes sessions. `copying`: data take an extra copy on the agent, as without the pre-allocated
  // response; for comparisons.
  ServiceFactory Factory(bool copying = false);

  // Somebody who watches what hosts do to files; before the first session, and until the workers
  // have gone. Null: nobody.
  void Watch(FileHooks* hooks) { hooks_ = hooks; }
  FileHooks* hooks() const { return hooks_; }

  store::Store& store() { return *store_; }
  // A descriptor of the session's own for the device, O_DIRECT where there is that.
  absl::StatusOr<UniqueFd> OpenDevice() const;
  // Where buffers of direct I/O must begin.
  uint64_t memory_alignment() const { return memory_alignment_; }
  // The least that the device reads and writes; a power of two, at most kBlock.
  uint64_t device_unit() const { return device_unit_; }
  // Of what blocks a write is that ends at `end`, where `claimed` bytes are there or on their way.
  uint64_t WriteUnit(uint64_t end, uint64_t claimed) const {
    return RoundUp(end, kBlock) <= claimed ? device_unit_ : kBlock;
  }

  // --- Files. Each Adopt and AddUser is paired with a DropUser.
  absl::StatusOr<OpenFile*> Adopt(store::FilePin pin);
  void AddUser(OpenFile* file) { ++file->users_; }
  void DropUser(OpenFile* file);
  OpenFile* Find(store::FileId id);
  // The file lost a name.
  void Unlinked(store::FileId id);
  // After a Reserve on the change thread: takes over the segments that the file has now.
  absl::Status RefreshSegments(OpenFile* file, uint64_t at_least);
  // After a SetSize on the change thread, with exclusive access.
  absl::Status RefreshSize(OpenFile* file);

  // --- Other threads. `post` runs a function on the worker.
  using Post = std::function<void(std::function<void()>)>;
  // `session`: whose change it is. Nobody's many changes delay somebody else's by more than one.
  void Change(const void* session, std::function<void()> work);
  // The names of the store as they are: another number after each change. On the change thread.
  uint64_t names() const { return names_; }
  void NamesChanged() { ++names_; }
  // Flushes the device, then enters and commits the lengths of all files that have grown. `done`
  // runs on the worker.
  void Settle(const Post& post, std::function<void(const absl::Status&)> done);
  // Grown files that nobody has open wait for somebody's Settle; it is time for one.
  bool SettleIsDue() const {
    return dirty_.size() >= kManyDirty && !settling_ && store_->status().ok();
  }

 private:
  static constexpr size_t kManyDirty = 256;
  struct Length {
    OpenFile* file;
    store::FileId id;
    uint64_t from;
    uint64_t to;
  };
  struct SettleJob {
    std::vector<Length> lengths;
    std::function<void(const absl::Status&)> done;  // on the sync thread
  };

  explicit FileStore(std::shared_ptr<store::Store> store) : store_(std::move(store)) {}
  absl::Status Init();
  absl::Status LoadSegments(OpenFile* file);
  void DropIfUnused(OpenFile* file);
  void FinishSettle(const std::vector<Length>& lengths, bool ok);
  absl::Status SettleNow(const std::vector<SettleJob>& jobs);
  void RunSettles();
  friend class OpenFile;

  const std::shared_ptr<store::Store> store_;
  FileHooks* hooks_ = nullptr;
  bool has_device_ = false;
  bool direct_ = false;
  uint64_t memory_alignment_ = kBlock;
  uint64_t device_unit_ = kBlock;
  std::unordered_map<store::FileId, std::unique_ptr<OpenFile>> files_;
  std::unordered_set<OpenFile*> dirty_;
  bool settling_ = false;

  std::mutex mu_;
  std::unique_ptr<ComputePool> changes_;
  std::condition_variable settles_cv_;
  bool stopping_ = false;
  uint64_t names_ = 1;  // the change thread's
  std::vector<SettleJob> settles_;
  std::thread settle_thread_;
};

}  // namespace pulse::files
