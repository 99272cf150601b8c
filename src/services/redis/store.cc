#include "services/redis/store.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/snapshot.h"
#include "rocksdb/table.h"
#include "services/redis/expiry_filter.h"
#include "services/redis/handlers.h"

namespace pulse::resp {
namespace {

// Of a transaction that is too long: one this short is not replaced by an error.
constexpr size_t kShortReply = 128;
// That one MultiGet reads: it may hold as many values before it looks at how long they are.
constexpr size_t kReadTogether = 8;
// WATCH of more is not for a loop.
constexpr size_t kFewWatches = 64;
// In place of the reply to a command of it that writes.
constexpr std::string_view kTooManyValuesWritten =
    "ERR too many values for one reply; this command was carried out";

rocksdb::Slice SliceOf(std::string_view text) { return {text.data(), text.size()}; }
std::string_view ViewOf(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

// One thread writes the batches of several, which RocksDB's own atomics hand over to it, unseen by
// ThreadSanitizer. In a frame of its own, so that its reports name the caller, Store::Write, and
// scripts/tsan.supp can.
__attribute__((noinline)) rocksdb::Status WriteToRocksDb(rocksdb::DB* db,
                                                         const rocksdb::WriteOptions& how,
                                                         rocksdb::WriteBatch* batch) {
  rocksdb::Status status = db->Write(how, batch);
  asm volatile("" ::: "memory");  // no tail call, which would leave no frame
  return status;
}

}  // namespace

void ReplyError(const rocksdb::Status& error, ReplyWriter* reply) {
  reply->Error(absl::StrCat("ERR the database says: ", error.ToString()));
}

View::View(Store* store, bool may_block, bool buffered, int64_t now_ms)
    : store_(store), may_block_(may_block), buffered_(buffered), now_ms_(now_ms) {}

rocksdb::ReadOptions View::ReadHow() const {
  rocksdb::ReadOptions how;
  if (!may_block_) how.read_tier = rocksdb::kBlockCacheTier;
  return how;
}

bool View::MayBlock() {
  blocked_ |= !may_block_;
  return may_block_;
}

void View::Fail(rocksdb::Status status) {
  if (error_.ok()) error_ = std::move(status);
}

const std::optional<std::string>* View::Written(std::string_view key) const {
  if (!buffered_) return nullptr;
  const auto it = written_.find(key);
  return it == written_.end() ? nullptr : &it->second;
}

// Takes what a read of `found->pin` has brought.
bool View::Use(const rocksdb::Status& status, Found* found) {
  found->exists = false;
  if (status.IsNotFound()) return true;
  if (status.IsIncomplete() && !may_block_) {
    blocked_ = true;
    return false;
  }
  if (!status.ok()) {
    Fail(status);
    return false;
  }
  if (!DecodeValue(ViewOf(found->pin), &found->value)) {
    Fail(rocksdb::Status::Corruption("a value that pulse serve has not written"));
    return false;
  }
  found->exists = !found->value.ExpiredAt(now_ms_);
  return true;
}

bool View::Get(std::string_view key, Found* found) {
  found->pin.Reset();
  if (const auto* written = Written(key); written != nullptr) {
    found->exists = written->has_value();
    if (!found->exists) return true;
    found->pin.PinSelf(**written);
    return Use(rocksdb::Status::OK(), found);
  }
  if (cleared_) {
    found->exists = false;
    return true;
  }
  return GetOne(ReadHow(), key, found);
}

bool View::GetOne(const rocksdb::ReadOptions& how, std::string_view key, Found* found) {
  found->pin.Reset();
  rocksdb::DB* db = store_->db_.get();
  return Use(db->Get(how, db->DefaultColumnFamily(), SliceOf(key), &found->pin), found);
}

bool View::GetMany(const std::string_view* keys, size_t count, std::vector<Found>* found,
                   uint64_t most_bytes) {
  found->clear();
  found->resize(count);
  uint64_t bytes = 0;
  if (buffered_ || count == 1) {
    for (size_t i = 0; i < count; ++i) {
      if (!Get(keys[i], &(*found)[i])) return false;
      bytes += (*found)[i].pin.size();
      if (bytes > most_bytes && i > 0) {
        found->resize(i);
        return true;
      }
    }
    return true;
  }
  if (!may_block_) return GetCached(keys, count, found, most_bytes);
  rocksdb::DB* db = store_->db_.get();
  rocksdb::ManagedSnapshot snapshot(db);
  rocksdb::ReadOptions how = ReadHow();
  how.snapshot = snapshot.snapshot();
  // The first by itself, then more and more: what it takes is not known before.
  size_t together = 1;
  for (size_t done = 0; done < count; together = std::min(2 * together, kReadTogether)) {
    const size_t part = std::min(count - done, together);
    std::array<rocksdb::Slice, kReadTogether> slices;
    std::array<rocksdb::PinnableSlice, kReadTogether> values;
    std::array<rocksdb::Status, kReadTogether> statuses;
    for (size_t i = 0; i < part; ++i) slices[i] = SliceOf(keys[done + i]);
    how.value_size_soft_limit = most_bytes - bytes;
    db->MultiGet(how, db->DefaultColumnFamily(), part, slices.data(), values.data(),
                 statuses.data());
    for (size_t i = 0; i < part; ++i, ++done) {
      bytes += values[i].size();
      // RocksDB says Aborted of those that it has not read, and may have read beyond.
      if (done > 0 && (bytes > most_bytes || statuses[i].IsAborted())) {
        found->resize(done);
        return true;
      }
      Found* one = &(*found)[done];
      one->pin = std::move(values[i]);
      if (!Use(statuses[i], one)) return false;
    }
    if (bytes > most_bytes) {
      found->resize(done);
      return true;
    }
  }
  return true;
}

// Not by MultiGet, which (in RocksDB 7.8) reads from the device whatever the tier.
bool View::GetCached(const std::string_view* keys, size_t count, std::vector<Found>* found,
                     uint64_t most_bytes) {
  rocksdb::ManagedSnapshot snapshot(store_->db_.get());
  rocksdb::ReadOptions how = ReadHow();
  how.snapshot = snapshot.snapshot();
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    Found* one = &(*found)[i];
    if (!GetOne(how, keys[i], one)) return false;
    bytes += one->pin.size();
    if (bytes > most_bytes && i > 0) {
      found->resize(i);
      return true;
    }
  }
  return true;
}

bool View::CountExisting(const std::string_view* keys, size_t count, size_t* existing) {
  *existing = 0;
  Found found;
  // What a transaction reads, it has locked.
  if (buffered_ || count == 1) {
    for (size_t i = 0; i < count; ++i) {
      if (!Get(keys[i], &found)) return false;
      *existing += found.exists;
    }
    return true;
  }
  rocksdb::ManagedSnapshot snapshot(store_->db_.get());
  rocksdb::ReadOptions how = ReadHow();
  how.snapshot = snapshot.snapshot();
  for (size_t i = 0; i < count; ++i) {
    if (!GetOne(how, keys[i], &found)) return false;
    *existing += found.exists;
  }
  return true;
}

void View::Put(std::string_view key, std::string_view data, int64_t expires_ms) {
  EncodeValue(data, expires_ms, &scratch_);
  if (buffered_) {
    Note(key, scratch_);
    return;
  }
  changed_.push_back(key);
  if (auto status = batch_.Put(SliceOf(key), scratch_); !status.ok()) Fail(std::move(status));
}

void View::Delete(std::string_view key) {
  if (buffered_) {
    Note(key, std::nullopt);
    return;
  }
  changed_.push_back(key);
  if (auto status = batch_.Delete(SliceOf(key)); !status.ok()) Fail(std::move(status));
}

void View::Note(std::string_view key, std::optional<std::string> stored) {
  written_bytes_ += stored.has_value() ? stored->size() : 0;
  auto it = written_.find(key);
  if (it == written_.end()) {
    it = written_.emplace(std::string(key), std::nullopt).first;
    written_bytes_ += key.size() + sizeof(*it);
  } else if (it->second.has_value()) {
    written_bytes_ -= it->second->size();
  }
  it->second = std::move(stored);
}

bool View::Clear() {
  if (!MayBlock()) return false;
  written_.clear();
  written_bytes_ = 0;
  batch_.Clear();
  cleared_ = true;
  return true;
}

bool View::ForEach(std::string_view from, std::string_view prefix,
                   const std::function<bool(std::string_view, const Value&)>& use, uint64_t most,
                   std::string* next) {
  if (!MayBlock()) return false;
  std::unique_ptr<rocksdb::Iterator> it;
  if (!cleared_) {
    rocksdb::ReadOptions how = ReadHow();
    how.total_order_seek = true;
    it.reset(store_->db_->NewIterator(how));
    it->Seek(SliceOf(std::max(from, prefix)));
  }
  auto mine = written_.lower_bound(std::max(from, prefix));
  while (true) {
    const bool stored = it != nullptr && it->Valid();
    if (it != nullptr && !it->Valid() && !it->status().ok()) {
      Fail(it->status());
      return false;
    }
    if (!stored && mine == written_.end()) return true;
    // What the transaction has written hides what is stored.
    const int order = !stored                  ? 1
                      : mine == written_.end() ? -1
                                               : ViewOf(it->key()).compare(mine->first);
    const std::string_view key = order < 0 ? ViewOf(it->key()) : std::string_view(mine->first);
    if (key.compare(0, prefix.size(), prefix) != 0) return true;
    if (most-- == 0) {
      if (next != nullptr) *next = key;
      return true;
    }
    Value value;
    bool exists = true;
    if (order >= 0) {
      exists = mine->second.has_value() && DecodeValue(*mine->second, &value);
    } else if (!DecodeValue(ViewOf(it->value()), &value)) {
      Fail(rocksdb::Status::Corruption("a value that pulse serve has not written"));
      return false;
    }
    if (exists && !value.ExpiredAt(now_ms_) && !use(key, value)) return true;
    if (order >= 0) ++mine;
    if (order <= 0) it->Next();
  }
}

bool View::Narrow(std::string* first, std::string* last) {
  if (!MayBlock()) return false;
  rocksdb::ReadOptions how = ReadHow();
  how.total_order_seek = true;
  const std::unique_ptr<rocksdb::Iterator> it(store_->db_->NewIterator(how));
  it->Seek(*first);
  if (it->Valid()) {
    *first = it->key().ToString();
    if (last->empty()) {
      it->SeekToLast();
    } else {
      it->SeekForPrev(*last);
    }
  }
  *last = it->Valid() ? it->key().ToString() : *first;
  if (!it->status().ok()) Fail(it->status());
  return error_.ok();
}

uint64_t View::BytesBefore(std::string_view key) const {
  rocksdb::SizeApproximationOptions how;
  how.include_memtables = true;
  const rocksdb::Range range("", SliceOf(key));
  uint64_t bytes = 0;
  rocksdb::DB* db = store_->db_.get();
  // An estimate: without one, the caller begins with the first key.
  db->GetApproximateSizes(how, db->DefaultColumnFamily(), &range, 1, &bytes).PermitUncheckedError();
  return bytes;
}

rocksdb::Options DatabaseOptions(uint64_t cache_bytes) {
  rocksdb::Options options;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(cache_bytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.optimize_filters_for_memory = true;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  // Most reads find that the memtable does not have their key; this says so for a few bits a key.
  options.memtable_prefix_bloom_size_ratio = 0.02;
  options.memtable_whole_key_filtering = true;
  const auto known = rocksdb::GetSupportedCompressions();
  if (std::find(known.begin(), known.end(), rocksdb::kLZ4Compression) != known.end()) {
    options.compression = rocksdb::kLZ4Compression;
  }
  return options;
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options) {
  std::unique_ptr<Store> store(new Store(options));
  PULSE_RETURN_IF_ERROR(store->OpenDatabase());
  PULSE_RETURN_IF_ERROR(store->CheckFormat());
  store->housekeeper_ = std::thread([s = store.get()] { s->Housekeeping(); });
  pthread_setname_np(store->housekeeper_.native_handle(), "pulse-host-sync");
  store->compactor_ = std::thread([s = store.get()] { s->CompactAfterFlushes(); });
  pthread_setname_np(store->compactor_.native_handle(), "pulse-host-comp");
  return store;
}

absl::Status Store::OpenDatabase() {
  rocksdb::Options options = DatabaseOptions(options_.cache_bytes);
  options.create_if_missing = true;
  options.max_background_jobs = 4;
  options.bytes_per_sync = 1 << 20;
  options.avoid_unnecessary_blocking_io = true;  // no loop deletes files
  options.level_compaction_dynamic_level_bytes = true;
  options.compaction_filter_factory = NewExpiryFilterFactory(options_.clock, expired_dropped_);
  if (!options_.uri.empty()) {
    auto env = OpenEnv(options_.uri);
    if (!env.ok()) return env.status();
    options.env = env->get();
    env_guard_ = *env;
  }
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, options_.path, &db);
  if (status.ok()) {
    db_.reset(db);
    return absl::OkStatus();
  }
  const std::string text = status.ToString();
  if (text.find("lock") != std::string::npos) {
    return absl::FailedPreconditionError(
        absl::StrCat("--db ", options_.path, " is in use by another process: ", text,
                     "; stop that one, or choose another directory"));
  }
  return absl::UnavailableError(
      absl::StrCat("opening --db ", options_.path, ": ", text,
                   "; expected a directory that this process may write, in one that exists"));
}

// A database of something else would be read as errors, and written to.
absl::Status Store::CheckFormat() {
  rocksdb::ReadOptions how;
  how.fill_cache = false;
  std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(how));
  it->SeekToFirst();
  Value value;
  if (it->Valid() && !DecodeValue(ViewOf(it->value()), &value)) {
    return absl::FailedPreconditionError(
        absl::StrCat("--db ", options_.path,
                     " is a database of another program: its values have not been written by "
                     "pulse serve; choose another directory"));
  }
  if (!it->status().ok()) {
    return absl::DataLossError(
        absl::StrCat("reading --db ", options_.path, ": ", it->status().ToString()));
  }
  return absl::OkStatus();
}

