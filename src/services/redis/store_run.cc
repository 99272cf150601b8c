// Commands and transactions: locks, reads and writes through a view, one commit.
#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "services/redis/commands/handlers.h"
#include "services/redis/store.h"

namespace pulse::redis {
namespace {

// WATCH of more is not for a loop.
constexpr size_t kFewWatches = 64;
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

std::string DatabaseError(const rocksdb::Status& error) {
  return absl::StrCat("ERR the database says: ", error.ToString());
}

__attribute__((noinline)) bool Store::Write(rocksdb::WriteBatch* batch, StoreView* view) {
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
    view->Fail(status);
    return true;
  }
  if (!unsynced_.load(std::memory_order_relaxed)) unsynced_.store(true, std::memory_order_relaxed);
  return true;
}

bool Store::Commit(StoreView* view) {
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
      if (auto status = batch.DeleteRange("", end); !status.ok()) view->Fail(status);
    }
  }
  for (const auto& [key, stored] : view->buffered_writes_) {
    auto status = stored.has_value() ? batch.Put(key, *stored) : batch.Delete(key);
    if (!status.ok()) view->Fail(status);
  }
  if (!view->error_.empty() || batch.Count() == 0) return true;
  if (!WriteThrough(&batch, view)) return false;
  if (view->cleared_) {
    const std::lock_guard<std::mutex> lock(mutex_);
    compact_ = true;
  }
  if (watch_.active()) TouchWatched(*view);
  return true;
}

template <class Use>
void Store::ForEachChanged(const StoreView& view, const Use& use) {
  for (const auto& [key, stored] : view.buffered_writes_) use(key);
  for (const std::string_view key : view.changed_) use(key);
}

bool Store::WriteThrough(rocksdb::WriteBatch* batch, StoreView* view) {
  if (hot_ == nullptr) return Write(batch, view);
  if (view->cleared_) hot_->BeginClear();
  absl::InlinedVector<std::string_view, HotTier::kMostTogether> keys;
  ForEachChanged(*view, [&](std::string_view key) { keys.push_back(key); });
  hot_->BeginWrite(keys);
  const bool written = Write(batch, view);
  hot_->EndWrite(keys);
  if (view->cleared_) hot_->EndClear();
  return written;
}

void Store::TouchWatched(const StoreView& view) {
  if (view.cleared_) watch_.TouchAll();
  ForEachChanged(view, [this](std::string_view key) { watch_.Touch(key); });
}

Store::RunResult Store::Run(const CommandInfo& command, const Arguments& args, bool may_block,
                            ReplyWriter* reply, CommandCounts* counts) {
  KeyLocks::Held held;
  const bool writes = command.writes();
  if (writes) {
    KeyLocks::Wanted wanted;
    if ((command.flags & kKeyspace) != 0) wanted.AddAll();
    ForEachKey(command, args, [&](std::string_view key) { wanted.Add(key); });
    if (!locks_.Take(std::move(wanted), may_block, &held)) return RunResult::kWouldBlock;
  }
  // A key that is named twice is to be seen as the first has left it.
  const bool buffered = command.id == Command::kDel || command.id == Command::kUnlink;
  StoreView view(this, may_block, buffered && args.size() > 2, now_ms());
  const size_t begin = reply->out()->size();
  const CommandCounts before = *counts;
  Call call{command, args, view, *reply, *counts};
  RunCommand(call);
  if (!view.blocked() && view.error().empty() && writes) Commit(&view);
  return EndCommand(view, begin, before, reply, counts);
}

