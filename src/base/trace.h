// A timeline of what this process's threads and its agent do, in the trace event format that
// ui.perfetto.dev and chrome://tracing read. It shows whether the stages of a compaction (PulseDB
// III-B) overlap.
//
// One file per process, which all parts of it write to while a Timeline is open; off, an event
// costs one load. Events are kept in memory and written by a thread of the timeline's own four
// times a second, so that no traced thread waits for the disk. What would not fit into memory or
// into the file's limit is dropped, and counted in the log.
//
// The file can be opened while it grows, and after a crash: the format allows for the missing end.
// Times are CLOCK_MONOTONIC, so that files of several processes of one machine can be joined.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pulse::trace {

class Timeline {
 public:
  // Begins to write `path`, replacing a file of that name; "%p" in it becomes the process id.
  // Opened again with the same path, it is shared. FailedPrecondition when this process writes
  // another one. Blocks for the opening of the file.
  static absl::StatusOr<std::shared_ptr<Timeline>> Open(const std::string& path);
  // Writes what is left, and closes the file.
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

 private:
  explicit Timeline(uint64_t number) : number_(number) {}
  const uint64_t number_;
};

namespace internal {
extern std::atomic<bool> on;
}

inline bool On() { return internal::on.load(std::memory_order_relaxed); }

// What an event is about; what is empty or 0 is left out.
struct Detail {
  absl::string_view file = {};
  uint64_t offset = 0;
  uint64_t bytes = 0;
  int64_t result = 0;
};

// `name` was what the calling thread did from `begin` to `end`. Slices of one thread must lie in
// one another or apart.
void Slice(const char* name, int64_t begin, int64_t end, const Detail& detail = {});
// `name` was under way from `begin` to `end`, beside others of its kind: shown under `stage`.
void Flight(const char* stage, const char* name, int64_t begin, int64_t end,
            const Detail& detail = {});
// Something that happened just now, to the whole process.
void Instant(const char* name, absl::string_view what);

// A slice that ends with its scope.
class Scope {
 public:
  explicit Scope(const char* name, Detail detail = {});
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const char* const name_;
  const Detail detail_;
  const int64_t begin_;  // 0: off
};

}  // namespace pulse::trace