Store::~Store() { Close().IgnoreError(); }  // who wants to know has called it before

absl::Status Store::Close() {
  if (db_ == nullptr) return absl::OkStatus();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  db_->DisableManualCompaction();
  if (housekeeper_.joinable()) housekeeper_.join();
  if (compactor_.joinable()) compactor_.join();
  rocksdb::Status status = db_->SyncWAL();
  if (const rocksdb::Status closed = db_->Close(); status.ok()) status = closed;
  db_.reset();
  if (status.ok()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("closing --db ", options_.path, ": ", status.ToString()));
}

void Store::Housekeeping() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, std::chrono::seconds(1), [this] { return stopping_; });
    if (compact_) wake_.notify_all();
    lock.unlock();
    if (options_.sync == SyncMode::kEverySecond && unsynced_.exchange(false)) {
      // A failure stops the database, which writes then say.
      db_->SyncWAL().PermitUncheckedError();
    }
    lock.lock();
  }
}

// On a thread of its own, as it may take minutes, in which syncs go on.
void Store::CompactAfterFlushes() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || compact_; });
    if (stopping_) return;
    compact_ = false;
    lock.unlock();
    // Refused, or ended, by DisableManualCompaction.
    rocksdb::CompactRangeOptions how;
    how.exclusive_manual_compaction = false;
    db_->CompactRange(how, nullptr, nullptr).PermitUncheckedError();
    lock.lock();
  }
}

