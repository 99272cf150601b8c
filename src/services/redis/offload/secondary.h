// Secondary: reads of a RocksDB that another process, or another part of this one, has open and
// writes: a RocksDB secondary instance that follows the primary's files, and the thread that makes
// it. The primary is never asked; it may be down. DDS section 8 (replacing the host's reads).
//
// A catch-up counts (CatchUpClock) only if it has seen all that was in the primary's files before
// it began. RocksDB's own status does not say so. What 7.8 does:
// - What was replayed from a log that the primary has flushed meanwhile stays in the active
// memtable,
//   and hides newer values that are in the flushed table, but that were not replayed, for good.
// - A log that the primary deletes between the listing and the opening ends the catch-up, which
//   still returns OK, before later logs are read. And a log that is deleted before the listing is
//   just not there, while the flush that made it obsolete was not read from the MANIFEST.
// - A table that is deleted before it could be opened leaves the version as it was, while the log
//   number, and with it what memtables are dropped, goes on: the view goes *back* in time.
// What is done about it:
// - An instance only ever replays logs. When the MANIFEST is another, or longer, than when the
//   instance was opened (RocksDB writes there before it deletes anything), a new instance is opened
//   instead, beside the old one. The block cache, which holds indexes and filters, too, is shared.
// - Opening and catching up count if the MANIFEST is afterwards as it was before; else they are
//   repeated. Until then, what was settled stays dirty; the old instance has all else.
// - Every failure to find a log, or after opening a table, is noticed (a file system wrapped around
//   the real one) and makes the instance invalid before it can show what it has without that file.
//   Validity() is asked before and after a read.
// - Tables stay open (max_open_files = -1), as they are deleted under it.
// - Logs are read without having been synced, out of the page cache: a crash of the machine, which
//   could lose them, ends this process as well. manual_wal_flush must be off in the primary, so
//   that each write is in the file before it is acknowledged.
// When an instance cannot be opened, it is tried again and again with pauses; one line in the log
// for each time that this begins.
//
// Threads: any for reads; Open and destruction by one thread. Reads block on the device unless
// asked not to (page_cache_files.h); and rarely, shortly, on a catch-up that installs a new
// version. Errors: of Open, with the remedy.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "services/redis/offload/dirty_table.h"

namespace rocksdb {
class Cache;
}  // namespace rocksdb

namespace pulse::redis {

// What reads are answered from. A seam for tests, which run it against simulated primaries.
class ReadView {
 public:
  enum class Found : uint8_t {
    kYes,
    kNo,
    kUnknown,  // it would have had to be waited for; else an error
  };
  virtual ~ReadView() = default;

  // `values` and `found` get one entry for each key. Keys may be read one after the other: it is
  // what callers compare before and after (dirty_table.h) that makes one state of them. What comes
  // after very many bytes is left unknown. ReadNow does without what it would have to wait for, and
  // returns whether files were read.
  virtual void Read(const std::vector<std::string_view>& keys, std::vector<std::string>* values,
                    std::vector<Found>* found) = 0;
  virtual bool ReadNow(const std::vector<std::string_view>& keys, std::vector<std::string>* values,
                       std::vector<Found>* found) = 0;
  // A number that a read's caller compares before and after; 0 while the view is not to be used.
  virtual uint64_t Validity() const = 0;
  // Changes when the primary was opened anew, perhaps on other files: what is remembered of it then
  // counts no more. Noticed when the next catch-up begins.
  virtual uint64_t Generation() const { return 0; }
  // Something was settled. Never blocks.
  virtual void Wake() = 0;
  // A key was asked for that the view cannot show yet. Never blocks.
  virtual void NoteMiss() {}
};

class PageCacheFiles;

struct SecondaryOptions {
  std::string db;         // the primary's directory
  std::string directory;  // for the secondary's own files; made when it is missing
  uint64_t cache_bytes = uint64_t{64} << 20;
  // Catch-ups begin no closer than this, nor than they take; and they begin when as much was spent
  // on keys that could not be read for want of one, which the host has then answered for, as the
  // last one took; or after this long, at most.
  int64_t min_interval_us = 500;
  int64_t miss_us = 40;  // what one such read costs
  int64_t max_interval_us = 20'000;
  // When nothing is known to have been written, still as often: tables that the primary has deleted
  // are to be closed.
  int64_t idle_interval_ms = 1'000;
  uint64_t most_read_bytes = uint64_t{64} << 20;  // of the keys of one read, and some more
  std::vector<int> cpus;                          // of its thread; empty: all
  int nice = 10;                                  // of its thread
  std::string thread_name = "pulse-agent-cat";
  // For tests: instead of preadv2.
  ssize_t (*read_now)(int, const iovec*, int, off_t, int) = nullptr;
};

struct SecondaryStats {
  uint64_t catch_ups = 0;  // that counted
  uint64_t repeated = 0;   // that did not
  uint64_t opened = 0;     // instances
  uint64_t lag_us = 0;     // from a write's acknowledgement until it was applied: the last one
  uint64_t max_lag_us = 0;
  uint64_t busy_us = 0;  // of CPU that catching up has taken
  bool valid = false;
};

class Secondary final : public ReadView {
 public:
  // `wanted` says which catch-up somebody waits for (DirtyTable::wanted); may be called on the
  // secondary's thread until destruction. `clock` outlives the secondary.
  static absl::StatusOr<std::unique_ptr<Secondary>> Open(const SecondaryOptions& options,
                                                         CatchUpClock* clock,
                                                         std::function<uint64_t()> wanted);
  ~Secondary() override;

