#include "services/redis/store_view.h"

#include <algorithm>
#include <array>
#include <utility>

#include "rocksdb/db.h"
#include "rocksdb/snapshot.h"
#include "services/redis/rocksdb_slice.h"
#include "services/redis/store.h"

namespace pulse::redis {
namespace {

// That one MultiGet reads: it may hold as many values before it looks at how long they are.
constexpr size_t kReadTogether = 8;

// DBSIZE counts up to about so many keys, and takes RocksDB's estimate beyond.
constexpr uint64_t kCountedKeys = 1'000'000;
// The estimate counts what was overwritten and is not compacted yet: it is not taken if this many
// are all.
constexpr uint64_t kAlwaysCounted = 100'000;
// SCAN looks at COUNT keys; at more, if they have expired, but at no more than this.
constexpr int64_t kMostExpired = 1000;

}  // namespace

StoreView::StoreView(Store* store, bool may_block, bool buffered, int64_t now_ms)
    : View(now_ms, store->options().limits),
      store_(store),
      may_block_(may_block),
      buffered_(buffered) {}

rocksdb::ReadOptions StoreView::MakeReadOptions() const {
  rocksdb::ReadOptions how;
  if (!may_block_) how.read_tier = rocksdb::kBlockCacheTier;
  return how;
}

bool StoreView::MayBlock() {
  blocked_ |= !may_block_;
  return may_block_;
}

void StoreView::Fail(const rocksdb::Status& status) {
  if (error_.empty()) error_ = DatabaseError(status);
}

const std::optional<std::string>* StoreView::FindBuffered(std::string_view key) const {
  if (!buffered_) return nullptr;
  const auto it = buffered_writes_.find(key);
  return it == buffered_writes_.end() ? nullptr : &it->second;
}

// Takes what a read of `found->pin` has brought.
bool StoreView::DecodeFound(const rocksdb::Status& status, std::string_view key, Found* found) {
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
  found->exists = !found->value.ExpiredAt(now_ms());
  if (!found->exists) store_->TellOfExpiry(key, found->value.expires_ms);
  return true;
}

bool StoreView::Get(std::string_view key, Found* found) {
  found->pin.Reset();
  if (const auto* written = FindBuffered(key); written != nullptr) {
    found->exists = written->has_value();
    if (!found->exists) return true;
    found->pin.PinSelf(**written);
    return DecodeFound(rocksdb::Status::OK(), key, found);
  }
  if (cleared_) {
    found->exists = false;
    return true;
  }
  return GetOne(MakeReadOptions(), key, found);
}

// Of many: each pin keeps a whole block of the cache from being given up.
void StoreView::Release(size_t number, Found* found) {
  constexpr size_t kMostPinned = 64, kMostCopied = 4096;
  if (number < kMostPinned || !found->pin.IsPinned() || found->pin.size() > kMostCopied) return;
  rocksdb::PinnableSlice own;
  own.PinSelf(found->pin);
  found->pin = std::move(own);
  DecodeValue(ViewOf(found->pin), &found->value);
}

bool StoreView::GetOne(const rocksdb::ReadOptions& how, std::string_view key, Found* found) {
  found->pin.Reset();
  rocksdb::DB* db = store_->db_.get();
  return DecodeFound(db->Get(how, db->DefaultColumnFamily(), SliceOf(key), &found->pin), key,
                     found);
}

bool StoreView::GetMany(const std::string_view* keys, size_t count, std::vector<Found>* found,
                        uint64_t most_bytes) {
  found->clear();
  found->resize(count);
  uint64_t bytes = 0;
  if (buffered_ || count == 1) {
    for (size_t i = 0; i < count; ++i) {
      if (!Get(keys[i], &(*found)[i])) return false;
      Release(i, &(*found)[i]);
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
  rocksdb::ReadOptions how = MakeReadOptions();
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
      if (!DecodeFound(statuses[i], keys[done], one)) return false;
      Release(done, one);
    }
    if (bytes > most_bytes) {
      found->resize(done);
      return true;
    }
  }
  return true;
}

// Not by MultiGet, which (in RocksDB 7.8) reads from the device whatever the tier.
bool StoreView::GetCached(const std::string_view* keys, size_t count, std::vector<Found>* found,
                          uint64_t most_bytes) {
  rocksdb::ManagedSnapshot snapshot(store_->db_.get());
  rocksdb::ReadOptions how = MakeReadOptions();
  how.snapshot = snapshot.snapshot();
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    Found* one = &(*found)[i];
    if (!GetOne(how, keys[i], one)) return false;
    Release(i, one);
    bytes += one->pin.size();
    if (bytes > most_bytes && i > 0) {
      found->resize(i);
      return true;
    }
  }
  return true;
}

bool StoreView::CountExisting(const std::string_view* keys, size_t count, size_t* existing) {
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
  rocksdb::ReadOptions how = MakeReadOptions();
  how.snapshot = snapshot.snapshot();
  for (size_t i = 0; i < count; ++i) {
    if (!GetOne(how, keys[i], &found)) return false;
    *existing += found.exists;
  }
  return true;
}