uint64_t Store::Property(const char* name) const {
  uint64_t value = 0;
  db_->GetIntProperty(name, &value);
  return value;
}

uint64_t Store::KeysEstimate() const { return Property("rocksdb.estimate-num-keys"); }

__attribute__((noinline)) bool Store::Write(rocksdb::WriteBatch* batch, View* view) {
  rocksdb::WriteOptions how;
  how.sync = options_.sync == SyncMode::kAlways;
  how.no_slowdown = !view->may_block_;
  if (how.sync && !view->MayBlock()) return false;
  rocksdb::Status status = WriteToRocksDb(db_.get(), how, batch);
  if (status.IsIncomplete() && how.no_slowdown) {
    view->blocked_ = true;
    return false;
  }
  if (!status.ok()) {
    view->Fail(std::move(status));
    return true;
  }
  if (!unsynced_.load(std::memory_order_relaxed)) unsynced_.store(true, std::memory_order_relaxed);
  return true;
}

bool Store::Commit(View* view) {
  rocksdb::WriteBatch& batch = view->batch_;
  if (view->cleared_) {
    rocksdb::ReadOptions how;
    how.total_order_seek = true;
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(how));
    it->SeekToLast();
    if (!it->status().ok()) {
      view->Fail(it->status());
      return true;
    }
    if (it->Valid()) {
      std::string end = it->key().ToString();
      end.push_back('\0');
      if (auto status = batch.DeleteRange("", end); !status.ok()) view->Fail(std::move(status));
    }
  }
  for (const auto& [key, stored] : view->written_) {
    auto status = stored.has_value() ? batch.Put(key, *stored) : batch.Delete(key);
    if (!status.ok()) view->Fail(std::move(status));
  }
  if (!view->error_.ok() || batch.Count() == 0) return true;
  if (!Write(&batch, view)) return false;
  if (view->cleared_) {
    const std::lock_guard<std::mutex> lock(mutex_);
    compact_ = true;
  }
  if (watch_.active()) TouchWatched(*view);
  return true;
}

