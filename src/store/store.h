// Store: files in one preallocated file or raw block device that host and agent can both use
// without a file system between them: the pool of SST slots of PulseDB (section III-C) and the
// segments of DDS (section 4.3). docs/reference/store-format.md specifies the bytes.
//
// The device is cut into segments of one length. The first few hold metadata: superblock, two
// checkpoints, a journal in two halves. Files are vectors of segments, named in flat directories.
// Data never passes through here: callers map a range of a file to ranges of the device (MapRead,
// MapWrite) and do the I/O themselves, with whatever engine they have. Recycled segments are plain
// overwrites, so the data path changes no metadata of the file system underneath.
//
// Durability. A change is made in memory and entered into the journal's buffer at once. Commit()
// makes all changes made before it durable, in their order, with one write and one flush for as
// many callers as wait (group commit). After a cut, what is found is the state after some number of
// changes, no fewer than were committed. Any caller's commit carries everybody's changes: data that
// must never be missing from where metadata says it is has to be synced before the change is *made*
// (SyncData, Wrote, Commit). Segments freed by a change are handed out again only once that change
// is durable, so an uncommitted deletion never loses a byte.
//
// Lengths. A file has a size and a valid length, valid <= size. Bytes in [valid, size) were never
// written and read as zeros: MapRead marks them as a hole. Segments cover [0, allocated) without
// gaps, and may reach past the size (Reserve).
//
// Ownership: Open() shares one Store among all who open the same device in one process; the last
// reference commits, releases the lock and closes. To hear what that commit says, call Commit()
// first. Threads: any. Lookups, maps of what is there, and changes do not block on I/O, with two
// exceptions: an allocation that finds only segments whose freeing is not durable commits first,
// and a change that finds megabytes of uncommitted ones does, too. Commit and SyncData block.
//
// Errors: InvalidArgument (names, ranges), NotFound, AlreadyExists, ResourceExhausted (store or
// metadata full: says which, and the remedy), FailedPrecondition (in use, read-only, foreign
// format), DataLoss (a checksum or a contradiction: names the offset on the device), Unavailable
// (the device failed; all changes are refused from then on).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "store/device.h"

namespace pulse::store {

inline constexpr size_t kMaxDirectoryName = 1023;
inline constexpr size_t kMaxFileName = 255;

// Never used twice within a store; 0 is no file.
using FileId = uint64_t;
inline constexpr FileId kNoFile = 0;

// A run of bytes of the device.
struct Extent {
  static constexpr uint64_t kHole = ~uint64_t{0};  // no bytes anywhere: zeros
  uint64_t device_offset = kHole;
  uint64_t length = 0;

