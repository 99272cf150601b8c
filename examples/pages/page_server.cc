#include "examples/pages/page_server.h"

#include <sys/prctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"

namespace pulse::pages {
namespace {

using examples::Io;
using examples::Op;

constexpr int kReadTries = 4;
constexpr uint64_t kScanPages = 64;
constexpr uint64_t kWarmPages = 64;
constexpr auto kLook = std::chrono::seconds(1);  // for a new agent
constexpr int64_t kCheckpointGap = 200'000'000;
constexpr auto kTick = std::chrono::milliseconds(20);
constexpr auto kRetryPause = std::chrono::milliseconds(50);
constexpr int64_t kMilli = 1'000'000;

// A started I/O knows what to tell.
class Owner {
 public:
  virtual ~Owner() = default;
  virtual void Done(Io* io) = 0;
};

// Of a page's two, -1 when neither is valid.
int NewerSlot(const char* slots, uint64_t page) {
  int newer = -1;
  uint64_t lsn = 0;
  for (int slot = 0; slot < 2; ++slot) {
    const char* const bytes = slots + slot * kPageBytes;
    if (!CheckPage(bytes, page).ok()) continue;
    if (newer >= 0 && HeaderOf(bytes).lsn <= lsn) continue;
    newer = slot;
    lsn = HeaderOf(bytes).lsn;
  }
  return newer;
}

absl::Status Ends() { return absl::UnavailableError("pages: the server ends"); }

}  // namespace

struct PageServer::GetOp : Owner {
  PageServer* server = nullptr;
  uint64_t page = 0;
  uint64_t lsn = 0;
  char* to = nullptr;
  GotPage done;
  int64_t deadline = 0;
  int tries = 0;
  Place place;        // when the read began
  std::string slots;  // both, when that does not say which is the page
  Io io;

