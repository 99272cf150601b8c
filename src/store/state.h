// State: everything that the metadata says, in memory: directories, names, files, their segments,
// and the free ones. It changes only through Apply(), with the same records that go into the
// journal, so that replaying them gives the same state.
//
// Ownership: it owns directories, files and names; pointers live until the record that removes them
// (a file: and its last pin). Threads: the owner's lock. Never blocks.
// Errors: Apply says DataLoss when a record contradicts the state, and changes nothing then.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "store/pointer_table.h"
#include "store/records.h"
#include "store/segment_map.h"

namespace pulse::store {

// A run of a file's segments; `logical` is the number of segments before it.
struct FileRun {
  uint32_t logical;
  uint32_t first;
  uint32_t count;
};

struct File {
  uint64_t id = 0;
  uint64_t size = 0;
  uint64_t valid = 0;
  int64_t modified_ns = 0;
  uint32_t links = 0;
  uint32_t segments = 0;
  std::vector<FileRun> runs;
  // Of this process only.
  uint32_t pins = 0;
  bool unlinked = false;  // has lost its last name, and lives by its pins
  bool relocating = false;

  static uint64_t HashOf(uint64_t id) {
    id *= 0x9E3779B97F4A7C15;
    return id ^ id >> 32;
  }
  uint64_t hash() const { return HashOf(id); }
};

// A name in a directory.
struct Entry {
  uint64_t name_hash = 0;
  File* file = nullptr;
  std::string name;

  uint64_t hash() const { return name_hash; }
};

struct Directory {
  uint64_t id = 0;
  std::string name;
  PointerTable<Entry> entries;
};

class State {
 public:
  State(uint64_t segments, uint64_t metadata_segments, uint64_t segment_bytes);

  // Where a record comes from: each place has its own kinds.
  enum class Source { kJournal, kCheckpoint };
  absl::Status Apply(const Record& record, Source source = Source::kJournal);
  // After the last record of a checkpoint: whether all files have names, and the segments that
  // their lengths need. With `repair`, files without names are dropped, and lengths cut.
  absl::Status CheckComplete(bool repair = false);

  File* FindFile(uint64_t id) const;
  Directory* FindDirectory(absl::string_view name) const;
  Entry* FindEntry(const Directory& directory, absl::string_view name) const;
  void ForEachDirectory(const std::function<void(const Directory&)>& visit) const;
  void ForEachFile(const std::function<void(const File&)>& visit) const;
  size_t directories() const { return by_name_.size(); }
  size_t files() const { return files_.size(); }  // unlinked ones that are pinned included

  // For files that no record knows any more, since they have no name (see File::links).
  void AddToUnlinked(File* file, const std::vector<Run>& runs) { AddRuns(file, runs); }
  void TrimUnlinked(File* file, uint32_t keep) { TrimTo(file, keep); }
  void Unpin(File* file);

  // Segments that are free of files, and not yet in segments(): the owner decides when they may be
  // handed out.
  std::vector<Run> TakeFreed() { return std::move(freed_); }
  // Hands all of them out at once, as is right in a replay, between two batches.
  void ReleaseFreed();
  SegmentMap& free_segments() { return free_segments_; }
  const SegmentMap& free_segments() const { return free_segments_; }

  // A hint: so many files will be loaded.
  void ExpectFiles(size_t n) { files_.Reserve(n); }

  uint64_t next_id() const { return next_id_; }
  void set_next_id(uint64_t id) { next_id_ = id; }

  // What Serialize() appends, kept up to date.
  uint64_t checkpoint_bytes() const { return checkpoint_bytes_; }
  // Appends the records of a checkpoint; returns their number.
  uint64_t Serialize(std::string* out) const;

 private:
  absl::Status CreateDirectory(uint64_t id, absl::string_view name);
  absl::Status CreateFile(const Record& r);
  absl::Status LoadFile(const Record& r);
  absl::Status Link(File* file, uint64_t directory, absl::string_view name);
  absl::Status Unlink(const Record& r);
  absl::Status Rename(const Record& r);
  absl::Status RenameDirectory(const Record& r);
  absl::Status RemoveDirectory(const Record& r, bool clear_only);
  absl::Status SetLength(const Record& r);
  absl::Status ChangeSegments(const Record& r);

  absl::Status CheckRuns(const RunView& runs) const;
  absl::Status TakeRuns(const RunView& runs);
  void AddRuns(File* file, const std::vector<Run>& runs);
  void AppendRun(File* file, Run run);
  void TrimTo(File* file, uint32_t keep);
  void AddEntry(Directory* directory, File* file, absl::string_view name);
  void DropEntry(Directory* directory, Entry* entry);
  void DropLink(File* file);
  void Destroy(File* file);
  Directory* DirectoryOf(uint64_t id) const;
  void AccountRuns(const File& file, uint64_t runs_before);

  const uint64_t segments_;
  const uint64_t segment_bytes_;
  SegmentMap free_segments_;
  std::vector<Run> freed_;
  uint64_t next_id_ = 1;
  uint64_t checkpoint_bytes_ = 0;

  Pool<File> file_pool_;
  Pool<Entry> entry_pool_;
  PointerTable<File> files_;
  std::unordered_map<std::string, std::unique_ptr<Directory>> by_name_;
  std::unordered_map<uint64_t, Directory*> by_id_;
};

}  // namespace pulse::store
