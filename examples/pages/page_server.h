// The page server without its network: pages in a store file, a log of records, and GetPage@LSN.
// DDS section 9.1.
//
// Append. Records get consecutive LSNs, are written to the log, and are told of once that is synced
// (as many callers as wait share a sync). Then they are applied in the background, in batches: each
// page that a batch touches is read once, changed, and written once, to the slot that does not hold
// its present version; the file is synced before the next batch. The checkpoint follows the sync.
//
// Crashes. A write that is cut short leaves the page's other slot, which is durable: it was synced
// with an earlier batch. Recovery takes the newer valid slot of each page, and applies the log
// behind the checkpoint again; a record whose LSN a page already has is left out. So after any
// crash each record that was acknowledged is in its page by the time that `applied` says so.
//
// Get. Answered at once when the page's own LSN suffices; else once all records up to the LSN asked
// for are applied, so that a page which has none of them counts, too. DeadlineExceeded after
// wait_ms. Records behind the LSN asked for may be in the page, too: never is one up to it missing.
//
// A lost agent may have lost what it had not synced: that is applied again, reads of it wait, and
// others look at both slots until then.
//
// A slot is read while another batch may overwrite it (the second after the one that wrote it):
// the checksum tells, and it is read again.
//
// Threads: Get, Append and status from any, they do not block; answers are told on threads of the
// server's ("pulse-host-log", "-apply", "-io"). Destruction tells all that is left Unavailable.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "examples/common/block_files.h"
#include "examples/pages/log.h"
#include "examples/pages/page.h"
#include "examples/pages/wire.h"

namespace pulse::pages {

struct PageServerOptions {
  uint64_t pages = 4096;
  // Where the pages are: file "0". Number and size are the server's to say.
  examples::FilesOptions files;
  std::string log_directory;
  uint64_t log_file_bytes = uint64_t{64} << 20;
  uint64_t max_log_bytes = uint64_t{128} << 20;  // appended and not applied; then: ask again
  uint32_t max_batch_pages = 1024;
  int64_t wait_ms = 1000;
  size_t max_waiting = size_t{16} << 10;  // at a time; others: ask again
  // Writes every page once after the agent was found, so that its cache table knows them all.
  bool warm = true;
  // For tests: instead of them.
  std::function<absl::StatusOr<std::unique_ptr<examples::BlockFiles>>(const examples::FilesOptions&,
                                                                      examples::BlockFiles::Sink*)>
      open_files;
};

class PageServer : public examples::BlockFiles::Sink {
 public:
  // Recovers; formats the pages the first time. Blocks for as long as reading them all takes.
  static absl::StatusOr<std::unique_ptr<PageServer>> Open(const PageServerOptions& options);
  ~PageServer() override;

  // `to`: kPageBytes of the caller's, which live until it was told. At most once from within.
  using GotPage = std::function<void(absl::Status)>;
  void Get(uint64_t page, uint64_t lsn, char* to, GotPage done);

  // `records` as they lie in a message, checked. Told of the last one's LSN.
  using Appended = std::function<void(absl::StatusOr<uint64_t>)>;
  void Append(std::string records, uint32_t count, Appended done);

  StatusBody status();
  uint64_t pages() const { return options_.pages; }
  // Ends all waits, with Unavailable; what comes later is refused.
  void Stop();

  void OnDone(examples::Io* io) override;

 private:
  struct Place {
    uint64_t lsn = 0;
    uint8_t slot = 0;
    bool known = false;  // else both slots must be looked at
  };
  struct Waiting {
    Frame frame;
    Appended done;
  };
  struct GetOp;
  struct Join;
  struct Change {
    uint64_t page = 0;
    std::vector<std::pair<uint64_t, Record>> records;  // by LSN
    Place place;
    std::string bytes;
  };

  explicit PageServer(PageServerOptions options) : options_(std::move(options)) {}
  absl::Status Init();
  absl::Status Scan(bool fresh);
  absl::Status CheckPlaces() const;
  absl::Status Format();
  // Of one slot, or of both.
  examples::Io PageIo(examples::Op op, uint64_t page, int slot, char* data,
                      uint32_t pages = 1) const;
  // Of some pages, from one on; as many as there are.
  std::vector<Change> ChangesFrom(uint64_t first, uint64_t most) const;
  void LogLoop();
  void ApplyLoop();
  bool Enough(uint64_t page, uint64_t lsn) const;  // under mu_
  bool IsBehind(uint64_t page, uint64_t lsn);
  void Read(GetOp* get);
  void Finish(GetOp* get, absl::Status status);
  void WakeReaders();
  absl::Status RunAll(std::vector<examples::Io>* ios);
  absl::Status ApplyBatch(const std::vector<Frame>& frames);
  absl::Status ApplyChanges(Change* changes, size_t count);
  absl::Status FindPlaces(Change* changes, size_t count);
  absl::Status SyncPages();
  absl::Status SyncWritten(uint64_t generation);
  absl::Status WarmSome();

  const PageServerOptions options_;
  std::unique_ptr<examples::BlockFiles> files_;
  uint64_t file_ = 0;
  std::unique_ptr<Log> log_;  // the log thread's
  std::thread log_thread_;
  std::thread apply_thread_;
  uint64_t generation_ = 0;  // the apply thread's: of the agent
  int64_t checkpoint_at_ = 0;
  uint64_t warmed_ = 0;  // the apply thread's: pages before this were written since the start

  mutable std::mutex mu_;  // guards what follows
  std::condition_variable log_change_;
  std::condition_variable apply_change_;
  std::vector<Place> places_;
  std::vector<Waiting> appends_;
  std::deque<Frame> frames_;  // durable, to be applied
  uint64_t unapplied_bytes_ = 0;
  std::multimap<uint64_t, GetOp*> readers_;  // that wait, by the LSN that they wait for
  uint64_t durable_ = 0;
  uint64_t applied_ = 0;  // goes back to synced_ when the agent is lost
  uint64_t synced_ = 0;
  uint64_t checkpoint_ = 0;
  absl::Status failed_;  // damage: no more is applied
  bool stop_ = false;
};

}  // namespace pulse::pages