  void Done(Io*) override {
    absl::Status st = io.status;
    if (st.ok()) {
      if (!slots.empty()) {
        const int slot = std::max(NewerSlot(slots.data(), page), 0);
        std::memcpy(to, slots.data() + slot * kPageBytes, kPageBytes);
      }
      st = CheckPage(to, page);
      // The newer one was overwritten meanwhile, by one that is newer still.
      if (st.ok() && !slots.empty() && server->IsBehind(page, HeaderOf(to).lsn) &&
          ++tries < kReadTries) {
        return server->Read(this);
      }
      // Overwritten while it was read: a newer version is in the other slot by now.
      if (!st.ok() && ++tries < kReadTries) return server->Read(this);
      if (st.ok() && HeaderOf(to).lsn < place.lsn) {
        // Lost with the agent that had it, before it was durable. It is about to be applied again.
        st = absl::UnavailableError(absl::StrCat("pages: page ", page, " was lost: ask again"));
      }
    }
    server->Finish(this, std::move(st));
  }
};

// Waits for several.
struct PageServer::Join : Owner {
  std::mutex mu;
  std::condition_variable cv;
  size_t left = 0;
  void Done(Io*) override {
    const std::lock_guard lock(mu);
    if (--left == 0) cv.notify_one();
  }
};

void PageServer::OnDone(Io* io) { static_cast<Owner*>(io->owner)->Done(io); }

absl::StatusOr<std::unique_ptr<PageServer>> PageServer::Open(const PageServerOptions& options) {
  if (options.pages == 0 || options.pages > (uint64_t{1} << 40)) {
    return absl::InvalidArgumentError("pages: there must be a page, and no more than 2^40");
  }
  std::unique_ptr<PageServer> server(new PageServer(options));
  if (absl::Status st = server->Init(); !st.ok()) return st;
  return server;
}

absl::Status PageServer::Init() {
  if (mkdir(options_.log_directory.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "creating", options_.log_directory);
  }
  const auto checkpoint = LoadCheckpoint(options_.log_directory);
  const bool fresh = absl::IsNotFound(checkpoint.status());
  if (!checkpoint.ok() && !fresh) return checkpoint.status();
  if (checkpoint.ok() && checkpoint->pages != options_.pages) {
    return absl::FailedPreconditionError(
        absl::StrCat("pages: there are ", checkpoint->pages, " pages, not ", options_.pages));
  }
  const uint64_t lsn = fresh ? 0 : checkpoint->lsn;
  examples::FilesOptions pages = options_.files;
  pages.store_directory = "pages";
  pages.file_bytes = 2 * options_.pages * kPageBytes;
  PULSE_ASSIGN_OR_RETURN(files_, options_.open_files != nullptr ? options_.open_files(pages, this)
                                                                : examples::OpenFiles(pages, this));
  PULSE_ASSIGN_OR_RETURN(const auto info, files_->Find("0"));
  file_ = info.file;
  places_.resize(options_.pages);
  PULSE_RETURN_IF_ERROR(Scan(fresh));
  if (fresh) PULSE_RETURN_IF_ERROR(SaveCheckpoint(options_.log_directory, {0, options_.pages}));
  auto log = Log::Open(options_.log_directory, lsn, options_.log_file_bytes, [&](Frame f) {
    unapplied_bytes_ += f.records.size();
    frames_.push_back(std::move(f));
  });
  if (!log.ok()) return log.status();
  log_ = *std::move(log);
  durable_ = log_->next_lsn() - 1;
  PULSE_RETURN_IF_ERROR(CheckPlaces());
  applied_ = synced_ = checkpoint_ = lsn;
  log_thread_ = std::thread([this] {
    prctl(PR_SET_NAME, "pulse-host-log");
    LogLoop();
  });
  apply_thread_ = std::thread([this] {
    prctl(PR_SET_NAME, "pulse-host-appl");
    ApplyLoop();
  });
  return absl::OkStatus();
}

Io PageServer::PageIo(Op op, uint64_t page, int slot, char* data, uint32_t pages) const {
  return {op, file_, SlotOffset(page, slot), pages * kPageBytes, data, absl::OkStatus(), nullptr};
}

// --- The pages as they are found.
std::vector<PageServer::Change> PageServer::ChangesFrom(uint64_t first, uint64_t most) const {
  std::vector<Change> changes(std::min(most, options_.pages - first));
  for (uint64_t i = 0; i < changes.size(); ++i) changes[i].page = first + i;
  return changes;
}

absl::Status PageServer::Scan(bool fresh) {
  for (uint64_t at = 0; at < options_.pages; at += kScanPages) {
    std::vector<Change> changes = ChangesFrom(at, kScanPages);
    const absl::Status found = FindPlaces(changes.data(), changes.size());
    if (!found.ok() && !(fresh && absl::IsDataLoss(found))) return found;
    for (const Change& c : changes) places_[c.page] = c.place;
  }
  if (fresh) {
    // Before anything is written: a log that begins is not these pages', if they have had one.
    PULSE_RETURN_IF_ERROR(CheckPlaces());
    PULSE_RETURN_IF_ERROR(Format());
  }
  // What a crash had left unsynced is about to become the durable one of its two slots.
  return SyncPages();
}

// Pages of which there is nothing yet.
absl::Status PageServer::Format() {
  for (uint64_t at = 0; at < options_.pages; at += kScanPages) {
    std::vector<Change> changes = ChangesFrom(at, kScanPages);
    std::vector<Io> writes;
    for (Change& c : changes) {
      if (std::exchange(places_[c.page].known, true)) continue;
      c.bytes.assign(kPageBytes, '\0');
      Seal(c.bytes.data(), c.page, 0);
      writes.push_back(PageIo(Op::kWrite, c.page, 0, c.bytes.data()));
    }
    PULSE_RETURN_IF_ERROR(RunAll(&writes));
  }
  return absl::OkStatus();
}

// A page has nothing that the log had not made durable before. Records that were given such a
// page's LSNs anew would be taken for applied.
absl::Status PageServer::CheckPlaces() const {
  for (uint64_t page = 0; page < options_.pages; ++page) {
    if (places_[page].lsn <= durable_) continue;
    return absl::DataLossError(absl::StrCat(
        "pages: page ", page, " has LSN ", places_[page].lsn, ", and the log in ",
        options_.log_directory, " ends at ", durable_,
        ": it is another log, or has lost its end; give the log that belongs to these pages"));
  }
  return absl::OkStatus();
}

// The newer valid slot of each, and its bytes. DataLoss when there is none for one; the others are
// found all the same.
absl::Status PageServer::FindPlaces(Change* changes, size_t count) {
  std::vector<Io> reads;
  std::vector<std::string> slots(count);
  for (size_t i = 0; i < count; ++i) {
    slots[i].resize(2 * kPageBytes);
    reads.push_back(PageIo(Op::kRead, changes[i].page, 0, slots[i].data(), 2));
  }
  PULSE_RETURN_IF_ERROR(RunAll(&reads));
  absl::Status damage;
  for (size_t i = 0; i < count; ++i) {
    Change& c = changes[i];
    c.place = {};
    const int slot = NewerSlot(slots[i].data(), c.page);
    if (slot < 0) {
      damage = CheckPage(slots[i].data(), c.page);
      continue;
    }
    c.bytes.assign(slots[i].data() + slot * kPageBytes, kPageBytes);
    c.place = {HeaderOf(c.bytes.data()).lsn, static_cast<uint8_t>(slot), true};
  }
  return damage;
}

absl::Status PageServer::RunAll(std::vector<Io>* ios) {
  if (ios->empty()) return absl::OkStatus();
  Join join;
  join.left = ios->size();
  std::vector<Io*> all;
  for (Io& io : *ios) {
    io.owner = static_cast<Owner*>(&join);
    all.push_back(&io);
  }
  files_->Submit(all.data(), all.size());
  {
    std::unique_lock lock(join.mu);
    join.cv.wait(lock, [&] { return join.left == 0; });
  }
  for (const Io& io : *ios) PULSE_RETURN_IF_ERROR(io.status);
  return absl::OkStatus();
}

absl::Status PageServer::SyncPages() {
  std::vector<Io> sync = {PageIo(Op::kSync, 0, 0, nullptr, 0)};
  return RunAll(&sync);
}

// --- Readers.
bool PageServer::Enough(uint64_t page, uint64_t lsn) const {
  return (places_[page].known && places_[page].lsn >= lsn) || applied_ >= lsn;
}

bool PageServer::IsBehind(uint64_t page, uint64_t lsn) {
  const std::lock_guard lock(mu_);
  return places_[page].known && lsn < places_[page].lsn;
}

void PageServer::Get(uint64_t page, uint64_t lsn, char* to, GotPage done) {
  if (page >= options_.pages) return done(absl::NotFoundError("pages: no such page"));
  auto op = std::make_unique<GetOp>();
  op->server = this;
  op->page = page;
  op->lsn = lsn;
  op->to = to;
  op->done = std::move(done);
  op->deadline = NowNanos() + options_.wait_ms * kMilli;
  Read(op.release());
}

// At once, or when the page has what is asked for.
void PageServer::Read(GetOp* get) {
  absl::Status refused;
  {
    const std::lock_guard lock(mu_);
    if (stop_) {
      refused = Ends();
    } else if (Enough(get->page, get->lsn)) {
      get->place = places_[get->page];
    } else if (readers_.size() < options_.max_waiting) {
      readers_.emplace(get->lsn, get);
      apply_change_.notify_one();
      return;
    } else {
      refused = absl::ResourceExhaustedError("pages: too many wait for an LSN");
    }
  }
  if (!refused.ok()) return Finish(get, std::move(refused));
  // Each time by what is known then.
  if (get->place.known) {
    get->slots.clear();
    get->io = PageIo(Op::kRead, get->page, get->place.slot, get->to);
  } else {
    // The one that was to be newer may have been lost, and an old version be in its place.
    get->place.lsn = 0;
    get->slots.resize(2 * kPageBytes);
    get->io = PageIo(Op::kRead, get->page, 0, get->slots.data(), 2);
  }
  get->io.owner = static_cast<Owner*>(get);
  Io* io = &get->io;
  files_->Submit(&io, 1);
}

void PageServer::Finish(GetOp* get, absl::Status status) {
  const std::unique_ptr<GetOp> owned(get);
  get->done(std::move(status));
}

// Those who have what they wait for, and those who have waited too long.
void PageServer::WakeReaders() {
  std::vector<GetOp*> ready, late;
  absl::Status failed;
  {
    const std::lock_guard lock(mu_);
    const int64_t now = NowNanos();
    failed = failed_;
    for (auto it = readers_.begin(); it != readers_.end();) {
      GetOp* const get = it->second;
      const bool enough = Enough(get->page, get->lsn);
      if (!enough && get->deadline > now && failed.ok() && !stop_) {
        ++it;
        continue;
      }
      (enough ? ready : late).push_back(get);
      it = readers_.erase(it);
    }
    if (stop_) failed = Ends();
  }
  for (GetOp* get : ready) Read(get);
  for (GetOp* get : late) {
    Finish(get, !failed.ok() ? failed
                             : absl::DeadlineExceededError(absl::StrCat(
                                   "pages: page ", get->page, " has not reached LSN ", get->lsn)));
  }
}

// --- The log.
void PageServer::Append(std::string records, uint32_t count, Appended done) {
  absl::Status refused;
  {
    const std::lock_guard lock(mu_);
    if (stop_) refused = Ends();
    // It would never be applied.
    if (refused.ok()) refused = failed_;
    if (refused.ok() && unapplied_bytes_ > options_.max_log_bytes) {
      refused = absl::ResourceExhaustedError("pages: too much of the log is not applied yet");
    }
    if (refused.ok()) {
      unapplied_bytes_ += records.size();
      appends_.push_back({{0, count, std::move(records)}, std::move(done)});
      log_change_.notify_one();
      return;
    }
  }
  done(std::move(refused));
}

void PageServer::LogLoop() {
  std::vector<Waiting> batch;
  while (true) {
    batch.clear();
    {
      std::unique_lock lock(mu_);
      log_change_.wait(lock, [&] { return stop_ || !appends_.empty(); });
      if (appends_.empty()) return;
      batch.swap(appends_);
    }
    absl::Status st;
    for (Waiting& w : batch) {
      if (st.ok()) st = log_->Append(&w.frame);
    }
    if (st.ok()) st = log_->Sync();
    std::vector<uint64_t> lsns;
    {
      const std::lock_guard lock(mu_);
      for (Waiting& w : batch) {
        lsns.push_back(w.frame.last_lsn());
        if (st.ok()) {
          durable_ = w.frame.last_lsn();
          frames_.push_back(std::move(w.frame));
        } else {
          unapplied_bytes_ -= w.frame.records.size();
        }
      }
      apply_change_.notify_one();
    }
    for (size_t i = 0; i < batch.size(); ++i) {
      if (st.ok()) {
        batch[i].done(lsns[i]);
      } else {
        batch[i].done(absl::InternalError(
            absl::StrCat("pages: the log has failed, start the server anew: ", st.message())));
      }
    }
  }
}

// --- Applying.
void PageServer::ApplyLoop() {
  while (true) {
    std::vector<Frame> batch;
    bool failed = false;
    {
      std::unique_lock lock(mu_);
      const bool warm = options_.warm && warmed_ < options_.pages && failed_.ok();
      const auto work = [&] { return stop_ || (!frames_.empty() && failed_.ok()); };
      if (!warm && readers_.empty()) {
        apply_change_.wait_for(lock, kLook, [&] { return work() || !readers_.empty(); });
      } else if (!warm) {
        apply_change_.wait_for(lock, kTick, work);
      }
      if (stop_) break;
      failed = !failed_.ok();
      uint64_t records = 0;
      while (!failed && !frames_.empty() && records < options_.max_batch_pages) {
        records += frames_.front().count;
        batch.push_back(std::move(frames_.front()));
        frames_.pop_front();
      }
    }
    if (const uint64_t now = files_->generation(); now != generation_) {
      generation_ = now;
      warmed_ = 0;  // a new agent, whose table is empty
    }
    absl::Status st;
    // Once something has failed, no slot is written any more: the one beside it may be torn.
    if (!failed) st = batch.empty() ? WarmSome() : ApplyBatch(batch);
    while (absl::IsUnavailable(st)) {  // the agent is lost: until it is back
      {
        std::unique_lock lock(mu_);
        if (stop_) break;
        // What was written and not synced may be there or not.
        for (Place& p : places_) p.known = false;
        applied_ = synced_;
        warmed_ = 0;
        apply_change_.wait_for(lock, kRetryPause);
      }
      WakeReaders();
      // As in Scan: before the slot beside one of unknown durability is overwritten.
      st = SyncPages();
      if (st.ok()) st = batch.empty() ? WarmSome() : ApplyBatch(batch);
    }
    if (!st.ok() && !absl::IsUnavailable(st)) {
      pulse::Log(LogLevel::kError, absl::StrCat("pages: no more is applied: ", st.message()));
      const std::lock_guard lock(mu_);
      failed_ = st;
    }
    WakeReaders();
  }
}

// What an agent has not synced, the next one's sync says nothing of.
absl::Status PageServer::SyncWritten(uint64_t generation) {
  PULSE_RETURN_IF_ERROR(SyncPages());
  if (files_->generation() == generation) return absl::OkStatus();
  return absl::UnavailableError("pages: the agent was replaced before what it wrote was synced");
}

absl::Status PageServer::ApplyBatch(const std::vector<Frame>& frames) {
  const uint64_t generation = files_->generation();
  std::map<uint64_t, size_t> by_page;
  std::vector<Change> changes;
  std::vector<Record> records;
  uint64_t bytes = 0;
  for (const Frame& f : frames) {
    bytes += f.records.size();
    PULSE_RETURN_IF_ERROR(DecodeRecords(f.records, f.count, &records));
    for (uint32_t i = 0; i < f.count; ++i) {
      const uint64_t page = records[i].page;
      const auto [it, is_new] = by_page.emplace(page, changes.size());
      if (is_new) changes.emplace_back().page = page;
      changes[it->second].records.push_back({f.first_lsn + i, records[i]});
    }
  }
  for (size_t at = 0; at < changes.size(); at += options_.max_batch_pages) {
    PULSE_RETURN_IF_ERROR(ApplyChanges(
        &changes[at], std::min<size_t>(options_.max_batch_pages, changes.size() - at)));
  }
  const uint64_t last = frames.back().last_lsn();
  {
    const std::lock_guard lock(mu_);
    applied_ = last;
  }
  WakeReaders();
  PULSE_RETURN_IF_ERROR(SyncWritten(generation));
  {
    const std::lock_guard lock(mu_);
    synced_ = last;
    unapplied_bytes_ -= bytes;
  }
  // Seldom: recovery applies again what is behind it.
  if (NowNanos() - checkpoint_at_ < kCheckpointGap) return absl::OkStatus();
  PULSE_RETURN_IF_ERROR(SaveCheckpoint(options_.log_directory, {last, options_.pages}));
  checkpoint_at_ = NowNanos();
  {
    const std::lock_guard lock(mu_);
    checkpoint_ = last;
  }
  return log_->Truncate(last);
}

// Each page once: its present bytes, the records that it lacks, and the other slot.
absl::Status PageServer::ApplyChanges(Change* changes, size_t count) {
  std::vector<Io> ios;
  {
    const std::lock_guard lock(mu_);
    for (size_t i = 0; i < count; ++i) changes[i].place = places_[changes[i].page];
  }
  for (size_t i = 0; i < count; ++i) {
    Change& c = changes[i];
    if (!c.place.known) {
      PULSE_RETURN_IF_ERROR(FindPlaces(&c, 1));
      continue;
    }
    c.bytes.resize(kPageBytes);
    ios.push_back(PageIo(Op::kRead, c.page, c.place.slot, c.bytes.data()));
  }
  PULSE_RETURN_IF_ERROR(RunAll(&ios));
  ios.clear();
  for (size_t i = 0; i < count; ++i) {
    Change& c = changes[i];
    PULSE_RETURN_IF_ERROR(CheckPage(c.bytes.data(), c.page));
    uint64_t lsn = HeaderOf(c.bytes.data()).lsn;
    for (const auto& [record_lsn, record] : c.records) {
      if (record_lsn <= lsn) continue;
      std::memcpy(c.bytes.data() + sizeof(PageHeader) + record.offset, record.data.data(),
                  record.data.size());
      lsn = record_lsn;
    }
    Seal(c.bytes.data(), c.page, lsn);
    c.place = {lsn, static_cast<uint8_t>(1 - c.place.slot), true};
    ios.push_back(PageIo(Op::kWrite, c.page, c.place.slot, c.bytes.data()));
  }
  PULSE_RETURN_IF_ERROR(RunAll(&ios));
  const std::lock_guard lock(mu_);
  for (size_t i = 0; i < count; ++i) places_[changes[i].page] = changes[i].place;
  return absl::OkStatus();
}

// Pages that have no new records, written anew: the agent learns where they are.
absl::Status PageServer::WarmSome() {
  if (!options_.warm || warmed_ >= options_.pages) return absl::OkStatus();
  std::vector<Change> changes = ChangesFrom(warmed_, kWarmPages);
  const uint64_t generation = files_->generation();
  PULSE_RETURN_IF_ERROR(ApplyChanges(changes.data(), changes.size()));
  PULSE_RETURN_IF_ERROR(SyncWritten(generation));
  warmed_ += changes.size();
  return absl::OkStatus();
}

StatusBody PageServer::status() {
  const std::lock_guard lock(mu_);
  return {options_.pages, durable_, applied_, checkpoint_};
}

void PageServer::Stop() {
  {
    const std::lock_guard lock(mu_);
    stop_ = true;
    log_change_.notify_all();
    apply_change_.notify_all();
  }
  if (log_thread_.joinable()) log_thread_.join();
  if (apply_thread_.joinable()) apply_thread_.join();
  WakeReaders();
}

PageServer::~PageServer() {
  Stop();
  files_.reset();  // tells all that it has
}

}  // namespace pulse::pages