  bool hole() const { return device_offset == kHole; }
  bool operator==(const Extent&) const = default;
};

struct Attributes {
  FileId id = kNoFile;
  uint64_t size = 0;
  uint64_t valid = 0;
  uint64_t allocated = 0;   // bytes of its segments
  uint32_t links = 0;       // 0: unlinked, and held by a pin
  int64_t modified_ns = 0;  // since 1970, of the creation or the last change of a length
};

struct DirectoryEntry {
  std::string name;
  Attributes attributes;
};

struct Geometry {
  std::array<uint8_t, 16> uuid{};
  uint64_t segment_bytes = 0;
  uint64_t segments = 0;           // of the whole device, those of the metadata included
  uint64_t metadata_segments = 0;  // the first ones
  int64_t created_ns = 0;
};

struct Usage {
  uint64_t segments = 0;     // for data
  uint64_t free = 0;         // can be handed out now
  uint64_t pending = 0;      // freed; can be handed out once a commit has made that durable
  uint64_t quarantined = 0;  // freed, but held by Quarantine()
  uint64_t files = 0;
  uint64_t directories = 0;
  uint64_t metadata_bytes = 0;     // of a checkpoint of what is there now
  uint64_t metadata_capacity = 0;  // the most that a checkpoint can hold
  // Since Open().
  uint64_t commits = 0;  // Commit() calls that had something to wait for
  uint64_t batches = 0;  // journal writes they shared
  uint64_t checkpoints = 0;
};

struct CreateOptions {
  // Bytes. A block device: 0 takes all of it. A new regular file: required.
  uint64_t size = 0;
  uint64_t segment_bytes = uint64_t{64} << 20;  // a power of two, 4 KiB to 1 GiB
  // Rounded up to segments. 0 suits one file per segment, and at least size / 64 (up to 1 GiB).
  uint64_t metadata_bytes = 0;
  // Writes zeros to all of it, so that no later write is the first to its blocks. Otherwise a
  // regular file is only allocated (or sparse, where the file system cannot), a block device left
  // as it is.
  bool prefill = true;
  bool force = false;  // replace what is there: a store, a file, a device that is not blank
  // Of the prefill; an error ends it.
  std::function<absl::Status(uint64_t done, uint64_t total)> progress;
};

// Makes `path` a store. Nothing is left of a new file if that fails. AlreadyExists without `force`;
// FailedPrecondition when in use.
absl::Status Create(const std::string& path, const CreateOptions& options);
// The same on a Device: no prefill, no look at what is there.
absl::Status Format(Device& device, const CreateOptions& options);

struct OpenOptions {
  // A shared lock; nothing is written, also not what the journal replays.
  bool read_only = false;
  // For tests: in place of the file. No lock, no sharing, no device_fd().
  std::shared_ptr<Device> device;
};

class FilePin;

class Store : public std::enable_shared_from_this<Store> {
 public:
  // Takes the exclusive lock, shared if `read_only`, and recovers. In one process, opening the same
  // device again yields the same object, whose mode must suit: a store open for writing may be had
  // read-only as well (and is then still one that writes), not the other way round.
  // FailedPrecondition names the process that has the lock, where that can be told.
  static absl::StatusOr<std::shared_ptr<Store>> Open(const std::string& path,
                                                     const OpenOptions& options = {});
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  ~Store();

  const Geometry& geometry() const;
  const std::string& path() const;
  bool read_only() const;
  Usage usage() const;
  // OK, or why the store refuses all changes.
  absl::Status status() const;

  // For data I/O; the store's own. With O_DIRECT, if asked and if the device can (else buffered:
  // direct_io() tells). They share nothing with the lock; who needs an own open file opens path().
  int device_fd(bool direct) const;
  bool direct_io() const;

  // --- Directories: flat. A name is 1 to 1023 bytes without NUL; '/' has no meaning here. ---
  absl::Status CreateDirectory(absl::string_view name);  // AlreadyExists
  absl::Status RemoveDirectory(absl::string_view name);  // FailedPrecondition unless empty
  // The target must not exist or be empty: FailedPrecondition.
  absl::Status RenameDirectory(absl::string_view from, absl::string_view to);
  // Unlinks everything in it, as one change.
  absl::Status ClearDirectory(absl::string_view name);
  bool HasDirectory(absl::string_view name) const;
  std::vector<std::string> ListDirectories() const;  // in no order
  absl::StatusOr<std::vector<DirectoryEntry>> List(absl::string_view directory) const;  // no order

  // --- Names: 1 to 255 bytes, no '/', no NUL, not "." or "..". ---
  absl::StatusOr<FileId> CreateFile(absl::string_view directory, absl::string_view name);
  absl::StatusOr<FileId> Lookup(absl::string_view directory, absl::string_view name) const;
  // With the last name and the last pin, the file is gone and its segments are freed.
  absl::Status Unlink(absl::string_view directory, absl::string_view name);
  // Replaces what is at the target, atomically. Two names of one file: nothing happens, as in
  // POSIX.
  absl::Status Rename(absl::string_view directory, absl::string_view name,
                      absl::string_view to_directory, absl::string_view to_name);
  absl::Status Link(absl::string_view directory, absl::string_view name,
                    absl::string_view to_directory, absl::string_view to_name);  // AlreadyExists
  absl::StatusOr<Attributes> Stat(FileId file) const;