  void Read(const std::vector<std::string_view>& keys, std::vector<std::string>* values,
            std::vector<Found>* found) override;
  bool ReadNow(const std::vector<std::string_view>& keys, std::vector<std::string>* values,
               std::vector<Found>* found) override;
  uint64_t Validity() const override;
  uint64_t Generation() const override { return generation_.load(); }
  void Wake() override;
  void NoteMiss() override;

  SecondaryStats stats() const;

 private:
  struct Instance;

  Secondary(const SecondaryOptions& options, CatchUpClock* clock, std::function<uint64_t()> wanted);
  absl::StatusOr<std::shared_ptr<Instance>> OpenInstance();
  void ReadTier(const std::vector<std::string_view>& keys, int tier, bool fill,
                std::vector<std::string>* values, std::vector<Found>* found);
  void Run();
  bool CatchUp();
  bool CatchUpFrom(uint64_t number);
  void TrackManifest(const std::string& manifest);
  bool ReplaceInstance();
  void FinishCatchUp(uint64_t number);
  void Pause(int64_t micros);
  std::string Manifest() const;
  bool CatchUpPaysOff() const { return missed_us_.load() >= cost_us_.load(); }

  const SecondaryOptions options_;
  CatchUpClock* const clock_;
  const std::function<uint64_t()> wanted_;
  const std::shared_ptr<rocksdb::Cache> cache_;
  const std::shared_ptr<PageCacheFiles> files_;

  std::shared_ptr<Instance> instance_;  // by std::atomic_load and std::atomic_store
  uint64_t next_id_ = 1;
  std::string manifest_file_;  // as was last seen
  bool other_files_ = false;   // than those of the instance
  bool warned_ = false;        // of failures, since the last success

  std::mutex mu_;
  std::condition_variable wake_;
  std::atomic<bool> asleep_{false};    // Wake has somebody to wake
  std::atomic<bool> waiting_{false};   // NoteMiss has
  std::atomic<int64_t> missed_us_{0};  // since the last catch-up began
  std::atomic<int64_t> cost_us_{0};    // of the last
  std::atomic<uint64_t> generation_{1};
  bool stop_ = false;
  std::atomic<int64_t> waiting_since_{0};  // nanoseconds; 0: nothing is waited for

  std::atomic<uint64_t> catch_ups_{0};
  std::atomic<uint64_t> repeated_{0};
  std::atomic<uint64_t> opened_{0};
  std::atomic<uint64_t> lag_us_{0};
  std::atomic<uint64_t> max_lag_us_{0};
  std::atomic<uint64_t> busy_us_{0};
  std::thread thread_;
};

}  // namespace pulse::redis