Store::RunResult Store::RunGets(const Request* requests, size_t count, uint64_t most_bytes,
                                bool may_block, ReplyWriter* reply, std::vector<size_t>* ends,
                                CommandCounts* counts) {
  count = std::min(count, HotTier::kMostTogether);
  std::array<std::string_view, HotTier::kMostTogether> keys;
  for (size_t i = 0; i < count; ++i) keys[i] = requests[i][1];
  const auto answer = [&](bool exists, std::string_view value) {
    if (exists) {
      reply->Bulk(value);
      ++counts->hits;
    } else {
      reply->Null();
      ++counts->misses;
    }
    ++counts->commands;
    ends->push_back(reply->out()->size());
  };
  const size_t begin = reply->out()->size();
  size_t answered = 0;
  const auto fits = [&](size_t bytes) {
    return answered == 0 || reply->out()->size() - begin + bytes <= most_bytes;
  };
  // Those at the front that the hot tier has are answered at once; of later ones, it keeps a copy.
  std::array<HotTier::Probe, HotTier::kMostTogether> probes;
  std::array<int64_t, HotTier::kMostTogether> copied;  // where it begins; negative: not here
  std::array<size_t, HotTier::kMostTogether> sizes;
  std::string copies;
  bool full = false;
  std::fill_n(copied.begin(), count, -1);
  if (hot_ != nullptr) {
    hot_->Find(keys.data(), count, now_ms(), probes.data(), [&](size_t i, std::string_view value) {
      if (i == answered && fits(value.size())) {
        answer(true, value);
        ++answered;
      } else if (i == answered) {
        full = true;
      } else if (copies.size() <= most_bytes) {
        copied[i] = static_cast<int64_t>(copies.size());
        sizes[i] = value.size();
        copies.append(value);
      }
    });
    if (answered == count || full) return RunResult::kDone;
  }
  absl::InlinedVector<std::string_view, HotTier::kMostTogether> missing;
  for (size_t i = answered; i < count; ++i) {
    if (copied[i] < 0) missing.push_back(keys[i]);
  }
  StoreView view(this, may_block, false, now_ms());
  std::vector<Found> found;
  if (!missing.empty()) view.GetMany(missing.data(), missing.size(), &found, most_bytes);
  if (view.blocked()) return answered > 0 ? RunResult::kDone : RunResult::kWouldBlock;
  if (!view.error().empty()) {
    if (answered > 0) return RunResult::kDone;
    // Each by itself, as the fault may be one key's.
    const size_t first = ends->size();
    for (size_t i = 0; i < count && reply->out()->size() - begin <= most_bytes; ++i) {
      if (Run(*FindCommand("get"), requests[i].arguments(), may_block, reply, counts) !=
          RunResult::kDone) {
        break;
      }
      ends->push_back(reply->out()->size());
    }
    return ends->size() > first ? RunResult::kDone : RunResult::kWouldBlock;
  }
  size_t read = 0;
  for (; answered < count; ++answered) {
    const size_t i = answered;
    if (copied[i] >= 0) {
      // Those before it were read later: it has to be as new.
      if (!fits(sizes[i]) || !hot_->IsUnchanged(probes[i])) break;
      answer(true, std::string_view(copies).substr(static_cast<size_t>(copied[i]), sizes[i]));
      continue;
    }
    if (read == found.size()) break;
    const Found& one = found[read++];
    if (!fits(one.exists ? one.value.data.size() : 0)) break;
    answer(one.exists, one.value.data);
    if (hot_ != nullptr && one.exists) {
      hot_->Keep(keys[i], probes[i], one.value.data, one.value.expires_ms);
    }
  }
  return RunResult::kDone;
}

Store::RunResult Store::RunSets(absl::Span<const Request* const> sets, bool may_block,
                                absl::Span<std::string> errors) {
  KeyLocks::Wanted wanted;
  for (const Request* set : sets) wanted.Add((*set)[1]);
  KeyLocks::Held held;
  if (!locks_.Take(std::move(wanted), may_block, &held)) return RunResult::kWouldBlock;
  StoreView view(this, may_block, false, 0);
  for (const Request* set : sets) view.Put((*set)[1], (*set)[2], kNever);
  if (view.error().empty() && !Commit(&view)) return RunResult::kWouldBlock;
  for (std::string& error : errors) error = view.error();
  return RunResult::kDone;
}

void Store::RunTransaction(const std::vector<Queued>& commands, const WatchTable::Set& watches,
                           const Answer& answer, ReplyWriter* reply, CommandCounts* counts) {
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
  StoreView view(this, true, true, now);
  const size_t begin = reply->out()->size();
  RunQueued(
      commands, options_.limits.max_reply,
      [&](const Queued& queued) {
        Call call{*queued.command, *queued.args, view, *reply, *counts};
        RunCommand(call);
        return view.error().empty() && view.written_bytes() <= options_.max_transaction;
      },
      answer, reply, counts);
  const bool fits = view.written_bytes() <= options_.max_transaction;
  if (fits && view.error().empty()) Commit(&view);
  if (fits && view.error().empty()) return;
  // Nothing was written. A transaction is never half done.
  reply->out()->resize(begin);
  if (fits) {
    reply->Error(view.error());
  } else {
    reply->Error(absl::StrCat("ERR the transaction would write more than ",
                              options_.max_transaction,
                              " bytes; nothing was written: make it smaller"));
  }
}

bool Store::SizeOfValue(std::string_view key, bool may_block, uint64_t* bytes) {
  StoreView view(this, may_block, false, now_ms());
  Found found;
  *bytes = view.Get(key, &found) && found.exists ? found.value.data.size() : 0;
  return !view.blocked();
}

bool Store::Watch(const std::string_view* keys, size_t count, bool may_block,
                  WatchTable::Set* watches, std::string* error) {
  if (!may_block && count > kFewWatches) return false;
  StoreView view(this, may_block, false, now_ms());
  for (size_t i = 0; i < count; ++i) watches->Add(keys[i], kNever);  // before they are read
  for (size_t i = 0; i < count; ++i) {
    Found found;
    if (!view.Get(keys[i], &found)) break;
    if (found.exists) watches->Add(keys[i], found.value.expires_ms);
  }
  *error = view.error();
  return !view.blocked();
}

}  // namespace pulse::redis