  // --- Files. All by id, also unlinked ones that are pinned. ---
  // Segments for [0, bytes), in as few runs as there are. Never gives any back.
  absl::Status Reserve(FileId file, uint64_t bytes);
  // Gives back the segments past the size.
  absl::Status Trim(FileId file);
  // Grows with a hole; shrinks, and gives back the segments past it.
  absl::Status SetSize(FileId file, uint64_t size);
  // [offset, offset + length) holds data now: raises valid, size, and the time. FailedPrecondition
  // if `offset` is past valid, since what lies between must be zeroed and declared before, or
  // together; or if the range is past the segments.
  absl::Status Wrote(FileId file, uint64_t offset, uint64_t length);
  // Appends the extents of [offset, offset + length), cut at the size; holes are marked. `links`,
  // if not null: as Attributes has it, of the same moment.
  absl::Status MapRead(FileId file, uint64_t offset, uint64_t length, std::vector<Extent>* extents,
                       uint32_t* links = nullptr) const;
  // Appends the extents of [offset, offset + length), reserving segments if need be.
  absl::Status MapWrite(FileId file, uint64_t offset, uint64_t length,
                        std::vector<Extent>* extents);
  // Appends the extents of all the segments that the file has now; reserves none.
  absl::Status MapAllocated(FileId file, std::vector<Extent>* extents) const;

  // An open handle: while it lives, the file's segments are not handed out, even if it is unlinked.
  // Not across a restart: then they are free.
  absl::StatusOr<FilePin> Pin(FileId file);

  // --- Somebody who may still write to a file's segments, such as an agent that was lost. ---
  // From now on, the segments that the file has now are not handed out again, whoever frees them,
  // until ReleaseQuarantine. Not across a restart: then they are free.
  absl::StatusOr<uint64_t> Quarantine(FileId file);
  void ReleaseQuarantine(uint64_t token);
  // Gives the file fresh segments in place of all it has, as one change. `copy` is called in
  // between, without locks, to copy what is valid (from and to map [0, allocated)) and sync it; if
  // it fails, nothing has happened. Meanwhile the file's segments cannot change
  // (FailedPrecondition), and nobody else may write to them, since that would be lost.
  using CopyFunction =
      std::function<absl::Status(const std::vector<Extent>& from, const std::vector<Extent>& to)>;
  absl::Status Relocate(FileId file, const CopyFunction& copy);

  // Flushes the device: what was written to it survives a power cut. It does not commit.
  absl::Status SyncData();
  // All changes made before this call are durable.
  absl::Status Commit();
  // The same without waiting; `done` is called on a thread of the store's. It must not block, nor
  // own a reference to the store.
  void CommitLater(std::function<void(const absl::Status&)> done);

  class Impl;

 private:
  friend class FilePin;
  explicit Store(std::unique_ptr<Impl> impl);
  static absl::StatusOr<std::shared_ptr<Store>> OpenDevice(const std::string& path,
                                                           std::shared_ptr<Device> device,
                                                           const OpenOptions& options);
  void Unpin(FileId file);

  std::unique_ptr<Impl> impl_;
};

// Movable; keeps the store, too. Empty after a move.
class FilePin {
 public:
  FilePin() = default;
  FilePin(FilePin&& other) noexcept
      : store_(std::move(other.store_)), file_(std::exchange(other.file_, kNoFile)) {}
  FilePin& operator=(FilePin other) noexcept {
    store_.swap(other.store_);
    std::swap(file_, other.file_);
    return *this;
  }
  ~FilePin() { Reset(); }

  FileId file() const { return file_; }
  void Reset();

 private:
  friend class Store;
  FilePin(std::shared_ptr<Store> store, FileId file) : store_(std::move(store)), file_(file) {}

  std::shared_ptr<Store> store_;
  FileId file_ = kNoFile;
};

}  // namespace pulse::store
