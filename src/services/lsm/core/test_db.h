// A RocksDB together with a model of what it must hold.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"

namespace pulse::lsm::test {

// column family -> key -> value
using Model = std::map<std::string, std::map<std::string, std::string>>;

// Small memtables and files, so that everything happens often. Null env: stock.
rocksdb::Options SmallDbOptions(rocksdb::Env* env);

class TestDb {
 public:
  TestDb(rocksdb::Options options, std::string path, std::vector<std::string> families = {});
  ~TestDb();

  // Creates what is missing.
  rocksdb::Status Open();
  void Close();
  rocksdb::DB* operator->() { return db_.get(); }
  rocksdb::DB* db() { return db_.get(); }
  const std::string& path() const { return path_; }
  Model& model() { return model_; }
  // Options of one family, changed before Open.
  rocksdb::ColumnFamilyOptions& family_options(const std::string& name) {
    return family_options_[name];
  }
  rocksdb::ColumnFamilyHandle* family(const std::string& name) { return handles_.at(name); }
  std::vector<std::string> families() const;

  // Writes, and remembers what succeeded. `sync` syncs the log.
  rocksdb::Status Put(const std::string& family, const std::string& key, const std::string& value,
                      bool sync = false);
  rocksdb::Status Delete(const std::string& family, const std::string& key);
  rocksdb::Status DeleteRange(const std::string& family, const std::string& from,
                              const std::string& to);
  rocksdb::Status Merge(const std::string& family, const std::string& key,
                        const std::string& operand);
  // Random puts into every family, `n` in all, of `value_size` bytes.
  rocksdb::Status Fill(std::mt19937_64* rng, int n, size_t value_size, int key_space = 2000);
  rocksdb::Status FlushAll();
  rocksdb::Status CompactAll();

  // "" or the first difference.
  std::string Difference();

 private:
  const rocksdb::Options options_;
  const std::string path_;
  std::map<std::string, rocksdb::ColumnFamilyOptions> family_options_;
  std::map<std::string, rocksdb::ColumnFamilyHandle*> handles_;
  std::unique_ptr<rocksdb::DB> db_;
  Model model_;
};

// Opens `path` without the plug-in, verifies checksums and compares with `model`. "" or what is
// wrong.
std::string DifferenceOnStock(const std::string& path, const Model& model,
                              rocksdb::Options options = SmallDbOptions(nullptr));

// The table and blob files that the database's MANIFEST names, read without the plug-in.
std::vector<std::string> LiveFilesOnStock(const std::string& path);

}  // namespace pulse::lsm::test