void Store::TouchWatched(const View& view) {
  if (view.cleared_) watch_.TouchAll();
  for (const auto& [key, stored] : view.written_) watch_.Touch(key);
  for (const std::string_view key : view.changed_) watch_.Touch(key);
}

Store::Ran Store::Run(const CommandInfo& command, const Arguments& args, bool may_block,
                      ReplyWriter* reply, Tally* tally) {
  KeyLocks::Held held;
  const bool writes = command.writes();
  if (writes) {
    KeyLocks::Wanted wanted;
    if ((command.flags & kKeyspace) != 0) wanted.AddAll();
    ForEachKey(command, args, [&](std::string_view key) { wanted.Add(key); });
    if (!locks_.Take(std::move(wanted), may_block, &held)) return Ran::kWouldBlock;
  }
  // A key that is named twice is to be seen as the first has left it.
  const bool buffered = command.id == Command::kDel || command.id == Command::kUnlink;
  View view(this, may_block, buffered && args.size() > 2, now_ms());
  const size_t begin = reply->out()->size();
  const Tally before = *tally;
  Call call{command, args, view, *reply, *this, *tally};
  RunCommand(call);
  if (!view.blocked() && view.error().ok() && writes) Commit(&view);
  if (view.blocked()) {
    reply->out()->resize(begin);
    *tally = before;
    return Ran::kWouldBlock;
  }
  if (!view.error().ok()) {
    reply->out()->resize(begin);
    ReplyError(view.error(), reply);
  }
  ++tally->commands;
  tally->errors += (*reply->out())[begin] == '-';
  return Ran::kDone;
}

