// StoreView: the View of a RocksDB. It reads the database and, in a transaction, what the commands
// before it have written; its writes are kept until Store commits them as one batch.
//
// Ownership: the store outlives its views; keys that are written without a transaction are views of
// the command's arguments. Threads: one at a time. Blocking: with `may_block` false, a call that
// would have to wait returns false, and blocked() says so. Errors: error(), RocksDB's first.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"
#include "rocksdb/write_batch.h"
#include "services/redis/commands/keyspace.h"

namespace pulse::redis {

class Store;

class StoreView final : public View {
 public:
  StoreView(Store* store, bool may_block, bool buffered, int64_t now_ms);

  bool Get(std::string_view key, Found* found) override;
  bool GetMany(const std::string_view* keys, size_t count, std::vector<Found>* found,
               uint64_t most_bytes) override;
  // Holds one value at a time.
  bool CountExisting(const std::string_view* keys, size_t count, size_t* existing) override;
  void Put(std::string_view key, std::string_view data, int64_t expires_ms) override;
  void Delete(std::string_view key) override;
  bool Clear() override;
  bool ForEachKey(std::string_view prefix, const UseKey& use) override;
  bool ScanStep(uint64_t cursor, std::string_view prefix, int64_t count, const UseKey& use,
                uint64_t* next, bool* known) override;
  bool CountKeys(uint64_t* count) override;
  bool ChooseKey(std::optional<std::string>* key) override;

  // Calls `use` for the keys that exist from `from` on, in order, while they begin with `prefix`
  // and `use` returns true. Having looked at `most` keys, expired ones included, it stops, with the
  // next one in `next`.
  bool ForEach(std::string_view from, std::string_view prefix,
               const std::function<bool(std::string_view key, const Value& value)>& use,
               uint64_t most = UINT64_MAX, std::string* next = nullptr);
  // Moves `*first` up, and `*last` down, to a key of the database, whether or not it exists any
  // more; an empty `*last` stands for the end. Where there is none between, `*first` is not below
  // `*last` then.
  bool Narrow(std::string* first, std::string* last);
  // About how many bytes keys and values below `key` take in the database. Reads no blocks.
  uint64_t BytesBefore(std::string_view key) const;
  // For what is known to read from the device.
  bool MayBlock();

  // Of what a transaction has written.
  uint64_t written_bytes() const { return written_bytes_; }

 private:
  friend class Store;
  // Decodes the value that a read of `key` has put into `found->pin`.
  bool DecodeFound(const rocksdb::Status& status, std::string_view key, Found* found);
  bool GetOne(const rocksdb::ReadOptions& how, std::string_view key, Found* found);
  void Release(size_t number, Found* found);
  bool GetCached(const std::string_view* keys, size_t count, std::vector<Found>* found,
                 uint64_t most_bytes);
  void BufferWrite(std::string_view key, std::optional<std::string> stored);
  // What a transaction has written to `key`.
  const std::optional<std::string>* FindBuffered(std::string_view key) const;
  void Fail(const rocksdb::Status& status);
  rocksdb::ReadOptions MakeReadOptions() const;

  Store* store_;
  bool may_block_;
  bool buffered_;
  bool cleared_ = false;
  rocksdb::WriteBatch batch_;
  // Of a buffered view, in place of the batch: values as they are stored, none where deleted.
  std::map<std::string, std::optional<std::string>, std::less<>> buffered_writes_;
  uint64_t written_bytes_ = 0;
  // Of the batch; views of the command's arguments.
  absl::InlinedVector<std::string_view, 4> changed_;
  std::string scratch_;
};

}  // namespace pulse::redis