void StoreView::Put(std::string_view key, std::string_view data, int64_t expires_ms) {
  EncodeValue(data, expires_ms, &scratch_);
  if (buffered_) {
    BufferWrite(key, scratch_);
    return;
  }
  changed_.push_back(key);
  if (auto status = batch_.Put(SliceOf(key), scratch_); !status.ok()) Fail(status);
}

void StoreView::Delete(std::string_view key) {
  if (buffered_) {
    BufferWrite(key, std::nullopt);
    return;
  }
  changed_.push_back(key);
  if (auto status = batch_.Delete(SliceOf(key)); !status.ok()) Fail(status);
}

void StoreView::BufferWrite(std::string_view key, std::optional<std::string> stored) {
  written_bytes_ += stored.has_value() ? stored->size() : 0;
  auto it = buffered_writes_.find(key);
  if (it == buffered_writes_.end()) {
    it = buffered_writes_.emplace(std::string(key), std::nullopt).first;
    written_bytes_ += key.size() + sizeof(*it);
  } else if (it->second.has_value()) {
    written_bytes_ -= it->second->size();
  }
  it->second = std::move(stored);
}

bool StoreView::Clear() {
  if (!MayBlock()) return false;
  buffered_writes_.clear();
  written_bytes_ = 0;
  batch_.Clear();
  cleared_ = true;
  return true;
}

bool StoreView::ForEach(std::string_view from, std::string_view prefix,
                        const std::function<bool(std::string_view, const Value&)>& use,
                        uint64_t most, std::string* next) {
  if (!MayBlock()) return false;
  std::unique_ptr<rocksdb::Iterator> it;
  if (!cleared_) {
    rocksdb::ReadOptions how = MakeReadOptions();
    how.total_order_seek = true;
    it.reset(store_->db_->NewIterator(how));
    it->Seek(SliceOf(std::max(from, prefix)));
  }
  auto mine = buffered_writes_.lower_bound(std::max(from, prefix));
  while (true) {
    const bool stored = it != nullptr && it->Valid();
    if (it != nullptr && !it->Valid() && !it->status().ok()) {
      Fail(it->status());
      return false;
    }
    if (!stored && mine == buffered_writes_.end()) return true;
    // What the transaction has written hides what is stored.
    const int order = !stored                          ? 1
                      : mine == buffered_writes_.end() ? -1
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
    if (exists && !value.ExpiredAt(now_ms()) && !use(key, value)) return true;
    if (order >= 0) ++mine;
    if (order <= 0) it->Next();
  }
}

bool StoreView::ForEachKey(std::string_view prefix, const UseKey& use) {
  return ForEach("", prefix, [&](std::string_view key, const Value&) { return use(key); });
}

bool StoreView::ScanStep(uint64_t cursor, std::string_view prefix, int64_t count, const UseKey& use,
                         uint64_t* next, bool* known) {
  if (!MayBlock()) return false;
  std::string from;
  *known = cursor == 0 || store_->cursors().Get(cursor, &from);
  if (!*known) return true;
  int64_t left = count;
  std::string next_key;
  bool room = true;
  const auto use_some = [&](std::string_view key, const Value&) {
    if (left > 0 && room) {
      --left;
      room = use(key);
      return true;
    }
    // The empty key comes first of all, and so is never where a scan goes on.
    next_key = key;
    return false;
  };
  const auto visits = static_cast<uint64_t>(std::max(count, kMostExpired));
  if (!ForEach(from, prefix, use_some, visits, &next_key)) return false;
  *next = next_key.empty() ? 0 : store_->cursors().Put(next_key, cursor);
  return true;
}

bool StoreView::CountKeys(uint64_t* count) {
  if (!MayBlock()) return false;
  const uint64_t estimate = store_->KeysEstimate();
  *count = 0;
  const auto use = [&](std::string_view, const Value&) {
    ++*count;
    return true;
  };
  std::string next;
  const uint64_t most = estimate > kCountedKeys ? kAlwaysCounted : UINT64_MAX;
  if (!ForEach("", "", use, most, &next)) return false;
  if (!next.empty()) *count = estimate;
  return true;
}

bool StoreView::ChooseKey(std::optional<std::string>* key) {
  return store_->key_sampler().Choose(this, key);
}

bool StoreView::Narrow(std::string* first, std::string* last) {
  if (!MayBlock()) return false;
  rocksdb::ReadOptions how = MakeReadOptions();
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
  return error_.empty();
}

uint64_t StoreView::BytesBefore(std::string_view key) const {
  rocksdb::SizeApproximationOptions how;
  how.include_memtables = true;
  const rocksdb::Range range("", SliceOf(key));
  uint64_t bytes = 0;
  rocksdb::DB* db = store_->db_.get();
  // An estimate: without one, the caller begins with the first key.
  db->GetApproximateSizes(how, db->DefaultColumnFamily(), &range, 1, &bytes).PermitUncheckedError();
  return bytes;
}

}  // namespace pulse::redis