Store::Ran Store::RunGets(const Request* requests, size_t count, uint64_t most_bytes,
                          bool may_block, ReplyWriter* reply, std::vector<size_t>* ends,
                          Tally* tally) {
  View view(this, may_block, false, now_ms());
  std::vector<std::string_view> keys(count);
  for (size_t i = 0; i < count; ++i) keys[i] = requests[i][1];
  std::vector<Found> found;
  view.GetMany(keys.data(), count, &found, most_bytes);
  if (view.blocked()) return Ran::kWouldBlock;
  if (!view.error().ok()) {
    // Each by itself, as the fault may be one key's.
    const size_t begin = reply->out()->size();
    const size_t first = ends->size();
    for (size_t i = 0; i < count && reply->out()->size() - begin <= most_bytes; ++i) {
      if (Run(*FindCommand("get"), requests[i].arguments(), may_block, reply, tally) !=
          Ran::kDone) {
        break;
      }
      ends->push_back(reply->out()->size());
    }
    return ends->size() > first ? Ran::kDone : Ran::kWouldBlock;
  }
  for (const Found& one : found) {
    if (one.exists) {
      reply->Bulk(one.value.data);
      ++tally->hits;
    } else {
      reply->Null();
      ++tally->misses;
    }
    ends->push_back(reply->out()->size());
  }
  tally->commands += found.size();
  return Ran::kDone;
}

Store::Ran Store::RunSets(const Request* requests, size_t count, bool may_block, ReplyWriter* reply,
                          std::vector<size_t>* ends, Tally* tally) {
  KeyLocks::Wanted wanted;
  for (size_t i = 0; i < count; ++i) wanted.Add(requests[i][1]);
  KeyLocks::Held held;
  if (!locks_.Take(std::move(wanted), may_block, &held)) return Ran::kWouldBlock;
  View view(this, may_block, false, 0);
  for (size_t i = 0; i < count; ++i) view.Put(requests[i][1], requests[i][2], kNever);
  if (view.error().ok() && !Commit(&view)) return Ran::kWouldBlock;
  for (size_t i = 0; i < count; ++i) {
    if (view.error().ok()) {
      reply->Ok();
    } else {
      ReplyError(view.error(), reply);
      ++tally->errors;
    }
    ends->push_back(reply->out()->size());
  }
  tally->commands += count;
  return Ran::kDone;
}

void Store::RunTransaction(const std::vector<Queued>& commands, const WatchTable::Set& watches,
                           const std::function<void(const Queued&, ReplyWriter*)>& other,
                           ReplyWriter* reply, Tally* tally) {
  KeyLocks::Wanted wanted;
  for (const Queued& queued : commands) {
    if ((queued.command->flags & kKeyspace) != 0) wanted.AddAll();
    ForEachKey(*queued.command, *queued.args, [&](std::string_view key) { wanted.Add(key); });
  }
  for (const std::string& key : watches.keys()) wanted.Add(key);
  KeyLocks::Held held;
  locks_.Take(std::move(wanted), true, &held);
  const int64_t now = now_ms();
  if (watches.Broken(now)) {
    reply->NullArray();
    return;
  }
  View view(this, true, true, now);
  const size_t begin = reply->out()->size();
  bool full = false;
  reply->Array(commands.size());
  for (const Queued& queued : commands) {
    const size_t element = reply->out()->size();
    if (full && queued.command->reads() && !queued.command->writes()) {
      reply->Error(kTooManyValues);
      ++tally->commands;
    } else if (queued.command->reads() || queued.command->writes()) {
      Call call{*queued.command, *queued.args, view, *reply, *this, *tally};
      RunCommand(call);
      ++tally->commands;
    } else {
      other(queued, reply);
    }
    if (!view.error().ok() || view.written_bytes() > options_.max_transaction) break;
    // A write is carried out all the same.
    if (reply->out()->size() - begin > options_.max_reply &&
        reply->out()->size() - element > kShortReply) {
      full = true;
      reply->out()->resize(element);
      reply->Error(queued.command->writes() ? kTooManyValuesWritten : kTooManyValues);
    }
    tally->errors += reply->out()->size() > element && (*reply->out())[element] == '-';
  }
  const bool fits = view.written_bytes() <= options_.max_transaction;
  if (fits && view.error().ok()) Commit(&view);
  if (fits && view.error().ok()) return;
  // Nothing was written. A transaction is never half done.
  reply->out()->resize(begin);
  if (fits) {
    ReplyError(view.error(), reply);
  } else {
    reply->Error(absl::StrCat("ERR the transaction would write more than ",
                              options_.max_transaction,
                              " bytes; nothing was written: make it smaller"));
  }
  ++tally->errors;
}

bool Store::Watch(const std::string_view* keys, size_t count, bool may_block,
                  WatchTable::Set* watches, std::string* error) {
  if (!may_block && count > kFewWatches) return false;
  View view(this, may_block, false, now_ms());
  for (size_t i = 0; i < count; ++i) watches->Add(keys[i], kNever);  // before they are read
  for (size_t i = 0; i < count; ++i) {
    Found found;
    if (!view.Get(keys[i], &found)) break;
    if (found.exists) watches->Add(keys[i], found.value.expires_ms);
  }
  if (!view.error().ok()) {
    *error = absl::StrCat("ERR the database says: ", view.error().ToString());
  }
  return !view.blocked();
}

}  // namespace pulse::resp
